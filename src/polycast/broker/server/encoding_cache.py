"""Events encoded once for all clients that are sent the same ones.

Records that the same subscriptions want form one lot, so that the work grows with lots and clients,
not with records and clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.broker.wire.protocol import encode
from polycast.events import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polycast.broker.server.outbox import EventStream
    from polycast.stores import Stored


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """How many records there are, and their bytes."""

    count: int
    records: bytes


NOTHING = EncodedRecords(0, b"")


class RoutedBatch:
    """Records in lots, and the numbers of the lots that each client may want."""

    def __init__(
        self, lots: Sequence[Sequence[Stored]], wanted: Mapping[EventStream, Sequence[int]]
    ) -> None:
        self._lots, self._wanted = lots, wanted
        self._bodies: dict[int, bytes] = {}
        self._encoded: dict[tuple[int, ...], EncodedRecords] = {}

    def encoded_for(self, recipient: EventStream) -> EncodedRecords:
        """The records that a client wants and may receive."""
        numbers = tuple(self._wanted.get(recipient, ()))
        if not numbers:
            return NOTHING
        if not recipient.may_receive_all:
            records = self._in_order(numbers)
            allowed = [stored for stored in records if recipient.may_receive(stored.record)]
            return self._shared(tuple(-stored.position for stored in allowed), allowed)
        return self._shared(numbers, None)

    def _shared(self, key: tuple[int, ...], records: Sequence[Stored] | None) -> EncodedRecords:
        """Keys are numbers of lots, or else negative positions."""
        encoded = self._encoded.get(key)
        if encoded is None:
            records = self._in_order(key) if records is None else records
            encoded = self._encoded[key] = EncodedRecords(len(records), self._encode(records))
        return encoded

    def _in_order(self, numbers: tuple[int, ...]) -> Sequence[Stored]:
        if len(numbers) == 1:
            return self._lots[numbers[0]]
        records = [stored for number in numbers for stored in self._lots[number]]
        return sorted(records, key=lambda stored: stored.position)

    def _encode(self, records: Iterable[Stored]) -> bytes:
        rows = []
        for stored in records:
            body = self._bodies.get(stored.position)
            if body is None:
                body = self._bodies[stored.position] = encode_record(stored.record)
            rows.append((stored.position, body))
        return encode(rows) if rows else b""
