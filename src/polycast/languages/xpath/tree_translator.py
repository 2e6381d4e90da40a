"""XPath expressions as trees: look-ups where a path leads to one value, evaluation elsewhere.

The names of members differ, so `/struct/member[name="a"]` is one node or none, whatever the event;
so are its children, and an item of an array at a place. A path may also lead to the items of one
array. Any other one is `NotLookedUpError`.

Nothing here fails: a missing value is no node, and compares as false. So every part may be asked by
itself, negated, and in any order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from polycast.filters.tree import nodes
from polycast.formats.xmlrpc.value_forms import SCALARS
from polycast.languages.xpath import syntax
from polycast.languages.xpath.core_library import number_from, truth_of
from polycast.languages.xpath.evaluation import evaluate
from polycast.languages.xpath.parser import parse
from polycast.languages.xpath.syntax import COMPARISONS, kind_of

KINDS = SCALARS | {"struct", "array"}
_SELF = syntax.LocationStep("self", "node()")
_NAME = (
    syntax.LocationPath(False, None, (syntax.LocationStep("child", "name"),)),
    syntax.LocationPath(False, None, (_SELF, syntax.LocationStep("child", "name"))),
    syntax.LocationPath(
        False, None, (syntax.LocationStep("child", "name"), syntax.LocationStep("child", "text()"))
    ),
)


class NotLookedUpError(Exception):
    """An expression that has to be evaluated node by node."""


class Located(NamedTuple):
    """The only node that a path can lead to, and what has to be true besides for it to do so.

    At the level "items" it is an array, and its items, or their elements of a kind, are meant.
    """

    level: str  # "document", "typed", "member", "value", "name", "data", "text", "items"
    path: tuple[str | int, ...] = ()
    kind: str = ""
    conditions: tuple[nodes.Node, ...] = ()

    def term(self, name: str, *more: object) -> nodes.Node:
        """A function of what is there."""
        constants = (self.path, self.kind, *more)
        return nodes.Applied("xpath", name, (nodes.Event(), *map(nodes.Constant, constants)))

    def exists(self) -> nodes.Node:
        """Whether there is such a node, conditions aside."""
        if self.kind:
            return nodes.Compare(self.term("kind_at"), (("==", nodes.Constant(self.kind)),))
        return nodes.Compare(self.term("kind_at"), (("is not", nodes.Constant(None)),))


DOCUMENT = Located("document")
ROOT = Located("root")  # the context of the whole: the root element, whatever it is


def locate(path: syntax.LocationPath, context: Located) -> Located:
    """Where a path leads from a context."""
    if path.start is not None:
        raise NotLookedUpError
    place = DOCUMENT if path.absolute else context
    for step in path.steps:
        place = _stepped(place, step)
    return place


def _stepped(place: Located, step: syntax.LocationStep) -> Located:
    if step == _SELF:
        return place
    if step.axis != "child":
        raise NotLookedUpError
    match place.level, step.test:
        case ("root", "member") | ("typed", "member") if place.kind in ("struct", ""):
            return _member(place, step.predicates)
        case "data", "value":
            return _item(place, step.predicates)
        case "items", kind if kind in SCALARS and not place.kind and not step.predicates:
            return place._replace(kind=kind)
        case (("document" | "value"), test) if test in KINDS or test == "*":
            kind = "" if test == "*" else test
            found = place._replace(level="typed", kind=kind)
        case "typed", "data" if place.kind == "array":
            found = place._replace(level="data")
        case "typed", "text()" if place.kind in SCALARS:
            found = place._replace(level="text")
        case "member", ("value" | "name") as test:
            found = place._replace(level=test)
        case _:
            raise NotLookedUpError
    return _narrowed(found, step.predicates)


def _narrowed(place: Located, predicates: tuple[syntax.Expression, ...]) -> Located:
    if not predicates:
        return place
    bare = place._replace(conditions=())
    more = tuple(_condition(predicate, bare) for predicate in predicates)
    return place._replace(conditions=(*place.conditions, *more))


def _condition(predicate: syntax.Expression, place: Located) -> nodes.Node:
    if isinstance(predicate, syntax.Number):
        return nodes.Constant(predicate.value == 1)  # there is no other node
    if kind_of(predicate) == "number":
        raise NotLookedUpError
    return _truth(predicate, place)


def _member(place: Located, predicates: tuple[syntax.Expression, ...]) -> Located:
    """One of the predicates, or of what they join by `and`, says the name of the member."""
    if not predicates:
        raise NotLookedUpError
    first = predicates[0]
    parts = (
        first.parts
        if isinstance(first, syntax.Connective) and first.operator == "and"
        else (first,)
    )
    for number, part in enumerate(parts):
        name = _name_in(part)
        if name is not None:
            bare = Located("member", (*place.path, name))
            others = (*parts[:number], *parts[number + 1 :])
            rest = [_truth(condition, bare) for condition in others]
            found = bare._replace(conditions=(*place.conditions, *rest))
            return _narrowed(found, predicates[1:])
    raise NotLookedUpError


def _name_in(predicate: syntax.Expression) -> str | None:
    match predicate:
        case syntax.Binary(
            "=", syntax.LocationPath() as path, syntax.Literal(name)
        ) | syntax.Binary("=", syntax.Literal(name), syntax.LocationPath() as path) if (
            path in _NAME
        ):
            return name or None  # an empty name has no text, and text() finds nothing
    return None


def _item(place: Located, predicates: tuple[syntax.Expression, ...]) -> Located:
    match predicates:
        case ():
            return place._replace(level="items", kind="")
        case (syntax.Number(value),) if 1 <= value < 2**31 and value == int(value):
            return place._replace(level="value", path=(*place.path, int(value)), kind="")
    raise NotLookedUpError


_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PYTHON = {"=": "==", "!=": "!="}


def tree_of(text: str) -> nodes.Node:
    """The tree of a filter written in XPath; its result counts as `boolean()` says."""
    return _whole(parse(text))


def _whole(expression: syntax.Expression) -> nodes.Node:
    """Translate as much as possible to look-ups, and keep the rest, part by part, as XPath."""
    match expression:
        case syntax.Connective("and", parts):
            return nodes.And(tuple(map(_whole, parts)))
        case syntax.Connective("or", parts):
            return nodes.Or(tuple(map(_whole, parts)))
        case syntax.FunctionCall("not", (of,)):
            return nodes.Not(_whole(of))  # also of a constant: `~f` is written so
        case syntax.FunctionCall("boolean", (of,)):
            return _whole(of)
    try:
        return _truth(expression, ROOT)
    except NotLookedUpError:
        text = nodes.Constant(syntax.text_of(expression))
        return nodes.Applied("xpath", "holds", (nodes.Event(), text))


def _truth(expression: syntax.Expression, context: Located) -> nodes.Node:
    """What `boolean()` of an expression says, at a context that is one node or none."""
    if _is_constant(expression):
        return nodes.Constant(truth_of(_constant(expression)))
    match expression:
        case syntax.Connective("and" | "or" as operator, parts):
            kind = nodes.And if operator == "and" else nodes.Or
            return kind(tuple(_truth(part, context) for part in parts))
        case syntax.FunctionCall("not", (of,)):
            return _negated(_truth(of, context))
        case syntax.FunctionCall("boolean", (of,)):
            return _truth(of, context)
        case syntax.FunctionCall("contains", (text, part)):
            return nodes.Compare(_literal(part), (("in", _string(text, context)),))
        case syntax.FunctionCall("starts-with", (text, part)):
            return nodes.Call(_string(text, context), "startswith", (_literal(part),))
        case syntax.LocationPath():
            return _existence(_located(expression, context))
        case syntax.Binary(sign, left, right) if sign in COMPARISONS:
            return _compared(sign, left, right, context)
    raise NotLookedUpError


def _negated(node: nodes.Node) -> nodes.Node:
    return nodes.Constant(not node.value) if isinstance(node, nodes.Constant) else nodes.Not(node)


# -- constants -------------------------------------------------------------------------------------


def _is_constant(expression: syntax.Expression) -> bool:
    """Whether it says the same about every event, wherever it stands."""
    match expression:
        case syntax.Number() | syntax.Literal():
            return True
        case syntax.Negative(of):
            return _is_constant(of)
        case syntax.Binary(_, left, right):
            return _is_constant(left) and _is_constant(right)
        case syntax.FunctionCall(name, parts) if name in ("true", "false") or parts:
            return all(map(_is_constant, parts))
        case syntax.Connective("and" | "or", parts):
            return all(map(_is_constant, parts))
    return False


def _constant(expression: syntax.Expression) -> Any:
    return evaluate(expression, {})


def _literal(expression: syntax.Expression) -> nodes.Constant:
    if isinstance(expression, syntax.Literal):
        return nodes.Constant(expression.value)
    raise NotLookedUpError


# -- paths -----------------------------------------------------------------------------------------


def _located(path: syntax.Expression, context: Located) -> Located:
    if not isinstance(path, syntax.LocationPath):
        raise NotLookedUpError
    return locate(path, context)


def _existence(place: Located) -> nodes.Node:
    """That there is such a node; a condition on what is below it says so, too."""
    if place.level not in ("typed", "member", "value", "name", "data"):
        raise NotLookedUpError
    if any(_implies(condition, place) for condition in place.conditions):
        return _all(place.conditions)
    return _all((*place.conditions, place.exists()))


def _implies(condition: nodes.Node, place: Located) -> bool:
    match condition:
        case nodes.Compare(nodes.Applied("xpath", name, terms), ((sign, _),)):
            known = name in ("text_at", "kind_at") or (name == "number_at" and sign != "!=")
        case nodes.Applied("xpath", "differs_at", terms):
            known = True
        case _:
            return False
    path, kind = (term.value for term in terms[1:3] if isinstance(term, nodes.Constant))
    same = path == place.path and place.kind in ("", kind)
    return known and (same or (not place.kind and path[: len(place.path)] == place.path))


def _all(parts: tuple[nodes.Node, ...]) -> nodes.Node:
    return parts[0] if len(parts) == 1 else nodes.And(parts)


def _valued(path: syntax.Expression, context: Located) -> Located:
    """A node whose string-value is that of a value."""
    place = _located(path, context)
    if place.level not in ("typed", "value", "text"):
        raise NotLookedUpError
    return place


# -- comparisons -----------------------------------------------------------------------------------


def _compared(
    sign: str, left: syntax.Expression, right: syntax.Expression, context: Located
) -> nodes.Node:
    if _is_constant(left):
        sign, left, right = _MIRRORED[sign], right, left
    if not _is_constant(right):
        raise NotLookedUpError
    value = _constant(right)
    match left:
        case syntax.LocationPath() if isinstance(value, bool):
            return _existence_compared(sign, left, value, context)
        case syntax.LocationPath():
            place = _located(left, context)
            if place.level == "items":
                return _some_item(sign, place, value)
            return _nodes_compared(sign, _valued(left, context), value)
        case syntax.FunctionCall("string" | "number" as name, (syntax.LocationPath() as path,)) if (
            not isinstance(value, bool)
        ):
            return _value_compared(sign, name, _unconditional(path, context), value)
        case syntax.FunctionCall("string-length", (syntax.LocationPath() as path,)) if isinstance(
            value, float | str
        ):
            length = nodes.Function("len", (_string(path, context),))
            return _ordered(sign, length, _as_number(value))
    raise NotLookedUpError


def _existence_compared(
    sign: str, path: syntax.Expression, value: Any, context: Located
) -> nodes.Node:
    """Beside a boolean, nodes count as whether there are any."""
    if sign not in ("=", "!="):
        raise NotLookedUpError
    found = _truth(path, context)
    return found if value is (sign == "=") else _negated(found)


def _nodes_compared(sign: str, place: Located, value: float | str) -> nodes.Node:
    """Some node compares so; there is one, or none."""
    if isinstance(value, str) and sign in ("=", "!="):
        if place.level == "text" and (sign == "!=" or not value):
            raise NotLookedUpError  # of an empty value there is no text
        found = _text_compared(sign, place, value)
    elif sign == "!=":
        if place.level == "text":
            raise NotLookedUpError
        found = place.term("differs_at", _as_number(value))
    else:
        found = _ordered(sign, place.term("number_at"), _as_number(value))
    return _all((*place.conditions, found))


def _some_item(sign: str, place: Located, value: float | str) -> nodes.Node:
    """Some item of an array is that text."""
    if sign != "=" or not isinstance(value, str):
        raise NotLookedUpError
    return _all((*place.conditions, place.term("includes_at", value)))


def _text_compared(sign: str, place: Located, value: str) -> nodes.Node:
    if sign == "=":
        return nodes.Compare(place.term("text_at"), (("==", nodes.Constant(value)),))
    return nodes.Compare(place.term("text_at"), (("not in", nodes.Constant((None, value))),))


def _value_compared(sign: str, name: str, place: Located, value: float | str) -> nodes.Node:
    """`string()` or `number()` of a path: no node is an empty string, or not a number."""
    textual = name == "string" and isinstance(value, str) and sign in ("=", "!=")
    if textual:
        return nodes.Compare(place.term("string_at"), ((_PYTHON[sign], nodes.Constant(value)),))
    return _ordered(sign, place.term("number_at"), _as_number(value))


def _ordered(sign: str, term: nodes.Node, value: float) -> nodes.Node:
    if value != value:  # nothing compares with it, and all differs from it
        return nodes.Constant(sign == "!=")
    return nodes.Compare(term, ((_PYTHON.get(sign, sign), nodes.Constant(value)),))


def _as_number(value: float | str) -> float:
    return number_from(value) if isinstance(value, str) else value


def _string(expression: syntax.Expression, context: Located) -> nodes.Node:
    """`string()` of a path."""
    if (
        isinstance(expression, syntax.FunctionCall)
        and expression.name == "string"
        and expression.arguments
    ):
        expression = expression.arguments[0]
    return _unconditional(expression, context).term("string_at")


def _unconditional(path: syntax.Expression, context: Located) -> Located:
    place = _valued(path, context)
    if place.conditions:
        raise NotLookedUpError
    return place
