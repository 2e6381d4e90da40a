"""Conformance decided from descriptions alone, without classes (TPS, section 3)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from polycast.typesystem.descriptions import Description
from polycast.typesystem.members import members_of
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.typesystem.descriptions import MemberDescription
    from polycast.typesystem.type_expressions import TypeExpression

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
        return _is_exactly(description, targets[0], lookup)
    return _is_pure(description, targets)


def structurally_conforms(
    description: Description, protocol: Description, *, lookup: Lookup
) -> bool:
    """Whether a class has all members of a Protocol, with types and arities that fit."""
    return _Structure(lookup).fits(description, protocol)


def _is_exactly(description: Description, target: Description, lookup: Lookup) -> bool:
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
