"""The quick way to write many records writes what the plain way writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polycast.events import Identity, Record, decode_record, encode_record, record_encoder

TEXT = st.text(max_size=300)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.builds(
    Record,
    name=TEXT,
    version=NUMBERS,
    hash=TEXT,
    identity=st.builds(Identity, TEXT, NUMBERS, NUMBERS),
    time=st.floats(allow_nan=False),
    codec=st.sampled_from(["json", "msgpack"]),
    payload=st.binary(max_size=2_000) | st.integers(0, 70_000).map(bytes),
    topic=st.none() | TEXT,
    priority=NUMBERS,
    expires=st.none() | st.floats(allow_nan=False),
    headers=st.dictionaries(TEXT, TEXT, max_size=20),
)


@given(RECORDS, NUMBERS, st.binary(max_size=600) | st.integers(0, 70_000).map(bytes))
def test_it_writes_what_the_plain_way_writes(record: Record, sequence: int, payload: bytes) -> None:
    identity = replace(record.identity, sequence=sequence)
    plain = encode_record(replace(record, identity=identity, payload=payload))
    assert record_encoder(record)(sequence, payload) == plain
    assert decode_record(plain).payload == payload
