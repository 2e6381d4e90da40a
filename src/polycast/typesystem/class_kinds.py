"""What kind of class a class is, and which of them are interfaces."""

from __future__ import annotations

import abc
import dataclasses
import enum
from typing import Any

import msgspec

from polycast.typesystem.standard_types import is_machinery, is_standard
from polycast.typesystem.type_expressions import is_class_variable, own_hints


def kind_of(cls: type) -> str:
    """One word for how a class keeps its fields."""
    if is_protocol(cls):
        return "protocol"
    if issubclass(cls, enum.Enum):
        return "flag" if issubclass(cls, enum.Flag) else "enum"
    if isinstance(cls, type(msgspec.Struct)):
        return "struct"
    for marker, kind in _MARKERS:
        if hasattr(cls, marker):
            return kind
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    return (
        "value"
        if any(is_standard(base) and base is not object for base in cls.__mro__)
        else "class"
    )


_MARKERS = (
    ("__dataclass_fields__", "dataclass"),
    ("__attrs_attrs__", "attrs"),
    ("__pydantic_fields__", "pydantic"),
)


def is_protocol(cls: type) -> bool:
    """Whether a class is a Protocol itself, not only the subclass of one."""
    return bool(getattr(cls, "_is_protocol", False)) and not is_machinery(cls)


def is_interface(cls: type) -> bool:
    """Whether a class is a Protocol, or an ABC without fields and `__init__`."""
    return is_protocol(cls) or (_is_abstract(cls) and not _has_state(cls))


def _is_abstract(cls: type) -> bool:
    if not isinstance(cls, abc.ABCMeta) or is_machinery(cls):
        return False
    # A class that only inherits its metaclass and leaves nothing abstract is an implementation.
    bases = [base for base in cls.__bases__ if not is_machinery(base)]
    return bool(cls.__abstractmethods__) or not any(isinstance(base, abc.ABCMeta) for base in bases)


def _has_state(cls: type) -> bool:
    if kind_of(cls) not in ("class", "value"):
        return not _is_empty_dataclass(cls)
    return any(_declares_state(base) for base in cls.__mro__ if not is_machinery(base))


def _is_empty_dataclass(cls: Any) -> bool:
    return dataclasses.is_dataclass(cls) and not dataclasses.fields(cls)


def _declares_state(base: type) -> bool:
    if is_protocol(base):
        return False
    if "__init__" in base.__dict__ or _slots(base):
        return True
    return any(not is_class_variable(hint) for hint in own_hints(base).values())


def _slots(base: type) -> bool:
    slots = base.__dict__.get("__slots__", ())
    return bool(set([slots] if isinstance(slots, str) else slots) - {"__weakref__", "__dict__"})
