"""Decoding: plain data to objects, by the writer's description."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable  # msgspec reads it
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import NotDecodableError
from polycast.events.decoder_codegen import Twin, quick_glance, quick_lift
from polycast.events.instances import Anatomy, anatomy_of, rebuild, rebuild_value
from polycast.events.wire_forms import (
    CLASS,
    CONTAINERS,
    EXTRAS,
    INHERITED,
    SCALARS,
    VALUE,
    VERSION,
    Malformed,
    UnencodableError,
    lift_scalar,
)
from polycast.runtime import shared_lock
from polycast.typesystem import Description, Registry, TypeExpression, describe, wire_version
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.standard_types import is_standard

if TYPE_CHECKING:
    from polycast.events.wire_forms import Form

    Lift = Callable[[Any], Any]
    Glance = Callable[[bytes], Any]

_OPEN = TypeExpression("any")
# msgspec crashes if two threads are the first to use a type of nested Structs at once.
_BUILDING = shared_lock()
_MARKS = frozenset((CLASS, VERSION))
_MOST_GLANCES = 64  # kept for one class


class _ClassDecoder(msgspec.Struct, frozen=True):
    """How objects of one description are decoded; the class is held weakly."""

    here: weakref.ref[type]
    lift: Callable[[type, Any], Any]


class _Descriptions:
    """The writers' descriptions, as far as they are known here."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._by_name: dict[tuple[str, int], Description] = {}

    def hashed(self, name: str, version: int, digest: str) -> Description:
        """The description with a hash; `Malformed` if it is not known."""
        known = self._registry.described(digest)
        if known is not None and known.name == name:
            return known
        here = self._registry.resolve(name, version=version)
        if here is not None and describe(here).hash == digest:
            return describe(here)
        raise Malformed(
            f"the description {digest!r} of {name!r} version {version} is not known here"
        )

    def named(self, name: str, version: int) -> Description:
        """The description of a name and version; `Malformed` if it is not known."""
        known = self._by_name.get((name, version))
        if known is None:
            known = self._by_name[name, version] = self._find(name, version)
        return known

    def _find(self, name: str, version: int) -> Description:
        known = self._registry.describe(name, version=version)
        if known is not None:
            return known
        here = self._registry.resolve(name, version=version)
        if here is not None and wire_version(here) == version:
            return describe(here)
        raise Malformed(f"the description of {name!r} version {version} is not known here")


