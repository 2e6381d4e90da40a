"""What attributes may hold, by their annotations, and the types that a context so knows."""

from __future__ import annotations

import collections
import collections.abc
import difflib
import enum
import types
import typing
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, Union

import typing_extensions

from polycast.events.isolation import ATOMS
from polycast.typesystem import wire_name
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import is_protocol, kind_of
from polycast.typesystem.describe import supertypes_of
from polycast.typesystem.standard_types import (
    STANDARD,
    is_machinery,
    is_standard,
    is_standard_library,
)
from polycast.typesystem.type_expressions import hints_of, unwrapped

CONTAINERS: dict[object, type] = {  # the class that an annotation names, and the kind that it is
    list: list,
    collections.abc.MutableSequence: list,
    collections.abc.Sequence: collections.abc.Sequence,
    collections.abc.Collection: collections.abc.Sequence,
    collections.abc.Iterable: collections.abc.Sequence,
    tuple: tuple,
    set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
    collections.abc.Set: collections.abc.Set,
    collections.deque: collections.deque,
    collections.OrderedDict: collections.OrderedDict,
    collections.defaultdict: collections.defaultdict,
    dict: dict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


@dataclass(frozen=True)
class Container:
    """A list, tuple, set or dict, with the shape of its elements; of a dict, of its values."""

    kind: type
    inner: ValueShape
    keys: ValueShape | None = None
    """The shape of a dict's keys."""


@dataclass(frozen=True)
class ValueShape:
    """What a value may be: of some classes, a container, None, or unknown."""

    hint: Any
    classes: tuple[type, ...] = ()
    containers: tuple[Container, ...] = ()
    none: bool = False
    opaque: bool = False
    """Whether rules and mappings do not reach inside it."""
    unknown: bool = False
    """Whether it may be anything; then it is opaque, too."""
    places: tuple[tuple[ValueShape, ...], ...] = ()
    """For tuples of a fixed length: the shape at each place."""
    values: frozenset[tuple[type, object]] = frozenset()
    """The values of a `Literal`, with their classes, which are in `classes`, too."""
    literal: frozenset[type] = frozenset()
    """The classes of which only these values are allowed."""

    parameters: tuple[tuple[type, tuple[ValueShape, ...]], ...] = ()
    """For generic classes: the shapes of their arguments."""
    sealed: tuple[Any, ...] = ()
    """Known, but opaque: a TypedDict, `type[M]`, a function, `tuple[M, *X]`."""

    def all_classes(self) -> Iterator[type]:
        """The classes, in containers too."""
        yield from self.classes
        for container in self.containers:
            yield from container.inner.all_classes()

    def hidden_classes(
        self, seen: frozenset[Any] = frozenset(), *, but: Collection[type] = ()
    ) -> Iterator[type]:
        """The classes that are held where no rule and no mapping reaches.

        A rule sees all of an object whose class is among `but`.
        """
        for container in self.containers:
            yield from () if container.keys is None else container.keys.any_classes(seen)
            yield from container.inner.hidden_classes(seen, but=but)
        inside = [] if tuple in but else [*self.places]
        for shapes in (*inside, *(shapes for cls, shapes in self.parameters if cls not in but)):
            for shape in shapes:
                yield from shape.any_classes(seen)
        for part in self.sealed if self.sealed not in seen else ():
            for hint in _held_by(part):
                yield from shape_of(hint).any_classes(seen | {self.sealed})

    def holds_opaque(self) -> bool:
        """Whether it, or an element of it, is opaque."""
        return self.opaque or any(container.inner.holds_opaque() for container in self.containers)

    def holds_unknown(self, seen: frozenset[Any] = frozenset()) -> bool:
        """Whether it, or something in it, may be anything."""
        if self.unknown or self._is_bare():
            return True
        inside = [container.inner for container in self.containers]
        inside += [container.keys for container in self.containers if container.keys is not None]
        for shapes in (*self.places, *(shapes for _, shapes in self.parameters)):
            inside += shapes
        if self.sealed and self.sealed not in seen:
            seen |= {self.sealed}
            inside += [shape_of(hint) for part in self.sealed for hint in _held_by(part)]
        return any(shape.holds_unknown(seen) for shape in inside)

    def _is_bare(self) -> bool:
        """Whether it may be a container whose annotation does not name its elements."""
        annotated: set[type] = {tuple} if self.places else set()
        annotated.update(cls for cls, _ in self.parameters)
        return any(cls in CONTAINERS and cls not in annotated for cls in self.classes)

    def any_classes(self, seen: frozenset[Any] = frozenset()) -> Iterator[type]:
        """All classes, reachable for rules or hidden."""
        yield from self.all_classes()
        yield from self.hidden_classes(seen)

    def all_of(self, kind: type) -> ValueShape:
        """The shape of elements in any of the containers of a kind."""
        inner = [container.inner for container in self.containers if container.kind is kind]
        return inner[0] if len(inner) == 1 else one_of(element.hint for element in inner)


def shape_of(hint: Any) -> ValueShape:
    """The shape of an annotation."""
    parts = _parts(hint)
    classes: list[type] = []
    containers: list[Container] = []
    places: list[tuple[ValueShape, ...]] = []
    parameters: list[tuple[type, tuple[ValueShape, ...]]] = []
    sealed: list[Any] = []
    values: set[tuple[type, object]] = set()
    whole: set[type] = set()  # classes of which any value may be there
    none = unknown = False
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
        elif named_classes := _classes(part):
            classes += named_classes
            whole.update(named_classes)
            if typing.get_origin(part) is tuple:
                places.append(tuple(map(shape_of, typing.get_args(part))))
            elif typing.get_args(part):
                parameters.append((named_classes[0], tuple(map(shape_of, typing.get_args(part)))))
        elif _is_sealed(part):
            sealed.append(part)
        else:
            unknown = True
    unique = tuple(dict.fromkeys(classes))
    named = frozenset(value for value in values if value[0] not in whole)
    literal = frozenset(cls for cls, _ in named)
    # The narrow ones first: an OrderedDict is a dict, too.
    containers.sort(key=lambda container: -len(container.kind.__mro__))
    return ValueShape(
        hint,
        unique,
        tuple(containers),
        none,
        unknown or bool(sealed),
        unknown,
        tuple(places),
        named,
        literal,
        tuple(parameters),
        tuple(sealed),
    )


def one_of(hints: Iterable[Any]) -> ValueShape:
    """The shape of a value that matches one of several annotations."""
    return shape_of(Union[tuple(hints)])  # noqa: UP007  (their number is not known)


def _parts(hint: Any) -> list[Any]:
    """The members of a union, with aliases resolved."""
    plain: Any = unwrapped(hint)[0]
    alias = typing.get_origin(plain)
    if type(alias).__name__ == "TypeAliasType":
        given = dict(zip(alias.__type_params__, typing.get_args(plain), strict=False))
        if not _leads_to(alias.__value__, alias):
            return _parts(filled(alias.__value__, given))
    if typing.get_origin(plain) in (Union, types.UnionType):
        return [inner for part in typing.get_args(plain) for inner in _parts(part)]
    return [str] if plain is typing_extensions.LiteralString else [plain]


def _leads_to(hint: Any, alias: Any) -> bool:
    """Whether an alias contains itself, so that it has no end."""
    inside = (hint, typing.get_origin(hint), *typing.get_args(hint))
    if any(inner is alias for inner in inside):
        return True
    return any(_leads_to(argument, alias) for argument in typing.get_args(hint))


def filled(hint: Any, given: dict[Any, Any]) -> Any:
    """An annotation with its parameters replaced."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    arguments = tuple(given.get(parameter, parameter) for parameter in parameters)
    return hint[arguments] if arguments else hint


def _is_sealed(part: Any) -> bool:
    origin = typing.get_origin(part) or part
    return (
        typing_extensions.is_typeddict(origin)
        or origin in (type, collections.abc.Callable)
        or _is_unpacked(part)
    )


def _is_unpacked(part: Any) -> bool:
    """Whether it is a tuple of any length with some fixed places, as `tuple[M, *X]`."""
    return typing.get_origin(part) is tuple and any(map(_unpacked, typing.get_args(part)))


def _unpacked(hint: Any) -> bool:
    is_starred = getattr(hint, "__unpacked__", False)
    return bool(is_starred) or typing.get_origin(hint) in _UNPACK


_UNPACK = (typing.Unpack, typing_extensions.Unpack)


def _held_by(part: Any) -> list[Any]:
    """The annotations inside a sealed one."""
    origin = typing.get_origin(part) or part
    if typing_extensions.is_typeddict(origin):
        return list(keys_of(part).values())
    if not _is_unpacked(part):
        return []  # a class or a function holds no values
    inside = typing.get_args(part)
    return [
        typing.get_args(hint)[0] if typing.get_origin(hint) in _UNPACK else hint for hint in inside
    ]


def keys_of(part: Any) -> dict[str, Any]:
    """The keys of a TypedDict, each with its annotation; one that is generic says of what."""
    origin = typing.get_origin(part) or part
    names: tuple[Any, ...] = getattr(origin, "__parameters__", ())
    given = dict(zip(names, typing.get_args(part), strict=False))
    return {key: filled(hint, given) for key, hint in hints_of(origin).items()}


def attribute_hints(cls: type) -> dict[str, Any]:
    """The attributes of a class in order, each with its annotation."""
    if is_standard(cls) or issubclass(cls, enum.Enum):
        return {}
    hints = hints_of(cls)
    return {name: hints.get(name, Any) for name in declared_defaults(cls)}


def has_attributes(cls: type) -> bool:
    """Whether rules reach inside objects of a class; not if it extends a built-in value."""
    return kind_of(cls) not in ("value", "enum", "flag") and bool(attribute_hints(cls))


def _container(hint: Any) -> Container | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kind = CONTAINERS.get(origin)
    if kind is None:
        return None
    if kind is tuple and (len(arguments) != 2 or arguments[1] is not ...):
        return None  # the places of a fixed tuple have shapes of their own
    if kind is not tuple and len(arguments) != (2 if issubclass(kind, dict) else 1):
        return None
    if issubclass(kind, dict):
        return Container(kind, shape_of(arguments[1]), shape_of(arguments[0]))
    return Container(kind, shape_of(arguments[0]))


def _classes(hint: Any) -> list[type]:
    origin = typing.get_origin(hint)
    cls = hint if origin is None else origin
    if not isinstance(cls, type) or cls in (Any, object):
        return []
    return [] if _is_sealed(hint) else [cls]


# -- what objects hold besides the attributes that their class declares ----------------------------

_ANYTHING = shape_of(Any)
_KEEPING: tuple[type, ...] = (
    *(list, tuple, set, frozenset, dict, collections.deque, BaseException),
    *(collections.UserList, collections.UserDict, collections.ChainMap),
)
"""The classes whose objects hold what no attribute names."""


def extends_container(cls: type) -> bool:
    """Whether objects of a class have elements, whatever attributes they have."""
    return kind_of(cls) != "namedtuple" and any(base in _KEEPING for base in cls.__mro__)


def held_besides(cls: type) -> ValueShape | None:
    """What is held where no rule looks, if something may be; `list` itself is an annotation."""
    if cls in CONTAINERS or any(base in ATOMS for base in cls.__mro__):
        return None
    if is_protocol(cls) or cls.__module__ == "collections.abc":
        return _ANYTHING
    if extends_container(cls):
        return one_of(_element_hints(cls)) if any(True for _ in _element_hints(cls)) else _ANYTHING
    return _ANYTHING if _has_own_state(cls) else None


def _element_hints(cls: type) -> Iterator[Any]:
    """The annotations of the elements, as in `class Lines(list[Line])`."""
    for base in cls.__mro__:
        for hint in vars(base).get("__orig_bases__", ()):
            origin = typing.get_origin(hint)
            if isinstance(origin, type) and extends_container(origin):
                yield from (inner for inner in typing.get_args(hint) if inner is not ...)


def _has_own_state(cls: type) -> bool:
    """Whether objects hold something, although their class declares no attribute."""
    if kind_of(cls) not in ("class", "value") or attribute_hints(cls) or is_standard_library(cls):
        return False
    own = [base for base in cls.__mro__ if not is_machinery(base) and not is_standard_library(base)]
    return any("__init__" in vars(base) or vars(base).get("__slots__") for base in own)


# -- the types that a context knows, by name, and their subtypes -----------------------------------

_BUILT_IN: dict[str, type] = {cls.__name__: cls for cls in STANDARD.values()}


class KnownTypes:
    """The listed types, with all that their attributes and supertypes lead to."""

    def __init__(self, listed: Iterable[type]) -> None:
        types: dict[type, None] = {}
        waiting = list(listed)
        for cls in waiting:
            if cls not in types and not is_machinery(cls):
                types[cls] = None
                waiting += supertypes_of(cls)
                shapes = map(shape_of, attribute_hints(cls).values())
                waiting += [held for shape in shapes for held in shape.all_classes()]
        self.types = tuple(types)
        self._shapes: dict[type, dict[str, ValueShape]] = {}
        self._subtypes: dict[type, tuple[type, ...]] = {}
        self._looked_into: dict[type, bool] = {}

    def shapes(self, cls: type) -> dict[str, ValueShape]:
        """The attributes of a class with their shapes."""
        shapes = self._shapes.get(cls)
        if shapes is None:
            hints = attribute_hints(cls)
            shapes = self._shapes[cls] = {name: shape_of(hint) for name, hint in hints.items()}
        return shapes

    def has_attributes(self, cls: type) -> bool:
        """Whether rules reach inside objects of a class."""
        is_looked_into = self._looked_into.get(cls)
        if is_looked_into is None:
            is_looked_into = self._looked_into[cls] = has_attributes(cls)
        return is_looked_into

    def subtypes(self, cls: type) -> tuple[type, ...]:
        """The types that can be met where a class is declared: it, and its known subtypes."""
        if is_standard(cls):
            return (cls,)
        subtypes = self._subtypes.get(cls)
        if subtypes is None:
            below = [known for known in self.types if cls in known.__mro__ and known is not cls]
            subtypes = self._subtypes[cls] = (cls, *below)
        return subtypes

    def named(self, name: str) -> list[type]:
        """The types of a name: that of the class, with or without module, or that on the wire."""
        types = self._names.get(name, [])
        if not types and name in _BUILT_IN:
            return [_BUILT_IN[name]]
        return types

    def full_names(self, cls: type) -> str:
        """The name that no other type has."""
        return f"{cls.__module__}.{cls.__qualname__}"

    def alike(self, name: str) -> list[str]:
        """Names like a misspelled one."""
        return difflib.get_close_matches(name, self._names, n=3)

    @cached_property
    def _names(self) -> dict[str, list[type]]:
        names: dict[str, list[type]] = {}
        for cls in self.types:
            for name in dict.fromkeys((cls.__name__, self.full_names(cls), wire_name(cls))):
                names.setdefault(name, []).append(cls)
        return names

    def reached(self, types: Iterable[type]) -> set[type]:
        """All types that can be met inside objects of some types, at any depth."""
        seen: set[type] = set()
        waiting = list(types)
        for cls in waiting:
            for shape in self.shapes(cls).values():
                for declared in shape.all_classes():
                    new = [met for met in self.subtypes(declared) if met not in seen]
                    seen.update(new)
                    waiting += new
        return seen
