"""Who takes what, as bytes and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polycast as pc
from polycast.errors import NotDecodableError
from polycast.routing import decode_recipients, encode_recipients

numbers = st.lists(st.integers(1, 70_000) | st.integers(1, 2**32 - 1), min_size=1, max_size=5)
distances = st.lists(st.integers(0, 2**32 - 1), unique=True, max_size=6).map(sorted)


@given(st.integers(1, 2**50), distances, st.data())
def test_what_was_written_is_read(low: int, found: list[int], data: st.DataObject) -> None:
    positions = [low + each for each in found]
    takers = [data.draw(numbers) for _ in positions]
    unsure = data.draw(st.sets(st.integers(1, 2**32 - 1), max_size=3))
    read = decode_recipients(low, encode_recipients(low, positions, takers, unsure))
    assert list(read) == list(zip(positions, takers, strict=True))
    assert read.unsure == unsure
    assert len(read) == len(positions)
    assert read.pairs == sum(map(len, takers))


def test_by_route_turns_it_round() -> None:
    read = decode_recipients(5, encode_recipients(5, [5, 7, 9], [[1, 2], [2], [1]]))
    assert read.by_route() == {1: [5, 9], 2: [5, 7]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "truncated"),
        (b"\x93\x01\x02\x03", "at least length 6"),
        (encode_recipients(1, [1], [[1]]).replace(b"\x96\x01", b"\x96\x02"), "format 2 found"),
        (encode_recipients(1, [1, 2], [[1], [2]]).replace(b"\xc4\x08", b"\xc4\x07", 1), "."),
    ],
)
def test_anything_else_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(NotDecodableError, match=why):
        decode_recipients(1, data)


def test_it_is_a_polycast_error() -> None:
    with pytest.raises(pc.PolycastError):
        decode_recipients(1, b"\x00")
