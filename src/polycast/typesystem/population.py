"""The classes of this process that conform to a type: Ξ and Ξ_D of TPS section 3."""

from __future__ import annotations

import abc
from typing import Any

from polycast.typesystem.describing import described_classes
from polycast.typesystem.hints import annotated_names
from polycast.typesystem.kinds import is_interface, is_protocol
from polycast.typesystem.standard import is_machinery, is_standard_library
from polycast.typesystem.verdicts import check_type, conforms, conforms_exactly

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


def _candidates(target: Any) -> set[type]:
    found = _subclasses(target)
    if is_protocol(target):
        wanted = _member_names(target)
        return found | {cls for cls in _all_classes() if _has(cls, wanted)}
    if isinstance(target, abc.ABCMeta):
        return found | {cls for cls in _all_classes() if issubclass(cls, target)}
    return found


def _subclasses(root: type) -> set[type]:
    found: set[type] = {root}
    waiting = [root]
    while waiting:
        cls: type
        for cls in type.__subclasses__(waiting.pop()):
            if cls not in found:
                found.add(cls)
                waiting.append(cls)
    return found


def _all_classes() -> set[type]:
    alive = {cls for cls in _subclasses(object) if not is_standard_library(cls)}
    return alive | set(described_classes())


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
