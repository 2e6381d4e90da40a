"""What is known of XPath's functions in a tree, for those who run filters fast or read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import FilterError
from polycast.filters import nodes
from polycast.filters.xpath.parser import parse
from polycast.filters.xpath.terms import FUNCTIONS, LOCATED, PREPARED

if TYPE_CHECKING:
    from polycast.filters.backends.python import Writer
    from polycast.filters.forms import Form

__all__ = ["FUNCTIONS", "Xpath"]

MOST_STEPS = 64


class Xpath:
    """What is known of these functions beforehand."""

    def asked(self, node: nodes.Applied, *, wanted: bool) -> tuple[nodes.Node, Form] | None:
        """None: an index looks up the comparisons around them, which are Python's."""
        del node, wanted
        return None

    def written(self, node: nodes.Applied, writer: Writer) -> str | None:
        """A text is parsed once, not for each event."""
        constants = [each.value for each in node.arguments[1:] if isinstance(each, nodes.Constant)]
        if node.name not in PREPARED or len(constants) < len(node.arguments) - 1:
            return None
        function = writer.reference(PREPARED[node.name](*constants))
        return f"{function}({writer.write(node.arguments[0])})"

    def folded(self, node: nodes.Applied, cls: type) -> nodes.Node:
        """They mean the same for every class."""
        del cls
        return node

    def seat(self, node: nodes.Applied, cls: type) -> str | tuple[str, ...] | None:
        """None: what XPath sees of a value is made of it."""
        del node, cls
        return None

    def attributes(self, node: nodes.Applied) -> frozenset[str] | None:
        """A look-up begins at one attribute."""
        if node.name not in LOCATED:
            return None
        match node.arguments:
            case (nodes.Event(), nodes.Constant((str(name), *_)), *_) if not name.startswith("__"):
                return frozenset({name})
        return None

    def check(self, node: nodes.Applied) -> None:
        """A filter that came as text has paths of constants, and texts that are XPath."""
        _check_term(node)


def _check_term(term: nodes.Applied) -> None:
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
    elif term.name == "includes_at" and not isinstance(values[2], str):
        raise FilterError("xpath.includes_at takes a text at last")


def _is_path(value: object) -> bool:
    return (
        type(value) is tuple
        and len(value) <= MOST_STEPS
        and all(type(each) in (str, int) for each in value)
    )
