"""The mistakes of a filter as problems: which part, where, why, and what would be accepted."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polycast.errors import FilterMistakeError
from polycast.filters.checking.classes import Classes
from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of, shown
from polycast.filters.checking.messages import message_of
from polycast.filters.checking.places import Places, rebuilt
from polycast.filters.checking.walker import CertainFailure, Walker
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import languages

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDEST = 160  # characters of a filter's text around a place

_classes = Classes()


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """A part of a filter that fails for every event of the type."""

    part: str
    why: str
    suggestion: str
    code: str
    filter: str = field(repr=False)
    start: int = field(repr=False)  # of the part in the filter's text

    def __str__(self) -> str:
        end = self.start + len(self.part)
        spare = max(0, WIDEST - len(self.part)) // 2
        low, high = max(0, self.start - spare), min(len(self.filter), end + spare)
        before, after = "... " if low else "", " ..." if high < len(self.filter) else ""
        line = f"{before}{self.filter[low:high]}{after}"
        caret = " " * (len(before) + self.start - low) + "^" * len(self.part)
        return f"  {line}\n  {caret}\n  {self.why}; {self.suggestion}"


def check(tree: nodes.Node, types: tuple[type, ...], *, every: bool = False) -> None:
    """Raise `FilterMistakeError` if a part certainly fails for all events of the types."""
    mistakes = problems(tree, types, every=every)
    if mistakes:
        raise FilterMistakeError(mistakes, shown(_event(types, every=every)))


def problems(
    tree: nodes.Node, types: tuple[type, ...], *, every: bool = False
) -> list[FilterProblem]:
    """The parts that certainly fail for events of one of the types, or of all if `every`.

    Where anything is not known there is no problem.
    """
    try:
        return _problems(tree, types, every=every)
    except Exception:  # an odd class or too deep a tree: nothing is certain
        return []


def _problems(tree: nodes.Node, types: tuple[type, ...], *, every: bool) -> list[FilterProblem]:
    if not failures(tree, types, every=every, classes=_classes):
        return []
    # Once more, slowly: classes may have changed since they were looked at, and a node that
    # stands in two places is made two.
    fresh, apart = Classes(), rebuilt(tree, lambda node: None)
    places = _places(apart)
    described = [
        _described(failure, places, fresh)
        for failure in failures(apart, types, every=every, classes=fresh)
    ]
    first = {(problem.part, problem.why): problem for problem in reversed(described)}
    return list(first.values())[::-1]


def failures(
    tree: nodes.Node, types: tuple[type, ...], *, every: bool, classes: Classes
) -> list[CertainFailure]:
    """What a walk over the tree finds."""
    walker = Walker(
        _event(types, every=every), classes, needed=frozenset(map(id, _needed(tree, wanted=True)))
    )
    walker.condition(tree)
    return walker.failures


def _event(types: tuple[type, ...], *, every: bool) -> Kinds:
    if not every or len(types) < 2:
        return joined(kinds_of(cls) for cls in types)
    first, *others = [cls for cls in types if cls is not object] or [object]
    return (Kind(weakref.ref(first), also=tuple(map(weakref.ref, others))),)


def _places(tree: nodes.Node) -> Places:
    """The places of parts in the text of a filter: in the language that it was written in."""
    several = (language.places(tree) for language in languages().values())
    return next((places for places in several if places is not None), None) or Places(tree)


def _described(failure: CertainFailure, places: Places, classes: Classes) -> FilterProblem:
    start, end = places.span(failure.first, failure.last)
    why, suggestion = message_of(failure, places, classes)
    return FilterProblem(places.text[start:end], why, suggestion, failure.code, places.text, start)


# -- what a match needs ----------------------------------------------------------------------------


def _needed(node: nodes.Node, *, wanted: bool | None) -> Iterator[nodes.Node]:
    """The calls of functions that are made whenever a part is as wanted; None: in any case.

    A later part of an `or` may not be asked.
    """
    match node:
        case nodes.And(parts) | nodes.Or(parts):
            if wanted is isinstance(node, nodes.And):
                for part in parts:
                    yield from _needed(part, wanted=wanted)
            else:
                yield from _needed(parts[0], wanted=None)
        case nodes.Not(operand):
            yield from _needed(operand, wanted=None if wanted is None else not wanted)
        case nodes.Applied(_, _, arguments):
            yield node
            for argument in arguments:
                yield from _needed(argument, wanted=None)
