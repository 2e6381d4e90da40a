"""Filters of one owner may take so much of a broker's time; what is more, its clients do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.fair_scheduler import (
    AT_ONCE,
    LONGEST,
    SHARE,
    SHORTEST,
    TOO_LONG,
    FilterBudget,
)
from polycast.broker.server.run import Serving
from polycast.testing import ManualClock

WAIT = 20.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def budget(clock: ManualClock) -> FilterBudget:
    return FilterBudget(clock.monotonic)


def suspended(budget: FilterBudget) -> dict[str, int]:
    return {each.owner: round(each.seconds) for each in budget.suspended()}


def test_filters_that_take_little_are_always_asked(
    budget: FilterBudget, clock: ManualClock
) -> None:
    for _ in range(100):
        budget.spend("shop", SHARE / 20)
        clock.advance(0.1)
    assert budget.allowance("shop") == AT_ONCE
    assert not budget.suspended()


def test_filters_that_take_more_than_their_share_are_suspended_alone(budget: FilterBudget) -> None:
    for _ in range(int(SHARE / AT_ONCE) + 1):
        budget.spend("evil", AT_ONCE)
    assert budget.allowance("evil") == 0.0
    assert budget.allowance("shop") == AT_ONCE
    assert suspended(budget) == {"evil": round(SHORTEST)}


def test_one_event_that_takes_too_long_suspends_at_once(budget: FilterBudget) -> None:
    budget.spend("evil", 2 * TOO_LONG)
    assert budget.allowance("evil") == 0.0


def test_filters_that_take_too_long_again_are_suspended_for_twice_as_long(
    budget: FilterBudget, clock: ManualClock
) -> None:
    seconds = []
    for _ in range(20):
        budget.spend("evil", 2 * TOO_LONG)
        seconds.append(budget.suspended()[0].seconds)
        clock.advance(seconds[-1])
        assert budget.allowance("evil") == AT_ONCE
    assert seconds[:4] == pytest.approx([SHORTEST, 2 * SHORTEST, 4 * SHORTEST, 8 * SHORTEST])
    assert seconds[-1] == LONGEST


def test_an_owner_that_has_behaved_for_long_begins_anew(
    budget: FilterBudget, clock: ManualClock
) -> None:
    for _ in range(3):
        budget.spend("evil", 2 * TOO_LONG)
        clock.advance(budget.suspended()[0].seconds)
    clock.advance(100 * SHORTEST)
    budget.spend("evil", TOO_LONG / 10)
    budget.spend("evil", 2 * TOO_LONG)
    assert suspended(budget) == {"evil": round(SHORTEST)}


# -- at a broker -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    value: int


def test_suspended_filters_lose_nothing_and_let_nothing_wrong_through(
    serve: Callable[..., Serving],
    tokens: Callable[..., tuple[Any, dict[str, str]]],
    open_bus: Callable[..., pc.Bus],
    clock: ManualClock,
) -> None:
    rights = 'publish = ["*"]\nsubscribe = ["*"]'
    known, secrets = tokens(shop=rights + '\ndescribe = ["*"]', evil=rights)
    serving = serve(tokens=known, clock=clock)
    shop, evil = (open_bus(serving.url, token=secrets[name]) for name in ("shop", "evil"))
    seen: dict[str, list[int]] = {"shop": [], "evil": []}
    for name, bus in (("shop", shop), ("evil", evil)):
        into = seen[name]
        bus.subscribe(
            Reading,
            lambda reading, into=into: into.append(reading.value),
            where=lambda reading: reading.value >= 900,
        )
    broker: Broker = serving.broker

    def sent_for(first: int) -> int:
        before = broker.fanout.sent
        shop.publish_many([Reading(value) for value in range(first, first + 1_000)])
        shop.flush(WAIT)
        evil.flush(WAIT)
        return broker.fanout.sent - before

    assert sent_for(0) == 200  # to each what it wants
    broker.filter_budget.spend("evil", 2 * TOO_LONG)
    assert sent_for(0) == 1_100  # to one what it wants, to the other all
    clock.advance(SHORTEST)
    assert sent_for(0) == 200
    wanted = 3 * list(range(900, 1_000))
    assert seen == {"shop": wanted, "evil": wanted}
