"""Scenarios as plain text, for the corpus: what is written is what is read.

# Any lines of comment, why this is here.
limits small
scan best
add 1: 0 < event.p < 1
add 2: @between(0, 1)
remove 2
learn 300
  Item(p=1)
ask
  Item(p=0.5)
columns p float64, q string
  Item(p=0.5, q='a')
"""

from __future__ import annotations

from agreement import Add, Ask, Learn, Remove, Scenario, Step

__all__ = ["read", "written"]


def written(scenario: Scenario) -> str:
    """A scenario as text."""
    lines = [f"limits {scenario.limits}", f"scan {scenario.scan}"]
    for step in scenario.steps:
        match step:
            case Add(key, text):
                lines.append(f"add {key}: {text}")
            case Remove(key):
                lines.append(f"remove {key}")
            case Learn(times, events):
                lines += [f"learn {times}", *(f"  {each}" for each in events)]
            case Ask(events, columns):
                typed = ", ".join(f"{name} {kind}" for name, kind in columns)
                lines.append(f"columns {typed}" if columns else "ask")
                lines += [f"  {each}" for each in events]
    return "\n".join(lines) + "\n"


def read(text: str) -> Scenario:
    """The scenario that a text describes; ValueError says which line is none."""
    said = {"limits": "usual", "scan": "best"}
    steps: list[Step] = []
    for line in text.split("\n"):
        word, _, rest = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("  ") and steps and isinstance(steps[-1], Ask | Learn):
            steps[-1] = steps[-1]._replace(events=(*steps[-1].events, line.strip()))
        elif word in said:
            said[word] = rest
        else:
            steps.append(_step(word, rest, line))
    return Scenario(said["limits"], said["scan"], tuple(steps))


def _step(word: str, rest: str, line: str) -> Step:
    match word:
        case "add":
            key, _, text = rest.partition(": ")
            return Add(int(key), text)
        case "remove":
            return Remove(int(rest))
        case "learn":
            return Learn(int(rest), ())
        case "ask":
            return Ask(())
        case "columns":
            typed = [each.split(" ") for each in rest.split(", ")]
            return Ask((), tuple((name, kind) for name, kind in typed))
    raise ValueError(f"{line!r} is no step: add, remove, learn, ask or columns begins one")
