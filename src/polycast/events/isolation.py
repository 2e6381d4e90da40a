"""Which objects nobody can change, so that they may be shared, and copies of the others.

Whether objects of a class are frozen is settled once for each class. What one of them holds is
looked at each time: a field may hold what its annotation does not say, or a subclass of it.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import functools
import operator
import types
import uuid
import weakref
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec

from polycast.events.codec import MSGPACK
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.standard_types import is_machinery

if TYPE_CHECKING:
    from polycast.events.codec import HasPayload
    from polycast.typesystem import Registry

__all__ = ["Copies", "copied", "copier", "is_fixed", "is_frozen", "snapshot"]

Parts = Callable[[Any], Any]
"""All that an object holds, if objects of its class are frozen."""

ATOMS: frozenset[type] = frozenset(
    {
        *(int, float, complex, str, bytes, bool, type(None), range, Fraction),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, uuid.UUID, ZoneInfo, msgspec.UnsetType),
    }
)
"""The classes whose own objects hold nothing that can be changed; objects of subclasses may."""


def is_fixed(value: Any) -> bool:
    """Whether nobody can change a value, nor anything in it: then all may have the very object."""
    cls = type(value)
    known = _parts.get(id(cls))
    if known is not None and known[0]() is cls:  # mostly it is clear at once
        parts = known[1]
        if parts is None:
            return False
        if ATOMS.issuperset(map(type, parts(value))):
            return True
    try:
        return _is_fixed(value)
    except RecursionError:  # who copies it says what is wrong with it
        return False


def _is_fixed(value: Any) -> bool:
    cls = type(value)
    if cls in ATOMS:
        return True
    known = _parts.get(id(cls))
    parts = known[1] if known is not None and known[0]() is cls else _learn(cls)
    if parts is None:
        return False
    held = parts(value)
    return ATOMS.issuperset(map(type, held)) or all(map(_is_fixed, held))


_parts: dict[int, tuple[weakref.ref[type], Parts | None]] = {}
"""By the number of a class, which is faster than by a weak reference; a later class may have it."""


def _learn(cls: type) -> Parts | None:
    key, parts = id(cls), _parts_of(cls)

    def forget(reference: weakref.ref[type]) -> None:
        known = _parts.get(key)
        if known is not None and known[0] is reference:
            del _parts[key]

    _parts[key] = weakref.ref(cls, forget), parts
    return parts


def _parts_of(cls: type) -> Parts | None:
    """What shows all that an object of a class holds; None if such objects can be changed."""
    if cls is tuple or cls is frozenset:
        return _itself
    if issubclass(cls, enum.Enum):
        return _nothing  # there is one object of each member, also where it is read again
    if not is_frozen(cls):
        return None
    has_dict = getattr(cls, "__dictoffset__", 0) != 0
    if issubclass(cls, tuple):
        return None if has_dict else _itself
    return _state(tuple(_slots(cls)), has_dict=has_dict)


def _itself(value: Any) -> Any:
    """A container is its own parts."""
    return value


def _nothing(value: Any) -> tuple[()]:
    del value
    return ()


def _state(slots: tuple[str, ...], *, has_dict: bool) -> Parts:
    """What shows the attributes of objects; a slot that is empty says that of itself."""
    if has_dict and not slots:
        return _attributes
    if not has_dict and len(slots) > 1:
        get = operator.attrgetter(*slots)
        return lambda value: _filled(get, slots, value)

    def read(value: Any) -> list[Any]:
        held = [getattr(value, name, None) for name in slots]
        return [*held, *_attributes(value)] if has_dict else held

    return read


def _filled(get: Callable[[Any], Any], slots: tuple[str, ...], value: Any) -> Any:
    try:
        return get(value)
    except AttributeError:
        return [getattr(value, name, None) for name in slots]


def _attributes(value: Any) -> Any:
    return value.__dict__.values()


def is_frozen(cls: type) -> bool:
    """Whether objects of exactly this class stay as they are, but for what they hold."""
    return _refuses_changes(cls) and not (_extends_other(cls) or _keeps_more(cls))


def _refuses_changes(cls: Any) -> bool:
    match kind_of(cls):
        case "dataclass":  # one that only inherits is not: its objects take other attributes
            own = vars(cls).get("__dataclass_params__")
            return own is not None and own.frozen
        case "attrs":
            # attrs puts a function of this name into frozen classes.
            return getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"
        case "struct":
            return bool(cls.__struct_config__.frozen)
        case "pydantic":
            # Private attributes can be set, and what was not declared is in a dict of its own.
            more = cls.__private_attributes__ or cls.model_config.get("extra") == "allow"
            return bool(cls.model_config.get("frozen")) and not more
        case kind:
            return kind == "namedtuple"


def _extends_other(cls: type) -> bool:
    """Whether a class extends a built-in one that has a state of its own."""
    is_tuple = kind_of(cls) == "namedtuple"
    return any(
        not (_is_python(base) or is_machinery(base) or (is_tuple and base is tuple))
        for base in cls.__mro__
    )


def _keeps_more(cls: type) -> bool:
    """Whether objects keep what is computed later, or what is in no field."""
    if any(isinstance(member, functools.cached_property) for member in _members(cls)):
        return True
    return not set(_slots(cls)) <= set(declared_defaults(cls))


def _members(cls: type) -> list[object]:
    return [member for base in cls.__mro__ for member in vars(base).values()]


def _slots(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        if _is_python(base) and not is_machinery(base)
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType) and not name.startswith("__")
    ]


def _is_python(cls: type) -> bool:
    return bool(cls.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE


# -- copies ----------------------------------------------------------------------------------------


def copied(value: Any) -> Any:
    """A value itself if nobody can change anything in it, else a deep copy."""
    return value if is_fixed(value) else copy.deepcopy(value)


def copier(value: Any) -> Callable[[], Any] | None:
    """What gives copies of a value that is kept as it is; None if it may itself be shared."""
    return None if is_fixed(value) else partial(copy.deepcopy, value)


def snapshot(event: Any, *, registry: Registry) -> Callable[[], Any] | None:
    """What gives an event as it is now, by the way that it would take over a file.

    None if it may itself be shared; `NotSerialisableError` if it holds what cannot be copied so.
    """
    if is_fixed(event):
        return None
    return partial(MSGPACK.decode, MSGPACK.encode(event, registry=registry), registry=registry)


class Copies(msgspec.Struct, eq=False):
    """Events of a record, decoded when they are asked for; the first is there already."""

    first: list[Any]
    decode: Any
    record: HasPayload
    registry: Registry

    def __call__(self) -> Any:
        """An object that nobody else has."""
        try:
            return self.first.pop()
        except IndexError:
            return self.decode(self.record, registry=self.registry)
