"""From a class to its description."""

from __future__ import annotations

import enum
import weakref
from typing import Any

import msgspec

from polycast.typesystem.attributes import (
    attributes_of,
    declared_defaults,
    member_hints,
    members_of,
)
from polycast.typesystem.class_kinds import is_interface, kind_of
from polycast.typesystem.descriptions import ConstantDescription, Description
from polycast.typesystem.standard_types import is_machinery, is_standard
from polycast.typesystem.type_expressions import classes_in, hints_of, is_plain
from polycast.typesystem.wire_names import DESCRIPTION, wire_aliases, wire_name, wire_version

_descriptions: weakref.WeakKeyDictionary[type, Description] = weakref.WeakKeyDictionary()


def describe(cls: type) -> Description:
    """The description of a class, made once."""
    description = _descriptions.get(cls)
    if description is None:
        description = cls.__dict__.get(DESCRIPTION) or _made(cls)
        _descriptions[cls] = description
    return description


def describe_all(cls: type) -> tuple[Description, ...]:
    """The description of a class, then those of its supertypes and of all classes it mentions."""
    return tuple(describe(found) for found in reachable(cls))


def described_classes() -> list[type]:
    """The classes alive that have been described."""
    return list(_descriptions)


def supertypes_of(cls: type) -> tuple[type, ...]:
    """The direct supertypes in declared order, without what only makes classes work."""
    found: dict[type, None] = {}
    for base in cls.__bases__:
        parts = supertypes_of(base) if is_machinery(base) else (base,)
        found |= dict.fromkeys(parts)
    return tuple(found)


def reachable(cls: type) -> list[type]:
    """A class and all it needs to be understood elsewhere, built-in classes left out.

    Attributes are followed to the end, since their values travel. What members return is only
    compared with what a Protocol wants: of that, classes of the same package and their supertypes.
    """
    seen: dict[type, None] = {}
    waiting = [cls]
    while waiting:
        current = waiting.pop(0)
        if current not in seen and not (_is_everywhere(current) and current is not cls):
            seen[current] = None
            waiting += [*supertypes_of(current), *_held(current)]
    for returned in _returned(cls):
        seen |= dict.fromkeys(part for part in returned.__mro__ if not _is_everywhere(part))
    return list(seen)


def _held(cls: type) -> list[type]:
    hints = {} if is_standard(cls) else hints_of(cls)
    held = [hints[name] for name in declared_defaults(cls) if name in hints] if hints else []
    return [part for hint in held for part in classes_in(hint)]


def _returned(cls: type) -> list[type]:
    if is_standard(cls):
        return []
    package = cls.__module__.partition(".")[0]
    found = [part for hint in member_hints(cls) for part in classes_in(hint)]
    return [part for part in found if part.__module__.partition(".")[0] == package]


def _is_everywhere(cls: type) -> bool:
    return is_standard(cls) or is_machinery(cls)


def _made(cls: type) -> Description:
    supertypes = tuple(wire_name(base) for base in supertypes_of(cls))
    if is_standard(cls):
        # Members differ between versions of Python; the class itself is the same everywhere.
        return Description(wire_name(cls), kind=kind_of(cls), supertypes=supertypes)
    return Description(
        name=wire_name(cls),
        version=wire_version(cls),
        aliases=wire_aliases(cls),
        kind=kind_of(cls),
        interface=is_interface(cls),
        supertypes=supertypes,
        attributes=attributes_of(cls),
        members=members_of(cls),
        constants=_constants(cls),
    )


def _constants(cls: Any) -> tuple[ConstantDescription, ...]:
    if not issubclass(cls, enum.Enum):
        return ()
    pairs = [(name, member.value) for name, member in cls.__members__.items()]
    return tuple(
        ConstantDescription(name, value if is_plain(value) else msgspec.UNSET)
        for name, value in pairs
    )
