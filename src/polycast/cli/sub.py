"""`polycast sub`: what a subscriber gets, printed as it comes."""

from __future__ import annotations

import queue
import uuid
from typing import TYPE_CHECKING, Any

from polycast.bus.known_types import NamedTypes
from polycast.cli.command_line import add_command, seconds, whole
from polycast.cli.event_lines import arrival_line
from polycast.cli.operands import bound_of, filter_of, import_modules, place_of, type_of

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.bus.bus import Bus
    from polycast.cli.terminal import Terminal
    from polycast.delivery import Delivery
    from polycast.subscriptions.subscription import Subscription

    Arrivals = queue.SimpleQueue[tuple[object, Delivery]]


_LOOK = 0.5  # seconds between two looks at whether the subscription has ended


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "sub polycast://127.0.0.1:7788 Sale --where 'event.number > 3' --count 10"
    command = add_command(commands, "sub", run, what, example, late="what")
    command.take_place()
    command.take("what TYPE|TOPIC", "a type or a topic; by default everything", nargs="?")
    command.take_where()
    command.take("--topic PATTERN", "of a type, only events on these topics")
    command.take("--exact", "exclude subtypes")
    command.take("--durable NAME", "resume the durable subscription of this name, or create it")
    command.take("--group NAME", "share the events with the other members of this group")
    command.take("--lease SECONDS", "the time after which the subscription ends", type=seconds)
    command.take(
        "--since WHEN",
        "start at this position, time (2030-12-31T08:00), or 'beginning'; by default now",
    )
    command.take("--count N", "stop after N events", type=whole)
    command.take_imports()


def run(given: Namespace, terminal: Terminal) -> int:
    """Print events as they come; each is acknowledged when it is printed."""
    import_modules(given.imports)
    publisher = f"polycast-sub-{uuid.uuid4().hex[:8]}"
    with place_of(given).bus(publisher=publisher) as bus:
        types = NamedTypes(bus)
        arrivals: Arrivals = queue.SimpleQueue()
        subscription = _subscribed(given, bus, types, arrivals)
        try:
            _print_all(given.count, subscription, arrivals, types, terminal)
        except KeyboardInterrupt:  # the way to end it
            pass
        finally:
            if subscription.ended is None:
                subscription.detach() if subscription.durable else subscription.cancel()
    return 0


def _subscribed(
    given: Namespace, bus: Bus, types: NamedTypes, arrivals: Arrivals
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
        arrivals.put((event, delivery))

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
    arrivals: Arrivals,
    types: NamedTypes,
    terminal: Terminal,
) -> None:
    left = -1 if count is None else count
    while left:
        try:
            event, delivery = arrivals.get(timeout=_LOOK)
        except queue.Empty:
            if subscription.ended is not None:
                raise subscription.ended from None
            continue
        terminal.line(arrival_line(event, delivery, types, as_json=terminal.as_json))
        terminal.flush()
        delivery.ack()
        left -= 1
