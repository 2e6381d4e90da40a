"""What a subscription wants: a value of this process, and the definition that a store keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import FilterError, NotRoutableError
from polycast.filters import Filter
from polycast.filters.tree.relaxation import EVERYTHING, is_open, relaxed
from polycast.filters.tree.untrusted import check_untrusted
from polycast.registered_names import home_of
from polycast.typesystem import describe, wire_name, wire_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Level
    from polycast.filters.tree.nodes import Node
    from polycast.matching.selectors import Selector


@dataclass(frozen=True, slots=True)
class Interest:
    """What one subscription wants; it takes effect in `[start, until)` of the log."""

    selector: Selector[Any]
    where: Filter[Any] | None
    level: Level
    group: str | None = None
    durable: str | None = None
    start: int = 0
    until: int | None = None
    context: str | None = None  # in which it sees events; None is the root

    def in_effect(self, position: int) -> bool:
        """Whether an event at that position is meant at all."""
        return self.start <= position and (self.until is None or position < self.until)

    def wants(self, event: object, topic: str | None) -> bool:
        """The slow, obvious verdict that every fast path is judged by."""
        if not self.selector.covers(type(event), topic):
            return False
        return self.where is None or self.where.matches(event, topic=topic)

    def difference(self, other: Interest) -> dict[str, tuple[str, str]]:
        """What another interest changes: field, as it is, as it would be."""
        return _difference(self, other)

    def starting(self, position: int) -> Interest:
        """The same from a position on."""
        return replace(self, start=position)


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
    function: str | None = None
    """The function that is the filter, as `module:name`, to be imported."""
    partial: bool = False
    """Whether `filter` lets pass more than the subscription wants."""
    context: str | None = None
    """The context in which it sees events; None is the root."""
    open: bool = False
    """Whether classes may be registered with its types, of which descriptions tell nothing."""

    def encoded(self) -> bytes:
        """As a store keeps it."""
        return msgspec.json.encode(self)

    @classmethod
    def decoded(cls, data: bytes) -> Definition:
        """From what a store has kept."""
        return _decode(data)

    def difference(self, other: Definition) -> dict[str, tuple[str, str]]:
        """What another definition changes: field, as it is, as it would be."""
        return _difference(self, other)


# Made once: the first use of a type of nested Structs must not happen in two threads at once.
_decode = msgspec.json.Decoder(Definition).decode


def definition_of(
    interest: Interest, *, lease: float | None = None, engine: str = "direct"
) -> Definition:
    """The definition of what is wanted, with as much of its filter as is data.

    With `engine="spark"`, `NotRoutableError` if the pipeline could do nothing with the filter.
    """
    selector, where = interest.selector, interest.where
    pattern = selector.topic
    definition = Definition(
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
        context=interest.context,
        open=selector.told_apart() is not selector,
    )
    if where is None or definition.filter is not None:
        return definition
    try:
        return msgspec.structs.replace(definition, **_routable(where))
    except NotRoutableError:  # nothing of it is data
        if engine == "spark":
            raise
        return definition


def wanted_from_afar(interest: Interest) -> Definition:
    """The definition for whoever sends on what may be wanted."""
    return definition_of(replace(interest, selector=interest.selector.told_apart()))


def _routable(where: Filter[Any]) -> dict[str, Any]:
    """A filter that has no form as data: the function it is, or what can be said of it."""
    less: Filter[Any] = Filter(
        relaxed(where.tree, lambda node: is_open(node) and not _refusal(node))
    )
    path = None if where.origin is None else path_of(where.origin)
    why = ", ".join(part.why for part in where.opaque_parts()) or _refusal(where.tree)
    if less == EVERYTHING and path is None:
        raise NotRoutableError(where, why=why)
    try:
        return {"filter": less.to_json(), "partial": True, "function": path}
    except FilterError as error:
        raise NotRoutableError(where, why=str(error)) from None


def _refusal(node: Node) -> str:
    """Why others do not take a part of a filter: what costs too much there is asked here."""
    try:
        check_untrusted(node)
    except FilterError as error:
        return str(error)
    return ""


def path_of(function: Callable[..., object]) -> str | None:
    """`module:name` of a function that can be imported by it."""
    home = home_of(function)
    return None if home is None or home[0] == "__main__" else ":".join(home)


def _in_words(where: Filter[Any]) -> str:
    """An opaque part is known by the name of its function, which is the same in every run."""
    functions = [part.function for part in where.opaque_parts()]
    names = [
        getattr(function, "__qualname__", type(function).__qualname__) for function in functions
    ]
    modules = [getattr(function, "__module__", None) or "?" for function in functions]
    called = [f"{module}.{name}" for module, name in zip(modules, names, strict=True)]
    return f"{where} ({', '.join(called)})" if called else str(where)


def _as_data(where: Filter[Any]) -> dict[str, Any] | None:
    try:
        return where.to_json()
    except FilterError:
        return None


def _difference(mine: Any, theirs: Any) -> dict[str, tuple[str, str]]:
    fields = ("selector", "where", "level", "group", "context")
    pairs = {name: (getattr(mine, name), getattr(theirs, name)) for name in fields}
    return {
        name: (_text(one), _text(other)) for name, (one, other) in pairs.items() if one != other
    }


def _text(value: Any) -> str:
    return "nothing" if value is None else str(getattr(value, "name", value))
