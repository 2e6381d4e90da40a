"""Conformance over the classes of this process: each verdict is computed once, kept weakly."""

from __future__ import annotations

import abc
import typing
import weakref
from typing import TYPE_CHECKING, Any

from polycast.errors import NotATypeError
from polycast.typesystem.class_kinds import is_interface, is_protocol
from polycast.typesystem.conformance import (
    described_conforms_exactly,
    structurally_conforms,
)
from polycast.typesystem.describe import describe, described_classes, reachable, supertypes_of
from polycast.typesystem.standard_types import UNTYPED, is_machinery, is_standard_library
from polycast.typesystem.type_hints import annotated_names
from polycast.typesystem.wire_names import wire_aliases, wire_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.typesystem.descriptions import Description

_Verdicts = weakref.WeakKeyDictionary[type, weakref.WeakKeyDictionary[type, bool]]


class _Cache:
    """Verdicts by target, then by class; `ABC.register` anywhere invalidates all of them."""

    def __init__(self) -> None:
        self.token = abc.get_cache_token()
        self.verdicts: _Verdicts = weakref.WeakKeyDictionary()

    def fresh(self) -> _Verdicts:
        token = abc.get_cache_token()
        if self.token != token:
            self.verdicts = weakref.WeakKeyDictionary()
            self.token = token
        return self.verdicts


_cache = _Cache()
_exact: _Verdicts = weakref.WeakKeyDictionary()


def conforms(cls: type, target: Any) -> bool:
    """Whether the objects of a class are of a type: nominal, or structural for a Protocol."""
    verdicts = _cache.fresh()
    try:
        return verdicts[target][cls]
    except (KeyError, TypeError):
        return _decided(cls, target, verdicts)


def conforms_exactly(cls: type, *targets: Any) -> bool:
    """Whether a class is exactly the target, or pure for exactly these interfaces."""
    wanted = [_origin(target) for target in targets]
    if len(wanted) == 1:
        verdicts = _exact.setdefault(wanted[0], weakref.WeakKeyDictionary())
        if cls not in verdicts:
            verdicts[cls] = _is_exactly(cls, wanted[0])
        return verdicts[cls]
    described = [describe(target) for target in wanted]
    declared = supertypes_of(cls)
    if len(set(declared)) != len(set(wanted)):
        return False
    if not all(any(_stands_for(base, target) for base in declared) for target in wanted):
        return False
    return describe(cls).public <= frozenset().union(*(target.public for target in described))


def check_type(target: object) -> None:
    """Raise for a type that has no instances of its own."""
    if not isinstance(target, type) or typing.get_origin(target) is not None:
        why = "it is no class" if not isinstance(target, type) else "its parameters are unknown"
        raise NotATypeError(target, why=why, accepted="Accepted: a class", action="to conform to")


def interface_of(cls: type) -> type:
    """The interface a pure class implements and adds nothing to; else the class itself."""
    check_type(cls)
    declared = supertypes_of(cls)
    if is_interface(cls) or len(declared) != 1 or not is_interface(declared[0]):
        return cls
    return declared[0] if conforms_exactly(cls, declared[0]) else cls


def _decided(cls: type, target: Any, verdicts: _Verdicts) -> bool:
    wanted = _origin(target)
    verdict = _verdict(cls, wanted)
    verdicts.setdefault(wanted, weakref.WeakKeyDictionary())[cls] = verdict
    return verdict


def _origin(target: Any) -> Any:
    return typing.get_origin(target) or target


def _verdict(cls: type, target: type) -> bool:
    if target in UNTYPED:
        return False
    if any(_stands_for(base, target) for base in cls.__mro__):
        return True
    if is_protocol(target):
        return structurally_conforms(describe(cls), describe(target), lookup=_lookup(cls, target))
    return issubclass(cls, target)


def _stands_for(cls: type, target: type) -> bool:
    """Whether a class is the target, the target reloaded, or the target under a new name."""
    if cls is target:
        return True
    one, other = wire_name(cls), wire_name(target)
    if one == other:
        return describe(cls).hash == describe(target).hash
    return one in wire_aliases(target) or other in wire_aliases(cls)


def _is_exactly(cls: type, target: type) -> bool:
    if _stands_for(cls, target):
        return True
    return is_interface(target) and described_conforms_exactly(
        describe(cls), describe(target), lookup=_lookup(cls, target)
    )


def _lookup(*classes: type) -> Callable[[str], Description | None]:
    """Descriptions by name of all that these classes mention."""
    known: dict[str, Description] = {}

    def look_up(name: str) -> Description | None:
        if not known:
            known.update(
                (wire_name(part), describe(part)) for cls in classes for part in reachable(cls)
            )
        return known.get(name)

    return look_up


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
