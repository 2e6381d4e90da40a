"""Descriptions of event types: plain data, the same in every process."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from polycast.typesystem.type_expressions import TypeExpression

DEEPEST = 100  # types or values in each other, as for the values of an event


class AttributeDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field of the objects of a class."""

    name: str
    type: TypeExpression
    required: bool = True
    default: Any = msgspec.UNSET
    """The default, if it is plain data; `UNSET` if there is none or it is not."""


class MemberDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member of a class: a method, a property or a field."""

    name: str
    kind: str
    type: TypeExpression | None = None
    required: int = 0
    """How many positional arguments a call must pass, without self."""
    accepted: int = -1
    """How many it may pass; -1 is any number."""
    keywords: tuple[str, ...] = ()
    """The keyword-only arguments that a call must pass."""

    @property
    def is_public(self) -> bool:
        """Whether the name has no leading underscore."""
        return not self.name.startswith("_")


class ConstantDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member of an enum, with its value if that is plain data."""

    name: str
    value: Any = msgspec.UNSET


class Description(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """A class as data: enough to decide conformance and to make a class with the same fields."""

    name: str
    version: int = 1
    aliases: tuple[str, ...] = ()
    kind: str = "class"
    """dataclass, attrs, struct, pydantic, namedtuple, enum, flag, protocol, value or class."""
    interface: bool = False
    supertypes: tuple[str, ...] = ()
    attributes: tuple[AttributeDescription, ...] = ()
    members: tuple[MemberDescription, ...] = ()
    constants: tuple[ConstantDescription, ...] = ()

    def __post_init__(self) -> None:
        # A later reader may have less stack than the first.
        parts: list[Any] = [*(attribute.type for attribute in self.attributes)]
        parts += [member.type for member in self.members if member.type is not None]
        parts += [attribute.default for attribute in self.attributes]
        parts += [constant.value for constant in self.constants]
        for _ in range(DEEPEST):
            parts = [inner for part in parts for inner in _inside(part)]
            if not parts:
                return
        raise ValueError(
            f"{self.name!r:.100} has types or values in each other, over {DEEPEST} deep"
        )

    @functools.cached_property
    def hash(self) -> str:
        """A digest of the canonical bytes, the same in every process."""
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=16).hexdigest()

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The wire name and the aliases."""
        return frozenset((self.name, *self.aliases))

    @functools.cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names of all attributes."""
        return frozenset(attribute.name for attribute in self.attributes)

    @functools.cached_property
    def public(self) -> frozenset[str]:
        """The names of the public members, fields included."""
        return frozenset(member.name for member in self.members if member.is_public)


def _inside(part: Any) -> Iterable[Any]:
    """Return the parts of a type or a value."""
    if isinstance(part, TypeExpression):
        return (*part.arguments, *part.literals)
    if isinstance(part, dict):
        return part.values()
    return part if isinstance(part, list | tuple | set | frozenset) else ()


def difference(one: Description, other: Description) -> str:
    """Describe the first difference between two descriptions of one name."""
    if one.supertypes != other.supertypes:
        return f"supertypes {_listed(one.supertypes)} before, {_listed(other.supertypes)} now"
    for what in ("attributes", "members", "constants"):
        change = _different_entry(what[:-1], getattr(one, what), getattr(other, what))
        if change:
            return change
    for field in ("kind", "interface", "aliases"):
        before, now = getattr(one, field), getattr(other, field)
        if before != now:
            return f"{field} {before!r} before, {now!r} now"
    return "nothing"


def _different_entry(what: str, before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    old, new = ({entry.name: entry for entry in entries} for entries in (before, now))
    for name in [*old, *new]:
        if name not in new:
            return f"{what} {name!r} is missing now"
        if name not in old:
            return f"{what} {name!r} is new"
        if old[name] != new[name]:
            return f"{what} {name!r} was {_shown(old[name])}, is {_shown(new[name])}"
    return f"the order of the {what}s" if before != now else ""


def _shown(entry: Any) -> str:
    if isinstance(entry, ConstantDescription):
        return repr(entry.value)
    if isinstance(entry, AttributeDescription):
        if entry.default is not msgspec.UNSET:
            return f"{entry.type} = {entry.default!r}"
        return f"{entry.type}{'' if entry.required else ' with a default'}"
    if entry.kind == "method":
        return f"a method of {entry.required} to {entry.accepted} arguments -> {entry.type}"
    return f"a {entry.kind} of type {entry.type}"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"
