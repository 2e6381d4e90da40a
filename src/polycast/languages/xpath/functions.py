"""What is known of XPath's functions in a tree, for those who run filters fast or read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import FilterError
from polycast.filters.tree import nodes
from polycast.formats.xmlrpc.value_forms import MISSING, is_seen
from polycast.languages.xpath.parser import parse
from polycast.languages.xpath.terms import (
    DOUBLE,
    FUNCTIONS,
    LOCATED,
    TEXTUAL,
    WHOLE,
    Prepared,
    reader,
)

if TYPE_CHECKING:
    from polycast.filters.backends.python import Writer
    from polycast.filters.normal_form.predicate_kinds import Form

__all__ = ["FUNCTIONS", "Xpath"]

MOST_STEPS = 64
SMALL = 2**53  # ints that doubles hold exactly, and so do all below
# Of attributes of usual classes: in which elements they are, when they surely are what XPath sees
# of them, and what that is.
_USUAL: dict[str, list[tuple[type, tuple[str, ...], str, str]]] = {
    "text_at": [(str, TEXTUAL, "", "{0}")],
    "number_at": [
        (float, DOUBLE, " and {0} - {0} == 0", "{0}"),
        (int, WHOLE, f" and -{SMALL} < {{0}} < {SMALL}", "{0} * 1.0"),
    ],
}


class Xpath:
    """What is known of these functions beforehand."""

    def asked(self, node: nodes.Applied, *, wanted: bool) -> tuple[nodes.Node, Form] | None:
        """None: an index looks up the comparisons around them, which are Python's."""
        del node, wanted
        return None

    def written(self, node: nodes.Applied, writer: Writer) -> str | None:
        """A text is parsed once, not for each event; an attribute of a class is just read."""
        event, *more = node.arguments
        constants = [each.value for each in more if isinstance(each, nodes.Constant)]
        if len(constants) < len(more):
            return None
        if node.name == "holds":
            return f"{writer.reference(Prepared(*constants))}({writer.write(event)})"
        found = f"{writer.reference(reader(node.name, *constants))}({writer.write(event)})"
        path, kind, *_ = constants
        if writer.cls is None or len(path) != 1 or not isinstance(event, nodes.Event):
            return found
        return _in_place(node.name, path[0], kind, found, writer) or found

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


def _in_place(name: str, member: str | int, kind: str, slowly: str, writer: Writer) -> str | None:
    """An attribute, if it is of the usual class; all else is found slowly."""
    usual = [each for each in _USUAL.get(name, ()) if kind in each[1]]
    seen = writer.cls is not None and isinstance(member, str) and is_seen(writer.cls, member)
    value = writer.local() if usual and seen else None
    if value is None:
        return None
    named = (writer.write(nodes.Event()), *map(writer.reference, (member, MISSING)))
    read = f"({value} := {writer.reference(getattr)}({', '.join(named)}))"
    found = slowly
    for number, (cls, _, surely, seen_as) in reversed([*enumerate(usual)]):
        test = f"{writer.reference(type)}({value if number else read}) is {writer.reference(cls)}"
        found = f"({seen_as.format(value)} if {test}{surely.format(value)} else {found})"
    return found


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
