"""A record of an event that was published within a context: its name, and the root form."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from polycast.errors import NotDecodableError, NotSerialisableError
from polycast.events import (
    CONTEXT_FORMAT,
    FORMAT,
    JSON,
    Identity,
    Record,
    Root,
    decode_record,
    encode_record,
    record_encoder,
    rooted_encoder,
)
from polycast.typesystem import Registry

PLAIN = Record("us.Line", 2, "ab" * 16, Identity("till", 1, 42), 1.5, "json", b'{"usd":5}')
FORM = Root("shop.Line", 1, "cd" * 16, b'{"eur":4}')
MAPPED = replace(PLAIN, context="us", root=FORM)
LOCAL = replace(PLAIN, context="us")
OWN = replace(PLAIN, context="us", root=Root("us.Line", 2, "ab" * 16, b""))
REWRITTEN = replace(PLAIN, context="us", root=Root("us.Line", 2, "ab" * 16, b"{}"))
KINDS = {"mapped": MAPPED, "local": LOCAL, "its own": OWN, "rewritten": REWRITTEN}

# What was written for PLAIN before there were contexts.
BEFORE = (
    b"\x01\x9b\xa7us.Line\x02\xd9 " + b"ab" * 16 + b"\x93\xa4till\x01*\xcb?\xf8\x00\x00\x00\x00\x00"
    b'\x00\xa4json\xc4\x09{"usd":5}\xc0\x00\xc0\x80nA~t'
)


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "big")


def test_without_a_context_the_bytes_are_what_they_were() -> None:
    assert encode_record(PLAIN) == BEFORE
    assert decode_record(BEFORE) == PLAIN
    assert (PLAIN.context, PLAIN.root, PLAIN.is_own_root) == (None, None, False)


@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_a_record_of_a_context_comes_back_as_it_was(record: Record) -> None:
    data = encode_record(record)
    assert (data[0], encode_record(PLAIN)[0]) == (CONTEXT_FORMAT, FORMAT)
    assert decode_record(data) == record


def test_only_what_has_its_own_class_and_no_payload_is_its_own_root() -> None:
    assert [name for name, each in KINDS.items() if each.is_own_root] == ["its own"]


def test_a_root_form_is_decoded_as_an_event_is() -> None:
    registry = Registry()
    encoded = JSON.encode({"n": 1}, registry=registry)
    root = Root(encoded.name, encoded.version, encoded.hash, encoded.payload)
    assert JSON.decode(root, registry=registry) == {"n": 1}


def test_a_record_of_a_context_with_any_bit_flipped_is_not_decodable() -> None:
    data = encode_record(MAPPED)
    for at in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(NotDecodableError):
            decode_record(flipped)


@pytest.mark.parametrize("length", range(len(encode_record(MAPPED))))
def test_a_record_of_a_context_cut_anywhere_is_not_decodable(length: int) -> None:
    with pytest.raises(NotDecodableError):
        decode_record(encode_record(MAPPED)[:length])


CONTRADICTIONS = {
    "a root form without a context": (replace(PLAIN, root=FORM), "no context"),
    "another class without a payload": (
        replace(PLAIN, context="us", root=replace(FORM, payload=b"")),
        "no payload and another class",
    ),
}


@pytest.mark.parametrize(("record", "why"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_contradicts_itself_is_neither_written_nor_read(record: Record, why: str) -> None:
    with pytest.raises(NotSerialisableError, match=why):
        encode_record(record)
    with pytest.raises(NotDecodableError, match=why):
        decode_record(sealed(bytes((CONTEXT_FORMAT,)) + msgspec.msgpack.encode(record)))


def test_the_later_version_without_a_context_is_not_decodable() -> None:
    with pytest.raises(NotDecodableError, match="no context"):
        decode_record(sealed(bytes((CONTEXT_FORMAT,)) + msgspec.msgpack.encode(PLAIN)))


@pytest.mark.parametrize(
    ("version", "fields"), [(FORMAT, 13), (FORMAT, 12), (FORMAT, 10), (CONTEXT_FORMAT, 11)]
)
def test_each_version_has_its_own_number_of_fields(version: int, fields: int) -> None:
    values = msgspec.msgpack.decode(msgspec.msgpack.encode(MAPPED))[:fields]
    with pytest.raises(NotDecodableError, match=f"no array of {13 if version == 2 else 11} fields"):
        decode_record(sealed(bytes((version,)) + msgspec.msgpack.encode(values)))


@pytest.mark.parametrize("root", [["a", 1, "h"], ["a", 1, "h", b"", 5], ["a", "1", "h", b""], 7])
def test_a_root_form_of_another_shape_is_not_decodable(root: Any) -> None:
    values = [*msgspec.msgpack.decode(msgspec.msgpack.encode(MAPPED))[:12], root]
    with pytest.raises(NotDecodableError):
        decode_record(sealed(bytes((CONTEXT_FORMAT,)) + msgspec.msgpack.encode(values)))


@pytest.mark.parametrize("change", [{"context": "\ud800"}, {"root": replace(FORM, version=2**70)}])
def test_what_does_not_fit_the_new_fields_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(NotSerialisableError):
        encode_record(replace(MAPPED, **change))


# -- many at once ----------------------------------------------------------------------------------

TEXT = st.text(max_size=300)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
PAYLOADS = st.binary(max_size=600) | st.integers(0, 70_000).map(bytes)


@given(TEXT, st.sampled_from([None, OWN.root, FORM]), NUMBERS, PAYLOADS)
@settings(deadline=None)
def test_the_quick_way_writes_what_the_plain_way_writes(
    context: str, root: Root | None, sequence: int, payload: bytes
) -> None:
    record = replace(PLAIN, context=context, root=root)
    identity = replace(record.identity, sequence=sequence)
    plain = encode_record(replace(record, identity=identity, payload=payload))
    assert record_encoder(record)(sequence, payload) == plain


@given(TEXT, st.builds(Root, TEXT, NUMBERS, TEXT, st.just(b"")), NUMBERS, PAYLOADS, PAYLOADS)
@settings(deadline=None)
def test_so_does_the_quick_way_with_root_forms(
    context: str, root: Root, sequence: int, payload: bytes, form: bytes
) -> None:
    record = replace(PLAIN, context=context, root=root)
    one = replace(record, identity=replace(record.identity, sequence=sequence), payload=payload)
    one = replace(one, root=replace(root, payload=form))
    if form:
        assert rooted_encoder(record)(sequence, payload, form) == encode_record(one)
    else:
        with pytest.raises(NotSerialisableError, match="no payload and another class"):
            rooted_encoder(record)(sequence, payload, form)


def test_the_quick_way_with_root_forms_refuses_what_the_plain_way_refuses() -> None:
    for record in (LOCAL, replace(MAPPED, context=None), replace(MAPPED, context="\ud800")):
        with pytest.raises(NotSerialisableError):
            rooted_encoder(record)
    assert rooted_encoder(OWN)(42, PLAIN.payload, b"") == encode_record(OWN)
