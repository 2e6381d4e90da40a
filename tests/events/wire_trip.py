"""One event over the wire and back, and the events most tests send."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

import pytest

from polycast.events import JSON, MSGPACK, Codec
from polycast.typesystem import Registry

CODECS = pytest.mark.parametrize("codec", [JSON, MSGPACK], ids=lambda codec: codec.form)


def round_trip(codec: Codec, value: Any) -> Any:
    """The value after the wire, twice: freshly prepared and well prepared."""
    registry = Registry()
    first = codec.decode(codec.encode(value, registry=registry), registry=registry)
    second = codec.decode(codec.encode(value, registry=registry), registry=registry)
    assert type(first) is type(second)
    return second


@dataclasses.dataclass
class Talk:
    speaker: str
    room: str | None = None


@dataclasses.dataclass
class Keynote(Talk):
    fee: int = 0


@dataclasses.dataclass
class Program:
    first: Talk
    all: list[Talk] = dataclasses.field(default_factory=list)
    other: Any = None
    named: dict[str, Talk] = dataclasses.field(default_factory=dict)
    either: Talk | int = 0


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


class Text(str):
    pass


class Point(NamedTuple):
    x: int
    y: Talk
