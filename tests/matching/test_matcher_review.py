"""Values, shapes of batches and orders of events at the edge, against calling the filters."""

from __future__ import annotations

import datetime as dt
import enum
import gc
import math
import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import polycast as pc
from polycast.routing import plan as routing_plan

pytestmark = pytest.mark.usefixtures("engine")

NEW_YORK = ZoneInfo("America/New_York")
Where = Callable[[Any], object]


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


@dataclass
class Reading:
    value: Any = None
    other: Any = None


def says(where: Where, event: object) -> bool:
    try:
        return bool(where(event))
    except Exception:
        return False


def filters_about(constant: Any, another: Any) -> list[Where]:
    return [
        lambda e: e.value == constant,
        lambda e: e.value != constant,
        lambda e: e.value < constant,
        lambda e: e.value >= constant,
        lambda e: not e.value < constant,
        lambda e: not (e.value == constant or e.other is None),
        lambda e: constant < e.value,
        lambda e: constant <= e.value < another,
        lambda e: e.value in (constant, another),
        lambda e: e.value not in (constant, another),
        lambda e: e.value == constant or e.value == another,
        lambda e: e.value == constant or e.other == another,
        lambda e: not (e.value == constant and e.other == another),
        lambda e: e.value or e.other,
        lambda e: e.value is None or e.value > constant,
    ]


KINDS: dict[str, list[Any]] = {
    "numbers": [
        *(0, 1, 3, -1, True, False, -0.0, 0.1, 2.5, math.inf, -math.inf),
        *(2**53 + 1, float(2**53), 2**63 - 1, 2**63, -(2**63), 10**30, 1e308),
    ],
    "texts": ["", "a", "ab", "A", "\udc80", "\U0010ffff", "a\U0010ffff", "e\u0301", "é", "a\0"],
    "times": [
        dt.datetime(2020, 1, 1),
        dt.datetime(2020, 1, 1, fold=1),
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2020, 11, 1, 1, 30, tzinfo=NEW_YORK),
        dt.datetime(2020, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=1),
        dt.datetime(2020, 11, 1, 5, 30, tzinfo=dt.UTC),
        dt.datetime(2020, 3, 8, 2, 30, tzinfo=NEW_YORK),
        dt.datetime(2020, 3, 8, 2, 30, tzinfo=NEW_YORK, fold=1),
        dt.datetime.min,
        dt.datetime.max,
    ],
    "dates": [dt.date(2020, 1, 1), dt.date.min, dt.date.max, dt.datetime(2020, 1, 1)],
    "decimals": [Decimal(1), Decimal("0.1"), Decimal("-0"), Decimal("Infinity"), 1, 3, 0.1],
    "others": [
        *(Level.LOW, Level.HIGH, Colour.RED, Colour.BLUE, uuid.UUID(int=1), uuid.UUID(int=2)),
        *(b"", b"a", dt.timedelta(0), dt.timedelta.max, dt.time(1, 2)),
    ],
}
STRANGE = [None, math.nan, Decimal("NaN"), Decimal("sNaN"), Fraction(5, 2), [], [1], "x", object()]


@pytest.mark.parametrize("kind", KINDS)
def test_values_at_the_edge_match_as_they_do_when_the_filter_is_called(kind: str) -> None:
    constants = KINDS[kind]
    wheres = [
        where
        for number, constant in enumerate(constants)
        for where in filters_about(constant, constants[number - 1])
    ]
    m: pc.Matcher[int] = pc.Matcher()
    for number, where in enumerate(wheres):
        m.add(number, Reading, where)
    events = [
        Reading(value, other)
        for value in [*constants, *STRANGE]
        for other in (constants[0], constants[-1], None)
    ]
    expected = [[n for n, where in enumerate(wheres) if says(where, each)] for each in events]
    assert [sorted(m.match(each)) for each in events] == expected
    assert [sorted(keys) for keys in m.match_batch(events * 3)] == expected * 3
    alike = [each for each in events if type(each.value) is type(constants[0])] * 30
    assert list(map(sorted, m.match_batch(alike))) == [sorted(m.match(each)) for each in alike]


