"""Which of several rules applies at a path: one sort key for each pattern (FOS, section 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from polycast.contexts.resolve.derivation import FARTHEST, Distance, distance, is_subtype

if TYPE_CHECKING:
    from polycast.contexts.declare.patterns import Pattern, Qualifier


class EventPath(NamedTuple):
    """Where a value is in an event: the attributes on the way, and the type met at each end."""

    types: tuple[type, ...]
    """One more than there are attributes: the first is the type of the event."""
    attributes: tuple[str, ...] = ()

    def to(self, attribute: str, met: type) -> EventPath:
        """The path one attribute further."""
        return EventPath((*self.types, met), (*self.attributes, attribute))

    def __str__(self) -> str:
        return ".".join((self.types[0].__name__, *self.attributes))


class StepStrength(NamedTuple):
    """How strongly a pattern names one step; smaller is stronger."""

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
    nearest = _matched(last, path.attributes[-1], path.types[-1])
    steps = None if nearest is None else _steps_before_last(pattern, path)
    if nearest is None or steps is None:
        return None
    steps += [_UNNAMED] * (length - count)
    named = [len(qualifier.types) for qualifier in reversed(pattern.qualifiers)]
    breadth = (named[0], *[1] * (length - count), *named[1:], 1)
    return Strength(nearest, tuple(steps), last.attribute is None, breadth)


class PatternProgress(NamedTuple):
    """How much of a pattern is matched on the way to a path."""

    steps: tuple[StepStrength, ...]
    is_decided: bool
    """Whether it applies to the same types at all depths further in."""


def progress(pattern: Pattern, path: EventPath) -> PatternProgress | None:
    """How much of a pattern a path matches; None if the pattern applies nowhere further in."""
    count, length = len(pattern.qualifiers), len(path.attributes)
    if count == 0:
        return PatternProgress((), is_decided=True)
    by_type = pattern.qualifiers[-1].attribute is None
    steps = _steps_before_last(pattern, path)
    if steps is None or (not by_type and length >= count):
        return None
    return PatternProgress(tuple(steps), by_type and length >= count - 1)


def leads_past(pattern: Pattern, path: EventPath) -> bool:
    """Whether a path agrees with a pattern as far as it goes, the last qualifier aside."""
    return not pattern.qualifiers or _steps_before_last(pattern, path) is not None


def _steps_before_last(pattern: Pattern, path: EventPath) -> list[StepStrength] | None:
    """The steps of a path that a pattern names, but the last; None if one of them differs."""
    head = _nearest(path.types[0], (pattern.head,))
    if head is None:
        return None
    steps = [StepStrength(unnamed=False, distance=head, by_type=True)]
    on_the_way = zip(pattern.qualifiers[:-1], path.attributes, path.types[1:], strict=False)
    for qualifier, attribute, met in on_the_way:
        nearest = _matched(qualifier, attribute, met)
        if nearest is None:
            return None
        steps.append(StepStrength(False, nearest, qualifier.attribute is None))
    return steps


def _matched(qualifier: Qualifier, attribute: str, met: type) -> Distance | None:
    if qualifier.attribute is not None and qualifier.attribute != attribute:
        return None
    return _nearest(met, qualifier.types)


def _nearest(met: type, named: tuple[type, ...]) -> Distance | None:
    distances = [distance(met, cls) for cls in named if is_subtype(met, cls)]
    return min(distances, default=None)


def deciding_priority(winner: Strength, other: Strength) -> str:
    """Which of the paper's priorities makes one pattern stronger than another."""
    decided, rest = _first_difference(winner, other)
    if decided == "P2" and "P1" in rest:
        return "P5"  # an instance against a deeper nesting level
    if decided == "P3" and rest & {"P1", "P2"}:
        return "P6"  # a subtype against an instance or a deeper nesting level
    return decided


def _first_difference(winner: Strength, other: Strength) -> tuple[str, set[str]]:
    """The priority that decides, and those by which the other pattern would be the stronger."""
    decided, against = "", set()
    for (label, one), (_, two) in zip(_criteria(winner), _criteria(other), strict=True):
        if one == two:
            continue
        if not decided:
            decided = label
        elif two < one:
            against.add(label)
    return decided, against


def _criteria(key: Strength) -> list[tuple[str, int]]:
    criteria = _distance_criteria(key.last)
    for step in key.steps:
        criteria += [("P1", step.unnamed), *_distance_criteria(step.distance)]
        criteria.append(("P2", step.by_type))
    return [*criteria, ("P2", key.by_type), *(("P3", count) for count in key.breadth)]


def _distance_criteria(distance: Distance) -> list[tuple[str, int]]:
    return [("P3", distance.chain), ("P4", distance.place)]
