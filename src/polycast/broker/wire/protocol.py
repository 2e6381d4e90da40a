"""The protocol: messages between a client and a broker, as frames, and errors as messages.

A frame is one binary WebSocket message: a MessagePack array of messages, in order. A message is an
array that begins with its tag. `docs/wire.md` explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from polycast.errors import (
    AccessDeniedError,
    BadFrameError,
    BrokerRefusedError,
    LimitReachedError,
    NotDecodableError,
    NotSerialisableError,
    PolycastError,
    StoreFailedError,
    StoreReplacedError,
)
from polycast.errors.root import code_of
from polycast.events import decode_record, encode_record
from polycast.plain_text import log_of
from polycast.stores import LogPage, Run, Stored, Stray
from polycast.typesystem import Description

PROTOCOL = 1
"""The version of the protocol; client and broker must have the same."""
PATH = "/bus"
"""The path at which a broker accepts buses."""


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message, or a part of one."""


class Limits(_Message, frozen=True):
    """What a broker accepts from one connection."""

    frame: int = 16_000_000
    """Bytes in one frame."""
    subscriptions: int = 20_000
    pending: int = 10_000
    """Unanswered requests."""
    rate: int = 0
    """Published events per second; 0 is unlimited."""
    window: int = 8_000_000
    """Bytes of events that the client has not read yet."""
    heartbeat: float = 15.0
    """Seconds after which a silent client is pinged."""


# -- from the client -------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """The first message."""

    protocol: int
    client: str
    """A random name of the client; it keeps it when it reconnects."""
    program: str = ""
    """For people who read the log of the broker."""


class Call(_Message, frozen=True, tag="call"):
    """A question about the log or the state: a method of the store and its arguments."""

    number: int
    name: str
    arguments: bytes


class Append(_Message, frozen=True, tag="append"):
    """Append all events, or none; an identity that is in the log is not appended again."""

    number: int
    runs: list[Run]
    astray: list[Stray] = []


class Describe(_Message, frozen=True, tag="describe"):
    """Store descriptions of types, before the next events are appended."""

    number: int
    descriptions: list[msgspec.Raw]
    """Encoded one by one, so that other clients have a turn between two of them."""


class Step(_Message, frozen=True):
    """One method of a transaction, and the result that the steps after it depend on."""

    name: str
    arguments: bytes
    expected: bytes = b""
    """Encoded; empty if no step depends on it."""


class Work(_Message, frozen=True, tag="work"):
    """A transaction: all steps or none; one with the same `order` is not performed again.

    Without `keep` the steps are rolled back, and only their results are returned.
    """

    number: int
    steps: list[Step]
    keep: bool
    order: int
    """Grows with each transaction of the client that is kept."""


class Want(_Message, frozen=True, tag="want"):
    """The definitions of a subscription of the client; without any, it ends."""

    number: int
    name: str
    definitions: list[bytes]


class Follow(_Message, frozen=True, tag="follow"):
    """Send wanted events from a position on, as a new stream with a number of its own."""

    stream: int
    start: int


class Credit(_Message, frozen=True, tag="credit"):
    """So many bytes of events have been read."""

    size: int


# -- from the broker -------------------------------------------------------------------------------


class Welcome(_Message, frozen=True, tag="welcome"):
    """The answer to `Hello`."""

    protocol: int
    broker: str
    store: str
    """The identity of the store."""
    time: float
    """The time at the broker, whose clock all clients use."""
    limits: Limits
    rights: str = "everything"
    """In words."""


class Answer(_Message, frozen=True, tag="answer"):
    """The result of a call, or the positions of appended events."""

    number: int
    result: bytes


class Refused(_Message, frozen=True, tag="refused"):
    """Why a request failed; number 0 means the connection itself."""

    number: int
    code: str
    text: str
    data: dict[str, Any] = {}


class Done(_Message, frozen=True, tag="done"):
    """Whether a transaction is kept, and the results of its steps."""

    number: int
    kept: bool
    results: list[bytes]


class Wanted(_Message, frozen=True, tag="wanted"):
    """From this position on, the subscription misses no event that it wants."""

    number: int
    start: int


class Events(_Message, frozen=True, tag="events"):
    """Wanted events up to a position; `records` is an array of positions and records."""

    stream: int
    upto: int
    newest: int
    revision: int
    commits: int
    """Grows with each commit to the store."""
    records: bytes = b""


FromClient = Hello | Call | Append | Describe | Work | Want | Follow | Credit
FromBroker = Welcome | Answer | Refused | Done | Wanted | Events


T = TypeVar("T")
MOST = 10_000  # messages in a frame


