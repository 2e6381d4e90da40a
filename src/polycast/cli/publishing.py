"""`polycast pub`: events that are given as JSON."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from polycast.bus.known_types import NamedTypes
from polycast.cli.formatting import clip
from polycast.cli.naming import import_modules, meant_by
from polycast.cli.strict_json import Misfit, StrictJson
from polycast.cli.strict_parsing import NotJson, parsed
from polycast.cli.targets import place_of
from polycast.cli.terminal import Refused
from polycast.errors import NotDecodableError
from polycast.events import JSON, Encoded
from polycast.typesystem import describe

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.bus.bus import Bus
    from polycast.cli.terminal import Terminal
    from polycast.typesystem import Description

__all__ = ["publish_events"]

BATCH = 1_000  # events that are published at a time


class Given(NamedTuple):
    """One event as it was given, and where."""

    where: str
    text: bytes


def publish_events(given: Namespace, terminal: Terminal) -> int:
    """Publish events of a type, and print a receipt of each."""
    import_modules(given.imports)
    options = _options(given)
    with _lines(given) as lines, place_of(given).bus(publisher=given.publisher) as bus:
        types = NamedTypes(bus)
        description = _described(given.type, types)
        batch: list[object] = []
        for each in lines:
            batch.append(_event(each, description, types))
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
        if terminal.as_json:
            terminal.line(msgspec.json.encode(data).decode())
        else:
            terminal.line(f"position {receipt.position:,}, identity {identity}")
    terminal.flush()


def _options(given: Namespace) -> dict[str, Any]:
    headers = {}
    for each in given.header:
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise Refused(f"--header {each} is not understood; a header is KEY=VALUE")
        headers[key] = value
    return {
        "topic": given.topic,
        "priority": given.priority,
        "expires": given.expires,
        "headers": headers or None,
    }


# -- from words to events --------------------------------------------------------------------------


@contextmanager
def _lines(given: Namespace) -> Iterator[Iterator[Given]]:
    """The events that are given, in the words of the command or in the lines of a file."""
    if bool(given.data) == bool(given.json_lines):
        raise Refused("give events as DATA, or in the lines of --json-lines FILE, which may be -")
    if not given.json_lines:
        yield (Given(f"event {n}", text.encode()) for n, text in enumerate(given.data, 1))
    elif given.json_lines == "-":
        yield _in_lines("the input", sys.stdin)
    else:
        with open(given.json_lines, encoding="utf-8") as file:
            yield _in_lines(given.json_lines, file)


def _in_lines(name: str, lines: Any) -> Iterator[Given]:
    for number, text in enumerate(lines, 1):
        if text.strip():
            yield Given(f"{name}, line {number}", text.rstrip("\n").encode())


def _described(name: str, types: NamedTypes) -> Description:
    """The description of the type that a name means; a class that was imported counts."""
    cls = types.registry.resolve(name)
    if cls is not None:
        return describe(cls)
    found = types.description(name)
    if found is None:
        known = {each.name for each in types.registry.descriptions()}
        found = types.description(meant_by(name, known))
    assert found is not None
    return found


def _event(given: Given, description: Description, types: NamedTypes) -> object:
    name, version, digest = description.name, description.version, description.hash
    types.class_of(description)  # known here from now on, if it was only imported
    try:
        data = StrictJson(types.registry).event(parsed(given.text), description)
        payload = msgspec.json.encode(data)
        return JSON.decode(Encoded(name, version, digest, "json", payload), registry=types.registry)
    except (NotJson, Misfit) as error:
        raise NotDecodableError(given.where, why=str(error)) from None
    except RecursionError:
        raise NotDecodableError(given.where, why="it is nested too deep") from None
    except NotDecodableError as error:
        raise NotDecodableError(
            f"{given.where} {clip(given.text.decode())}", why=str(error)
        ) from None
