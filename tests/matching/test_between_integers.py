"""Floats lie between neighbouring integers, whatever a column of integers has learnt to expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import polycast as pc

pytestmark = pytest.mark.usefixtures("engine")


@dataclass
class Sample:
    p: Any
    q: Any = 0


OPEN: list[Callable[[Sample], object]] = [
    lambda s: 0 < s.p < 1,
    lambda s: 1 > s.p > 0,
    lambda s: s.p > 0 and s.p < 1,
    lambda s: not (s.p <= 0 or s.p >= 1),
    lambda s: s.p < 1 and s.p != 0 and s.p > 0,
    lambda s: s.p > 0 and s.p < 1 and s.q == 0,
]


@pytest.mark.parametrize("where", OPEN, ids=range(len(OPEN)))
@pytest.mark.parametrize("crowd", [0, 300])
def test_an_open_interval_between_neighbouring_integers_is_not_empty(
    where: Callable[[Sample], object], crowd: int
) -> None:
    m: pc.Matcher[Any] = pc.Matcher()
    m.add("between", Sample, where)
    for number in range(crowd):
        m.add(number, Sample, lambda s, n=number: s.p == n and s.q == n)
    events = [Sample(each) for each in (0.25, 0.5, 5e-324, Decimal("0.5"), Fraction(1, 2))]
    assert [m.match(event) for event in events] == [["between"]] * 5
    assert m.match_batch(events) == [["between"]] * 5


@pytest.mark.parametrize("low", [-1, 0, 7, 2**31, 2**52 - 1])
def test_so_it_is_at_every_size(low: int) -> None:
    m: pc.Matcher[str] = pc.Matcher()
    high = low + 1
    m.add("between", Sample, lambda s: low < s.p < high)
    assert m.match(Sample(low + 0.5)) == ["between"]
    assert m.match(Sample(low)) == m.match(Sample(low + 1)) == []


@pytest.mark.parametrize("crowd", [1, 300])
def test_what_no_integer_satisfies_is_found_after_many_integers(crowd: int) -> None:
    m: pc.Matcher[Any] = pc.Matcher()
    for number in range(crowd):
        m.add(number, Sample, lambda s, n=number: s.p == n and s.q == n)
    for number in range(600):
        m.match(Sample(number))
    m.add("half", Sample, lambda s: s.p == 0.5)
    m.add("about", Sample, lambda s: 0.2 < s.p < 0.8)
    m.add("also", Sample, lambda s: s.p in (0.5, 1.5) and s.q == 0)
    assert sorted(m.match(Sample(0.5))) == ["about", "also", "half"]


def test_columns_of_arrow_are_no_different() -> None:
    pa = pytest.importorskip("pyarrow")
    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, Sample, lambda s: 0 < s.p < 1)
    batch = pa.record_batch({"p": [0.0, 0.5, 1.0, None], "q": [0, 0, 0, 0]})
    offsets, keys = m.match_batch(batch, of=Sample)
    assert (list(offsets), list(keys)) == ([0, 0, 1, 1, 1], [1])


def test_a_value_that_contradicts_itself_is_asked_itself() -> None:
    class Anything:
        def __lt__(self, other: object) -> bool:
            return True

        __gt__ = __lt__

    m: pc.Matcher[str] = pc.Matcher()
    m.add("never", Sample, lambda s: 5 < s.p < 3)
    m.add("nor", Sample, lambda s: s.p < 3 and s.q == 0 and s.p > 5)
    assert sorted(m.match(Sample(Anything()))) == ["never", "nor"]
    assert m.match(Sample(4)) == []


def test_the_ends_of_an_open_interval_are_outside() -> None:
    m: pc.Matcher[str] = pc.Matcher()
    m.add("between", Sample, lambda s: 0 < s.p < 1)
    ends = [0, 1, 0.0, -0.0, 1.0, False, True, Decimal(0), Decimal(1), float("nan")]
    assert m.match_batch([Sample(each) for each in ends]) == [[]] * len(ends)