def _listed(value: Any) -> Any:
    """Encode any other collection as a list."""
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{type(value).__name__} has no form on the wire") from None


_few = msgspec.Meta(max_length=MOST)  # checked before any of them is decoded
_raw: msgspec.msgpack.Decoder[list[msgspec.Raw]] = msgspec.msgpack.Decoder(
    Annotated[list[msgspec.Raw], _few]
)
_from_client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient)
_description = msgspec.msgpack.Decoder(Description)
_from_broker: msgspec.msgpack.Decoder[list[FromBroker]] = msgspec.msgpack.Decoder(
    Annotated[list[FromBroker], _few]
)
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
    return _decoded(_raw, frame)


def decode_message(raw: msgspec.Raw) -> FromClient:
    """Decode one message of a client."""
    return _decoded(_from_client, raw)


def decode_from_client(frame: bytes | str | None) -> list[FromClient]:
    """Decode all messages in a frame of a client."""
    return [decode_message(raw) for raw in messages_in(frame)]


def encode_description(description: Description) -> msgspec.Raw:
    """Encode a description for a message."""
    return msgspec.Raw(encode(description))


def decode_description(raw: msgspec.Raw) -> Description:
    """Decode a description in a message."""
    return _decoded(_description, raw)


def decode_from_broker(frame: bytes | str | None) -> list[FromBroker]:
    """Decode all messages in a frame of a broker."""
    return _decoded(_from_broker, frame)


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes | str | msgspec.Raw | None) -> T:
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


BAD_VALUES = (ValueError, OverflowError, RecursionError)  # too large, too deep, contradictory
_log = log_of("polycast.broker")  # whose rate the server limits


def refused(number: int, error: BaseException) -> Refused:
    """Encode an error as the answer to a request."""
    data: dict[str, Any] = {}
    if isinstance(error, StoreFailedError):
        data = {"path": error.path, "why": error.why, "unknown": error.unknown}
        if isinstance(error, StoreReplacedError):
            data |= {"was": error.was, "now": error.now}
        return Refused(number, "store-failed", str(error), data)
    if isinstance(error, AccessDeniedError):
        data = {"action": error.action, "what": error.what, "token": error.token}
        data |= {"granted": list(error.granted), "needs": error.needs}
    elif isinstance(error, NotSerialisableError):
        data = {"path": error.path, "why": str(error)}
    elif isinstance(error, BAD_VALUES):
        return Refused(number, "bad-value", str(error))
    elif isinstance(error, BrokerRefusedError):
        return Refused(number, error.code, str(error), error.data)
    elif not isinstance(error, PolycastError):
        _log.error("a question could not be answered", exc_info=error)
        return Refused(number, "fault", f"the broker failed: {type(error).__name__}: {error}")
    return Refused(number, code_of(type(error)), str(error), data)


OF_OWNER = "-of-owner"
"""The suffix of codes of quotas, which all connections of an owner share."""
_LIMITS = frozenset(
    {"answers", "definition", "rate", "subscriptions", "steps", "too-large", "types"}
)


def error_of(refused: Refused) -> Exception:
    """The error in a message."""
    make = _ERRORS.get(refused.code)
    if make is not None:
        return make(refused.text, refused.data)
    is_limit = refused.code in _LIMITS or refused.code.endswith(OF_OWNER)
    kind = LimitReachedError if is_limit else BrokerRefusedError
    return kind(refused.code, refused.text, refused.data)


def _denied(text: str, data: dict[str, Any]) -> Exception:
    token, granted = data.get("token"), data.get("granted")
    return AccessDeniedError(
        str(data.get("action", "do")),
        str(data.get("what", text)),
        token=None if token is None else str(token),
        granted=map(str, granted) if isinstance(granted, list) else (),
        needs=str(data.get("needs", "")),
    )


def _failed(text: str, data: dict[str, Any]) -> Exception:
    path, why = str(data.get("path", "the store")), str(data.get("why", text))
    unknown, was, now = bool(data.get("unknown", True)), data.get("was"), data.get("now")
    if was is not None and now is not None:
        return StoreReplacedError(path, str(was), str(now), unknown=unknown)
    return StoreFailedError(path, why=why, unknown=unknown)


def _not_serialisable(text: str, data: dict[str, Any]) -> Exception:
    why = str(data.get("why", text))
    return NotSerialisableError("an event", path=str(data.get("path", "")), why=why)


_ERRORS: dict[str, Callable[[str, dict[str, Any]], Exception]] = {
    "access-denied": _denied,
    "store-failed": _failed,
    "not-serialisable": _not_serialisable,
    "bad-value": lambda text, data: ValueError(text),
}
