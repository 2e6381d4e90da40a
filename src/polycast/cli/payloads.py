"""Events as data, by the descriptions that the store keeps; nobody's classes are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.formatting import clip
from polycast.errors import PolycastError
from polycast.events import JSON, codec_for
from polycast.routing.stored_plan import class_named
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.events import Record
    from polycast.filters import Filter
    from polycast.typesystem import Description

__all__ = ["Payloads"]


class Payloads:
    """Reads the events of one store."""

    def __init__(self, descriptions: Iterable[Description]) -> None:
        self.registry = Registry()
        self.learn(descriptions)

    def learn(self, descriptions: Iterable[Description]) -> None:
        """Know these classes, too."""
        for description in descriptions:
            self.registry.add(description)

    def knows(self, record: Record) -> bool:
        """Whether the class of a record is described."""
        return self.registry.described(record.hash) is not None

    def json(self, record: Record) -> bytes:
        """The event as JSON, as `docs/record.md` says; `PolycastError` if it cannot be read."""
        if record.codec == "json":
            return record.payload
        return JSON.encode(self.event(record), registry=self.registry).payload

    def event(self, record: Record) -> object:
        """The event as an object; `PolycastError` if it cannot be read."""
        return codec_for(record.codec).decode(record, registry=self.registry)

    def matches(self, where: Filter[Any], record: Record) -> bool:
        """Whether a filter is true of the event; not if it cannot be read."""
        try:
            return where.matches(self.event(record), topic=record.topic)
        except PolycastError:
            return False

    def class_named(self, name: str) -> type:
        """The class of a described type, or one that is made from its description."""
        return class_named(self.registry, name) or object

    def fields(self, record: Record) -> dict[str, Any]:
        """All of a record but what names its class."""
        identity = record.identity
        data: dict[str, Any] = {
            "identity": [identity.publisher, identity.epoch, identity.sequence],
            "topic": record.topic,
            "priority": record.priority,
            "expires": record.expires,
            "headers": record.headers,
        }
        try:
            return data | {"event": msgspec.json.decode(self.json(record))}
        except (PolycastError, msgspec.DecodeError, ValueError) as error:
            return data | {"event": None, "unreadable": str(error)}

    def text(self, record: Record, *, most: int = 10_000) -> str:
        """The event on one line."""
        try:
            return clip(self.json(record).decode("utf-8", "replace"), most)
        except PolycastError as error:
            return clip(f"cannot be read: {error}", most)
