"""How far apart two types are, by what classes declare; this is not Python's resolution order."""

from __future__ import annotations

import weakref
from typing import NamedTuple

from polycast.typesystem.describe import supertypes_of


class Distance(NamedTuple):
    """How far a named type is above the type that is met; smaller is stronger."""

    chain: int
    """The longest chain of declared supertypes from the type met up to the named one (P3)."""
    place: int
    """The position of the named type in a breadth-first walk of the declared supertypes (P4)."""


FARTHEST = Distance(1_000_000, 1_000_000)  # `object`, which no class declares
_distances: weakref.WeakKeyDictionary[type, dict[type, Distance]] = weakref.WeakKeyDictionary()


def is_subtype(met: type, named: type) -> bool:
    """Whether a class declares another as a supertype, or is it."""
    return named in met.__mro__


def distance(met: type, named: type) -> Distance:
    """The distance from the type that is met up to one of its supertypes."""
    distances = _distances.get(met)
    if distances is None:
        distances = _distances[met] = _all_distances(met)
    return distances.get(named, FARTHEST)


def most_derived(met: type, candidates: list[type]) -> list[type]:
    """The candidates that are supertypes of the type met, the most derived first."""
    supertypes = [candidate for candidate in candidates if is_subtype(met, candidate)]
    return sorted(supertypes, key=lambda supertype: distance(met, supertype))


def _all_distances(met: type) -> dict[type, Distance]:
    places: dict[type, int] = {met: 0}
    waiting = [met]
    for cls in waiting:
        for supertype in supertypes_of(cls):
            if supertype not in places:
                places[supertype] = len(places)
                waiting.append(supertype)
    chains: dict[type, int] = {}
    _climb(met, 0, chains)
    return {cls: Distance(chains[cls], place) for cls, place in places.items()}


def _climb(cls: type, length: int, chains: dict[type, int]) -> None:
    if chains.get(cls, -1) < length:
        chains[cls] = length
        for supertype in supertypes_of(cls):
            _climb(supertype, length + 1, chains)
