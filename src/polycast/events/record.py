"""The envelope of an event on disk and on the wire; `docs/record.md` explains the bytes."""

from __future__ import annotations

import zlib
from typing import Literal

import msgspec

from polycast.errors import NotDecodable, NotSerialisable
from polycast.events.identity import Identity  # noqa: TC001 - msgspec reads it

__all__ = ["FORMAT", "Record", "decode_record", "encode_record"]

FORMAT = 1
"""The version of the envelope that this code writes."""

_CHECKSUM = 4
_SHORTEST = 1 + 1 + _CHECKSUM


class Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An event as it is stored and sent: what it is, where it comes from, and its payload."""

    name: str
    version: int
    hash: str
    identity: Identity
    time: float
    """When it was appended, in wall clock seconds."""
    codec: Literal["json", "msgpack"]
    payload: bytes
    topic: str | None = None
    priority: int = 0
    expires: float | None = None
    """When it is void, in wall clock seconds."""
    headers: dict[str, str] = {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The bytes of a record: format version, body, checksum."""
    try:
        body = bytes((FORMAT,)) + _encoder.encode(record)
    except (OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
        raise NotSerialisable(record, path="Record", why=str(error)) from None
    return body + zlib.crc32(body).to_bytes(_CHECKSUM, "big")


def decode_record(data: bytes | bytearray | memoryview) -> Record:
    """The record in these bytes; `NotDecodable` for anything that `encode_record` did not make."""
    view = memoryview(data)
    if len(view) < _SHORTEST:
        raise NotDecodable("a record", why=f"{len(view)} bytes are too few, {_SHORTEST} the least")
    if view[0] != FORMAT:
        raise NotDecodable("a record", why=f"format version {view[0]} found, {FORMAT} accepted")
    _check_sum(view)
    try:
        return _decoder.decode(view[1:-_CHECKSUM])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotDecodable("a record", why=str(error)) from None


def _check_sum(view: memoryview) -> None:
    found = int.from_bytes(view[-_CHECKSUM:], "big")
    computed = zlib.crc32(view[:-_CHECKSUM])
    if found != computed:
        raise NotDecodable(
            "a record",
            why=f"its checksum is {found:08x}, its bytes give {computed:08x}: it is damaged",
        )
