"""Whether what one annotation allows is allowed by another."""

from __future__ import annotations

import collections.abc
import typing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from polycast.contexts.shapes import CONTAINERS, shape_of
from polycast.typesystem import conforms
from polycast.typesystem.expressions import unwrapped
from polycast.typesystem.hints import hints_of
from polycast.typesystem.kinds import is_protocol

if TYPE_CHECKING:
    from polycast.contexts.shapes import Container, Shape

__all__ = [
    "class_fits",
    "fits",
    "hint_text",
    "holds",
    "is_one",
    "keys_fit",
    "met_fits",
    "parameters_fit",
    "shape_fits",
    "takes_any",
]

_WIDER: dict[type, tuple[type, ...]] = {int: (float, complex), float: (complex,)}


def fits(given: Any, wanted: Any) -> bool:
    """Whether every value of one annotation is one of another; what nobody knows fits."""
    plain, target = unwrapped(given)[0], unwrapped(wanted)[0]
    if plain == target:
        return True
    return shape_fits(shape_of(plain), shape_of(target))


def shape_fits(given: Shape, wanted: Shape) -> bool:
    """The same of shapes."""
    if given.typed and not _typed_fit(given, wanted):
        return False
    if given.opaque or wanted.opaque:
        return True
    return (
        (wanted.none or not given.none)
        and all(value_fits(each, given, wanted) for each in given.classes)
        and all(container_fits(each, wanted) for each in given.containers)
        and _places_fit(given, wanted)
        and all(parameters_fit(cls, given, wanted) for cls, _ in given.parameters)
    )


def met_fits(met: type, held: Shape, wanted: Shape) -> bool:
    """Whether objects of a class are of a shape, if they are met where another one is held."""
    if not value_fits(met, held, wanted) or not parameters_fit(met, held, wanted):
        return False
    return met is not tuple or _places_fit(held, wanted)


def parameters_fit(met: type, held: Shape, wanted: Shape) -> bool:
    """Whether what a generic class is of fits; where somebody does not say it, it does."""
    given = [shapes for cls, shapes in held.parameters if cls in met.__mro__]
    said = [shapes for cls, shapes in wanted.parameters if cls in met.__mro__]
    if not given or not said or wanted.opaque:
        return True
    return all(
        any(len(one) == len(other) and all(map(shape_fits, one, other)) for other in said)
        for one in given
    )


def _typed_fit(given: Shape, wanted: Shape) -> bool:
    """Whether dicts with a type for each key are of a shape."""
    if takes_any(dict, wanted) and not wanted.typed:
        return True
    return all(
        any(_keys_are_of(cls, other) for other in wanted.typed)
        or any(each.kind is dict for each in wanted.containers)
        for cls in given.typed
    )


_compared: ContextVar[frozenset[tuple[Any, Any]]] = ContextVar("_compared", default=frozenset())


def _keys_are_of(given: Any, wanted: Any) -> bool:
    """Whether such a dict has all keys of another; one that holds itself is met again."""
    compared = _compared.get()
    if given is wanted or (given, wanted) in compared:
        return True
    if not wanted.__required_keys__ <= given.__required_keys__:
        return False
    one, other = hints_of(given), hints_of(wanted)
    before = _compared.set(compared | {(given, wanted)})
    try:
        return all(name in one and fits(one[name], hint) for name, hint in other.items())
    finally:
        _compared.reset(before)


def value_fits(cls: type, held: Shape, wanted: Shape) -> bool:
    """The same, but for what is in a tuple: where values are named, only those are there."""
    if class_fits(cls, wanted):
        return True
    named = {each for each in held.values if each[0] is cls}
    return cls in held.literal and named <= wanted.values


def class_fits(cls: type, wanted: Shape) -> bool:
    """Whether all objects of a class are of a shape."""
    if cls in CONTAINERS and any(holds(cls, each.kind) for each in wanted.containers):
        return True  # a bare `list`: nobody knows of what
    whole = [each for each in wanted.classes if each not in wanted.literal]
    return wanted.opaque or any(is_one(cls, target) for target in whole)


def container_fits(given: Container, wanted: Shape) -> bool:
    """Whether such a container is of a shape."""
    return takes_any(given.kind, wanted) or any(
        holds(given.kind, each.kind)
        and keys_fit(given, each)
        and shape_fits(given.inner, each.inner)
        for each in wanted.containers
    )


def takes_any(kind: type, wanted: Shape) -> bool:
    """Whether a shape takes a kind of container whatever is in it."""
    bare = [each for each in wanted.classes if each is not tuple or not wanted.places]
    return wanted.opaque or any(is_one(kind, each) for each in bare)


def keys_fit(given: Container, wanted: Container) -> bool:
    """Whether the keys of a dict are those of another; what has no keys fits."""
    return given.keys is None or wanted.keys is None or shape_fits(given.keys, wanted.keys)


def _places_fit(given: Shape, wanted: Shape) -> bool:
    """Whether tuples of a fixed length are of a shape."""
    return takes_any(tuple, wanted) or all(
        any(
            len(each) == len(other) and all(map(shape_fits, each, other)) for other in wanted.places
        )
        or any(
            holds(tuple, other.kind) and all(shape_fits(place, other.inner) for place in each)
            for other in wanted.containers
        )
        for each in given.places
    )


def holds(given: type, wanted: type) -> bool:
    """Whether a kind of container is taken for another."""
    if wanted is collections.abc.Sequence:
        return given in (list, tuple, wanted)
    return given is wanted


def is_one(cls: type, target: type) -> bool:
    """Whether objects of a class are of another one, or taken for such as numbers are."""
    if target in cls.__mro__:
        return True
    if any(target in _WIDER.get(base, ()) for base in cls.__mro__):
        return True
    return is_protocol(target) and conforms(cls, target)


def hint_text(hint: Any) -> str:
    """An annotation as one would write it."""
    hint, _ = unwrapped(hint)
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    text = str(hint).replace("typing.", "")
    for cls in dict.fromkeys(shape_of(hint).all_classes()):
        text = text.replace(f"{cls.__module__}.{cls.__qualname__}", cls.__name__)
    return text