class ObjectDecoder:
    """Converts plain data to objects, for one codec and one registry."""

    def __init__(self, form: Form, registry: Registry) -> None:
        self._module: Any = msgspec.json if form == "json" else msgspec.msgpack
        self._registry = registry
        self._readings: dict[str, _ClassDecoder] = {}
        self._descriptions = _Descriptions(registry)
        self.quick: dict[str, Callable[[bytes], Any]] = {}
        """Functions that decode an event straight from its bytes, by the description's hash."""
        self._glances: dict[str, dict[frozenset[str], Glance | None]] = {}

    def regular(self, expression: TypeExpression) -> tuple[type, Anatomy, Description] | None:
        """Return the class that an expression names, if it is the writer's and can be rebuilt."""
        try:
            description = self._descriptions.named(expression.name, expression.version)
            cls = self._registry.class_for(description.name, description.version, description.hash)
            same = describe(cls).hash == description.hash and not is_standard(cls)
            return (cls, anatomy_of(cls), description) if same else None
        except (Malformed, UnencodableError, NotDecodableError):
            return None

    def lift(self, data: Any, name: str, version: int, digest: str) -> Any:
        """Return the event in some data, of the class its record names."""
        if name in SCALARS or name in CONTAINERS:
            return self.way_of(TypeExpression("class", name))(data)
        reading = self._readings.get(digest)
        cls = None if reading is None else reading.here()
        if reading is None or cls is None:
            return self._read(self._descriptions.hashed(name, version, digest), data)
        return reading.lift(cls, data)

    def _read(self, description: Description, data: Any) -> Any:
        reading = self._readings.get(description.hash)
        cls = None if reading is None else reading.here()
        if reading is None or cls is None:
            cls = self._registry.class_for(description.name, description.version, description.hash)
            reading = _ClassDecoder(weakref.ref(cls), self._compiled(cls, description))
            self._readings[description.hash] = reading
        return reading.lift(cls, data)

    def _compiled(self, cls: type, description: Description) -> Callable[[type, Any], Any]:
        if issubclass(cls, enum.Enum) != (description.kind in ("enum", "flag")):
            raise Malformed(f"{description.name} is an enum on one side only")
        if issubclass(cls, enum.Enum):
            return _member
        anatomy = anatomy_of(cls)
        if anatomy.kind == "value":
            return self._value(anatomy)
        same = describe(cls).hash == description.hash
        if same:
            self._quicken(cls, anatomy, description)
        return self._object(anatomy, description, None if same else _Adapter(anatomy, description))

    def _quicken(self, cls: type, anatomy: Anatomy, description: Description) -> None:
        twin = quick_lift(self, anatomy, description, (cls,))
        if twin is None:
            return
        self.quick[description.hash] = self._from_bytes(twin)

    def _from_bytes(self, twin: Twin) -> Callable[[bytes], Any]:
        with _BUILDING:
            read, lift = self._module.Decoder(twin.read).decode, twin.lift
        return lambda payload: lift(read(payload))

    def glance(self, name: str, digest: str, names: frozenset[str]) -> Glance | None:
        """Return a function that decodes only some attributes of an event.

        None if events of that description can only be decoded as a whole.
        """
        known = self._glances.setdefault(digest, {})
        try:
            return known[names]
        except KeyError:
            pass
        glance = self._glanced(name, digest, names)
        with _BUILDING:
            while len(known) >= _MOST_GLANCES:
                del known[next(iter(known))]
            known[names] = glance
        return glance

    def _glanced(self, name: str, digest: str, names: frozenset[str]) -> Glance | None:
        description = self._registry.described(digest)
        if description is None or description.name != name:
            return None
        try:
            cls = self._registry.class_for(name, description.version, digest)
            twin = quick_glance(self, anatomy_of(cls), description, cls, sorted(names))
        except (UnencodableError, NotDecodableError):
            return None
        return None if twin is None else self._from_bytes(twin)

    def _object(
        self, anatomy: Anatomy, description: Description, adapter: _Adapter | None
    ) -> Callable[[type, Any], Any]:
        declared = {part.name: self.way_of(part.type) for part in description.attributes}

        def lift(cls: type, data: Any) -> Any:
            if type(data) is not dict:
                raise Malformed(f"{data!r} is no object of {description.name}")
            state: dict[str, Any] = {}
            for name, part in data.items():
                if name in declared:
                    state[name] = declared[name](part)
                elif not name.startswith("$"):
                    state[name] = self._dynamic(name, part)
            if adapter is not None:
                adapter.fit(cls, state)
            elif INHERITED in data and anatomy.kind == "class" and not anatomy.made:
                state = {name: part for name, part in state.items() if name not in data[INHERITED]}
            extras = {key: self.open(data[key]) for key in EXTRAS if key in data}
            return rebuild(cls, anatomy, state, extras)

        return lift

    def _dynamic(self, name: str, part: Any) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise Malformed(f"{name!r} belongs to Python")
        return self.open(part)

    def _value(self, anatomy: Anatomy) -> Callable[[type, Any], Any]:
        def lift(cls: type, data: Any) -> Any:
            state = {
                name: self._dynamic(name, part) for name, part in data.items() if name[:1] != "$"
            }
            return rebuild_value(cls, anatomy, self.open(data[VALUE]), state)

        return lift

    def way_of(self, expression: TypeExpression) -> Lift:
        """Return the function that decodes values declared with a type."""
        natural = self._natural(expression)
        if natural is None:
            return self.open

        def lift(data: Any) -> Any:
            if type(data) is dict and CLASS in data:
                return self._marked(data)
            return natural(data)

        return lift

    def _natural(self, expression: TypeExpression) -> Lift | None:
        match expression.form:
            case "none":
                return _scalar(type(None))
            case "union":
                return self._union(expression)
            case "literal" if len(expression.arguments) == 1:
                return self._natural(expression.arguments[0])
            case "class" if expression.name in SCALARS:
                return _scalar(SCALARS[expression.name])
            case "class" if expression.name in CONTAINERS:
                return self._container(expression)
            case "class":
                return self._declared(expression)
            case _:
                return None

    def _declared(self, expression: TypeExpression) -> Lift:
        def lift(data: Any) -> Any:
            return self._read(self._descriptions.named(expression.name, expression.version), data)

        return lift

    def _union(self, expression: TypeExpression) -> Lift | None:
        part = expression.besides_none
        if part is None:
            return None
        inner = self._natural(part) or self.open
        return lambda data: None if data is None else inner(data)

    def open(self, data: Any) -> Any:
        """Decode data without a declared type: marks say what it is."""
        cls = type(data)
        if cls is dict:
            if CLASS in data:
                return self._marked(data)
            return {key: self.open(item) for key, item in data.items()}
        return [self.open(item) for item in data] if cls is list else data

    def _marked(self, data: dict[str, Any]) -> Any:
        name, version = data[CLASS], data.get(VERSION, 1)
        if name == "builtins.dict":
            return {self.open(key): self.open(item) for key, item in data[VALUE]}
        if name in CONTAINERS:
            return CONTAINERS[name](map(self.open, data[VALUE]))
        if name in SCALARS:
            return lift_scalar(SCALARS[name], data[VALUE])
        description = self._descriptions.named(name, version)
        if description.kind in ("enum", "flag"):
            return self._read(description, data[VALUE])
        fields = {key: part for key, part in data.items() if key not in _MARKS}
        return self._read(description, fields)

    def _container(self, expression: TypeExpression) -> Lift:
        arguments, cls = expression.arguments, CONTAINERS[expression.name]
        if cls is dict:
            return self._mapping(*(arguments if len(arguments) == 2 else (_OPEN, _OPEN)))
        if cls is tuple and arguments and arguments[-1].form != "...":
            lifts = [self.way_of(item) for item in arguments]
            return lambda data: tuple(
                lift(item) for lift, item in zip(lifts, _array(data), strict=True)
            )
        item = self.way_of(arguments[0]) if arguments else self.open
        return lambda data: cls(map(item, _array(data)))

    def _mapping(self, key: TypeExpression, item: TypeExpression) -> Lift:
        lift_item = self.way_of(item)
        if key.form == "any" or key.name == "builtins.str":
            return lambda data: {name: lift_item(part) for name, part in data.items()}
        lift_key = self.way_of(key)
        return lambda data: {lift_key(one): lift_item(other) for one, other in _array(data)}


class _Adapter:
    """Adapts fields of another version of a class: by name, with defaults for missing ones."""

    def __init__(self, anatomy: Anatomy, description: Description) -> None:
        self._here = frozenset(anatomy.names)
        self._dropped = description.attribute_names - self._here
        self._title = f"{description.name} version {description.version}"

    def fit(self, cls: type, state: dict[str, Any]) -> None:
        for name in self._dropped:
            state.pop(name, None)
        for name in self._here.difference(state):
            default = declared_defaults(cls)[name]
            if default is None:
                raise Malformed(f"{self._title} has no field {name!r}, which has no default here")
            state[name] = default.make()


def _scalar(cls: type) -> Lift:
    return lambda data: lift_scalar(cls, data)


def _array(data: Any) -> list[Any]:
    if type(data) is not list:
        raise Malformed(f"{data!r} is no array")
    return data


def _member(cls: Any, data: Any) -> Any:
    try:
        if not issubclass(cls, enum.Flag):
            return cls.__members__[data]
        return cls(int(data, 16) if type(data) is str else data)
    except (KeyError, ValueError, TypeError):
        members = ", ".join(cls.__members__)
        raise Malformed(
            f"{data!r} is no member of {cls.__name__} here; its members are {members}"
        ) from None
