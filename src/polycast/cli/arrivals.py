"""Events that arrive at a subscription, on one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.event_lines import text_line
from polycast.cli.formatting import clip
from polycast.errors import PolycastError
from polycast.typesystem import wire_name, wire_version

if TYPE_CHECKING:
    from polycast.bus.known_types import NamedTypes
    from polycast.delivery import Delivery

__all__ = ["arrival_line"]


def arrival_line(event: object, delivery: Delivery, types: NamedTypes, *, as_json: bool) -> str:
    """An event that has arrived, for a person or as JSON."""
    cls, time = type(event), delivery.time.timestamp()
    payload, why = _payload(event, types)
    if not as_json:
        shown = clip(payload.decode("utf-8", "replace") or f"cannot be shown: {why}", 1_000)
        return text_line(delivery.position, time, wire_name(cls), delivery.topic, shown)
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
