"""Whatever bytes come: only declared errors, in bounded time and memory, and others are served."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_strategies import VERBS, arguments_of, values_of
from wire_talks import Talks, framed

from polycast.broker.wire.calls import CALLS, ERRANDS, STEPS, RemoteMethod
from polycast.broker.wire.protocol import (
    MOST,
    Append,
    Call,
    Describe,
    Follow,
    FromBroker,
    FromClient,
    Refused,
    Step,
    Want,
    Work,
    decode_batch,
    decode_from_broker,
    decode_from_client,
    decode_records,
    encode,
    encode_description,
    frames,
)
from polycast.errors import BadFrameError
from polycast.events import Identity
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.stores import Run
from polycast.typesystem import describe

Decoder = Callable[[bytes], object]
DECODERS: list[Decoder] = [decode_from_client, decode_from_broker, decode_records, decode_batch]
DEEP = b"\x91" * 100_000
HUGE = [b"\xdd\xff\xff\xff\xff\x01", b"\xdf\xff\xff\xff\xff\xa1a", b"\xc6\xff\xff\xff\xffabc"]
WORK = STEPS | ERRANDS
TIMES = 20 if os.environ.get("POLYCAST_STRESS") == "long" else 1
FEW = settings(max_examples=5 * TIMES, suppress_health_check=[*HealthCheck])


def named(one: Any) -> str:
    return str(getattr(one, "name", None) or one.__name__)


# -- decoders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("decode", DECODERS, ids=named)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused_as_a_bad_frame(decode: Decoder, data: bytes) -> None:
    with suppress(BadFrameError):
        decode(data)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame in which bytes were changed, left out, or put in."""
    said = draw(st.lists(values_of(draw(st.sampled_from([FromClient, FromBroker]))), max_size=3))
    frame = bytearray(b"".join(frames(map(encode, said), 10**9)) or b"\x90")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(frame) - 1))
        frame[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
        frame = frame or bytearray(b"\x90")
    return bytes(frame)


@pytest.mark.parametrize("decode", DECODERS, ids=named)
@settings(max_examples=20 * TIMES, suppress_health_check=[*HealthCheck])
@given(data=damaged())
def test_a_damaged_frame_is_refused_as_a_bad_frame(decode: Decoder, data: bytes) -> None:
    with suppress(BadFrameError):
        decode(data)


@pytest.mark.parametrize("verb", VERBS, ids=named)
@FEW
@given(data=st.one_of(st.binary(max_size=60), damaged()))
def test_arguments_of_any_bytes_are_refused_as_a_bad_frame(verb: RemoteMethod, data: bytes) -> None:
    with suppress(BadFrameError):
        verb.given(data)
    with suppress(BadFrameError):
        verb.result(data)


@pytest.mark.parametrize("decode", [*DECODERS, *(each.given for each in VERBS)])
@pytest.mark.parametrize("data", [DEEP, *HUGE, b"\x81" * 50_000, b"\x93" + DEEP])
def test_deep_nesting_and_huge_lengths_cost_nothing(decode: Decoder, data: bytes) -> None:
    tracemalloc.start()
    try:
        with suppress(BadFrameError):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_more_messages_than_a_frame_may_have_are_refused_before_they_are_read() -> None:
    count = 1_000_000
    frame = b"\xdd" + count.to_bytes(4) + encode(("credit", 1)) * count
    began = time.perf_counter()
    with pytest.raises(BadFrameError, match=str(MOST)):
        decode_from_client(frame)
    assert time.perf_counter() - began < 0.05


# -- a broker --------------------------------------------------------------------------------------


def declared(answers: list[FromBroker]) -> bool:
    return not any(isinstance(each, Refused) and each.code == "fault" for each in answers)


@settings(max_examples=25 * TIMES, suppress_health_check=[*HealthCheck], deadline=None)
@given(data=st.lists(st.one_of(st.binary(max_size=60), damaged()), max_size=3))
def test_a_broker_outlives_frames_of_any_bytes(talks: Talks, data: list[bytes]) -> None:
    answers, _ = talks.said(*data)
    assert declared(answers)
    assert talks.is_well()


@settings(max_examples=60 * TIMES, suppress_health_check=[*HealthCheck], deadline=None)
@given(messages=st.lists(values_of(FromClient), max_size=4))
def test_a_broker_outlives_messages_of_any_values(talks: Talks, messages: list[Any]) -> None:
    answers, _ = talks.said(*map(framed, messages))
    assert declared(answers), answers
    assert talks.is_well()


@settings(max_examples=60 * TIMES, suppress_health_check=[*HealthCheck], deadline=None)
@given(data=st.data())
def test_questions_with_any_arguments_are_answered_or_refused(
    talks: Talks, data: st.DataObject
) -> None:
    verb = CALLS[data.draw(st.sampled_from(sorted(CALLS)))]
    arguments = encode(list(data.draw(arguments_of(verb)).values()))
    answers, ended = talks.said(framed(Call(1, verb.name, arguments)))
    assert declared(answers), answers
    assert ended is None or ended.code == 1002
    assert talks.is_well()


@settings(max_examples=120 * TIMES, suppress_health_check=[*HealthCheck], deadline=None)
@given(data=st.data())
def test_work_with_any_steps_is_done_or_refused(talks: Talks, data: st.DataObject) -> None:
    steps = []
    for name in data.draw(st.lists(st.sampled_from(sorted(WORK)), max_size=3)):
        given_here = data.draw(arguments_of(WORK[name]))
        steps.append(Step(name, encode(list(given_here.values()))))
    keep, order = data.draw(st.booleans()), data.draw(st.integers(0, 5))
    answers, _ = talks.said(framed(Work(1, steps, keep, order)))
    assert declared(answers), answers
    assert talks.is_well()


@dataclass
class Thing:
    """What is published."""

    a: int


KNOWN = describe(Thing)
CHOSEN = (SelectedType(KNOWN.name, KNOWN.version, KNOWN.hash),)


FILTERS: dict[str, Any] = {
    **{f"{n} deep": "not " * n + "event.a" for n in (30, 79, 300, 900, 20_000)},
    "parentheses": "(" * 190 + "event.a" + ")" * 190,
    "long list": f"event.a in ({', '.join(map(str, range(100_000)))})",
    "list of the longest": f"event.a in ({', '.join(map(str, range(16_000)))})",
    "pairs": " and ".join(f"(event.a{n} or event.b{n})" for n in range(200)),
    "large number": "event.a == 2 ** 20 ** 20",
    "large text": "event.a == 'a' * 10 ** 10",
    "no text": 5,
}


def wanting(text: object) -> bytes:
    return Definition("x", "list", CHOSEN, filter={"format": 1, "filter": text}).encoded()


HOSTILE: dict[str, bytes] = {
    **{f"filter: {name}": wanting(text) for name, text in FILTERS.items()},
    "deep": b'{"selector":"x","level":"list","filter":' + b'{"a":' * 50_000,
    "no such level": Definition("x", "best").encoded(),
    "bad topic": Definition("x", "list", topic="//**/**/[").encoded(),
    "a function": Definition("x", "list", CHOSEN, function="os:system").encoded(),
    "no context": Definition("x", "list", CHOSEN, context="nobody's").encoded(),
    "many types": b'{"selector":"x","level":"list","types":['
    + b",".join([b'{"name":"a","version":1,"hash":"b"}'] * 50_000)
    + b"]}",
    "no definition": b"[1]",
    "no unicode": b"\xff\xfe",
    "nothing": b"",
}


@pytest.mark.parametrize("definition", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_definition_is_refused_and_nobody_else_notices(
    talks: Talks, definition: bytes
) -> None:
    began = time.perf_counter()
    run = Run(KNOWN.name, 1, KNOWN.hash, Identity("p", 1, 1), "json", [b'{"a": 1}'], "/a")
    said = [
        Describe(1, [encode_description(KNOWN)]),
        Want(2, "mine", [definition]),
        Follow(1, 1),
        Append(3, [run]),
    ]
    answers, _ = talks.said(*map(framed, said))
    assert declared(answers), answers
    assert talks.is_well()
    assert time.perf_counter() - began < 5.0


def test_a_client_with_many_definitions_leaves_nothing_behind(talks: Talks) -> None:
    good = Definition("x", "list", topic="/a").encoded()
    talks.said(framed(*(Want(n, f"s{n}", [good, good]) for n in range(1, 100))))
    talks.said(framed(Want(1, "s", [good, HOSTILE["no unicode"]])))
    assert len(talks.broker.fanout.plan) == 0
    assert talks.is_well()


SHAPES: dict[str, dict[str, Any]] = {
    "cycle": {"name": "a", "supertypes": ["a"]},
    "alias of another": {"name": "b", "aliases": ["b", "builtins.int"]},
    "no such kind": {"name": "c", "kind": "dragon"},
    "name": {"name": "import os; os.system"},
    "empty": {"name": ""},
    "many": {"name": "d", "supertypes": [f"e{n}" for n in range(50_000)]},
    "keyword": {"name": "class", "attributes": [{"name": "def", "type": "lambda"}]},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_hostile_description_harms_nobody_else(talks: Talks, shape: dict[str, Any]) -> None:
    raw = msgspec.msgpack.encode([["describe", 1, [shape]]])
    answers, _ = talks.said(raw)
    assert declared(answers), answers
    wanted = Definition("x", "list", topic="/a").encoded()
    answers, _ = talks.said(framed(Want(1, "mine", [wanted])))
    assert any(getattr(each, "number", 0) == 1 for each in answers)
    assert talks.is_well()


@settings(max_examples=10 * TIMES, suppress_health_check=[*HealthCheck], deadline=None)
@given(message=values_of(Describe))
def test_descriptions_of_any_values_harm_nobody_else(talks: Talks, message: Describe) -> None:
    answers, _ = talks.said(framed(message))
    assert declared(answers), answers
    assert talks.is_well()
