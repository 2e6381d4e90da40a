"""Which of several rules applies at a path: one sort key for each pattern (FOS, section 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from polycast.contexts.resolve.derivation import FARTHEST, Distance, distance, is_subtype

if TYPE_CHECKING:
    from polycast.contexts.declare.patterns import Pattern, Qualifier

__all__ = [
    "EventPath",
    "PatternProgress",
    "StepStrength",
    "deciding_priority",
    "progress",
    "strength",
]


class EventPath(NamedTuple):
    """Where a value is in an event: the types met, one more than the attributes on the way."""

    types: tuple[type, ...]
    attributes: tuple[str, ...] = ()

    def to(self, attribute: str, met: type) -> EventPath:
        """One step further."""
        return EventPath((*self.types, met), (*self.attributes, attribute))

    def __str__(self) -> str:
        return ".".join((self.types[0].__name__, *self.attributes))


class StepStrength(NamedTuple):
    """What a pattern says of one step; smaller is stronger."""

    unnamed: bool
    distance: Distance
    by_type: bool


_UNNAMED = StepStrength(unnamed=True, distance=FARTHEST, by_type=True)


@dataclass(frozen=True, order=True)
class Strength:
    """The key: the last type, then the steps from the event on, then attribute over type."""

    last: Distance
    steps: tuple[StepStrength, ...]
    by_type: bool
    breadth: tuple[int, ...]
    """How many types are named at each step, the last one first: an attribute of a union names
    several, and where nothing else decides, one that is narrowed is the stronger."""


def strength(pattern: Pattern, path: EventPath) -> Strength | None:
    """How strong a pattern is at a path; None if it does not apply there."""
    count, length = len(pattern.qualifiers), len(path.attributes)
    if count == 0:
        nearest = _nearest(path.types[-1], (pattern.head,))
        if nearest is None:
            return None
        return Strength(nearest, (_UNNAMED,) * length, by_type=True, breadth=(1,) * (length + 1))
    last = pattern.qualifiers[-1]
    if length < count or (last.attribute is not None and length > count):
        return None
    head = _nearest(path.types[0], (pattern.head,))
    if head is None:
        return None
    steps = [StepStrength(unnamed=False, distance=head, by_type=True)]
    for place, qualifier in enumerate(pattern.qualifiers[:-1], 1):
        found = _matched(qualifier, path.attributes[place - 1], path.types[place])
        if found is None:
            return None
        steps.append(StepStrength(False, found, qualifier.attribute is None))
    found = _matched(last, path.attributes[-1], path.types[-1])
    if found is None:
        return None
    steps += [_UNNAMED] * (length - count)
    named = [len(each.types) for each in reversed(pattern.qualifiers)]
    breadth = (named[0], *[1] * (length - count), *named[1:], 1)
    return Strength(found, tuple(steps), last.attribute is None, breadth)


class PatternProgress(NamedTuple):
    """How far a pattern has come on the way to a path."""

    steps: tuple[StepStrength, ...]
    is_decided: bool
    """Whether it applies to the same types at all depths further in."""


def progress(pattern: Pattern, path: EventPath) -> PatternProgress | None:
    """How far a pattern has come on a path; None if no path from there on can be one of its own."""
    count, length = len(pattern.qualifiers), len(path.attributes)
    if count == 0:
        return PatternProgress((), is_decided=True)
    last, head = pattern.qualifiers[-1], _nearest(path.types[0], (pattern.head,))
    if head is None or (last.attribute is not None and length >= count):
        return None
    steps = [StepStrength(unnamed=False, distance=head, by_type=True)]
    on_the_way = zip(pattern.qualifiers[:-1], path.attributes, path.types[1:], strict=False)
    for qualifier, attribute, met in on_the_way:
        found = _matched(qualifier, attribute, met)
        if found is None:
            return None
        steps.append(StepStrength(False, found, qualifier.attribute is None))
    return PatternProgress(tuple(steps), last.attribute is None and length >= count - 1)


def _matched(qualifier: Qualifier, attribute: str, met: type) -> Distance | None:
    if qualifier.attribute is not None and qualifier.attribute != attribute:
        return None
    return _nearest(met, qualifier.types)


def _nearest(met: type, named: tuple[type, ...]) -> Distance | None:
    found = [distance(met, each) for each in named if is_subtype(met, each)]
    return min(found, default=None)


def deciding_priority(winner: Strength, other: Strength) -> str:
    """Which of the paper's priorities makes one pattern stronger than another."""
    decided, rest = _first_difference(winner, other)
    if decided == "P2" and "P1" in rest:
        return "P5"  # an instance against a deeper nesting level
    if decided == "P3" and rest & {"P1", "P2"}:
        return "P6"  # a subtype against an instance or a deeper nesting level
    return decided


def _first_difference(winner: Strength, other: Strength) -> tuple[str, set[str]]:
    """What decides, and by what the other pattern would have been the stronger."""
    mine, theirs = _criteria(winner), _criteria(other)
    decided, against = "", set()
    for (label, one), (_, two) in zip(mine, theirs, strict=True):
        if one == two:
            continue
        if not decided:
            decided = label
        elif two < one:
            against.add(label)
    return decided, against


def _criteria(key: Strength) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = _how_derived(key.last)
    for step in key.steps:
        found += [("P1", step.unnamed), *_how_derived(step.distance), ("P2", step.by_type)]
    return [*found, ("P2", key.by_type), *(("P3", count) for count in key.breadth)]


def _how_derived(found: Distance) -> list[tuple[str, int]]:
    return [("P3", found.chain), ("P4", found.place)]
