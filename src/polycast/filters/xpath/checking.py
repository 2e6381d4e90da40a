"""What a term of XPath that came as text may ask: paths of constants, and texts that are XPath."""

from __future__ import annotations

from polycast.errors import FilterError
from polycast.filters import nodes
from polycast.filters.xpath.parser import parse

__all__ = ["check_term"]

MOST_STEPS = 64


def check_term(term: nodes.Applied) -> None:
    """Raise FilterError unless all but the event are constants that mean something."""
    values = [each.value for each in term.arguments[1:] if isinstance(each, nodes.Constant)]
    if len(values) < len(term.arguments) - 1:
        raise FilterError(f"xpath.{term.name} takes constants besides the event")
    if term.name == "holds":
        if not isinstance(values[0], str):
            raise FilterError("xpath.holds takes a text")
        parse(values[0])
    elif not _is_path(values[0]) or not isinstance(values[1], str):
        raise FilterError(f"xpath.{term.name} takes a path of names and places, and an element")


def _is_path(value: object) -> bool:
    return (
        type(value) is tuple
        and len(value) <= MOST_STEPS
        and all(type(each) in (str, int) for each in value)
    )
