"""Structured events, as the notification service knows them, and unions with a discriminator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from polycast.errors import BadOptionError
from polycast.typesystem import event


@event(name="polycast.StructuredEvent")
@dataclass(frozen=True)
class StructuredEvent:
    """An event without a class of its own: who speaks, what kind it is, and properties by name."""

    domain_name: str = ""
    type_name: str = ""
    event_name: str = ""
    variable_header: dict[str, Any] = field(default_factory=dict)
    """How it is to be handled, by name."""
    filterable_data: dict[str, Any] = field(default_factory=dict)
    """What filters are most likely to ask for, by name."""
    remainder_of_body: Any = None

    def __post_init__(self) -> None:
        for name in ("domain_name", "type_name", "event_name"):
            if not isinstance(getattr(self, name), str):
                raise BadOptionError(name, getattr(self, name), accepted="a string")
        for name in ("variable_header", "filterable_data"):
            given = getattr(self, name)
            if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
                raise BadOptionError(name, given, accepted="a dict of values by their names")


@event(name="polycast.TaggedUnion")
@dataclass(frozen=True)
class TaggedUnion:
    """A value that is one of several members, and the tag that says which (an IDL union).

    The default member is active when `member == default_member`. Without a member the tag names
    none: no member is active, and there is no value.
    """

    tag: Any
    """The discriminator: a number, a bool, a one-character string or a member of an enum."""
    member: str | None = None
    """The name of the active member, if there is one."""
    value: Any = None
    """Its value."""
    labels: dict[str, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)
    """The tags of each member, in the order of the members."""
    default_member: str | None = field(default=None, kw_only=True)
    type_id: str = field(default="", kw_only=True)
    repos_id: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.member is not None and not isinstance(self.member, str):
            raise BadOptionError(
                "member", self.member, accepted="the name of the active member, or None"
            )
        if self.member is None and self.value is not None:
            raise BadOptionError("value", self.value, accepted="None, as there is no active member")
        if not isinstance(self.labels, dict):
            raise BadOptionError(
                "labels", self.labels, accepted="a dict of tuples of tags, by member"
            )
        if self.default_member is not None and not isinstance(self.default_member, str):
            raise BadOptionError("default_member", self.default_member, accepted="a name, or None")

    def members(self) -> tuple[str, ...]:
        """The names of all members that are known, in order."""
        known = dict.fromkeys(self.labels)
        if self.default_member is not None:
            known.setdefault(self.default_member)
        if self.member is not None:
            known.setdefault(self.member)
        return tuple(known)
