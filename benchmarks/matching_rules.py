"""Rules that every contender is given, and how each of them writes a rule.

A rule is a conjunction of conditions. A condition is a path and what is asked there; `[]` in a path
stands for each element of an array, which the peers do not write: to them an array is many values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ready10

from polycast.filters.tree import nodes

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Is:
    """It is one of these."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNot:
    """It is there, and none of these."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Has:
    """An array that holds all of these."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Starts:
    prefix: str


@dataclass(frozen=True, slots=True)
class Ends:
    suffix: str


@dataclass(frozen=True, slots=True)
class Like:
    """What stands between the stars: `N*P*` is `("N", "P", "")`.

    polycast has no such pattern, so it must be one that `startswith`, `endswith` and `count` say.
    """

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        first, *middle, last = self.parts
        if len(set(middle)) > 1 or any(part in first + last for part in middle):
            raise ValueError(f"{self.text()} is not said by counting its parts")

    def text(self) -> str:
        return "*".join(self.parts)


@dataclass(frozen=True, slots=True)
class Within:
    """`low <= x < high`, or only one of the two; strictly: `low < x`."""

    low: float | None
    high: float | None
    strictly: bool = False


Asked = Is | IsNot | Has | Starts | Ends | Like | Within
Condition = tuple[str, Asked]
Rule = tuple[Condition, ...]


class NotExpressible(ValueError):
    """A contender has no such condition."""


def of_ready10(subscription: ready10.Subscription) -> Rule:
    """A subscription of ready10 as a rule."""
    return tuple((each.name, _asked(each)) for each in subscription)


def _asked(predicate: ready10.Predicate) -> Asked:
    match predicate:
        case ready10.Equal(_, value):
            return Is((value,))
        case ready10.OneOf(_, values):
            return Is(values)
        case ready10.Prefix(_, prefix):
            return Starts(prefix)
        case ready10.Range(_, low, high):
            return Within(low, high)


# -- polycast --------------------------------------------------------------------------------------


def tree(rule: Rule) -> nodes.Node:
    """The filter of polycast that asks the same."""
    parts = [part for path, asked in rule for part in _parts(path, asked)]
    return nodes.And(tuple(parts)) if len(parts) > 1 else parts[0]


def _parts(path: str, asked: Asked) -> list[nodes.Node]:
    if isinstance(asked, Has):
        whole = _attributes(nodes.Event(), path.removesuffix("[]"))
        return [_compare(nodes.Constant(value), "in", whole) for value in asked.values]
    if path.endswith("[]") and isinstance(asked, Is) and len(asked.values) == 1:
        value = nodes.Constant(asked.values[0])
        return [_within(nodes.Event(), path[:-2], lambda last: [_compare(value, "in", last)])]
    if "[]" in path:
        return [_within(nodes.Event(), path, lambda last: _tests(last, asked))]
    return _tests(_attributes(nodes.Event(), path), asked)


def _within(of: nodes.Node, path: str, ask: Callable[[nodes.Node], list[nodes.Node]]) -> nodes.Node:
    """`any` around what is asked of each element."""
    before, array, after = path.partition("[]")
    place = _attributes(of, before.removeprefix("."))
    if not array:
        asked = ask(place)
        return nodes.And(tuple(asked)) if len(asked) > 1 else asked[0]
    return nodes.Quantified("any", place, (), _within(nodes.Variable(0), after, ask))


def _attributes(of: nodes.Node, path: str) -> nodes.Node:
    for name in filter(None, path.split(".")):
        of = nodes.Attribute(of, name)
    return of


def _tests(value: nodes.Node, asked: Asked) -> list[nodes.Node]:
    match asked:
        case Is((single,)):
            return [_compare(value, "==", nodes.Constant(single))]
        case Is(values):
            return [_compare(value, "in", nodes.Constant(values))]
        case IsNot(values):
            return [_compare(value, "!=", nodes.Constant(each)) for each in values]
        case Starts(prefix):
            return [_call(value, "startswith", prefix)]
        case Ends(suffix):
            return [_call(value, "endswith", suffix)]
        case Like(parts):
            return _counted(value, parts)
        case Within():
            return [_between(value, asked)]
    raise NotExpressible(f"polycast: {asked}")


def _counted(value: nodes.Node, parts: tuple[str, ...]) -> list[nodes.Node]:
    first, *middle, last = parts
    found = [_call(value, "startswith", first)] if first else []
    found += [_call(value, "endswith", last)] if last else []
    if len(middle) == 1:
        found.append(_compare(nodes.Constant(middle[0]), "in", value))
    elif middle:
        found.append(_compare(_call(value, "count", middle[0]), ">=", nodes.Constant(len(middle))))
    return found


def _between(value: nodes.Node, asked: Within) -> nodes.Node:
    low, high = nodes.Constant(asked.low), nodes.Constant(asked.high)
    if asked.low is None:
        return _compare(value, "<", high)
    if asked.high is None:
        return _compare(value, ">" if asked.strictly else ">=", low)
    return nodes.Compare(low, (("<" if asked.strictly else "<=", value), ("<", high)))


def _compare(left: nodes.Node, operator: str, right: nodes.Node) -> nodes.Node:
    return nodes.Compare(left, ((operator, right),))


def _call(of: nodes.Node, method: str, argument: str) -> nodes.Node:
    return nodes.Call(of, method, (nodes.Constant(argument),))


# -- the peers -------------------------------------------------------------------------------------


def event_ruler(rule: Rule) -> str:
    """As event-ruler takes it; it has no "all of these", so any of them will do."""
    return json.dumps(_nested(rule, _ruler))


def _ruler(asked: Asked) -> list[Any]:
    match asked:
        case Is(values):
            return [{"numeric": ["=", v]} if isinstance(v, float) else v for v in values]
        case IsNot(values):
            return [{"anything-but": list(values)}]
        case Has(values):
            return list(values)
        case Starts(prefix):
            return [{"prefix": prefix}]
        case Ends(suffix):
            return [{"suffix": suffix}]
        case Like():
            return [{"wildcard": asked.text()}]
        case Within(low, high, strictly):
            above = [] if low is None else [">" if strictly else ">=", low]
            return [{"numeric": above + ([] if high is None else ["<", high])}]


def _nested(rule: Rule, write: Callable[[Asked], list[Any]]) -> dict[str, Any]:
    """A path is objects in objects."""
    whole: dict[str, Any] = {}
    for path, asked in rule:
        *outer, last = path.replace("[]", "").split(".")
        place = whole
        for name in outer:
            place = place.setdefault(name, {})
        if last in place:
            raise NotExpressible(f"two conditions at {path}")
        place[last] = write(asked)
    return whole
