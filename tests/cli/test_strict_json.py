"""JSON by people: each type takes its own kind of value, and what was printed is taken again."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polycast.cli.lossless_json import NotJson, parsed
from polycast.cli.strict_json import JsonMismatch, StrictJson
from polycast.events import JSON, Encoded
from polycast.typesystem import Registry, describe


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Text(str):
    """A string that is not just a string."""

    __slots__ = ()


@dataclass
class Line:
    price: float
    count: int = 1


@dataclass
class Discount(Line):
    percent: int = 5


def read(cls: type, text: str, registry: Registry | None = None) -> Any:
    """The event that a person has written."""
    registry = registry or Registry()
    found = registry.bind(cls)
    data = StrictJson(registry).event(parsed(text.encode()), found)
    encoded = Encoded(found.name, found.version, found.hash, "json", msgspec.json.encode(data))
    return JSON.decode(encoded, registry=registry)


def of_field(hint: Any, text: str) -> Any:
    """What a field of this type holds after this JSON."""
    cls = dataclasses.make_dataclass("Holder", [("x", hint)])
    cls.__module__ = __name__
    registry = Registry()
    registry.bind(Discount)  # which marks name
    return read(cls, f'{{"x": {text}}}', registry).x


WRITTEN = [
    (int, "12", 12),
    (int, str(2**3_000), 2**3_000),
    (int, '{"$": "builtins.int", "$value": "0xff"}', 255),
    (float, "1.5", 1.5),
    (float, "2", 2.0),
    (float, '{"$": "builtins.float", "$value": "-inf"}', -math.inf),
    (float, '{"$": "builtins.int", "$value": 2}', 2),
    (bytes, '"aGk="', b"hi"),
    (Decimal, "0.1000000000000000000000000001", Decimal("0.1000000000000000000000000001")),
    (Decimal, '"1E+3"', Decimal("1E+3")),
    (datetime, '"2030-12-31T08:00:00Z"', datetime(2030, 12, 31, 8, tzinfo=UTC)),
    (datetime, '"2030-12-31T08:00:00"', datetime(2030, 12, 31, 8)),
    (date, '"2030-12-31"', date(2030, 12, 31)),
    (time, '"08:00"', time(8)),
    (timedelta, "[1, 2, 3]", timedelta(1, 2, 3)),
    (UUID, '"12345678-1234-5678-1234-567812345678"', UUID("12345678123456781234567812345678")),
    (Color, '"RED"', Color.RED),
    (Right, "3", Right.READ | Right.WRITE),
    (set[date], '["2030-12-31"]', {date(2030, 12, 31)}),
    (tuple[int, str], '[1, "a"]', (1, "a")),
    (tuple[float, ...], "[1, 2.5]", (1.0, 2.5)),
    (dict[str, Decimal], '{"a": 1.10}', {"a": Decimal("1.10")}),
    (dict[int, str], '[[1, "a"]]', {1: "a"}),
    (datetime | None, "null", None),
    (date | int, '"2030-12-31"', date(2030, 12, 31)),
    (date | str, '"2030-12-31"', "2030-12-31"),
    (Literal["a", 1], "1", 1),
    (Sequence[int], "[1]", [1]),
    (Mapping[str, int], '{"a": 1}', {"a": 1}),
    (Any, '{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
    (Line, '{"price": 2}', Line(2.0)),
    (Line, f'{{"$": "{__name__}.Discount", "price": 2.5}}', Discount(2.5)),
    (list[Line], '[{"price": 1, "count": 3}]', [Line(1.0, 3)]),
]


@pytest.mark.parametrize(("hint", "text", "value"), WRITTEN, ids=range(len(WRITTEN)))
def test_a_field_takes_the_json_of_its_type(hint: Any, text: str, value: Any) -> None:
    found = of_field(hint, text)
    assert (type(found), found) == (type(value), value)


REFUSED = [
    (int, '"ff"', 'x: "ff" is given; accepted: a whole number'),
    (int, "1.0", "x: 1.0 is given"),
    (int, "false", "x: false is given"),
    (float, '"inf"', 'x: "inf" is given; accepted: a number'),
    (float, "true", "x: true is given"),
    (float, str(10**400), "accepted: a number"),
    (float, '{"$": "builtins.float", "$value": "1_0"}', "accepted: a number"),
    (bool, "1", "accepted: true or false"),
    (str, "null", "accepted: a string"),
    (bytes, '"a"', "accepted: a string of base64"),
    (bytes, '"aGl="', "accepted: a string of base64"),
    (Decimal, '"1_000"', "accepted: a number, or one in a string"),
    (Decimal, '" 1"', "accepted: a number"),
    (datetime, '"2030-12-31"', "accepted: a string such as 2030-12-31T08:00:00"),
    (datetime, '"20301231T080000"', "accepted: a string such as"),
    (datetime, '"2030-12-31T08:00:00.1234567"', "accepted: a string such as"),
    (datetime, '"2030-02-31T08:00:00"', "accepted: a string such as"),
    (datetime, "1700000000", "accepted: a string such as"),
    (date, '"2030-W01-1"', "accepted: a string such as 2030-12-31"),
    (timedelta, "[1, 2.5, 3]", "accepted: an array of three whole numbers"),
    (timedelta, '"abc"', "accepted: an array of three whole numbers"),
    (UUID, '"{12345678123456781234567812345678}"', "accepted: a string such as"),
    (Color, '"r"', "the name of a member of test_strict_json.Color: RED, BLUE"),
    (Right, '"3"', "as one whole number"),
    (Right, "true", "as one whole number"),
    (set[int], "[1, 1]", "x: 1 is there twice"),
    (tuple[int, str], "[1]", "x: [1] is given; accepted: an array of 2"),
    (list[int], '[1, "2"]', 'x[1]: "2" is given; accepted: a whole number'),
    (list[int], '{"a": 1}', "accepted: an array, for list[int]"),
    (dict[str, int], '{"a b": "1"}', 'x["a b"]: "1" is given'),
    (dict[int, str], '{"1": "a"}', "an array of pairs, each [int, str]"),
    (dict[int, str], '[[1, "a"], [1, "b"]]', "x: 1 is there twice"),
    (date | UUID, "7", "accepted: datetime.date | uuid.UUID"),
    (bytes | Color, '"BLUE"', "may be bytes or test_strict_json.Color; say which, as"),
    (Literal["a", 1], "true", 'accepted: "a", 1'),
    (Sequence[int], '["a"]', 'x[0]: "a" is given'),
    (Line, '{"price": "1"}', 'x.price: "1" is given; accepted: a number'),
    (Line, '{"price": 1, "cuont": 2}', "did you mean 'count'?"),
    (Line, "{}", "x: test_strict_json.Line needs price"),
    (list[Line], '[{"price": 1, "count": null}]', "x[0].count: null is given"),
    (Any, '{"$": "os.system", "$value": 1}', "the class os.system version 1 is not known here"),
    (Any, '{"$": 1}', "the name of a class"),
]


@pytest.mark.parametrize(("hint", "text", "said"), REFUSED, ids=range(len(REFUSED)))
def test_a_value_of_another_kind_is_refused_by_its_path(hint: Any, text: str, said: str) -> None:
    with pytest.raises(JsonMismatch) as caught:
        of_field(hint, text)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ['{"x": 1, "x": 1}', "NaN", "[-Infinity]", "[1", ""])
def test_text_that_is_no_json_or_says_two_things_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        parsed(text.encode())


@dataclass
class Basket:
    owner: str
    tags: set[str] = field(default_factory=lambda: {"new"})


def test_the_class_makes_a_default_that_no_description_holds() -> None:
    assert read(Basket, '{"owner": "Ann"}') == Basket("Ann")


def test_without_the_class_such_a_default_has_to_be_given() -> None:
    description = msgspec.structs.replace(describe(Basket), name="elsewhere.Basket")
    registry = Registry()
    registry.add(description)
    with pytest.raises(JsonMismatch, match="tags: give it: only the class"):
        StrictJson(registry).event({"owner": "Ann"}, description)


_offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
_text = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["$", "RED", "0xff"])
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (type(None), st.none()),
    (bool, st.booleans()),
    (int, st.integers() | st.sampled_from([2**64, -(2**2_500)])),
    (float, st.floats(allow_nan=False)),
    (str, _text),
    (bytes, st.binary(max_size=6)),
    (datetime, st.datetimes() | st.datetimes(timezones=_offsets)),
    (date, st.dates()),
    (time, st.times() | st.times(timezones=_offsets)),
    (timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False)),
    (UUID, st.uuids()),
    (Color, st.sampled_from(Color)),
    (Right, st.sampled_from([Right.READ, Right.READ | Right.WRITE, Right(0)])),
    (Text, _text.map(Text)),
    (Line, st.builds(Line, st.floats(allow_nan=False)) | st.builds(Discount, st.just(1.0))),
]
KEYS = [each for each in SCALARS if each[0] in (int, str, date, UUID, Color)]


@st.composite
def held(draw: st.DrawFn) -> tuple[Any, Any]:
    """A type of a field, and a value of it."""
    (inner, values), (key, keys) = draw(st.sampled_from(SCALARS)), draw(st.sampled_from(KEYS))
    some, distinct = st.lists(values, max_size=3), st.lists(keys, max_size=3)
    kinds = [
        (inner, values),
        (list[inner], some),
        (tuple[inner, ...], some.map(tuple)),
        (tuple[inner, key], st.tuples(values, keys)),
        (set[key], distinct.map(set)),
        (frozenset[key], distinct.map(frozenset)),
        (dict[key, inner], st.dictionaries(keys, values, max_size=3)),
        (dict, st.dictionaries(keys, values, max_size=3)),
        (inner | None, values | st.none()),
        (inner | key, values | keys),
        (inner | list[key], values | distinct),
        (Any, values | some),
    ]
    hint, found = draw(st.sampled_from(kinds))
    return hint, draw(found)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(held(), min_size=1, max_size=3))
def test_what_is_printed_of_an_event_is_read_as_the_same_event(fields: list[Any]) -> None:
    names = [(f"f{at}", hint) for at, (hint, _) in enumerate(fields)]
    cls: Any = dataclasses.make_dataclass("Event", names)
    cls.__module__ = "printed"
    event = cls(*(value for _, value in fields))
    registry = Registry()
    printed = JSON.encode(event, registry=registry).payload
    again = read(cls, printed.decode(), registry)
    assert again == event
    assert [type(x) for x in vars(again).values()] == [type(x) for x in vars(event).values()]


@dataclass
class Full:
    """Defaults that a description has, of which JSON has no form that a person would write."""

    x: float = 0.0
    name: str = ""
    by_number: dict[int, int] = field(default_factory=dict)
    numbers: frozenset[int] = frozenset()
    pair: tuple[int, str] = (1, "a")


def test_a_default_that_no_person_would_write_is_taken_as_it_is() -> None:
    assert read(Full, '{"x": 1.5}') == Full(1.5)


@pytest.mark.parametrize(
    ("text", "field_"),
    [
        ('{"x": 1e999}', "x"),
        ('{"x": 1e-999}', "x"),
        ('{"x": 9007199254740993}', "x"),
        ('{"x": 1e99999999999999999999}', "x"),
        ('{"x": 1, "number": ' + "9" * 5000 + "}", "number"),
        ('{"name": "\\ud800"}', "name"),
        ('{"x": 1, "items": ["a", "\\ud800"]}', "items[1]"),
        ('{"x": 1, "items": [{"\\ud800": 1}]}', "items[0]"),
    ],
)
def test_what_no_number_or_text_can_hold_is_refused_with_its_field(text: str, field_: str) -> None:
    with pytest.raises(JsonMismatch) as refused:
        read(Full, text)
    assert refused.value.path == field_


@pytest.mark.parametrize("text", ["123456789012345680000", "100000000000000000000000", "-0", "7"])
def test_a_whole_number_is_a_float_if_that_comes_out_as_it_was_written(text: str) -> None:
    assert read(Line, f'{{"price": {text}}}') == Line(float(text))


def test_members_of_a_flag_that_are_not_there_are_refused_with_their_field() -> None:
    @dataclass
    class Door:
        right: Right

    with pytest.raises(
        JsonMismatch, match=r"^right: 4 is given; accepted: READ \(1\) \| WRITE \(2\)$"
    ):
        read(Door, '{"right": 4}')
