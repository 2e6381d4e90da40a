"""Events as people write them, in JSON, made into objects of a described type."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from polycast.cli.formatting import clip
from polycast.cli.lossless_json import NotJson, parsed
from polycast.cli.name_resolution import meant_by
from polycast.cli.strict_json import JsonMismatch, StrictJson
from polycast.errors import NotDecodableError
from polycast.events import JSON, Encoded
from polycast.typesystem import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polycast.bus.known_types import NamedTypes
    from polycast.typesystem import Description

__all__ = ["GivenEvent", "described", "event_of", "in_lines"]


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
