"""The envelope of an event on disk and on the wire; `docs/record.md` explains the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Literal, Protocol
from zlib import crc32

import msgspec

from polycast.errors import NotDecodableError, NotSerialisableError


class Identity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The unique name of an event: its publisher, the publisher's epoch, and a sequence number."""

    publisher: str
    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher}/{self.epoch}/{self.sequence}"


FORMAT = 1
"""The version of the envelope of an event that was published in the root context."""
CONTEXT_FORMAT = 2
"""The version of the envelope of one that was published in another: two more fields."""

_CHECKSUM = 4
_SHORTEST = 1 + 1 + _CHECKSUM


class Named(Protocol):
    """Anything that names a class: a record, a root form, the type of an event."""

    @property
    def name(self) -> str:
        """Its wire name."""

    @property
    def version(self) -> int:
        """Its version."""

    @property
    def hash(self) -> str:
        """The hash of its description."""


class Root(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An event of a context, translated to the root; it has the codec of the event.

    Without a payload, the root form is the event itself, unchanged.
    """

    name: str
    version: int
    hash: str
    payload: bytes

    def is_of(self, named: Named) -> bool:
        """Whether it is of the same class."""
        return (self.name, self.version, self.hash) == (named.name, named.version, named.hash)


class Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An event as it is stored and sent: class, identity, metadata and payload."""

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
    """When it expires, in wall clock seconds."""
    headers: dict[str, str] = {}
    context: str | None = None
    """The name of the context that it was published in; None is the root."""
    root: Root | None = None
    """Its root form; without one, an event cannot leave its context."""

    @property
    def is_own_root(self) -> bool:
        """Whether its root form is the event itself."""
        return self.root is not None and not self.root.payload and self.root.is_of(self)

    def rooted(self) -> Record | None:
        """Return the event in the root context; None if it cannot leave its own."""
        root = self.root
        if self.context is None or self.is_own_root:
            return self
        if root is None:
            return None
        return msgspec.structs.replace(
            self, name=root.name, version=root.version, hash=root.hash, payload=root.payload
        )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_pack, _unpack = struct.Struct(">I").pack, struct.Struct(">I").unpack_from
_SMALL = [bytes((length,)) for length in range(256)]
# The first bytes: the version, and the header of an array of its fields.
_PLAIN, _WITHIN = bytes((FORMAT, 0x9B)), bytes((CONTEXT_FORMAT, 0x9D))
_PLAIN_BEGIN, _WITHIN_BEGIN = ((crc32(names[:1]), names[1]) for names in (_PLAIN, _WITHIN))


def encode_record(record: Record) -> bytes:
    """Encode a record: format version, body, checksum."""
    try:
        body = _encode(record)
    except (OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
        raise NotSerialisableError(record, path="Record", why=str(error)) from None
    if record.context is None and record.root is None:
        body = _PLAIN + body[1:-2]  # without the last two fields, each of which is one byte
    else:
        body = _WITHIN + body[1:]
        why = _contradiction(record)
        if why:
            raise NotSerialisableError(record, path="Record", why=why)
    return body + _pack(crc32(body))


def _contradiction(record: Record) -> str | None:
    """Return what is inconsistent about the context and root form of a record."""
    if record.context is None:
        return "it has a root form or the fields for one, and no context"
    if record.root is not None and not record.root.payload and not record.is_own_root:
        return "its root form has no payload and another class than the event"
    return None


def record_encoder(record: Record) -> Callable[[int, bytes], bytes]:
    """Return an encoder for records that differ from one in sequence and payload only.

    It writes what `encode_record` writes, several times faster: most of it is encoded once.
    """
    encode_record(record)  # raises for an invalid record
    before, between, after = _parts(record)
    if record.context is not None:
        after += _encode(record.context) + _encode(record.root)

    def encode(sequence: int, payload: bytes) -> bytes:
        length = len(payload)
        head = b"\xc4" + _SMALL[length] if length < 256 else _encode(payload)[: -length or None]
        body = b"".join((before, _encode(sequence), between, head, payload, after))
        return body + _pack(crc32(body))

    return encode


def rooted_encoder(record: Record) -> Callable[[int, bytes, bytes], bytes]:
    """Return an encoder for records that differ in the payload of the root form, too."""
    root = record.root
    if root is None:
        raise NotSerialisableError(record, path="Record", why="there is no class of its root form")
    encode_record(msgspec.structs.replace(record, root=Root(*_class_of(root), b"\0")))
    before, between, after = _parts(record)
    after += _encode(record.context) + b"\x94" + _encode(_class_of(root))[1:]
    own = root.is_of(record)

    def encode(sequence: int, payload: bytes, form: bytes) -> bytes:
        if not form and not own:
            why = "its root form has no payload and another class than the event"
            raise NotSerialisableError(record, path="Record", why=why)
        parts = (before, _encode(sequence), between, _encode(payload), after, _encode(form))
        body = b"".join(parts)
        return body + _pack(crc32(body))

    return encode


def _class_of(root: Root) -> tuple[str, int, str]:
    return root.name, root.version, root.hash


def _parts(record: Record) -> tuple[bytes, bytes, bytes]:
    """Return the bytes before the sequence, between it and the payload, and after that."""
    identity = record.identity
    begin = _PLAIN if record.context is None else _WITHIN
    # An array of a few values is a byte, and then the values.
    before = begin + _encode((record.name, record.version, record.hash))[1:]
    before += b"\x93" + _encode((identity.publisher, identity.epoch))[1:]
    between = _encode((record.time, record.codec))[1:]
    rest = (record.topic, record.priority, record.expires, record.headers)
    return before, between, _encode(rest)[1:]


def decode_record(data: bytes | bytearray | memoryview) -> Record:
    """Decode a record; `NotDecodableError` for bytes that `encode_record` did not make."""
    if type(data) is not bytes:
        # bytes(number) would allocate as many bytes: terabytes, for a number from a damaged row.
        if not isinstance(data, bytes | bytearray | memoryview):
            raise NotDecodableError("a record", why=f"{type(data).__name__} found, bytes accepted")
        data = bytes(data)
    if len(data) < _SHORTEST:
        raise NotDecodableError(
            "a record", why=f"{len(data)} bytes are too few, {_SHORTEST} the least"
        )
    version = data[0]
    if version != FORMAT and version != CONTEXT_FORMAT:
        accepted = f"{FORMAT} and {CONTEXT_FORMAT} accepted"
        raise NotDecodableError("a record", why=f"format version {version} found, {accepted}")
    seed, array = _PLAIN_BEGIN if version == FORMAT else _WITHIN_BEGIN
    body = data[1:-_CHECKSUM]
    (found,), computed = _unpack(data, len(data) - _CHECKSUM), crc32(body, seed)
    if found != computed:
        raise NotDecodableError(
            "a record",
            why=f"its checksum is {found:08x}, its bytes give {computed:08x}: it is damaged",
        )
    if body[0] != array:
        raise NotDecodableError("a record", why=f"its body is no array of {array & 0x0F} fields")
    try:
        record = _decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotDecodableError("a record", why=str(error)) from None
    if version != FORMAT:
        why = _contradiction(record)
        if why:
            raise NotDecodableError("a record", why=why)
    return record
