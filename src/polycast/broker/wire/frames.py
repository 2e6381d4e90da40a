"""Encodes messages as frames, and decodes them; malformed bytes raise `BadFrameError` only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from polycast.broker.wire.messages import FromBroker, FromClient
from polycast.errors import BadFrameError, NotDecodableError
from polycast.events import decode_record, encode_record
from polycast.stores import LogPage, Stored
from polycast.typesystem import Description

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 10_000  # messages in a frame


def _listed(value: Any) -> Any:
    """Encode any other collection as a list."""
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{type(value).__name__} has no form on the wire") from None


_few = msgspec.Meta(max_length=MOST)  # checked before any of them is decoded
_raw = msgspec.msgpack.Decoder(Annotated[list[msgspec.Raw], _few])
_from_client = msgspec.msgpack.Decoder(FromClient)
_description = msgspec.msgpack.Decoder(Description)
_from_broker = msgspec.msgpack.Decoder(Annotated[list[FromBroker], _few])
_records = msgspec.msgpack.Decoder(list[tuple[int, bytes]])
_batch = msgspec.msgpack.Decoder(tuple[int, bytes])

encode = msgspec.msgpack.Encoder(enc_hook=_listed).encode
"""Encode a message, or the arguments of a call, as MessagePack."""
encode_result = msgspec.msgpack.Encoder(enc_hook=_listed, order="deterministic").encode
"""Encode a result as MessagePack: equal results are equal bytes."""


def frames(messages: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Pack encoded messages into few frames, none above the limit unless one message is."""
    waiting: list[bytes] = []
    size = 0
    for message in messages:
        if waiting and (size + len(message) + 5 > limit or len(waiting) == MOST):
            yield _frame(waiting)
            waiting, size = [], 0
        waiting.append(message)
        size += len(message)
    if waiting:
        yield _frame(waiting)


def _frame(messages: list[bytes]) -> bytes:
    """A MessagePack array of encoded messages."""
    count = len(messages)
    head = bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2)
    return b"".join((head, *messages))


def messages_in(frame: bytes | str | None) -> list[msgspec.Raw]:
    """Split a frame of a client into messages, which are decoded one at a time."""
    messages: list[msgspec.Raw] = _decoded(_raw, frame)
    return messages


def decode_message(raw: msgspec.Raw) -> FromClient:
    """Decode one message of a client."""
    message: FromClient = _decoded(_from_client, raw)
    return message


def decode_from_client(frame: bytes | str | None) -> list[FromClient]:
    """Decode all messages in a frame of a client."""
    return [decode_message(raw) for raw in messages_in(frame)]


def encode_description(description: Description) -> msgspec.Raw:
    """Encode a description for a message."""
    return msgspec.Raw(encode(description))


def decode_description(raw: msgspec.Raw) -> Description:
    """Decode a description in a message."""
    description: Description = _decoded(_description, raw)
    return description


def decode_from_broker(frame: bytes | str | None) -> list[FromBroker]:
    """Decode all messages in a frame of a broker."""
    messages: list[FromBroker] = _decoded(_from_broker, frame)
    return messages


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: bytes | str | msgspec.Raw | None) -> Any:
    if data is None or isinstance(data, str):
        raise BadFrameError("a text", why="binary WebSocket messages are accepted")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # A run raises ValueError for contradictory fields.
        size = memoryview(data).nbytes
        raise BadFrameError(f"a frame of {size} bytes", why=str(error)) from None


def encode_records(records: Iterable[Stored]) -> bytes:
    """Encode records of the log, each with its position."""
    return encode([(stored.position, encode_record(stored.record)) for stored in records])


def decode_records(data: bytes) -> list[Stored]:
    """Decode what `encode_records` has encoded."""
    if not data:
        return []
    try:
        rows = _records.decode(data)
        return [Stored(position, decode_record(body)) for position, body in rows]
    except (msgspec.DecodeError, NotDecodableError, RecursionError) as error:
        raise BadFrameError("records", why=str(error)) from None


def encode_batch(batch: LogPage) -> bytes:
    """Encode a batch."""
    return encode((batch.upto, encode_records(batch.entries)))


def decode_batch(data: bytes) -> LogPage:
    """Decode what `encode_batch` has encoded."""
    try:
        upto, records = _batch.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadFrameError("a batch of records", why=str(error)) from None
    return LogPage(decode_records(records), upto)
