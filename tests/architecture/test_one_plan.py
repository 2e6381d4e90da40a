"""Only the plan says who wants an event: nothing else asks filters or selectors for that."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "polycast"
BELOW = ("filters", "languages", "matching")  # of what a plan is made

# What asks filters, or an index of them, whether an event passes.
QUESTIONS = {
    "match",
    "matches",
    "interpret",
    "match_batch",
    "function",
    "test_for",
    "wanting",
    "wants",
}
ASKED_OF = {"where", "matcher", "interest", "target", "mailbox", "index", "part", "plan"}
PLAN = {
    "routing/plan.py": "recipients: asks each target, or the index of them",
    "routing/publish.py": "recipients, compiled: which function asks each target",
    "routing/publish_codegen.py": "recipients, compiled: the filters as expressions",
    "routing/context_target.py": "recipients, compiled: those of another context",
    "routing/match.py": "match: asks the index of stored subscriptions",
}
# What asks filters for another reason.
OTHERS = {
    "delivery": "which member of a group gets what the plan has brought to the group",
    "subscriptions/health.py": "whether a filter fails for all events of late",
    "cli/event_lines.py": "which events of a log a listing shows",
    "pipeline": "rows of a table of history, which nobody subscribes to",
}


def questions_in(source: str) -> set[str]:
    """The calls in a module that ask a filter, a target or an index about an event."""
    return {
        node.func.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in QUESTIONS
        and _asked(node.func.value) in ({"matcher"} if node.func.attr == "match" else ASKED_OF)
    }


def _asked(node: ast.expr) -> str:
    """The last name of what is asked: `where` of `route.where.on(topic).function(event)`."""
    if isinstance(node, ast.Call):
        node = node.func
        if isinstance(node, ast.Attribute) and node.attr == "on":
            return _asked(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_")
    return node.id if isinstance(node, ast.Name) else ""


def is_allowed(name: str) -> bool:
    """Whether a module is the plan's, or has a reason of its own."""
    others = any(name == other or name.startswith(f"{other}/") for other in OTHERS)
    return name in PLAN or others


MODULES = [
    path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in BELOW
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_only_the_plan_asks_who_wants_an_event(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    asked = questions_in(path.read_text(encoding="utf-8"))
    assert is_allowed(name) or not asked, f"{name} asks {asked}; ask the plan instead"


@pytest.mark.parametrize("name", [*PLAN, *OTHERS])
def test_what_is_allowed_is_needed(name: str) -> None:
    folder = SOURCE / name
    paths = [folder] if folder.suffix else folder.rglob("*.py")
    assert any(questions_in(path.read_text(encoding="utf-8")) for path in paths)


@pytest.mark.parametrize(
    "source",
    [
        "hits = [each for each in boxes if each.interest.wants(event, topic)]",
        "verdict = where.on(topic).function(event)",
        "test = mailbox.test_for(type(event), topic)",
        "for keys in self._audience.matcher.match_batch(events): pass",
        "passes = entry.where.matches(event, topic=topic)",
    ],
)
def test_another_answer_would_be_found(source: str) -> None:
    assert questions_in(source)