PREFIXES = ["a", "ab", "\udbff", "\ud7ff", "\udc80", "\U0010ffff", "a\U0010ffff", "e\u0301"]


def test_prefixes_have_a_successor_wherever_unicode_does() -> None:
    prefixes = [*PREFIXES, *(f"p{number}" for number in range(60))]
    m: pc.Matcher[str] = pc.Matcher()
    for prefix in prefixes:
        m.add(prefix, Reading, lambda e, prefix=prefix: e.value.startswith(prefix))
    texts = [start + rest for start in prefixes for rest in ("", "\0", "z", "\U0010ffff", "\udfff")]
    expected = [{each for each in prefixes if text.startswith(each)} for text in texts]
    events = [Reading(text) for text in texts]
    assert [set(m.match(each)) for each in events] == expected
    assert [set(keys) for keys in m.match_batch(events)] == expected


@pytest.mark.parametrize("equal", [False, True])
def test_keys_may_be_tuples(equal: bool) -> None:
    """Numpy takes a list of tuples for a table, if it is let."""
    m: pc.Matcher[Any] = pc.Matcher()
    for number in range(100):
        wanted = 7 if equal else number
        m.add(("key", number), Reading, lambda e, wanted=wanted: e.value == wanted)
    found = m.match_batch([Reading(number) for number in range(100)])
    assert found[7] == ([("key", number) for number in range(100)] if equal else [("key", 7)])
    assert found[8] == ([] if equal else [("key", 8)])


def test_a_filter_may_use_the_matcher_that_asks_it() -> None:
    m: pc.Matcher[Any] = pc.Matcher()
    asked: list[int] = []

    def meddling(event: Reading) -> bool:
        asked.append(1)
        number = len(asked)
        if number < 200:
            m.add(("late", number), Reading, lambda e: e.value == number)
            m.match(Reading(5))
            if number % 3:
                m.remove(("late", number))
        return True

    m.add("meddling", Reading, meddling)
    for number in range(100):
        m.add(number, Reading, lambda e, number=number: e.value == number)
    assert {"meddling", 5} <= set(m.match(Reading(5)))
    for found in m.match_batch([Reading(5)] * 100):
        assert {"meddling", 5} <= set(found)
        assert len(set(found)) == len(found)


def test_who_stays_is_found_once_whatever_comes_and_goes(in_thread: Callable[..., Any]) -> None:
    """Keys of equal filters, and filters of their own, change in other threads."""
    m: pc.Matcher[Any] = pc.Matcher()
    for number in range(200):
        wanted = number % 20
        m.add(number, Reading, lambda e, wanted=wanted: e.value == wanted and e.other >= 0)
    over = threading.Event()

    def change(name: str) -> None:
        low = 0
        while not over.is_set():
            low += 1
            for number in range(30):
                wanted, bound = number % 20, 0 if number % 2 else -low
                m.add(
                    (name, number),
                    Reading,
                    lambda e, wanted=wanted, bound=bound: e.value == wanted and e.other >= bound,
                )
            for number in range(30):
                m.remove((name, number))

    threads = [in_thread(partial(change, name)) for name in ("a", "b")]
    try:
        for round_number in range(2_000):
            value = round_number % 20
            found = m.match(Reading(value, 1))
            assert len(set(found)) == len(found)
            stayed = [key for key in found if isinstance(key, int)]
            assert sorted(stayed) == list(range(value, 200, 20))
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_batches_keep_no_event() -> None:
    m: pc.Matcher[int] = pc.Matcher()
    for number in range(100):
        m.add(number, Reading, lambda e, number=number: e.value == number or e.other == number)
    events = [Reading(number % 7, [number]) for number in range(300)]
    seen = [weakref.ref(each) for each in events]
    m.match_batch(events)
    m.match(events[0])
    del events
    gc.collect()
    assert not any(each() for each in seen)


# -- a bus with and without an index over its filters ----------------------------------------------


