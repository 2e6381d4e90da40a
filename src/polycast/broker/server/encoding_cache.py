"""What each reader is sent of some records: those who get the same share one encoding of it.

Records that the same subscriptions take are one lot, so that the work is for each lot and reader,
not for each record and reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.broker.wire.frames import encode
from polycast.events import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polycast.broker.server.fanout import Reader
    from polycast.stores import Stored

__all__ = ["Share", "Wanting"]


@dataclass(frozen=True, slots=True)
class Share:
    """How many records there are, and their bytes."""

    count: int
    records: bytes


NOTHING = Share(0, b"")


class Wanting:
    """Records in lots, and the numbers of those lots that each reader may want."""

    def __init__(
        self, lots: Sequence[Sequence[Stored]], wanted: Mapping[Reader, Sequence[int]]
    ) -> None:
        self._lots, self._wanted = lots, wanted
        self._bodies: dict[int, bytes] = {}
        self._shares: dict[tuple[int, ...], Share] = {}

    def share_of(self, reader: Reader) -> Share:
        """What a reader wants and may see."""
        numbers = tuple(self._wanted.get(reader, ()))
        if not numbers:
            return NOTHING
        if not reader.may_receive_all:
            seen = [each for each in self._in_order(numbers) if reader.may_receive(each.record)]
            return self._shared(tuple(-each.position for each in seen), seen)
        return self._shared(numbers, None)

    def _shared(self, key: tuple[int, ...], records: Sequence[Stored] | None) -> Share:
        """Keys are numbers of lots, or else positions, below zero."""
        share = self._shares.get(key)
        if share is None:
            found = self._in_order(key) if records is None else records
            share = self._shares[key] = Share(len(found), self._packed(found))
        return share

    def _in_order(self, numbers: tuple[int, ...]) -> Sequence[Stored]:
        if len(numbers) == 1:
            return self._lots[numbers[0]]
        found = [each for number in numbers for each in self._lots[number]]
        return sorted(found, key=lambda each: each.position)

    def _packed(self, records: Iterable[Stored]) -> bytes:
        rows = []
        for each in records:
            body = self._bodies.get(each.position)
            if body is None:
                body = self._bodies[each.position] = encode_record(each.record)
            rows.append((each.position, body))
        return encode(rows) if rows else b""
