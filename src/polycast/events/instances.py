"""Taking objects apart into attributes, and rebuilding them.

Events are values: an object is rebuilt with the attributes it had, without calling `__init__`,
`__new__` or `__post_init__`. msgspec Structs need their constructor, which runs `__post_init__` as
msgspec itself does when decoding; afterwards the attributes are set to those of the wire.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import msgspec

from polycast.events.wire_forms import (
    EXTRAS,
    FIELDS_SET,
    INHERITED,
    PRIVATE,
    Malformed,
    UnencodableError,
)
from polycast.typesystem import describe
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.standard_types import is_standard_library
from polycast.typesystem.wire_names import DESCRIPTION

_BASES: tuple[type, ...] = (
    str,
    int,
    float,
    bytes,
    list,
    dict,
    set,
    frozenset,
    tuple,
    BaseException,
)
_ORDINARY = frozenset(("dataclass", "attrs", "class", "pydantic"))
_NEVER = frozenset(("",))
_MISSING = object()
_HASH_CACHE = "_attrs_cached_hash"


class Anatomy(msgspec.Struct, frozen=True):
    """Where objects of a class store their attributes."""

    kind: str
    names: tuple[str, ...]
    slots: frozenset[str]
    has_dictionary: bool
    expected: frozenset[str]
    """All names, if all are stored in the dictionary."""
    made: bool
    """Whether the class was made from a description: missing attributes are UNSET."""
    computed: frozenset[str]
    """The names under which cached properties store their values."""

    makes_plainly: bool
    """Whether rebuilding calls no code of the class."""

    @property
    def storage(self) -> str:
        """The kind of storage of the attributes; empty if there is more than one."""
        if self.kind == "struct":
            return "struct"
        if self.kind == "namedtuple":
            return "" if self.has_dictionary else "tuple"
        if self.kind not in _ORDINARY:
            return ""
        if self.has_dictionary:
            return "" if self.slots else "dictionary"
        return "slots" if self.slots == frozenset(self.names) else ""

    @property
    def is_regular(self) -> bool:
        """Whether code can be generated for the attributes."""
        return bool(self.storage and self.names) and all(map(str.isidentifier, self.names))

    def take_apart(self, value: Any) -> dict[str, Any]:
        """Return the attributes of an object, declared ones first, without those never set."""
        if self.has_dictionary and not self.slots and value.__dict__.keys() == self.expected:
            held = value.__dict__
            return {name: held[name] for name in self.names}
        if self.kind == "namedtuple":
            state = dict(zip(self.names, tuple.__iter__(value), strict=True))
        else:
            state = _declared(value, self.names)
        for name in self.slots.difference(state):
            if (part := getattr(value, name, _MISSING)) is not _MISSING:
                state[name] = part
        if self.made:
            state = {name: part for name, part in state.items() if part is not msgspec.UNSET}
        if self.has_dictionary:
            self._add_dynamic(state, value.__dict__)
        if _HASH_CACHE in state:
            state[_HASH_CACHE] = None  # hashes of text differ between processes
        return state

    def extras(self, value: Any, state: dict[str, Any]) -> dict[str, Any]:
        """Return what is needed besides the attributes to make an equal object."""
        if self.kind == "pydantic":
            return _model_extras(value, state)
        if self.made:
            return {key: part for key, part in value.__dict__.items() if key in EXTRAS}
        if self.kind == "class" and self.names and self.has_dictionary:
            own = value.__dict__
            names = [name for name in self.names if name not in own and name not in self.slots]
            return {INHERITED: names} if names else {}
        return {}

    def _add_dynamic(self, state: dict[str, Any], held: dict[str, Any]) -> None:
        if len(held) > len(state) or not held.keys() <= state.keys():
            for name, value in held.items():
                if name not in state and not self._is_apart(name):
                    state[name] = value

    def _is_apart(self, name: str) -> bool:
        return name in self.computed or _is_special(name) or (self.made and name in EXTRAS)


def anatomy_of(cls: type) -> Anatomy:
    """Return the anatomy of a class; `UnencodableError` if its objects cannot be rebuilt."""
    kind = kind_of(cls)
    if kind in ("dataclass", "attrs") and value_base(cls) is not object:
        kind = "value"
    _check_rebuildable(cls, kind)
    names = tuple(declared_defaults(cls))
    return Anatomy(
        kind,
        names,
        frozenset(slots_of(cls)),
        getattr(cls, "__dictoffset__", 0) != 0,
        frozenset(names) if kind in _ORDINARY else _NEVER,
        DESCRIPTION in cls.__dict__,
        frozenset(computed_names(cls)),
        _makes_plainly(cls, kind),
    )


def is_plain_struct(cls: Any) -> bool:
    """Whether msgspec encodes a Struct as an object of its fields and nothing else."""
    config = cls.__struct_config__
    if config.array_like or config.omit_defaults or config.tag or cls.__dictoffset__:
        return False
    return bool(cls.__struct_fields__ == cls.__struct_encode_fields__)


def sets_plainly(cls: Any, name: str) -> bool:
    """Whether setting an attribute just stores it where rebuilding would."""
    if cls.__setattr__ is not object.__setattr__:
        return False
    member = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return isinstance(member, types.MemberDescriptorType) or not hasattr(type(member), "__set__")


def value_base(cls: type) -> type:
    """Return the built-in class that a class extends."""
    return next((base for base in cls.__mro__ if base in _BASES), object)


def base_value(value: Any, base: type) -> Any:
    """Return an object as a plain built-in value; for an exception, its arguments."""
    if base is BaseException:
        return value.args
    if base in (int, float, str, bytes):
        return PLAIN[base](value)
    return base(_ITEMS[base](value)) if base in _ITEMS else base(value)


PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
}
_ITEMS: dict[type, Callable[[Any], Any]] = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    dict: dict.items,
}


def _model_extras(value: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return what a pydantic model has besides its fields; undeclared fields go into the state."""
    extras = {}
    state.update(value.__pydantic_extra__ or {})
    if len(value.__pydantic_fields_set__) != len(state):
        extras[FIELDS_SET] = sorted(value.__pydantic_fields_set__)
    if value.__pydantic_private__ is not None:
        extras[PRIVATE] = value.__pydantic_private__
    return extras


