"""What the codecs promise of values: exact, and nothing sliced off."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
import zoneinfo
from typing import Any, TypeVar

import msgspec
import pytest
from wire_trip import CODECS, Color, Keynote, Point, Program, Right, Talk, Text, round_trip

from polycast.errors import NotSerialisableError
from polycast.events import JSON, Codec
from polycast.typesystem import Registry, describe, wire_name

T = TypeVar("T")


class Name(enum.StrEnum):
    A = "a"


class Numbers(list):  # type: ignore[type-arg]
    pass


class Words(dict):  # type: ignore[type-arg]
    pass


VALUES = [
    None,
    True,
    0,
    2**63,
    2**64,
    -(2**70),
    10**5000,
    0.1,
    -0.0,
    math.inf,
    "text",
    "",
    "é\x00",
    b"\xff\x00",
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime.date(2020, 1, 2),
    datetime.time(1, 2, 3, 4),
    datetime.timedelta(days=-1, microseconds=1),
    datetime.timedelta.max,
    decimal.Decimal("1.500"),
    decimal.Decimal("1E+50"),
    decimal.Decimal("-Infinity"),
    uuid.UUID(int=7),
    Color.RED,
    Name.A,
    Right.READ,
    Right.READ | Right.WRITE,
    Right(0),
    [1, "a", None, [2.0]],
    (1, (2, "x")),
    {1, 2},
    frozenset({"a"}),
    {"a": 1, "$": 2},
    {1: "a", (1, 2): {"b": 3}, None: 4, "s": 5},
    Text("abc"),
    Numbers([1, Text("a")]),
    Words(a=1),
    Point(1, Talk("me")),
    Talk("me"),
    Keynote("me", fee=3),
    msgspec.UNSET,
]


def shown(value: Any) -> str:
    return hex(value)[:30] if type(value) is int else ascii(value)[:30]


@CODECS
@pytest.mark.parametrize("value", VALUES, ids=shown)
def test_a_value_comes_back_exactly_as_an_event_and_inside_one(codec: Codec, value: Any) -> None:
    for sent in (value, [value], {"k": value}, (value,), Program(Talk("x"), other=value)):
        back = round_trip(codec, sent)
        assert type(back) is type(sent)
        assert back == sent
    inside = round_trip(codec, Program(Talk("x"), other=value)).other
    assert type(inside) is type(value)


@CODECS
def test_not_a_number_is_still_not_a_number(codec: Codec) -> None:
    assert math.isnan(round_trip(codec, float("nan")))
    assert math.isnan(round_trip(codec, [float("nan")])[0])


@CODECS
def test_minus_zero_keeps_its_sign(codec: Codec) -> None:
    assert math.copysign(1, round_trip(codec, -0.0)) == -1


@CODECS
def test_an_aware_time_keeps_its_offset_and_a_naive_one_stays_naive(codec: Codec) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30, seconds=7))
    aware = datetime.datetime(2020, 1, 1, tzinfo=zone)
    assert round_trip(codec, aware).utcoffset() == aware.utcoffset()
    assert round_trip(codec, datetime.datetime(2020, 1, 1)).tzinfo is None
    summer = datetime.datetime(2020, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Zurich"))
    assert round_trip(codec, summer) == summer
    assert round_trip(codec, summer).utcoffset() == datetime.timedelta(hours=2)


@CODECS
def test_the_exponent_of_a_decimal_is_kept(codec: Codec) -> None:
    assert str(round_trip(codec, decimal.Decimal("1.500"))) == "1.500"
    assert str(round_trip(codec, decimal.Decimal("sNaN"))) == "sNaN"


@CODECS
@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("\ud800", "str"),
        (Talk("\ud800"), "Talk.speaker"),
        (Program(Talk("a"), [Talk("b"), Talk("\ud800")]), "Program.all[1].speaker"),
    ],
)
def test_half_a_surrogate_pair_is_refused_where_it_is(codec: Codec, given: Any, path: str) -> None:
    with pytest.raises(NotSerialisableError, match="surrogate") as raised:
        codec.encode(given, registry=Registry())
    assert raised.value.path == path


@CODECS
def test_a_derived_object_stays_derived_wherever_it_is(codec: Codec) -> None:
    star = Keynote("me", fee=3)
    sent = Program(star, [star, Talk("x")], (star,), {"k": star}, star)
    back = round_trip(codec, sent)
    assert back == sent
    held = (back.first, back.all[0], back.other[0], back.named["k"], back.either)
    assert {type(found) for found in held} == {Keynote}


def test_a_declared_class_is_not_named_again() -> None:
    encoded = JSON.encode(Program(Talk("a")), registry=Registry())
    assert b"$" not in encoded.payload
    encoded = JSON.encode(Program(Keynote("a")), registry=Registry())
    assert encoded.payload.count(b'"$"') == 1


def test_a_plain_event_is_plain_json() -> None:
    encoded = JSON.encode(Keynote("Eugster", fee=3), registry=Registry())
    assert msgspec.json.decode(encoded.payload) == {"speaker": "Eugster", "room": None, "fee": 3}
    assert (encoded.name, encoded.version) == (wire_name(Keynote), 1)
    assert encoded.hash == describe(Keynote).hash


WRONG = [1, "1", 1.0, None, True, b"1", [1], {"$": 1}, Talk("x"), 2**80, math.inf, Text("t")]


@CODECS
@pytest.mark.parametrize("hint", [int, str, float, bool, bytes, datetime.date, list[int], Talk])
def test_a_field_may_hold_what_its_annotation_does_not_say(codec: Codec, hint: Any) -> None:
    cls = dataclasses.make_dataclass("Lax", [("value", hint), ("other", int)])
    struct = msgspec.defstruct("LaxStruct", [("value", hint), ("other", int)])
    for value in WRONG:
        for sent in (cls(value, 1), struct(value, 1)):
            found = round_trip(codec, sent).value
            assert type(found) is type(value)
            assert found == value


@CODECS
def test_a_mark_in_a_dictionary_of_strings_is_noticed(codec: Codec) -> None:
    struct = msgspec.defstruct("Words", [("words", dict[str, str]), ("other", int)])
    for words in (b"abc", {"$": "builtins.bytes", "$value": "eA=="}, {"a": 1}):
        assert round_trip(codec, struct(words, 1)).words == words
