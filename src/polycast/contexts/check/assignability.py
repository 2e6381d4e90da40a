"""Whether what one annotation allows is allowed by another."""

from __future__ import annotations

import collections.abc
import typing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import typing_extensions

from polycast.contexts.resolve.attribute_shapes import CONTAINERS, ValueShape, shape_of
from polycast.typesystem import conforms
from polycast.typesystem.class_kinds import is_protocol
from polycast.typesystem.type_expressions import unwrapped
from polycast.typesystem.type_hints import hints_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from polycast.contexts.resolve.attribute_shapes import Container

__all__ = [
    "class_fits",
    "fits",
    "hint_text",
    "holds",
    "is_one",
    "keys_fit",
    "kind_met",
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


def shape_fits(given: ValueShape, wanted: ValueShape) -> bool:
    """The same of shapes."""
    if wanted.unknown:
        return True
    if not all(sealed_fits(each, wanted) for each in given.sealed):
        return False
    if given.unknown:
        return True
    return (
        (wanted.none or not given.none)
        and all(value_fits(each, given, wanted) for each in given.classes)
        and all(container_fits(each, wanted) for each in given.containers)
        and _places_fit(given, wanted)
        and all(parameters_fit(cls, given, wanted) for cls in given.classes)
    )


def met_fits(met: type, held: ValueShape, wanted: ValueShape) -> bool:
    """Whether objects of a class are of a shape, if they are met where another one is held."""
    if not value_fits(met, held, wanted) or not parameters_fit(met, held, wanted):
        return False
    return met is not tuple or _places_fit(held, wanted)


def parameters_fit(met: type, held: ValueShape, wanted: ValueShape) -> bool:
    """Whether what a generic class is of fits; where somebody does not say it, it does."""
    if not wanted.parameters or wanted.unknown:
        return True
    given = [shapes for cls, shapes in held.parameters if cls in met.__mro__] or _inherited(met)
    said = [shapes for cls, shapes in wanted.parameters if cls in met.__mro__]
    if not given or not said:
        return True
    return all(
        any(len(one) == len(other) and all(map(shape_fits, one, other)) for other in said)
        for one in given
    )


def _inherited(cls: type) -> list[tuple[ValueShape, ...]]:
    """What the generic classes are of that a class says that it extends."""
    bases = [base for each in cls.__mro__ for base in vars(each).get("__orig_bases__", ())]
    said = [base for base in bases if not getattr(base, "__parameters__", ())]
    return [tuple(map(shape_of, typing.get_args(base))) for base in said if typing.get_args(base)]


def sealed_fits(part: Any, wanted: ValueShape) -> bool:
    """Whether what is not looked into, as a dict with a type for each key, is of a shape."""
    origin = typing.get_origin(part) or part
    if wanted.unknown or any(_is_sealed_as(part, other) for other in wanted.sealed):
        return True
    if typing_extensions.is_typeddict(origin):
        held = [shape_of(hint) for hint in hints_of(origin).values()]
        return takes_any(dict, wanted) or any(
            each.kind is dict
            and (each.keys is None or shape_fits(_TEXT, each.keys))
            and all(shape_fits(inner, each.inner) for inner in held)
            for each in wanted.containers
        )
    if origin is tuple:
        return takes_any(tuple, wanted)
    return False


_TEXT = shape_of(str)


def _is_sealed_as(given: Any, wanted: Any) -> bool:
    """The same of two such annotations."""
    if given == wanted:
        return True
    origin, target = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if typing_extensions.is_typeddict(origin) and typing_extensions.is_typeddict(target):
        return _keys_are_of(origin, target)
    if origin is not target or origin is tuple:
        return False
    inside, outside = typing.get_args(given), typing.get_args(wanted)
    if not inside or not outside:
        return True  # a bare `type`: nobody knows of what
    are_classes = all(isinstance(each, type) for each in (*inside, *outside))
    return origin is type and are_classes and issubclass(inside[0], outside[0])


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


def value_fits(cls: type, held: ValueShape, wanted: ValueShape) -> bool:
    """The same, but for what is in a tuple: where values are named, only those are there."""
    if class_fits(cls, wanted):
        return True
    named = {each for each in held.values if each[0] is cls}
    return cls in held.literal and named <= wanted.values


def class_fits(cls: type, wanted: ValueShape) -> bool:
    """Whether all objects of a class are of a shape."""
    if cls in CONTAINERS and any(holds(cls, each.kind) for each in wanted.containers):
        return True  # a bare `list`: nobody knows of what
    whole = [each for each in wanted.classes if each not in wanted.literal]
    if cls is not tuple and wanted.places and tuple in cls.__mro__ and not _fields_fit(cls, wanted):
        whole = [each for each in whole if each is not tuple]
    return wanted.unknown or any(is_one(cls, target) for target in whole)


def container_fits(given: Container, wanted: ValueShape) -> bool:
    """Whether such a container is of a shape."""
    return takes_any(given.kind, wanted) or any(
        holds(given.kind, each.kind)
        and keys_fit(given, each)
        and shape_fits(given.inner, each.inner)
        for each in wanted.containers
    )


def takes_any(kind: type, wanted: ValueShape) -> bool:
    """Whether a shape takes a kind of container whatever is in it."""
    bare = [each for each in wanted.classes if each is not tuple or not wanted.places]
    return wanted.unknown or any(is_one(kind, each) for each in bare)


def keys_fit(given: Container, wanted: Container) -> bool:
    """Whether the keys of a dict are those of another; what has no keys fits."""
    return given.keys is None or wanted.keys is None or shape_fits(given.keys, wanted.keys)


def _places_fit(given: ValueShape, wanted: ValueShape) -> bool:
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


def _fields_fit(cls: type, wanted: ValueShape) -> bool:
    """Whether what a named tuple says of its places fits; where it does not say it, it does."""
    hints = hints_of(cls)
    said = tuple(shape_of(hints[name]) for name in getattr(cls, "_fields", ()) if name in hints)
    return not said or _places_fit(ValueShape(cls, classes=(cls,), places=(said,)), wanted)


def holds(given: type, wanted: type) -> bool:
    """Whether a kind of container is taken for another."""
    if wanted is collections.abc.Sequence:
        return given in (list, tuple, wanted)
    if wanted is collections.abc.Set:
        return given in (set, frozenset, wanted)
    return given is wanted


_MET_AS: dict[type, type] = {  # the narrow ones first: a dict is a collection, too
    dict: collections.abc.Mapping,
    set: collections.abc.MutableSet,
    collections.abc.Set: collections.abc.Set,
    list: collections.abc.MutableSequence,
    collections.abc.Sequence: collections.abc.Collection,
}


def kind_met(cls: type, kinds: Collection[type]) -> type | None:
    """As which kind of container objects of a class are taken, where several may be met."""
    if issubclass(cls, str | bytes):
        return None
    found = [each for each in kinds if issubclass(cls, each)]
    found += [k for k, wide in _MET_AS.items() if k in kinds and issubclass(cls, wide)]
    return found[0] if found else None


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
