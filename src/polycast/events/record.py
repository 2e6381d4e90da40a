"""The envelope of an event on disk and on the wire; `docs/record.md` explains the bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import msgspec

from polycast.errors import NotDecodable, NotSerialisable
from polycast.events.identity import Identity  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMAT", "Record", "decode_record", "encode_record", "record_encoder"]

FORMAT = 1
"""The version of the envelope that this code writes."""

_CHECKSUM = 4
_SHORTEST = 1 + 1 + _CHECKSUM


class Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
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


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_pack, _unpack = struct.Struct(">I").pack, struct.Struct(">I").unpack_from
_SMALL = [bytes((length,)) for length in range(256)]
_FIRST = bytes((FORMAT,))
_FIRST_SUM = crc32(_FIRST)


def encode_record(record: Record) -> bytes:
    """The bytes of a record: format version, body, checksum."""
    try:
        body = _FIRST + _encode(record)
    except (OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
        raise NotSerialisable(record, path="Record", why=str(error)) from None
    return body + _pack(crc32(body))


def record_encoder(record: Record) -> Callable[[int, bytes], bytes]:
    """What makes the bytes of records that differ from one in sequence and payload only.

    It writes what `encode_record` writes, several times faster: most of it is written once.
    """
    identity = record.identity
    encode_record(record)  # which says what is wrong with it
    before = _FIRST + b"\x9b" + b"".join(map(_encode, (record.name, record.version, record.hash)))
    before += b"\x93" + _encode(identity.publisher) + _encode(identity.epoch)
    between = _encode(record.time) + _encode(record.codec)
    rest = (record.topic, record.priority, record.expires, record.headers)
    after = b"".join(map(_encode, rest))

    def encode(sequence: int, payload: bytes) -> bytes:
        length = len(payload)
        head = b"\xc4" + _SMALL[length] if length < 256 else _encode(payload)[: -length or None]
        body = b"".join((before, _encode(sequence), between, head, payload, after))
        return body + _pack(crc32(body))

    return encode


def decode_record(data: bytes | bytearray | memoryview) -> Record:
    """The record in these bytes; `NotDecodable` for anything that `encode_record` did not make."""
    if type(data) is not bytes:
        # A number would ask for as many bytes: terabytes, where a damaged row holds one.
        if not isinstance(data, bytes | bytearray | memoryview):
            raise NotDecodable("a record", why=f"{type(data).__name__} found, bytes accepted")
        data = bytes(data)
    if len(data) < _SHORTEST:
        raise NotDecodable("a record", why=f"{len(data)} bytes are too few, {_SHORTEST} the least")
    if data[0] != FORMAT:
        raise NotDecodable("a record", why=f"format version {data[0]} found, {FORMAT} accepted")
    body = data[1:-_CHECKSUM]
    (found,), computed = _unpack(data, len(data) - _CHECKSUM), crc32(body, _FIRST_SUM)
    if found != computed:
        raise NotDecodable(
            "a record",
            why=f"its checksum is {found:08x}, its bytes give {computed:08x}: it is damaged",
        )
    try:
        return _decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotDecodable("a record", why=str(error)) from None
