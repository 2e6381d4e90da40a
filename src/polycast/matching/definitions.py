"""A subscription as it is kept in a store: enough to tell whether it is still the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import FilterError
from polycast.typesystem import describe, wire_name, wire_version

if TYPE_CHECKING:
    from polycast.filters import Filter
    from polycast.matching.interest import Interest

__all__ = ["Definition", "SelectedType", "definition_of"]


class SelectedType(msgspec.Struct, frozen=True):
    """A type that is subscribed to."""

    name: str
    version: int
    hash: str


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subscription wants and is promised, as data."""

    selector: str
    level: str
    types: tuple[SelectedType, ...] = ()
    every: bool = False
    exact: bool = False
    topic: str | None = None
    where: str | None = None
    """The filter in words; one that cannot leave its process is known by the name it has there."""
    filter: dict[str, Any] | None = None
    """The filter as data, if it has a form as data."""
    group: str | None = None
    lease: float | None = None

    def encoded(self) -> bytes:
        """As a store keeps it."""
        return msgspec.json.encode(self)

    @classmethod
    def decoded(cls, data: bytes) -> Definition:
        """From what a store has kept."""
        return _decode(data)

    def difference(self, other: Definition) -> dict[str, tuple[str, str]]:
        """What another definition changes: field, as it is, as it would be."""
        fields = ("selector", "where", "level", "group")
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in fields}
        return {
            name: (_text(mine), _text(theirs))
            for name, (mine, theirs) in pairs.items()
            if mine != theirs
        }


# Made once: the first use of a type of nested Structs must not happen in two threads at once.
_decode = msgspec.json.Decoder(Definition).decode


def definition_of(interest: Interest, *, lease: float | None = None) -> Definition:
    """The definition of what is wanted."""
    selector, where = interest.selector, interest.where
    pattern = selector.topic
    return Definition(
        str(selector),
        interest.level.name,
        tuple(
            SelectedType(wire_name(cls), wire_version(cls), describe(cls).hash)
            for cls in selector.types
        ),
        selector.every,
        selector.exact,
        None if pattern is None else pattern.text,
        None if where is None else _in_words(where),
        None if where is None else _as_data(where),
        interest.group,
        lease,
    )


def _in_words(where: Filter[Any]) -> str:
    """An opaque part is known by the name of its function, which is the same in every run."""
    functions = [part.function for part in where.opaque_parts()]
    names = [getattr(each, "__qualname__", type(each).__qualname__) for each in functions]
    modules = [getattr(each, "__module__", None) or "?" for each in functions]
    called = [f"{module}.{name}" for module, name in zip(modules, names, strict=True)]
    return f"{where} ({', '.join(called)})" if called else str(where)


def _as_data(where: Filter[Any]) -> dict[str, Any] | None:
    try:
        return where.to_json()
    except FilterError:
        return None


def _text(value: object) -> str:
    return "nothing" if value is None else str(value)
