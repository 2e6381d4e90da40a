"""What an attribute holds: classes, in containers or not, and perhaps nothing."""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import typing_extensions

from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.expressions import unwrapped
from polycast.typesystem.hints import hints_of
from polycast.typesystem.kinds import kind_of
from polycast.typesystem.standard import is_standard

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CONTAINERS", "Container", "Shape", "attribute_hints", "has_attributes", "shape_of"]

CONTAINERS: dict[object, type] = {  # how an annotation names it, and what it is
    list: list,
    collections.abc.MutableSequence: list,
    collections.abc.Sequence: collections.abc.Sequence,
    collections.abc.Collection: collections.abc.Sequence,
    collections.abc.Iterable: collections.abc.Sequence,
    tuple: tuple,
    set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    dict: dict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


@dataclass(frozen=True)
class Container:
    """A list, tuple, set or dict; of a dict, its values."""

    kind: type
    inner: Shape
    keys: Shape | None = None
    """Of a dict, its keys."""


@dataclass(frozen=True)
class Shape:
    """What a value may be: of some classes, in a container, None, or nobody knows."""

    hint: Any
    classes: tuple[type, ...] = ()
    containers: tuple[Container, ...] = ()
    none: bool = False
    opaque: bool = False
    places: tuple[tuple[Shape, ...], ...] = ()
    """Of tuples of a fixed length, what is at each place."""
    values: frozenset[tuple[type, object]] = frozenset()
    """What a `Literal` names, by class; such a class is in `classes`, too."""
    literal: frozenset[type] = frozenset()
    """The classes of which only those values may be there."""

    def all_classes(self) -> Iterator[type]:
        """The classes, in containers too."""
        yield from self.classes
        for each in self.containers:
            yield from each.inner.all_classes()


def shape_of(hint: Any) -> Shape:
    """The shape of an annotation."""
    plain, _ = unwrapped(hint)
    parts: list[Any] = [plain]
    if typing.get_origin(plain) in (Union, types.UnionType):
        parts = [unwrapped(part)[0] for part in typing.get_args(plain)]
    classes: list[type] = []
    containers: list[Container] = []
    places: list[tuple[Shape, ...]] = []
    values: set[tuple[type, object]] = set()
    whole: set[type] = set()  # classes of which any value may be there
    none = opaque = False
    for part in parts:
        if part is None or part is type(None):
            none = True
        elif (container := _container(part)) is not None:
            containers.append(container)
        elif typing.get_origin(part) is typing.Literal:
            given = {(type(value), value) for value in typing.get_args(part)}
            none = none or (type(None), None) in given
            values |= given - {(type(None), None)}
            classes += [type(value) for value in typing.get_args(part) if value is not None]
        elif found := _classes(part):
            classes += found
            whole.update(found)
            if typing.get_origin(part) is tuple:
                places.append(tuple(map(shape_of, typing.get_args(part))))
        else:
            opaque = True
    unique = tuple(dict.fromkeys(classes))
    named = frozenset(each for each in values if each[0] not in whole)
    literal = frozenset(cls for cls, _ in named)
    return Shape(hint, unique, tuple(containers), none, opaque, tuple(places), named, literal)


def attribute_hints(cls: type) -> dict[str, Any]:
    """The attributes of a class in order, each with its annotation."""
    if is_standard(cls) or issubclass(cls, enum.Enum):
        return {}
    hints = hints_of(cls)
    return {name: hints.get(name, Any) for name in declared_defaults(cls)}


def has_attributes(cls: type) -> bool:
    """Whether objects of a class are looked into; a value that extends a built-in one is not."""
    return kind_of(cls) not in ("value", "enum", "flag") and bool(attribute_hints(cls))


def _container(hint: Any) -> Container | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kind = CONTAINERS.get(origin)
    if kind is None:
        return None
    if kind is tuple and (len(arguments) != 2 or arguments[1] is not ...):
        return None  # each place of a fixed tuple is something of its own
    if kind is not tuple and len(arguments) != (2 if kind is dict else 1):
        return None
    if kind is dict:
        return Container(kind, shape_of(arguments[1]), shape_of(arguments[0]))
    return Container(kind, shape_of(arguments[0]))


def _classes(hint: Any) -> list[type]:
    origin = typing.get_origin(hint)
    found = hint if origin is None else origin
    if not isinstance(found, type) or found in (Any, object):
        return []
    if typing_extensions.is_typeddict(found) or found in (type, collections.abc.Callable):
        return []
    return [found]
