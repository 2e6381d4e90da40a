"""What a tree asks of an event in XPath's way: a value at a path of constant names, or anything.

The names of the members of a struct are all different. So a path like
`/struct/member[name="price"]/value` leads to one value or to none, and looking it up in a dict or
an object gives just what walking the document would. A path is a tuple: a string is the member of
that name, an int the item at that place, from 1 on. `kind` is the element that the value must be
in; "" is any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors import FilterError, FilterTooCostlyError
from polycast.filters.cost.amounts import TEXT, Amount, steps
from polycast.filters.cost.operation_costs import BYTE, FunctionCost
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import Insight
from polycast.formats.xmlrpc import value_forms
from polycast.formats.xmlrpc.value_forms import MISSING, form_of, is_seen, item_at, member_of
from polycast.languages.xpath.core_library import NAN, number_from
from polycast.languages.xpath.evaluation import is_true
from polycast.languages.xpath.parser import parse
from polycast.languages.xpath.syntax import grows
from polycast.languages.xpath.virtual_document import string_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polycast.filters.backends.python import SourceWriter

Steps = tuple[str | int, ...]
TEXTS = frozenset({str})
TEXTUAL = ("", "string")  # the elements that a text may be asked for in
DOUBLE, WHOLE = ("", "double"), ("", "int")  # the same of a float and of an int
FINITE = 10**300  # ints that surely are doubles


# -- values that were found ------------------------------------------------------------------------


def _text(value: Any, kind: str) -> str | None:
    """The string-value, or None."""
    if type(value) is str and kind in TEXTUAL:
        return value
    if value is MISSING:
        return None
    found, plain = form_of(value)
    return string_value(found, plain) if kind in ("", found) else None


def _string(value: Any, kind: str) -> str:
    """The same as `string()` gives it: "" if nothing is there."""
    return _text(value, kind) or ""


def _number(value: Any, kind: str) -> float:
    """As a number; NaN if it is none, or if nothing is there."""
    cls = type(value)
    if cls is float and kind in DOUBLE:
        return value if value - value == 0 else NAN  # `inf` is no number in XPath
    if cls is int and kind in WHOLE and -FINITE < value < FINITE:
        return float(value)
    if value is MISSING:
        return NAN
    found, plain = form_of(value)
    return number_from(string_value(found, plain)) if kind in ("", found) else NAN


def _kind(value: Any, kind: str) -> str | None:
    """The element that the value is in, or None."""
    if value is MISSING:
        return None
    found, _ = form_of(value)
    return found if kind in ("", found) else None


def _differs(value: Any, kind: str, number: float) -> bool:
    """Whether something is there and is not that number."""
    return _kind(value, kind) is not None and _number(value, kind) != number


def _includes(value: Any, kind: str, text: str) -> bool:
    """Whether an array is there, and the string-value of one of its items is that text."""
    cls = type(value)
    if (cls is list or cls is tuple) and kind in TEXTUAL and TEXTS.issuperset(map(type, value)):
        return text in value
    if value is MISSING:
        return False
    found, plain = form_of(value)
    if found != "array":
        return False
    forms = map(form_of, value_forms.items_of(plain))
    return any(string_value(*form) == text for form in forms if kind in ("", form[0]))


# -- where they are found --------------------------------------------------------------------------


def _at(event: Any, path: Steps) -> Any:
    value = value_forms.filterable(event)
    for step in path:
        value = member_of(value, step) if type(step) is str else item_at(value, step)  # type: ignore[arg-type]
        if value is MISSING:
            return value
    return value


def _looking(path: Steps) -> Callable[[Any], Any]:
    """A function that returns what is at a path in an event."""
    if not path or type(path[0]) is not str:
        return lambda event: _at(event, path)
    first, rest = value_forms.member_reader(path[0]), path[1:]
    if not rest:
        return first

    def look(event: Any) -> Any:
        value = first(event)
        for step in rest:
            if value is MISSING:
                return value
            value = member_of(value, step) if type(step) is str else item_at(value, step)  # type: ignore[arg-type]
        return value

    return look


def reader(name: str, path: Steps, kind: str, *more: Any) -> Callable[[Any], Any]:
    """One of these functions, specialised for one path."""
    look, judge = _looking(path), JUDGES[name]
    if name == "text_at" and kind in TEXTUAL:
        return lambda event: value if type(value := look(event)) is str else _text(value, kind)
    if more:
        [last] = more
        return lambda event: judge(look(event), kind, last)
    return lambda event: judge(look(event), kind)


def holds(event: Any, text: str) -> bool:
    """What any expression says, evaluated node by node."""
    return is_true(parse(text), event)


def _holding(text: str) -> Callable[[Any], bool]:
    """`holds` for one text, which is parsed once."""
    expression = parse(text)

    def held(event: Any) -> bool:
        return is_true(expression, event)

    held.__qualname__ = f"holds {text!r}"[:60]  # as an explanation calls it
    return held


JUDGES: Mapping[str, Callable[..., Any]] = {
    "differs_at": _differs,
    "includes_at": _includes,
    "kind_at": _kind,
    "number_at": _number,
    "string_at": _string,
    "text_at": _text,
}


def _anywhere(judge: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the event, a path and an element, and of what the value is compared with."""
    if judge in (_differs, _includes):
        return lambda event, path, kind, other: judge(_at(event, path), kind, other)
    return lambda event, path, kind: judge(_at(event, path), kind)


LOCATED: Mapping[str, Callable[..., Any]] = {
    name: _anywhere(judge) for name, judge in JUDGES.items()
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {**LOCATED, "holds": holds}

# -- how generated code uses them ------------------------------------------------------------------

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
            return f"{writer.reference(_holding(*constants))}({writer.write(event)})"
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
        """Raise FilterError unless all but the event are constants that mean something."""
        more = node.arguments[1:]
        values = [argument.value for argument in more if isinstance(argument, nodes.Constant)]
        if len(values) < len(more):
            raise FilterError(f"xpath.{node.name} takes constants besides the event")
        if node.name == "holds":
            if not isinstance(values[0], str):
                raise FilterError("xpath.holds takes a text")
            parse(values[0])
        elif not _is_path(values[0]) or not isinstance(values[1], str):
            raise FilterError(f"xpath.{node.name} takes a path of names and places, and an element")
        elif node.name == "includes_at" and not isinstance(values[2], str):
            raise FilterError("xpath.includes_at takes a text at last")


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
    plain = node.name != "includes_at" and kind in (*value_forms.SCALARS, "i4", "i8")
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
