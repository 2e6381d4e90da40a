"""`polycast sub`: what a subscriber gets, printed as it comes."""

from __future__ import annotations

import queue
import uuid
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.bus.known_types import NamedTypes
from polycast.cli.bounds import bound_of
from polycast.cli.event_lines import text_line
from polycast.cli.formatting import clip
from polycast.cli.naming import filter_of, import_modules, type_of
from polycast.cli.targets import place_of
from polycast.errors import PolycastError
from polycast.typesystem import wire_name, wire_version

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.bus.bus import Bus
    from polycast.cli.terminal import Terminal
    from polycast.delivery import Delivery
    from polycast.subscriptions.subscription import Subscription

__all__ = ["print_subscribed"]

_LOOK = 0.5  # seconds between two looks at whether the subscription has ended
Arrived = tuple[object, "Delivery"]


def print_subscribed(given: Namespace, terminal: Terminal) -> int:
    """Print events as they come; each is acknowledged when it is printed."""
    import_modules(given.imports)
    publisher = f"polycast-sub-{uuid.uuid4().hex[:8]}"
    with place_of(given).bus(publisher=publisher) as bus:
        types = NamedTypes(bus)
        arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        subscription = _subscribed(given, bus, types, arrived)
        try:
            _print_all(given.count, subscription, arrived, types, terminal)
        except KeyboardInterrupt:  # the way to end it
            pass
        finally:
            if subscription.ended is None:
                subscription.detach() if subscription.durable else subscription.cancel()
    return 0


def _subscribed(
    given: Namespace, bus: Bus, types: NamedTypes, arrived: queue.SimpleQueue[Arrived]
) -> Subscription[Any]:
    options: dict[str, Any] = {
        "topic": given.topic,
        "durable": given.durable,
        "group": given.group,
        "since": bound_of("--since", given.since),
        "lease": given.lease,
    }
    options = {name: value for name, value in options.items() if value is not None}

    def callback(event: Any, delivery: Delivery) -> None:
        arrived.put((event, delivery))

    return bus.subscribe(
        _what(given.what, types),
        callback,
        where=filter_of(given.where, types.registry),
        exact=given.exact,
        ack="manual",
        **options,
    )


def _what(text: str | None, types: NamedTypes) -> Any:
    """A topic, a type by its whole name or the end of it, or everything."""
    if text is None or text.startswith("/"):
        return object if text is None else text
    cls = types.registry.resolve(text)
    if cls is not None:
        return cls
    name = type_of(text, types.registry)
    assert name is not None
    description = types.description(name)
    assert description is not None
    return types.class_of(description)


def _print_all(
    count: int | None,
    subscription: Subscription[Any],
    arrived: queue.SimpleQueue[Arrived],
    types: NamedTypes,
    terminal: Terminal,
) -> None:
    left = -1 if count is None else count
    while left:
        try:
            event, delivery = arrived.get(timeout=_LOOK)
        except queue.Empty:
            if subscription.ended is not None:
                raise subscription.ended from None
            continue
        terminal.line(_line(event, delivery, types, as_json=terminal.as_json))
        terminal.flush()
        delivery.ack()
        left -= 1


def _line(event: object, delivery: Delivery, types: NamedTypes, *, as_json: bool) -> str:
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
