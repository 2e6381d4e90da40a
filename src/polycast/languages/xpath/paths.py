"""Paths that lead to one node or to none, whatever the event, or to the items of one array.

The names of members differ, so `/struct/member[name="a"]` is one node or none; so are its children,
and an item of an array at a place. Any other path is `NotLookedUpError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from polycast.filters.tree import nodes
from polycast.formats.xmlrpc.value_forms import SCALARS
from polycast.languages.xpath.expressions import (
    Binary,
    Connective,
    Expression,
    Literal,
    LocationPath,
    LocationStep,
    Number,
)
from polycast.languages.xpath.signatures import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Truth = Callable[[Expression, "Located"], nodes.Node]

__all__ = ["DOCUMENT", "ROOT", "Located", "NotLookedUpError", "locate"]

KINDS = SCALARS | {"struct", "array"}
_SELF = LocationStep("self", "node()")
_NAME = (
    LocationPath(False, None, (LocationStep("child", "name"),)),
    LocationPath(False, None, (_SELF, LocationStep("child", "name"))),
    LocationPath(False, None, (LocationStep("child", "name"), LocationStep("child", "text()"))),
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


def locate(path: LocationPath, context: Located, truth: Truth) -> Located:
    """Where a path leads from a context; `truth` translates its predicates."""
    if path.start is not None:
        raise NotLookedUpError
    place = DOCUMENT if path.absolute else context
    for step in path.steps:
        place = _stepped(place, step, truth)
    return place


def _stepped(place: Located, step: LocationStep, truth: Truth) -> Located:
    if step == _SELF:
        return place
    if step.axis != "child":
        raise NotLookedUpError
    match place.level, step.test:
        case ("root", "member") | ("typed", "member") if place.kind in ("struct", ""):
            return _member(place, step.predicates, truth)
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
    return _narrowed(found, step.predicates, truth)


def _narrowed(place: Located, predicates: tuple[Expression, ...], truth: Truth) -> Located:
    if not predicates:
        return place
    bare = place._replace(conditions=())
    more = tuple(_condition(predicate, bare, truth) for predicate in predicates)
    return place._replace(conditions=(*place.conditions, *more))


def _condition(predicate: Expression, place: Located, truth: Truth) -> nodes.Node:
    if isinstance(predicate, Number):
        return nodes.Constant(predicate.value == 1)  # there is no other node
    if kind_of(predicate) == "number":
        raise NotLookedUpError
    return truth(predicate, place)


def _member(place: Located, predicates: tuple[Expression, ...], truth: Truth) -> Located:
    """One of the predicates, or of what they join by `and`, says the name of the member."""
    if not predicates:
        raise NotLookedUpError
    first = predicates[0]
    parts = first.parts if isinstance(first, Connective) and first.operator == "and" else (first,)
    for number, part in enumerate(parts):
        name = _name_in(part)
        if name is not None:
            bare = Located("member", (*place.path, name))
            rest = [truth(condition, bare) for condition in (*parts[:number], *parts[number + 1 :])]
            found = bare._replace(conditions=(*place.conditions, *rest))
            return _narrowed(found, predicates[1:], truth)
    raise NotLookedUpError


def _name_in(predicate: Expression) -> str | None:
    match predicate:
        case Binary("=", LocationPath() as path, Literal(name)) if path in _NAME:
            pass
        case Binary("=", Literal(name), LocationPath() as path) if path in _NAME:
            pass
        case _:
            return None
    return name or None  # an empty name has no text, and text() finds nothing


def _item(place: Located, predicates: tuple[Expression, ...]) -> Located:
    match predicates:
        case ():
            return place._replace(level="items", kind="")
        case (Number(value),) if 1 <= value < 2**31 and value == int(value):
            return place._replace(level="value", path=(*place.path, int(value)), kind="")
    raise NotLookedUpError
