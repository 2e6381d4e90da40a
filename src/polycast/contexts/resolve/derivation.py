"""How derived a type is, by what classes declare; Python's method resolution order is not this."""

from __future__ import annotations

import weakref
from typing import NamedTuple

from polycast.typesystem.describe import supertypes_of

__all__ = ["FARTHEST", "Distance", "distance", "is_subtype", "most_derived"]


class Distance(NamedTuple):
    """How far a type that is named is above the type that is met; smaller is stronger."""

    chain: int
    """The longest chain of declared supertypes from the one up to the other (P3)."""
    place: int
    """Where it comes in a breadth-first walk of the declared supertypes (P4)."""


FARTHEST = Distance(1_000_000, 1_000_000)  # `object`, which nobody declares
_distances: weakref.WeakKeyDictionary[type, dict[type, Distance]] = weakref.WeakKeyDictionary()


def is_subtype(met: type, named: type) -> bool:
    """Whether a class declares another as a supertype, or is it."""
    return named in met.__mro__


def distance(met: type, named: type) -> Distance:
    """How derived a named type is against a type that is met, of which it is a supertype."""
    found = _distances.get(met)
    if found is None:
        found = _distances[met] = _walked(met)
    return found.get(named, FARTHEST)


def most_derived(met: type, candidates: list[type]) -> list[type]:
    """Those of some types that are supertypes of the one met, the most derived first."""
    fitting = [each for each in candidates if is_subtype(met, each)]
    return sorted(fitting, key=lambda each: distance(met, each))


def _walked(met: type) -> dict[type, Distance]:
    places: dict[type, int] = {met: 0}
    waiting = [met]
    for each in waiting:
        for above in supertypes_of(each):
            if above not in places:
                places[above] = len(places)
                waiting.append(above)
    chains: dict[type, int] = {}
    _climb(met, 0, chains)
    return {each: Distance(chains[each], place) for each, place in places.items()}


def _climb(cls: type, length: int, chains: dict[type, int]) -> None:
    if chains.get(cls, -1) < length:
        chains[cls] = length
        for above in supertypes_of(cls):
            _climb(above, length + 1, chains)