def rebuild(cls: Any, anatomy: Anatomy, state: dict[str, Any], extras: dict[str, Any]) -> Any:
    """Rebuild an object with some attributes."""
    value = _rebuilt(cls, anatomy, state, extras)
    if extras and anatomy.made and anatomy.kind != "pydantic":
        value.__dict__.update(extras)  # for the class itself, should the object come home
    return value


def _rebuilt(cls: Any, anatomy: Anatomy, state: dict[str, Any], extras: dict[str, Any]) -> Any:
    kind = anatomy.kind
    if kind == "struct":
        return _rebuild_struct(cls, state)
    if kind == "namedtuple":
        value = tuple.__new__(cls, [state.pop(name) for name in cls._fields])
        return _filled(value, anatomy, state)
    if kind == "pydantic":
        return _rebuild_model(cls, state, extras)
    return _filled(object.__new__(cls), anatomy, state)


def rebuild_value(cls: Any, anatomy: Anatomy, plain: Any, state: dict[str, Any]) -> Any:
    """Rebuild an object of a class that extends a built-in one."""
    base: Any = value_base(cls)
    if base in (list, set, dict):
        value = base.__new__(cls)
        (base.extend if base is list else base.update)(value, plain)
    elif base is BaseException:
        value = base.__new__(cls, *plain)
    else:
        value = base.__new__(cls, plain)
    return _filled(value, anatomy, state)


def _declared(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    state = {}
    for name in names:
        part = getattr(value, name, _MISSING)
        if part is not _MISSING:
            state[name] = part
    return state


def _filled(value: Any, anatomy: Anatomy, state: dict[str, Any]) -> Any:
    if not state:
        return value
    if not anatomy.slots:
        value.__dict__.update(state)
        return value
    for name, part in state.items():
        if name in anatomy.slots:
            _slot(type(value), name).__set__(value, part)
        else:
            value.__dict__[name] = part
    return value


def _rebuild_struct(cls: Any, state: dict[str, Any]) -> Any:
    names = cls.__struct_fields__
    fields = {name: state.pop(name, msgspec.UNSET) for name in names}
    value = cls(**fields)
    if hasattr(cls, "__post_init__"):
        for name, part in fields.items():
            msgspec.structs.force_setattr(value, name, part)
    if state:
        value.__dict__.update(state)
    return value


def _rebuild_model(cls: Any, state: dict[str, Any], extras: dict[str, Any]) -> Any:
    value = cls.__new__(cls)
    open_ended = cls.model_config.get("extra") == "allow"
    declared = {name: state.pop(name) for name in cls.__pydantic_fields__ if name in state}
    loose = state if open_ended else None
    declared |= {} if open_ended else state
    put = functools.partial(object.__setattr__, value)
    put("__dict__", declared)
    put("__pydantic_fields_set__", set(extras.get(FIELDS_SET, [*declared, *(loose or ())])))
    put("__pydantic_extra__", loose)
    put("__pydantic_private__", extras.get(PRIVATE))
    return value


def _check_rebuildable(cls: Any, kind: str) -> None:
    if kind in ("struct", "pydantic", "namedtuple", "enum", "flag"):
        return
    base: Any = value_base(cls) if kind == "value" else object
    if kind in ("class", "value") and is_standard_library(cls) and base is not BaseException:
        raise UnencodableError(cls, "objects of its class have no fields to send")
    if kind == "value" and base is object:
        raise UnencodableError(
            cls, f"its class extends {describe(cls).supertypes[0]}, and would lose that"
        )
    try:
        base.__new__(cls)
    except TypeError:
        raise UnencodableError(cls, "its class cannot be rebuilt from attributes") from None


def slots_of(cls: type) -> tuple[str, ...]:
    """Return the slots of a class and those above it."""
    return tuple(
        name
        for base in cls.__mro__
        if is_python_class(base)
        for name, member in base.__dict__.items()
        if isinstance(member, types.MemberDescriptorType) and not _is_special(name)
    )


def _slot(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if isinstance(base.__dict__.get(name), types.MemberDescriptorType):
            return base.__dict__[name]
    raise Malformed(f"{cls.__name__} has no attribute {name!r}")


def is_python_class(cls: type) -> bool:
    """Whether a class was defined in Python."""
    return bool(cls.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE


def _makes_plainly(cls: Any, kind: str) -> bool:
    if kind == "struct":
        return not hasattr(cls, "__post_init__")
    return kind != "pydantic" or bool(cls.__new__ is object.__new__)


def computed_names(cls: type) -> list[str]:
    """Return the names under which cached properties store their values."""
    return [
        name
        for base in cls.__mro__
        for name, member in base.__dict__.items()
        if isinstance(member, functools.cached_property)
    ]


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
