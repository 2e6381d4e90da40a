"""Events on one line, for a person or as JSON, by the descriptions that a store keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.formatting import clip, moment
from polycast.errors import PolycastError
from polycast.events import JSON, Record, codec_for
from polycast.routing.route_table import class_named
from polycast.typesystem import Description, Registry, wire_name, wire_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.bus.known_types import NamedTypes
    from polycast.delivery import Delivery
    from polycast.filters import Filter
    from polycast.stores import Stored


def line_of(stored: Stored, payloads: Payloads, *, as_json: bool) -> str:
    """An event of the log on one line."""
    record = stored.record
    if as_json:
        data: dict[str, Any] = {
            "position": stored.position,
            "time": record.time,
            "class": record.name,
            "version": record.version,
        }
        return msgspec.json.encode(data | _context_of(record) | payloads.fields(record)).decode()
    event = _context_in_words(record) + payloads.text(record, most=1_000)
    return _text_line(stored.position, record.time, record.name, record.topic, event)


def _text_line(position: int, time: float, name: str, topic: str | None, event: str) -> str:
    """What a person sees of an event."""
    on = "" if topic is None else f"{clip(topic)}  "
    return f"{position:>8}  {moment(time)}  {clip(name)}  {on}{event}"


def _context_of(record: Record) -> dict[str, Any]:
    """The context and the class of the root form, unless it was published in the root."""
    if record.context is None:
        return {}
    root = record.root
    form = None if root is None else {"class": root.name, "version": root.version}
    return {"context": record.context, "root": form}


def _context_in_words(record: Record) -> str:
    if record.context is None:
        return ""
    place = f"in {clip(record.context)}"
    if record.root is None:
        return f"{place}, no root form  "
    return f"{place}  " if record.is_own_root else f"{place}, root form {clip(record.root.name)}  "


def arrival_line(event: object, delivery: Delivery, types: NamedTypes, *, as_json: bool) -> str:
    """An event that has arrived, for a person or as JSON."""
    cls, time = type(event), delivery.time.timestamp()
    payload, why = _payload(event, types)
    if not as_json:
        shown = clip(payload.decode("utf-8", "replace") or f"cannot be shown: {why}", 1_000)
        return _text_line(delivery.position, time, wire_name(cls), delivery.topic, shown)
    identity = delivery.identity
    data: dict[str, Any] = {
        "position": delivery.position,
        "time": time,
        "class": wire_name(cls),
        "version": wire_version(cls),
        "identity": [identity.publisher, identity.epoch, identity.sequence],
        "topic": delivery.topic,
        "headers": dict(delivery.headers),
        "attempt": delivery.count,
        "event": msgspec.Raw(payload) if payload else None,
    }
    return msgspec.json.encode(data | ({"unreadable": why} if why else {})).decode()


def _payload(event: object, types: NamedTypes) -> tuple[bytes, str]:
    try:
        return types.json(event), ""
    except PolycastError as error:
        return b"", str(error)


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