def delivered(many: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Who was called with what, while callbacks subscribe, cancel and publish."""
    monkeypatch.setattr(routing_plan, "MANY", many)
    got: list[tuple[int, int]] = []
    subscriptions: list[pc.Subscription[Reading]] = []

    def act(number: int, event: Reading) -> None:
        got.append((number, event.value))
        if number == 4:
            subscriptions[9].cancel()
        if number == 6 and len(subscriptions) < 90:
            subscribe(len(subscriptions))
        if number == 8 and event.value < 10:
            bus.publish(Reading(event.value + 10))

    def subscribe(number: int) -> None:
        kinds: list[Where | None] = [
            lambda e: e.value % 5 == number % 5,
            lambda e: e.value < number,
            lambda e: 1 / (e.value - number),
            None,
        ]
        subscriptions.append(
            bus.subscribe(
                Reading,
                lambda event: act(number, event),
                where=kinds[number % len(kinds)],
                dispatch="inline",
            )
        )

    with pc.Bus() as bus:
        for number in range(70):
            subscribe(number)
        for value in range(12):
            bus.publish(Reading(value))
        bus.publish_many([Reading(3), Reading(4)])
        bus.publish(Reading(5), priority=3)
    return got


def test_a_crowd_is_called_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = delivered(10**9, monkeypatch)
    assert len(expected) > 300
    assert delivered(3, monkeypatch) == expected
    assert delivered(48, monkeypatch) == expected


# -- columns of Arrow ------------------------------------------------------------------------------


@dataclass
class Row:
    number: int | None = None
    text: str | None = None
    day: dt.date | None = None
    moment: dt.datetime | None = None


def test_every_way_arrow_has_of_holding_the_same_values() -> None:
    pa = pytest.importorskip("pyarrow")
    numbers = [None, 0, 1, 2, 250] * 20
    texts = ["", None, "a", "ab", "b\U0010ffff"] * 20
    days = [dt.date(2020, 1, 1), dt.date(2024, 2, 29), None, None, dt.date(1970, 1, 1)] * 20
    moments = [None if day is None else dt.datetime(day.year, 1, 1, 1) for day in days]
    wheres: list[Where] = [
        *(lambda e, k=k: e.number == k for k in range(5)),
        *(lambda e, k=k: not e.number < k for k in range(5)),
        *(lambda e, k=k: k < e.number <= 250 and e.text for k in range(5)),
        *(lambda e, k=k: e.text.startswith(k) or e.number is None for k in ("", "a", "b")),
        *(lambda e, k=k: e.text in (k, "ab") for k in ("", "a", "x")),
        *(lambda e, k=k: e.day <= k and e.moment.year > 1970 for k in days if k),
        lambda e: e.number + len(e.text) == 3,
    ]
    m: pc.Matcher[int] = pc.Matcher()
    for number, where in enumerate(wheres):
        m.add(number, Row, where)
    events = [Row(*each) for each in zip(numbers, texts, days, moments, strict=True)]
    expected = [[n for n, where in enumerate(wheres) if says(where, each)] for each in events]
    coded = pa.dictionary(pa.int32(), pa.string())
    for number, text, day, moment in [
        (pa.int64(), pa.string(), pa.date32(), pa.timestamp("us")),
        (pa.uint64(), pa.large_string(), pa.date64(), pa.timestamp("ms")),
        (pa.uint8(), coded, pa.date32(), pa.timestamp("s")),
        (pa.int16(), pa.string_view(), pa.date64(), pa.timestamp("us")),
    ]:
        columns = {
            "number": pa.array(numbers, number),
            "text": pa.array(texts, pa.string()).cast(text),
            "day": pa.array(days, day),
            "moment": pa.array(moments, moment),
        }
        table = pa.table(columns)
        for batch, start in [
            (table, 0),
            (pa.record_batch(columns), 0),
            (table.slice(7), 7),
            (pa.concat_tables([table.slice(0, 33), table.slice(33)]), 0),
        ]:
            offsets, keys = m.match_batch(batch, of=Row)
            found = [keys[begin:end].tolist() for begin, end in pairwise(offsets)]
            assert list(map(sorted, found)) == expected[start:]
    assert len(m.match_batch(pa.table(columns).slice(0, 0), of=Row)[1]) == 0
