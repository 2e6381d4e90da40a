"""`polycast pub`: publish events that are given as JSON."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_imports, add_place, seconds
from polycast.cli.terminal import UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.bus.bus import Bus
    from polycast.cli.json_events import GivenEvent
    from polycast.cli.terminal import Terminal

__all__ = ["declare"]

BATCH = 1_000  # events that are published at a time


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "publish events that are given as JSON; prints where each is in the log"
    example = """pub events.db shop.Sale '{"number": 8}' --topic /shop/front"""
    command = add_command(commands, "pub", run, what, example, late="data")
    add_place(command)
    command.add_argument(
        "type", metavar="TYPE", help="a type that the store describes, or one of --import"
    )
    command.add_argument("data", metavar="DATA", nargs="*", help="an event as JSON")
    command.add_argument(
        "--json-lines", metavar="FILE", help="a file with an event on each line; - is the input"
    )
    add_imports(command)
    command.add_argument("--topic", metavar="TOPIC", help="as in /shop/front")
    command.add_argument("--priority", metavar="N", type=int, default=0, help="more is sooner (0)")
    command.add_argument(
        "--header",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="something beside the event; may be said again",
    )
    command.add_argument(
        "--expires", metavar="SECONDS", type=seconds, help="after which nobody is to get it"
    )
    command.add_argument("--publisher", metavar="NAME", help="the name to publish under")


def run(given: Namespace, terminal: Terminal) -> int:
    """Publish events of a type, and print a receipt of each."""
    from polycast.bus.known_types import NamedTypes
    from polycast.cli.json_events import described, event_of
    from polycast.cli.name_resolution import import_modules
    from polycast.cli.targets import place_of

    import_modules(given.imports)
    options = _options(given)
    with _given_events(given) as events, place_of(given).bus(publisher=given.publisher) as bus:
        types = NamedTypes(bus)
        description = described(given.type, types)
        batch: list[object] = []
        for event in events:
            batch.append(event_of(event, description, types))
            if len(batch) == BATCH:
                _publish(bus, batch, options, terminal)
                batch = []
        _publish(bus, batch, options, terminal)
    return 0


def _publish(bus: Bus, batch: list[object], options: dict[str, Any], terminal: Terminal) -> None:
    import msgspec

    for receipt in bus.publish_many(batch, **options) if batch else ():
        identity = receipt.identity
        data = {
            "position": receipt.position,
            "identity": [identity.publisher, identity.epoch, identity.sequence],
        }
        if terminal.as_json:
            terminal.line(msgspec.json.encode(data).decode())
        else:
            terminal.line(f"position {receipt.position:,}, identity {identity}")
    terminal.flush()


def _options(given: Namespace) -> dict[str, Any]:
    headers = {}
    for header in given.header:
        key, equals, value = header.partition("=")
        if not (key and equals):
            raise UsageError(f"--header {header} is not understood; a header is KEY=VALUE")
        headers[key] = value
    return {
        "topic": given.topic,
        "priority": given.priority,
        "expires": given.expires,
        "headers": headers or None,
    }


@contextmanager
def _given_events(given: Namespace) -> Iterator[Iterator[GivenEvent]]:
    """The events that are given, in the words of the command or in the lines of a file."""
    from polycast.cli.json_events import GivenEvent, in_lines

    if bool(given.data) == bool(given.json_lines):
        raise UsageError(
            "give events as DATA, or in the lines of --json-lines FILE, which may be -"
        )
    if not given.json_lines:
        yield (GivenEvent(f"event {n}", text.encode()) for n, text in enumerate(given.data, 1))
    elif given.json_lines == "-":
        yield in_lines("the input", sys.stdin)
    else:
        with open(given.json_lines, encoding="utf-8") as file:
            yield in_lines(given.json_lines, file)
