"""Isolation: immutable objects may be shared, others are copied.

Whether objects of a class are frozen is determined once per class. The parts of an object are
checked each time: a field may hold something other than its annotation, or a subclass.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import operator
import uuid
import weakref
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec

from polycast.events.codec import MSGPACK, HasPayload
from polycast.events.instances import computed_names, is_python_class, slots_of
from polycast.typesystem.attributes import declared_defaults
from polycast.typesystem.class_kinds import kind_of
from polycast.typesystem.standard_types import is_machinery

if TYPE_CHECKING:
    from polycast.typesystem import Registry

Parts = Callable[[Any], Any]
"""Returns all parts of an object, if objects of its class are frozen."""

ATOMS: frozenset[type] = frozenset(
    {
        *(int, float, complex, str, bytes, bool, type(None), range, Fraction),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, uuid.UUID, ZoneInfo, msgspec.UnsetType),
    }
)
"""The classes whose direct instances are immutable; those of subclasses need not be."""


def is_fixed(value: Any) -> bool:
    """Whether a value and all its parts are immutable, so that it may be shared."""
    cls = type(value)
    known = _parts.get(id(cls))
    if known is not None and known[0]() is cls:  # the usual case
        parts = known[1]
        if parts is None:
            return False
        if ATOMS.issuperset(map(type, parts(value))):
            return True
    try:
        return _is_fixed(value)
    except RecursionError:  # copying it reports the problem
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
"""By the id of a class, which is faster than a weak reference; a later class may reuse it."""


def _learn(cls: type) -> Parts | None:
    key, parts = id(cls), _parts_of(cls)

    def forget(reference: weakref.ref[type]) -> None:
        known = _parts.get(key)
        if known is not None and known[0] is reference:
            del _parts[key]

    _parts[key] = weakref.ref(cls, forget), parts
    return parts


def _parts_of(cls: type) -> Parts | None:
    """Return the function that lists the parts of an object; None for a mutable class."""
    if cls is tuple or cls is frozenset:
        return _itself
    if issubclass(cls, enum.Enum):
        return _nothing  # members are singletons, even after decoding
    if not is_frozen(cls):
        return None
    has_dict = getattr(cls, "__dictoffset__", 0) != 0
    if issubclass(cls, tuple):
        return None if has_dict else _itself
    return _state(slots_of(cls), has_dict=has_dict)


def _itself(value: Any) -> Any:
    """A container is its own parts."""
    return value


def _nothing(value: Any) -> tuple[()]:
    del value
    return ()


def _state(slots: tuple[str, ...], *, has_dict: bool) -> Parts:
    """Return the function that lists the attributes of objects; an empty slot counts as None."""
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
    """Whether direct instances of a class are immutable, apart from their parts."""
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
        not (is_python_class(base) or is_machinery(base) or (is_tuple and base is tuple))
        for base in cls.__mro__
    )


def _keeps_more(cls: type) -> bool:
    """Whether objects store cached values, or attributes that are no fields."""
    return bool(computed_names(cls)) or not set(slots_of(cls)) <= set(declared_defaults(cls))


# -- copies ----------------------------------------------------------------------------------------


def copied(value: Any) -> Any:
    """Return an immutable value itself, and a deep copy of any other."""
    return value if is_fixed(value) else copy.deepcopy(value)


def copier(value: Any) -> Callable[[], Any] | None:
    """Return a function that copies a value; None if the value itself may be shared."""
    return None if is_fixed(value) else partial(copy.deepcopy, value)


def snapshot(event: Any, *, registry: Registry) -> Callable[[], Any] | None:
    """Return a function that copies an event as it is now, by encoding and decoding.

    None if it may itself be shared; `NotSerialisableError` if it cannot be encoded.
    """
    if is_fixed(event):
        return None
    return partial(MSGPACK.decode, MSGPACK.encode(event, registry=registry), registry=registry)


class Copies(msgspec.Struct, eq=False):
    """Copies of a record's event, decoded on demand; the first is already decoded."""

    first: list[Any]
    decode: Any
    record: HasPayload
    registry: Registry

    def __call__(self) -> Any:
        """Return an object that nobody else has."""
        try:
            return self.first.pop()
        except IndexError:
            return self.decode(self.record, registry=self.registry)
