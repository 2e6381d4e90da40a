"""Constants may be chosen so that all have one hash; then nothing becomes slow by that."""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import polycast as pc
from polycast.filters.normal_form.disjunction import conjunctions
from polycast.filters.normal_form.ordered_domains import Interval
from polycast.filters.tree import nodes
from polycast.matching import Selector

MODULUS = sys.hash_info.modulus  # all its multiples have the hash 0
MANY = 200

SAME: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number * MODULUS,
    "Decimal": lambda number: decimal.Decimal(number * MODULUS),
    "UUID": lambda number: uuid.UUID(int=number * MODULUS),
}
WITHIN: dict[str, Callable[[Any], Any]] = {
    "alone": lambda value: value,
    "in a tuple": lambda value: (value, "x"),
    "in a list": lambda value: [value, "x"],
    "in a set": lambda value: frozenset([value]),
}


class Holder:
    """An event with one value."""

    def __init__(self, value: Any) -> None:
        self.value = value


def is_one_of(value: Any) -> nodes.Compare:
    return nodes.Compare(nodes.Attribute(nodes.Event(), "value"), (("==", nodes.Constant(value)),))


@pytest.mark.parametrize("within", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_trees_whose_constants_have_one_hash_have_many(
    make: Callable[[int], Any], within: Callable[[Any], Any]
) -> None:
    several = [make(number) for number in range(1, MANY)]
    assert len(set(map(hash, several))) == 1
    assert len({hash(nodes.Constant(within(item))) for item in several}) == len(several)


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_what_has_a_foreseen_hash_is_looked_up_by_range(make: Callable[[int], Any]) -> None:
    value = make(7)
    [[predicate]] = conjunctions(is_one_of(value))
    assert type(predicate.form) is Interval
    assert (predicate.form.low, predicate.form.high) == (value, value)


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_it_is_found_all_the_same(make: Callable[[int], Any]) -> None:
    several = [make(number) for number in range(1, MANY)]
    matcher: pc.Matcher[int] = pc.Matcher()
    for number, item in enumerate(several):
        matcher.add(number, Selector((Holder,)), pc.Filter(is_one_of(item)))
    for number, item in enumerate(several):
        assert list(matcher.match(Holder(item))) == [number]
    for other in (None, "x", make(MANY), float("nan"), datetime.date(2030, 1, 1), [several[0]]):
        assert list(matcher.match(Holder(other))) == []


@pytest.mark.parametrize(
    "one", [1, 1.5, -0.0, "x", b"x", None, True, datetime.timedelta(1), (1, [2.0]), frozenset([1])]
)
def test_constants_that_are_the_same_have_one_hash(one: Any) -> None:
    again = {int: int, float: float}.get(type(one), type(one) if one is not None else None)
    other = one if again is None or type(one) in (bool, datetime.timedelta) else again(one)
    assert nodes.Constant(one) == nodes.Constant(other)
    assert hash(nodes.Constant(one)) == hash(nodes.Constant(other))
