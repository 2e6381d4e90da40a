"""Writes the table of what each back end takes into docs/filters.md.

Every entry is asked of the back end itself: an example of each thing that a filter may contain is
compiled by it.

python docs/support.py
"""

from __future__ import annotations

from pathlib import Path

from spark_support import Support, support

from polycast.filters.backends.python import generate
from polycast.filters.normal_form.disjunction import Interval, Points, conjunctions
from polycast.filters.tree.canonical_text import parse

PAGE = Path(__file__).parent / "filters.md"
BEGIN, END = "<!-- support -->", "<!-- /support -->"
MOST_REASONS = 1
CONSTANTS = {"in": "(1, 2)", "not in": "(1, 2)", "is": "None", "is not": "None"}
JOINTS = ("And", "Or", "Not")


def table() -> str:
    """The table as Markdown."""
    lines = [
        "| what | Python | index | Spark | Spark refuses, for example |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(each) for each in support()]
    return "\n".join(lines)


def _row(each: Support) -> str:
    examples = [*each.accepted, *(text for text, _ in each.refused)]
    if each.group == "comparison":
        examples.append(f"event.count {each.name} {CONSTANTS.get(each.name, 3)}")
    refused = "; ".join(f"`{text}`: {why}" for text, why in each.refused[:MOST_REASONS])
    refused = refused.replace("|", "\\|")
    name = each.name if each.group == "node" else f"{each.group} {_code(each.name)}"
    index = "by its parts" if each.name in JOINTS else _index(examples)
    return f"| {name} | {_python(examples)} | {index} | {each.verdict} | {refused} |"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _python(examples: list[str]) -> str:
    for text in filter(_has_text, examples):
        generate(parse(text))
    return "always"


def _index(examples: list[str]) -> str:
    """Whether an example is looked up; what is not is evaluated for the events that are left."""
    found = [
        predicate.form
        for text in filter(_has_text, examples)
        for conjunction in conjunctions(parse(text))
        for predicate in conjunction
    ]
    if any(isinstance(form, Points) for form in found):
        return "by value"
    if any(isinstance(form, Interval) for form in found):
        return "by range"
    return "read once" if any(form is not None for form in found) else "evaluated"


def _has_text(text: str) -> bool:
    try:
        parse(text)
    except Exception:  # an opaque part, or what may not come from outside
        return False
    return True


def written(page: str) -> str:
    """The page with the table as it is now."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
