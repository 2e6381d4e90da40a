"""How generated code uses XPath's functions in a tree, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import FilterError, FilterTooCostlyError
from polycast.filters.cost.amounts import Amount, steps
from polycast.filters.cost.call_costs import BYTE, FunctionCost
from polycast.filters.cost.value_kinds import TEXT
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import Insight
from polycast.formats.xmlrpc.value_forms import MISSING, SCALARS, is_seen
from polycast.languages.xpath.costs import grows
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
    from collections.abc import Mapping, Sequence

    from polycast.filters.backends.python import SourceWriter

__all__ = ["COSTS", "FUNCTIONS", "XPathInsight"]

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


class XPathInsight(Insight):
    """How generated code uses these functions.

    An index looks up the comparisons around them, which are Python's.
    """

    def written(self, node: nodes.Applied, writer: SourceWriter) -> str | None:
        """Parse a text once, not for each event; read an attribute of a known class in place."""
        event, *more = node.arguments
        constants = [argument.value for argument in more if isinstance(argument, nodes.Constant)]
        if len(constants) < len(more):
            return None
        if node.name == "holds":
            return f"{writer.reference(Prepared(*constants))}({writer.write(event)})"
        found = f"{writer.reference(reader(node.name, *constants))}({writer.write(event)})"
        path, kind, *_ = constants
        if writer.cls is None or len(path) != 1 or not isinstance(event, nodes.Event):
            return found
        return _in_place(node.name, path[0], kind, found, writer) or found

    def attributes(self, node: nodes.Applied) -> frozenset[str] | None:
        """The attribute at which a look-up begins."""
        if node.name not in LOCATED:
            return None
        match node.arguments:
            case (nodes.Event(), nodes.Constant((str(name), *_)), *_) if not name.startswith("__"):
                return frozenset({name})
        return None

    def check(self, node: nodes.Applied) -> None:
        """Raise FilterError unless its paths are constants and its texts are XPath."""
        _check_term(node)


def _in_place(
    name: str, member: str | int, kind: str, slowly: str, writer: SourceWriter
) -> str | None:
    """Source that reads an attribute of a usual class in place, and all else by the function."""
    usual = [way for way in _USUAL.get(name, ()) if kind in way[1]]
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
    values = [
        argument.value for argument in term.arguments[1:] if isinstance(argument, nodes.Constant)
    ]
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
        and all(type(element) in (str, int) for element in value)
    )


# -- what they cost --------------------------------------------------------------------------------

DOCUMENT, LETTER = 1_000.0, 2.0  # an event is made into a document, and that into a text


def _located(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """The cost of reading a value; a whole array or struct is read as one text."""
    kind = node.arguments[2].value if isinstance(node.arguments[2], nodes.Constant) else ""
    plain = node.name != "includes_at" and kind in (*SCALARS, "i4", "i8")
    return steps(8.0) + sizes[0].times(BYTE if plain or node.name == "kind_at" else 4.0)


def _holds(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """The cost of visiting every node of the document a number of times."""
    text = node.arguments[1].value if isinstance(node.arguments[1], nodes.Constant) else ""
    times = grows(parse(str(text)))
    if times is None:
        why = "it goes over the document again for each of its nodes"
        accepted = (
            "paths whose predicates look at what is right below: "
            '/struct/member[name="topic" and value="news"], //string[. = "news"]'
        )
        raise FilterTooCostlyError(f"the XPath {text!r:.80}", why, accepted=accepted)
    return steps(times + DOCUMENT) + sizes[0].times(times + LETTER)


COSTS: Mapping[str, FunctionCost] = {
    **dict.fromkeys(("string_at", "text_at"), FunctionCost(_located, TEXT, grows=True)),
    **dict.fromkeys(("differs_at", "includes_at", "number_at", "kind_at"), FunctionCost(_located)),
    "holds": FunctionCost(_holds),
}
