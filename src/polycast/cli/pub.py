"""`polycast pub`: publish events that are given as JSON."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from polycast.bus.known_types import NamedTypes
from polycast.cli.command_line import add_command, seconds
from polycast.cli.formatting import clip
from polycast.cli.lossless_json import NotJson, parsed
from polycast.cli.operands import import_modules, meant_by, place_of
from polycast.cli.strict_json import JsonMismatch, StrictJson
from polycast.cli.terminal import Terminal, UsageError
from polycast.errors import NotDecodableError
from polycast.events import JSON, Encoded
from polycast.typesystem import Description, describe

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from polycast.bus.bus import Bus


BATCH = 1_000  # events that are published at a time


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = """pub events.db shop.Sale '{"number": 8}' --topic /shop/front"""
    command = add_command(commands, "pub", run, what, example, late="data")
    command.take_place()
    command.take("type TYPE", "a type described in the store, or defined by --import")
    command.take("data DATA", "an event as JSON", nargs="*")
    command.take("--json-lines FILE", "a file with one event per line; - is standard input")
    command.take_imports()
    command.take("--topic TOPIC", "the topic, such as /shop/front")
    command.take(
        "--priority N", "events of higher priority are delivered first (0)", type=int, default=0
    )
    command.take("--header KEY=VALUE", "a header to send with the events", repeated=True)
    command.take(
        "--expires SECONDS",
        "the time after which the events are not delivered any more",
        type=seconds,
    )
    command.take("--publisher NAME", "the publisher's name")


def run(given: Namespace, terminal: Terminal) -> int:
    """Publish events of a type, and print a receipt of each."""
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
    for receipt in bus.publish_many(batch, **options) if batch else ():
        identity = receipt.identity
        data = {
            "position": receipt.position,
            "identity": [identity.publisher, identity.epoch, identity.sequence],
        }
        terminal.report(data, f"position {receipt.position:,}, identity {identity}")
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


class GivenEvent(NamedTuple):
    """One event as it was given, and where."""

    where: str
    text: bytes


def in_lines(name: str, lines: Iterable[str]) -> Iterator[GivenEvent]:
    """The events in the lines of a file."""
    for number, text in enumerate(lines, 1):
        if text.strip():
            yield GivenEvent(f"{name}, line {number}", text.rstrip("\n").encode())


def described(name: str, types: NamedTypes) -> Description:
    """The description of the type that a name means; a class that was imported counts."""
    cls = types.registry.resolve(name)
    if cls is not None:
        return describe(cls)
    description = types.description(name)
    if description is None:
        known = {known.name for known in types.registry.descriptions()}
        description = types.description(meant_by(name, known))
    assert description is not None
    return description


def event_of(given: GivenEvent, description: Description, types: NamedTypes) -> object:
    """Check an event against a description, and make it."""
    name, version, digest = description.name, description.version, description.hash
    types.class_of(description)  # known here from now on, if it was only imported
    try:
        data = StrictJson(types.registry).event(parsed(given.text), description)
        payload = msgspec.json.encode(data)
        return JSON.decode(Encoded(name, version, digest, "json", payload), registry=types.registry)
    except (NotJson, JsonMismatch) as error:
        raise NotDecodableError(given.where, why=str(error)) from None
    except RecursionError:
        raise NotDecodableError(given.where, why="it is nested too deep") from None
    except NotDecodableError as error:
        raise NotDecodableError(
            f"{given.where} {clip(given.text.decode())}", why=str(error)
        ) from None
