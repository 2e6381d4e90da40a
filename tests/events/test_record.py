"""The envelope: identity, bytes, versions, checksum."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polycast.errors import NotDecodableError, NotSerialisableError
from polycast.events import FORMAT, Identity, Record, decode_record, encode_record

RECORD = Record(
    name="shop.Order",
    version=2,
    hash="ab" * 16,
    identity=Identity("till-7", 1, 42),
    time=1_700_000_000.25,
    codec="json",
    payload=b'{"item":"tea"}',
    topic="/shop/orders",
    priority=-3,
    expires=1_700_000_060.0,
    headers={"trace": "1"},
)

_whole = st.integers(-(2**63), 2**63 - 1)
_text = st.text(st.characters(codec="utf-8"), max_size=10)
_time = st.floats(allow_nan=False)
records = st.builds(
    Record,
    name=_text,
    version=_whole,
    hash=_text,
    identity=st.builds(Identity, _text, _whole, _whole),
    time=_time,
    codec=st.sampled_from(["json", "msgpack"]),
    payload=st.binary(max_size=50),
    topic=st.none() | _text,
    priority=_whole,
    expires=st.none() | _time,
    headers=st.dictionaries(_text, _text, max_size=3),
)


@given(records)
@settings(max_examples=100, deadline=None)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_identities_order_by_publisher_epoch_and_sequence() -> None:
    order = [Identity("a", 1, 9), Identity("a", 2, 1), Identity("a", 2, 2), Identity("b", 1, 1)]
    assert sorted([order[2], order[0], order[3], order[1]]) == order
    assert len({Identity("a", 1, 1), Identity("a", 1, 1)}) == 1
    assert str(order[0]) == "a/1/9"
    with pytest.raises(AttributeError):
        order[0].epoch = 3  # type: ignore[misc]


def test_the_envelope_is_a_version_a_body_and_a_checksum() -> None:
    data = encode_record(RECORD)
    assert data[0] == FORMAT
    assert int.from_bytes(data[-4:], "big") == zlib.crc32(data[:-4])
    assert msgspec.msgpack.decode(data[1:-4])[0] == "shop.Order"


def test_any_buffer_will_do() -> None:
    data = encode_record(RECORD)
    assert decode_record(bytearray(data)) == decode_record(memoryview(data)) == RECORD


@pytest.mark.parametrize("length", range(len(encode_record(RECORD))))
def test_a_record_cut_anywhere_is_not_decodable(length: int) -> None:
    with pytest.raises(NotDecodableError):
        decode_record(encode_record(RECORD)[:length])


def test_a_record_with_any_bit_flipped_is_not_decodable() -> None:
    data = encode_record(RECORD)
    for at in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(NotDecodableError):
            decode_record(flipped)


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "big")


def test_a_newer_format_is_named_with_what_is_accepted() -> None:
    with pytest.raises(NotDecodableError, match="format version 9 found, 1 and 2 accepted"):
        decode_record(sealed(b"\x09" + encode_record(RECORD)[1:-4]))


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_only_not_decodable_comes_out_of_any_bytes(data: bytes) -> None:
    for given_bytes in (data, bytes((FORMAT,)) + data, sealed(bytes((FORMAT,)) + data)):
        with pytest.raises(NotDecodableError):
            decode_record(given_bytes)


_tree: Any = st.recursive(
    st.none() | _whole | _text | st.binary(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(_text, inner, max_size=2),
    max_leaves=15,
)


@given(_tree)
@settings(max_examples=150, deadline=None)
def test_a_body_with_a_right_checksum_and_a_wrong_shape_is_not_decodable(tree: Any) -> None:
    with pytest.raises(NotDecodableError):
        decode_record(sealed(bytes((FORMAT,)) + msgspec.msgpack.encode(tree)))


def test_trailing_bytes_and_further_fields_are_not_decodable() -> None:
    data = encode_record(RECORD)
    with pytest.raises(NotDecodableError):
        decode_record(sealed(data[:-4] + b"\x00"))
    fields = [*msgspec.msgpack.decode(data[1:-4]), "more"]
    with pytest.raises(NotDecodableError):
        decode_record(sealed(bytes((FORMAT,)) + msgspec.msgpack.encode(fields)))


@pytest.mark.parametrize("change", [{"priority": 2**70}, {"topic": "\ud800"}])
def test_what_does_not_fit_an_envelope_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(NotSerialisableError):
        encode_record(msgspec.structs.replace(RECORD, **change))


def test_an_envelope_without_options_is_small() -> None:
    bare = Record("shop.Order", 1, "ab" * 16, Identity("till-7", 1, 1), 1.5, "json", b"{}")
    assert len(encode_record(bare)) < 90
