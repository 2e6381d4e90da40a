"""The kernel in C: how it learns where events lead, and finds the places of their values."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.tree import nodes
from polycast.matching.native import available
from polycast.matching.native.native_index import KernelLimits, NativeIndex

pytestmark = pytest.mark.skipif(available() is None, reason="the kernel is not built")

FILTERS = 3_000
LAST = 1_000_000


@dataclass(slots=True)
class Reading:
    number: int
    level: float


def attribute(name: str) -> nodes.Node:
    return nodes.Attribute(nodes.Event(), name)


def between(name: str, low: float, high: float) -> nodes.Node:
    return nodes.And(
        (
            nodes.Compare(attribute(name), ((">=", nodes.Constant(low)),)),
            nodes.Compare(attribute(name), (("<", nodes.Constant(high)),)),
        )
    )


def readings(draw: random.Random, count: int, *, upto: int) -> list[Reading]:
    return [Reading(draw.randrange(upto), draw.random()) for _ in range(count)]


def one_by_one(matcher: pc.Matcher[int], events: list[Reading]) -> None:
    for event in events:
        matcher.match(event)


def in_columns(matcher: pc.Matcher[int], events: list[Reading]) -> None:
    import pyarrow as pa

    columns = {
        "number": [event.number for event in events],
        "level": [event.level for event in events],
    }
    for start in range(0, len(events), 1_000):
        batch = pa.record_batch({k: v[start : start + 1_000] for k, v in columns.items()})
        matcher.match_batch(batch, of=Reading)


def effort(
    matcher: pc.Matcher[int],
    ask: Callable[[pc.Matcher[int], list[Reading]], None],
    events: list[Reading],
) -> float:
    """How much an event has to look at."""
    (index,) = matcher._indexes.values()
    assert isinstance(index, NativeIndex)
    _ = index.kernel.watched
    ask(matcher, events)
    _, seen, blocks = index.kernel.watched
    return float(blocks / seen)


@pytest.mark.parametrize("ask", [one_by_one, in_columns])
def test_a_counter_that_runs_on_is_learnt_anew(
    ask: Callable[[pc.Matcher[int], list[Reading]], None],
) -> None:
    draw = random.Random(1)
    matcher: pc.Matcher[int] = pc.Matcher(native=True)
    for number in range(FILTERS):
        low, level = draw.randrange(LAST * 9 // 10), draw.random() * 0.97
        narrow = nodes.And(
            (between("number", low, low + LAST // 10), between("level", level, level + 0.03))
        )
        matcher.add(number, Reading, pc.Filter(narrow))
    ask(matcher, readings(draw, 300, upto=100))  # all of them look as if they never were far
    later = readings(draw, 2_000, upto=LAST)
    before = effort(matcher, ask, later)
    ask(matcher, readings(draw, 20_000, upto=LAST))
    assert effort(matcher, ask, later) < before / 1.5


PREFIXES = ("", "h", "https://shop.example/", "https://shop.example/orders/", "\u00e9", "\x7f")
texts = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(PREFIXES),
    st.sampled_from(("", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\x00")),
    st.text("ab\x00\u00ff\U0001f600", max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PREFIXES),
    st.lists(st.tuples(st.sampled_from(("==", "<", "<=", ">", ">=", "!=")), texts), min_size=1),
    st.lists(texts, min_size=1),
    st.sampled_from(((0, 40, 12), (0, 3, 2), (48, 40, 12))),
)
def test_texts_that_begin_alike_are_told_apart(
    common: str,
    wanted: list[tuple[str, str]],
    values: list[str],
    limits: tuple[int, int, int],
) -> None:
    index = NativeIndex(threading.RLock(), available(), limits=KernelLimits(*limits))
    for number, (operator, text) in enumerate(wanted):
        constant = nodes.Constant(common + text)
        index.add(nodes.Compare(attribute("number"), ((operator, constant),)), number)
    for value in (*values, *(common + each for each in values), *(text for _, text in wanted)):
        event: Any = Reading(value, 0.0)  # type: ignore[arg-type]
        assert sorted(index.match(event)) == [
            number
            for number, (operator, text) in enumerate(wanted)
            if COMPARING[operator](value, common + text)
        ]


COMPARING: dict[str, Callable[[str, str], bool]] = {
    "==": str.__eq__,
    "!=": str.__ne__,
    "<": str.__lt__,
    "<=": str.__le__,
    ">": str.__gt__,
    ">=": str.__ge__,
}
