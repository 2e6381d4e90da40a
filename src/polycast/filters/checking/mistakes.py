"""The mistakes of a filter, told: which part, where, why, and what would be accepted."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polycast.errors import FilterMistakeError
from polycast.filters.checking.classes import Classes
from polycast.filters.checking.etcl_components import needed, places_in
from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of, shown
from polycast.filters.checking.messages import told
from polycast.filters.checking.places import rebuilt
from polycast.filters.checking.walker import Finding, Walker

if TYPE_CHECKING:
    from polycast.filters.checking.places import Places
    from polycast.filters.tree import nodes

__all__ = ["Problem", "check", "problems"]

WIDEST = 160  # characters of a filter's text around a place

_classes = Classes()


@dataclass(frozen=True, slots=True)
class Problem:
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
    found = problems(tree, types, every=every)
    if found:
        raise FilterMistakeError(found, shown(_event(types, every=every)))


def problems(tree: nodes.Node, types: tuple[type, ...], *, every: bool = False) -> list[Problem]:
    """The parts that certainly fail for events of one of the types, or of all if `every`.

    Where anything is not known there is no problem.
    """
    try:
        return _problems(tree, types, every=every)
    except Exception:  # an odd class or too deep a tree: nothing is certain
        return []


def _problems(tree: nodes.Node, types: tuple[type, ...], *, every: bool) -> list[Problem]:
    if not findings(tree, types, every=every, classes=_classes):
        return []
    # Once more, slowly: classes may have changed since they were looked at, and a node that
    # stands in two places is made two.
    fresh, apart = Classes(), rebuilt(tree, lambda node: None)
    places = places_in(apart)
    found = findings(apart, types, every=every, classes=fresh)
    described = [_described(each, places, fresh) for each in found]
    return list({(each.part, each.why): each for each in reversed(described)}.values())[::-1]


def findings(
    tree: nodes.Node, types: tuple[type, ...], *, every: bool, classes: Classes
) -> list[Finding]:
    """What a walk over the tree finds."""
    walker = Walker(_event(types, every=every), classes, needed=needed(tree))
    walker.condition(tree)
    return walker.findings


def _event(types: tuple[type, ...], *, every: bool) -> Kinds:
    if not every or len(types) < 2:
        return joined(kinds_of(cls) for cls in types)
    first, *others = [cls for cls in types if cls is not object] or [object]
    return (Kind(weakref.ref(first), also=tuple(map(weakref.ref, others))),)


def _described(found: Finding, places: Places, classes: Classes) -> Problem:
    start, end = places.span(found.first, found.last)
    why, suggestion = told(found, places, classes)
    return Problem(places.text[start:end], why, suggestion, found.code, places.text, start)
