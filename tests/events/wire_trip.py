"""One event over the wire and back, and the events most tests send."""

from __future__ import annotations

import dataclasses
from typing import Any

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
