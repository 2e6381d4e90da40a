"""Who takes what in a stretch of the log, as bytes: the numbers of routes, once for each event.

The bytes are a MessagePack array: format, then three arrays of little-endian numbers (how far an
event is from the beginning, how many take it, who), and the routes that have to be asked again.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

import msgspec

from polycast.errors import NotDecodableError

FORMAT = 1
_NARROW, _WIDE = "H", "I"  # two bytes and four, on every machine that Python runs on


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    format: int
    wide: bool  # whether the numbers of routes take four bytes
    distances: bytes
    counts: bytes
    numbers: bytes
    unsure: list[int]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


class Recipients:
    """The events of a stretch that somebody takes, in order, and who does."""

    __slots__ = ("_ends", "_numbers", "positions", "unsure")

    def __init__(
        self, positions: list[int], ends: list[int], numbers: list[int], unsure: frozenset[int]
    ) -> None:
        self.positions = positions
        self._ends, self._numbers = ends, numbers
        self.unsure = unsure
        """The routes whose filters could be asked only in part: the rest is for the subscriber."""

    def __len__(self) -> int:
        """How many events somebody takes."""
        return len(self.positions)

    @property
    def pairs(self) -> int:
        """How many events go to how many, all in all."""
        return len(self._numbers)

    def __iter__(self) -> Iterator[tuple[int, list[int]]]:
        """The position of each event with the numbers of the routes that take it."""
        numbers, begin = self._numbers, 0
        for position, end in zip(self.positions, self._ends, strict=True):
            yield position, numbers[begin:end]
            begin = end

    def by_route(self) -> dict[int, list[int]]:
        """The positions that each route takes, in order."""
        positions: dict[int, list[int]] = {}
        for position, numbers in self:
            for number in numbers:
                positions.setdefault(number, []).append(position)
        return positions


def encode_recipients(
    low: int,
    positions: Sequence[int],
    recipients: Sequence[Sequence[int]],
    unsure: Iterable[int] = (),
) -> bytes:
    """The bytes of who takes the events at some positions, all of them at `low` or after."""
    numbers = list(chain.from_iterable(recipients))
    wide = max(numbers, default=0) > 0xFFFF
    return _encode(
        _Body(
            FORMAT,
            wide,
            _packed(_WIDE, [position - low for position in positions]),
            _packed(_WIDE, list(map(len, recipients))),
            _packed(_WIDE if wide else _NARROW, numbers),
            sorted(unsure),
        )
    )


def decode_recipients(low: int, data: bytes) -> Recipients:
    """What `encode_recipients` was given; `NotDecodableError` for anything else."""
    try:
        body = _decode(data)
        if body.format != FORMAT:
            raise ValueError(f"format {body.format} found, {FORMAT} accepted")
        distances, counts = _unpacked(_WIDE, body.distances), _unpacked(_WIDE, body.counts)
        numbers = _unpacked(_WIDE if body.wide else _NARROW, body.numbers)
        ends = list(accumulate(counts))
        if len(distances) != len(counts) or (ends[-1] if ends else 0) != len(numbers):
            raise ValueError("its parts do not fit together")
    except (msgspec.DecodeError, ValueError) as error:
        raise NotDecodableError("the recipients of a stretch", why=str(error)) from None
    return Recipients(
        [low + distance for distance in distances], ends, numbers, frozenset(body.unsure)
    )


def _packed(code: str, values: list[int]) -> bytes:
    packed = array(code, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpacked(code: str, data: bytes) -> list[int]:
    packed = array(code)
    packed.frombytes(data)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()
