"""Conformance (TPS, section 3): by descriptions alone, and over the classes of this process.

A verdict about two classes is computed once, and kept weakly.
"""

from __future__ import annotations

import abc
import functools
import typing
import weakref
from typing import TYPE_CHECKING, Any

from polycast.errors import NotATypeError
from polycast.typesystem.attributes import members_of
from polycast.typesystem.class_kinds import is_interface, is_protocol
from polycast.typesystem.describe import describe, described_classes, reachable, supertypes_of
from polycast.typesystem.descriptions import Description, MemberDescription
from polycast.typesystem.standard_types import STANDARD, UNTYPED, is_machinery, is_standard_library
from polycast.typesystem.type_expressions import TypeExpression, annotated_names
from polycast.typesystem.wire_names import wire_aliases, wire_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Lookup = Callable[[str], Description | None]

_WIDER = {
    "builtins.int": ("builtins.float", "builtins.complex"),
    "builtins.float": ("builtins.complex",),
}
_ROOTS = {"pydantic.main.BaseModel": "pydantic", "msgspec.Struct": "struct"}
_CALLABLE = "collections.abc.Callable"


def described_conforms(description: Description, target: Description, *, lookup: Lookup) -> bool:
    """Whether objects of the one class are objects of the other type too."""
    return (
        target.name == "builtins.object"
        or _ROOTS.get(target.name) == description.kind
        or _descends(description, target, lookup)
        or (target.kind == "protocol" and structurally_conforms(description, target, lookup=lookup))
    )


def described_conforms_exactly(
    description: Description, *targets: Description, lookup: Lookup
) -> bool:
    """Whether a class is exactly the target, or a pure class of exactly these interfaces."""
    if len(targets) == 1:
        return _is_exactly_described(description, targets[0], lookup)
    return _is_pure(description, targets)


def structurally_conforms(
    description: Description, protocol: Description, *, lookup: Lookup
) -> bool:
    """Whether a class has all members of a Protocol, with types and arities that fit."""
    return _Structure(lookup).fits(description, protocol)


def _is_exactly_described(description: Description, target: Description, lookup: Lookup) -> bool:
    if description.names & target.names:
        return True
    if not target.interface:
        return False
    if target.kind == "protocol" and not _descends(description, target, lookup):
        fits = structurally_conforms(description, target, lookup=lookup)
        return fits and description.public <= target.public
    return _is_pure(description, (target,))


def _is_pure(description: Description, targets: tuple[Description, ...]) -> bool:
    declared = set(description.supertypes)
    if len(declared) != len(targets) or not all(declared & target.names for target in targets):
        return False
    return description.public <= frozenset().union(*(target.public for target in targets))


def ancestors(description: Description, lookup: Lookup) -> Iterator[str]:
    """The names of a class and of all its supertypes, aliases included.

    What a class derives from, its own description says, and no other of the same name.
    """
    seen = {*description.names}
    yield from (*dict.fromkeys((description.name, *description.aliases)),)
    waiting = [*description.supertypes]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        found = lookup(name)
        if found is not None:
            waiting += found.supertypes
            waiting += found.aliases


def _descends(description: Description, target: Description, lookup: Lookup) -> bool:
    standard = STANDARD.get(target.name)
    for name in ancestors(description, lookup):
        if name in target.names:
            return True
        if standard is not None and name in STANDARD and issubclass(STANDARD[name], standard):
            return True
    return False


class _Structure:
    """One structural comparison; recursive types are assumed to conform meanwhile."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._assumed: set[tuple[str, str]] = set()

    def fits(self, description: Description, protocol: Description) -> bool:
        pair = (description.name, protocol.name)
        if pair in self._assumed:
            return True
        self._assumed.add(pair)
        offered = self._members(description)
        return all(
            wanted.name in _OBJECT
            or (wanted.name in offered and self._member_fits(offered[wanted.name], wanted))
            for wanted in self._members(protocol).values()
        )

    def _members(self, description: Description) -> dict[str, MemberDescription]:
        found: dict[str, MemberDescription] = {}
        for name in ancestors(description, self._lookup):
            if name in STANDARD:
                found |= _standard_members(name)
        return found | {member.name: member for member in description.members}

    def _member_fits(self, offered: MemberDescription, wanted: MemberDescription) -> bool:
        if wanted.kind == "method":
            if offered.kind != "method":
                return _may_be_called(offered)
            return _takes(offered, wanted) and self._type_fits(offered, wanted)
        if offered.kind == "method":
            return wanted.type is not None and wanted.type.name == _CALLABLE
        return self._type_fits(offered, wanted)

    def _type_fits(self, offered: MemberDescription, wanted: MemberDescription) -> bool:
        if offered.type is None or wanted.type is None:
            return True
        return self._assignable(offered.type, wanted.type)

    def _assignable(self, source: TypeExpression, target: TypeExpression) -> bool:
        if "any" in (source.form, target.form) or source == target:
            return True
        if source.form == "union":
            return all(self._assignable(part, target) for part in source.arguments)
        if target.form == "union":
            return any(self._assignable(source, part) for part in target.arguments)
        if target.form == "literal":
            return source.form == "literal" and set(source.literals) <= set(target.literals)
        if source.form == "literal":
            return all(self._assignable(part, target) for part in source.arguments)
        if source.form != "class" or target.form != "class":
            return False
        return self._class_assignable(source, target)

    def _class_assignable(self, source: TypeExpression, target: TypeExpression) -> bool:
        if source.name == target.name:
            pairs = zip(source.arguments, target.arguments, strict=False)
            return all(self._assignable(one, other) for one, other in pairs)
        if target.name in _WIDER.get(source.name, ()):
            return True
        one, other = self._described(source.name), self._described(target.name)
        if _descends(one, other, self._lookup):
            return True
        return other.kind == "protocol" and self.fits(one, other)

    def _described(self, name: str) -> Description:
        return self._lookup(name) or Description(name)


_OBJECT = frozenset(dir(object))


@functools.cache
def _standard_members(name: str) -> dict[str, MemberDescription]:
    return {member.name: member for member in members_of(STANDARD[name], standard=True)}


def _may_be_called(offered: MemberDescription) -> bool:
    return offered.type is None or offered.type.form == "any" or offered.type.name == _CALLABLE


def _takes(offered: MemberDescription, wanted: MemberDescription) -> bool:
    if offered.required > wanted.required or not set(offered.keywords) <= set(wanted.keywords):
        return False
    if offered.accepted == -1:
        return True
    return wanted.accepted != -1 and wanted.accepted <= offered.accepted


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
        wanted = _origin(target)
        verdict = _verdict(cls, wanted)
        verdicts.setdefault(wanted, weakref.WeakKeyDictionary())[cls] = verdict
        return verdict


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
