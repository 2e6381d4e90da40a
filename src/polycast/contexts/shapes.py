"""What an attribute holds: classes, in containers or not, and perhaps nothing."""

from __future__ import annotations

import collections
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
    collections.deque: collections.deque,
    collections.OrderedDict: collections.OrderedDict,
    collections.defaultdict: collections.defaultdict,
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

    parameters: tuple[tuple[type, tuple[Shape, ...]], ...] = ()
    """Of generic classes, what they are of."""
    typed: tuple[type, ...] = ()
    """Dicts with a type for each key; they count as opaque, too."""

    def all_classes(self) -> Iterator[type]:
        """The classes, in containers too."""
        yield from self.classes
        for each in self.containers:
            yield from each.inner.all_classes()

    def hidden_classes(self, seen: frozenset[type] = frozenset()) -> Iterator[type]:
        """The classes that are held where no rule and no mapping ever looks."""
        for each in self.containers:
            yield from () if each.keys is None else each.keys.any_classes(seen)
            yield from each.inner.hidden_classes(seen)
        for shapes in (*self.places, *(shapes for _, shapes in self.parameters)):
            for shape in shapes:
                yield from shape.any_classes(seen)
        for cls in self.typed:
            for hint in hints_of(cls).values() if cls not in seen else ():
                yield from shape_of(hint).any_classes(seen | {cls})

    def holds_unknown(self) -> bool:
        """Whether nobody knows what it, or something in it, holds."""
        if (self.opaque and not self.typed) or self._is_bare():
            return True
        inside = [each.inner for each in self.containers]
        inside += [each.keys for each in self.containers if each.keys is not None]
        for shapes in (*self.places, *(shapes for _, shapes in self.parameters)):
            inside += shapes
        return any(shape.holds_unknown() for shape in inside)

    def _is_bare(self) -> bool:
        """Whether it may be a container that does not say of what."""
        said: set[type] = {tuple} if self.places else set()
        said.update(cls for cls, _ in self.parameters)
        return any(cls in CONTAINERS and cls not in said for cls in self.classes)

    def any_classes(self, seen: frozenset[type] = frozenset()) -> Iterator[type]:
        """All classes, wherever they are held."""
        yield from self.all_classes()
        yield from self.hidden_classes(seen)


def shape_of(hint: Any) -> Shape:
    """The shape of an annotation."""
    plain, _ = unwrapped(hint)
    parts: list[Any] = [plain]
    if typing.get_origin(plain) in (Union, types.UnionType):
        parts = [unwrapped(part)[0] for part in typing.get_args(plain)]
    classes: list[type] = []
    containers: list[Container] = []
    places: list[tuple[Shape, ...]] = []
    parameters: list[tuple[type, tuple[Shape, ...]]] = []
    typed: list[type] = []
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
            elif typing.get_args(part):
                parameters.append((found[0], tuple(map(shape_of, typing.get_args(part)))))
        else:
            opaque = True
            typed += [part] if typing_extensions.is_typeddict(part) else []
    unique = tuple(dict.fromkeys(classes))
    named = frozenset(each for each in values if each[0] not in whole)
    literal = frozenset(cls for cls, _ in named)
    containers.sort(key=lambda each: -len(each.kind.__mro__))  # an OrderedDict is a dict, too
    return Shape(
        hint,
        unique,
        tuple(containers),
        none,
        opaque,
        tuple(places),
        named,
        literal,
        tuple(parameters),
        tuple(typed),
    )


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
    if kind is not tuple and len(arguments) != (2 if issubclass(kind, dict) else 1):
        return None
    if issubclass(kind, dict):
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
