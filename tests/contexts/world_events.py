"""Random events of random worlds, and the simple ones that show what is wrong with a context."""

from __future__ import annotations

import copy
import itertools
import typing
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from page import met_types
from page_types import NONE, alternatives, attributes, classes, element, is_class, make
from world_types import SCALARS
from worlds import stamp

from polycast.typesystem.standard_types import is_standard


@st.composite
def objects(draw: st.DrawFn, cls: type, there: list[type], depth: int = 3) -> Any:
    """An object whose values fit their annotations; held ones may be of subtypes."""
    values = {key: draw(_held(hint, there, depth)) for key, hint in attributes(cls).items()}
    return make(cls, values)


def _held(hint: Any, there: list[type], depth: int) -> st.SearchStrategy[Any]:
    return st.one_of(*[_alternative(part, there, depth) for part in alternatives(hint)])


def _alternative(part: Any, there: list[type], depth: int) -> st.SearchStrategy[Any]:
    if part is Any:
        return st.sampled_from([None, 3, [4, [5]], {"six": [7]}]).map(copy.deepcopy)
    if part is NONE:
        return st.none()
    scalars: dict[Any, Any] = {int: st.integers(0, 9), str: st.sampled_from("pqr")}
    if part in SCALARS:
        return scalars.get(part, st.integers(0, 9).map(float))
    inner = element(part)
    if inner is None and typing.get_origin(part) is tuple:
        return st.tuples(*[_held(argument, there, depth) for argument in typing.get_args(part)])
    if inner is not None:
        if depth <= 0 and classes(part) and not all(map(is_standard, classes(part))):
            return st.just(inner[0]())
        size = st.lists(_held(inner[1], there, depth), max_size=2)
        if inner[0] is dict:
            return st.dictionaries(st.sampled_from("kl"), _held(inner[1], there, depth), max_size=2)
        return size.map(inner[0])
    subtypes = [subtype for subtype in there if part in subtype.__mro__ and subtype is not part]
    choices = [part, *subtypes] if depth > 0 else [part]
    return st.sampled_from(choices).flatmap(lambda cls: objects(cls, there, depth - 1))


def witnesses(cls: type, there: list[type], seen: tuple[type, ...] = ()) -> Iterator[Any]:
    """The simplest object of a class, then those that differ from it at one place."""
    hints = attributes(cls)
    simple = {key: stamp(hint, "w") for key, hint in hints.items()}
    yield make(cls, simple)
    ways = [[key, _variants(hint, there, (*seen, cls))] for key, hint in hints.items()]
    while ways:  # one of each in turn, so that the first few show all attributes
        for key, values in list(ways):
            value = next(values, NONE)
            if value is NONE:
                ways.remove([key, values])
            else:
                yield make(cls, simple | {key: value})


def _variants(hint: Any, there: list[type], seen: tuple[type, ...]) -> Iterator[Any]:
    """Values besides the simplest one."""
    parts = alternatives(hint)
    for part in parts:
        inner = element(part)
        if inner is not None:
            for value in itertools.chain([stamp(inner[1], "e")], _variants(inner[1], there, seen)):
                yield {"k": value} if inner[0] is dict else inner[0]([value])
        elif part is NONE or not is_class(part) or is_standard(part):
            if len(parts) > 1 and part is not NONE:
                yield stamp(part, "v")
        else:
            for met in met_types(there, part):
                again = seen.count(met) > 1 or len(seen) > 4
                yield from itertools.islice(witnesses(met, there, seen), 1 if again else None)


def changeable(value: Any, found: dict[int, Any] | None = None) -> dict[int, Any]:
    """All objects in a value that can be changed, itself included, by their identity."""
    found = {} if found is None else found
    held = list(value.values()) if isinstance(value, dict) else []
    if isinstance(value, list | tuple | set | frozenset):
        held = list(value)
    names = attributes(type(value))
    held += [getattr(value, key) for key in names]
    if isinstance(value, list | dict | set) or (names and not _is_frozen(value, next(iter(names)))):
        found[id(value)] = value
    for part in held:
        changeable(part, found)
    return found


def _is_frozen(value: Any, key: str) -> bool:
    try:
        setattr(value, key, getattr(value, key))
    except (AttributeError, TypeError, ValueError):
        return True
    return False
