"""`polycast sub`: what a subscriber gets, printed as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import (
    add_command,
    add_imports,
    add_place,
    add_where,
    seconds,
    whole,
)

if TYPE_CHECKING:
    import queue
    from argparse import Namespace

    from polycast.bus.bus import Bus
    from polycast.bus.known_types import NamedTypes
    from polycast.cli.terminal import Terminal
    from polycast.delivery import Delivery
    from polycast.subscriptions.subscription import Subscription

    Arrivals = queue.SimpleQueue[tuple[object, Delivery]]

__all__ = ["declare"]

_LOOK = 0.5  # seconds between two looks at whether the subscription has ended


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "subscribe, and print events as they come; each is acknowledged when it is printed"
    example = "sub polycast://127.0.0.1:7788 Sale --where 'event.number > 3' --count 10"
    command = add_command(commands, "sub", run, what, example, late="what")
    add_place(command)
    command.add_argument(
        "what", metavar="TYPE|TOPIC", nargs="?", help="a type or a topic; everything by default"
    )
    add_where(command)
    command.add_argument("--topic", metavar="PATTERN", help="for a type: only on these topics")
    command.add_argument("--exact", action="store_true", help="this very type, and none below it")
    command.add_argument("--durable", metavar="NAME", help="go on where this name was last")
    command.add_argument("--group", metavar="NAME", help="share the events with its other members")
    command.add_argument("--lease", metavar="SECONDS", type=seconds, help="after which it is over")
    command.add_argument(
        "--since",
        metavar="WHEN",
        help="a position, a time such as 2030-12-31T08:00, or 'beginning'; by default from now on",
    )
    command.add_argument("--count", metavar="N", type=whole, help="end after so many")
    add_imports(command)


def run(given: Namespace, terminal: Terminal) -> int:
    """Print events as they come; each is acknowledged when it is printed."""
    import queue
    import uuid

    from polycast.bus.known_types import NamedTypes
    from polycast.cli.name_resolution import import_modules
    from polycast.cli.targets import place_of

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
    from polycast.cli.bounds import bound_of
    from polycast.cli.name_resolution import filter_of

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
    from polycast.cli.name_resolution import type_of

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
    import queue

    from polycast.cli.event_lines import arrival_line

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
