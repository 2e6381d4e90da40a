"""What is said arrives as it was meant: messages, frames, arguments, results, records."""

from __future__ import annotations

import os
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_strategies import VERBS, arguments_of, values_of

from polycast.broker.wire.calls import LOG, RemoteMethod
from polycast.broker.wire.protocol import (
    MOST,
    FromBroker,
    FromClient,
    decode_batch,
    decode_from_broker,
    decode_from_client,
    decode_records,
    encode,
    encode_batch,
    encode_records,
    encode_result,
    frames,
)
from polycast.errors import NotSerialisableError
from polycast.events import Record, encode_record
from polycast.stores import LogPage, Stored


def can_be_kept(record: Record) -> bool:
    try:
        encode_record(record)
    except NotSerialisableError:
        return False
    return True


STORED = st.builds(Stored, st.integers(1, 2**62), values_of(Record).filter(can_be_kept))
TIMES = 20 if os.environ.get("POLYCAST_STRESS") == "long" else 1
FEW = settings(max_examples=6 * TIMES, suppress_health_check=[*HealthCheck])


def named(verb: RemoteMethod) -> str:
    return verb.name


@pytest.mark.parametrize("kind", get_args(FromClient), ids=lambda kind: kind.__name__)
@FEW
@given(data=st.data())
def test_a_message_of_a_client_arrives_as_it_was_said(kind: Any, data: st.DataObject) -> None:
    said = data.draw(st.lists(values_of(kind), min_size=1, max_size=3))
    (frame,) = frames(map(encode, said), 1_000_000)
    assert decode_from_client(frame) == said


@pytest.mark.parametrize("kind", get_args(FromBroker), ids=lambda kind: kind.__name__)
@FEW
@given(data=st.data())
def test_a_message_of_a_broker_arrives_as_it_was_said(kind: Any, data: st.DataObject) -> None:
    said = data.draw(st.lists(values_of(kind), min_size=1, max_size=3))
    (frame,) = frames(map(encode, said), 1_000_000)
    assert decode_from_broker(frame) == said


@settings(max_examples=20 * TIMES, suppress_health_check=[*HealthCheck])
@given(st.lists(values_of(FromClient), max_size=8), st.integers(1, 300))
def test_frames_split_and_join_to_the_same_messages(said: list[Any], limit: int) -> None:
    encoded = [encode(each) for each in said]
    found = list(frames(encoded, limit))
    assert [message for frame in found for message in decode_from_client(frame)] == said
    alone = [frame for frame in found if len(frame) > limit]
    assert all(len(decode_from_client(frame)) == 1 for frame in alone)


def test_no_frame_has_more_messages_than_are_accepted() -> None:
    found = list(frames([encode(("credit", 1))] * (MOST + 1), 10**9))
    assert [len(decode_from_client(frame)) for frame in found] == [MOST, 1]


@pytest.mark.parametrize("verb", VERBS, ids=named)
@FEW
@given(data=st.data())
def test_arguments_of_a_call_arrive_as_they_were_given(
    verb: RemoteMethod, data: st.DataObject
) -> None:
    given_here = data.draw(arguments_of(verb))
    by_name = verb._signature.parameters
    plain = [name for name in by_name if by_name[name].kind is not by_name[name].KEYWORD_ONLY]
    options = {name: value for name, value in given_here.items() if name not in plain}
    said = verb.arguments(*(given_here[name] for name in plain), **options)
    assert verb.given(said) == given_here


@pytest.mark.parametrize(
    "verb", [each for each in VERBS if each.has_result and each.name != "read"], ids=named
)
@FEW
@given(data=st.data())
def test_a_result_arrives_as_it_was_found(verb: RemoteMethod, data: st.DataObject) -> None:
    result = data.draw(values_of(verb._hints["return"]))
    encoded = encode(result) if verb.name in LOG else encode_result(result)
    assert verb.result(encoded) == result


@settings(max_examples=20 * TIMES, suppress_health_check=[*HealthCheck])
@given(st.lists(STORED, max_size=4), st.integers(0, 2**62))
def test_records_arrive_with_their_positions(entries: list[Stored], upto: int) -> None:
    assert decode_records(encode_records(entries)) == entries
    found = decode_batch(encode_batch(LogPage(entries, upto)))
    assert (found.entries, found.upto) == (entries, upto)
