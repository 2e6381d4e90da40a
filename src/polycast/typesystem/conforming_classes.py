"""The classes of this process that conform to a type: Ξ and Ξ_D of TPS section 3."""

from __future__ import annotations

import abc
from typing import Any

from polycast.typesystem.class_kinds import is_interface, is_protocol
from polycast.typesystem.conformance_cache import check_type, conforms, conforms_exactly
from polycast.typesystem.describe import described_classes
from polycast.typesystem.standard_types import is_machinery, is_standard_library
from polycast.typesystem.type_hints import annotated_names

__all__ = ["conforming", "directly_conforming"]


def conforming(target: Any) -> frozenset[type]:
    """All classes of this process, interfaces left out, whose objects are of a type (Ξ).

    Subclasses are always found. A Protocol, or an ABC with classes registered, is compared with
    the classes alive that do not come with Python, and with those that polycast has described.
    """
    check_type(target)
    return frozenset(
        cls
        for cls in _candidates(target)
        if not is_machinery(cls) and not is_interface(cls) and conforms(cls, target)
    )


def directly_conforming(target: Any) -> frozenset[type]:
    """The classes that conform to a type and to no subtype of it (Ξ_D): what `exact=True` means."""
    return frozenset(cls for cls in conforming(target) if conforms_exactly(cls, target))


def _candidates(target: Any) -> list[type]:
    derived = _subclasses(target)
    if is_protocol(target):
        wanted = _member_names(target)
        return derived + [cls for cls in _all_classes() if _has(cls, wanted)]
    if isinstance(target, abc.ABCMeta):
        return derived + [cls for cls in _all_classes() if issubclass(cls, target)]
    return derived


def _subclasses(root: type) -> list[type]:
    """A class and all that derive from it.

    They are told apart by identity: a metaclass may answer `==` with a warning (in Python 3.14 that
    of `typing.Union`'s deprecated alias does) or with anything else.
    """
    known = {id(root): root}
    waiting = [root]
    while waiting:
        cls: type
        for cls in type.__subclasses__(waiting.pop()):
            if id(cls) not in known:
                known[id(cls)] = cls
                waiting.append(cls)
    return list(known.values())


def _all_classes() -> list[type]:
    alive = [cls for cls in _subclasses(object) if not is_standard_library(cls)]
    return alive + list(described_classes())


def _member_names(protocol: type) -> set[str]:
    bases = [base for base in protocol.__mro__ if is_protocol(base)]
    names = {name for base in bases for name in (*vars(base), *annotated_names(base))}
    return {name for name in names if not name.startswith("_")}


def _has(cls: type, names: set[str]) -> bool:
    # Cheap, and without touching descriptors: most classes need no description to be ruled out.
    held: set[str] = set()
    for base in cls.__mro__:
        held.update(base.__dict__, annotated_names(base))
    return names <= held
