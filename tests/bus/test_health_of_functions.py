"""What fails each time is named in `health().problems`, until it works again or ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.metrics import Trials
from polycast.testing import Recorder, TestBus


@dataclass
class Talk:
    stars: int = 0


@dataclass
class LocalTalk:
    stars: int = 0


def problem(bus: pc.Bus, part: str) -> str:
    """The one problem that speaks of something; nothing if there is none."""
    found = [each for each in bus.health().problems if part in each]
    assert len(found) <= 1
    return found[0] if found else ""


OPTIONS: list[dict[str, Any]] = [
    {},
    {"dispatch": "inline"},
    {"level": "sorted_set"},
    {"group": "crew"},
    {"durable": "desk"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_filter_that_always_fails_is_named(bus: TestBus, options: dict[str, Any]) -> None:
    sub = bus.subscribe(Talk, print, where=lambda talk: 1 / (talk.stars - talk.stars), **options)
    bus.publish_many([Talk(n) for n in range(3)])
    for n in range(2):
        bus.publish(Talk(n))
    bus.run_until_idle()
    told = problem(bus, sub.name)
    assert "5 of 5 times, the last 5 in a row" in told
    assert "ZeroDivisionError: division by zero" in told
    assert not bus.health().ok
    assert bus.health().counts.filter_failures == 5


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("stars", [1, 100])
def test_a_filter_that_has_answered_again_is_no_problem(
    bus: TestBus, options: dict[str, Any], stars: int
) -> None:
    bus.subscribe(Talk, Recorder(), where=lambda talk: 10 / talk.stars > 5, **options)
    for _ in range(4):
        bus.publish(Talk(0))
    assert problem(bus, "filter")
    bus.publish(Talk(stars))
    assert not problem(bus, "filter")
    for _ in range(4):
        bus.publish(Talk(0))
    assert "8 of 9 times, the last 4 in a row" in problem(bus, "filter")


def test_a_filter_that_fails_now_and_then_is_no_problem(bus: TestBus) -> None:
    bus.subscribe(Talk, Recorder(), where=lambda talk: 10 / talk.stars > 5)
    bus.publish_many([Talk(n % 2) for n in range(50)])
    bus.publish_many([Talk(0)] * 2)
    assert bus.health().counts.filter_failures > 20
    assert bus.health().ok


def test_each_member_of_a_group_has_a_filter_of_its_own(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    broken = bus.subscribe(Talk, print, where=lambda talk: talk.stars / 0, group="crew")
    bus.subscribe(Talk, seen, where=lambda talk: talk.stars > 1, group="crew")
    for stars in (1, 2, 3, 4):
        bus.publish(Talk(stars))
    bus.run_until_idle()
    assert [talk.stars for talk in seen.events] == [2, 3, 4]
    told = problem(bus, "filter")
    assert "a member of" in told
    assert "4 of 4 times" in told
    broken.cancel()
    assert bus.health().ok


def test_explaining_an_event_is_no_failure_of_a_context() -> None:
    with TestBus() as bus:
        sub = bus.within(context(dear)).subscribe(LocalTalk, Recorder())
        assert [sub.explain(Talk(-1)).delivered for _ in range(4)] == [False] * 4
        assert bus.health().ok


def test_a_filter_of_a_subscription_that_has_ended_is_no_problem(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print, where=lambda talk: talk.stars / 0)
    bus.publish_many([Talk()] * 5)
    assert problem(bus, "filter")
    sub.cancel()
    assert bus.health().ok


def test_a_watched_filter_still_lets_pass_what_it_wants(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    bus.subscribe(Talk, seen, where=lambda talk: 10 / talk.stars > 5, dispatch="inline")
    for stars in (0, 1, 5, 0, 1):
        bus.publish(Talk(stars))
    assert [talk.stars for talk in seen.events] == [1, 1]


def test_an_error_is_one_plain_line(bus: TestBus) -> None:
    def hostile(talk: Talk) -> bool:
        raise ValueError("\x1b[2Jall\nis well" + "!" * 1_000)

    bus.subscribe(Talk, print, where=hostile)
    bus.publish_many([Talk()] * 5)
    told = problem(bus, "filter")
    assert r"ValueError: \x1b[2Jall\nis well!!!" in told
    assert len(told) < 500


class Broken(Exception):
    """An error that cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_without_words_is_told_all_the_same() -> None:
    trials = Trials()
    trials.fail(Broken())
    assert "Broken: (RuntimeError while" in str(trials)


# -- supplies --------------------------------------------------------------------------------------


def test_a_supply_that_always_fails_is_named_until_it_works(bus: TestBus) -> None:
    answers: list[Callable[[], Any]] = []

    def produce() -> Any:
        return answers[0]() if answers else {}["no such key"]

    supply = pc.DAList(Talk, bus).supply(produce, every=1)
    assert bus.health().ok
    for _ in range(3):
        bus.advance(1)
        bus.run_until_idle()
    told = problem(bus, "supply")
    assert "the supply of test_health_of_functions.Talk fails: 3 of 3 times" in told
    assert "KeyError: 'no such key'" in told
    answers.append(lambda: None)  # there is nothing, which is an answer
    bus.advance(1)
    bus.run_until_idle()
    assert bus.health().ok
    answers.clear()
    bus.advance(1)
    bus.run_until_idle()
    assert "4 of 5 times, the last 1 in a row" in problem(bus, "supply")
    supply.cancel()
    assert bus.health().ok


# -- contexts --------------------------------------------------------------------------------------


def dear(stars: int) -> int:
    if stars < 1:
        raise ValueError(f"no stars: {stars}")
    return stars


def context(function: Callable[[int], int], *, root: pc.Context | None = None) -> pc.Context:
    us = pc.Context("us", parent=root or pc.Context("world", types=[Talk]), types=[LocalTalk])
    us.map(Talk, LocalTalk, "?")
    us.map(LocalTalk, Talk, "!")
    us.rule("Talk.stars", function)
    us.rule("LocalTalk.stars", function)
    return us


def test_a_function_of_a_context_that_always_fails_is_named() -> None:
    with TestBus() as bus:
        us = bus.within(context(dear))
        assert us.federation is not None
        us.subscribe(LocalTalk, Recorder())
        bus.subscribe(Talk, Recorder())
        bus.publish(Talk(1))
        for _ in range(4):
            bus.publish(Talk(-1))
        told = problem(bus, "context 'us'")
        assert told.startswith("the function dear of context 'us' fails, so ")
        assert "no Talk gets into it: 4 of 5 times, the last 4 in a row" in told
        assert "ValueError: no stars: -1" in told
        bus.publish(Talk(1))
        assert not problem(bus, "context 'us'")
        for _ in range(3):
            us.publish(LocalTalk(-2))
        assert "no LocalTalk gets out of it: 3 of 3 times" in problem(us, "context 'us'")
        us.federation.replace(context(pc.unchecked(math.sqrt), root=us.federation.root))
        bus.publish_many([Talk(-1)] * 3)
        assert problem(bus, "context 'us'").startswith("a function of context 'us' fails")
        us.federation.replace(context(pc.unchecked(abs), root=us.federation.root))
        assert not problem(bus, "context 'us'")


def test_a_context_that_is_gone_is_no_problem() -> None:
    with TestBus() as bus:
        us = bus.within(context(dear))
        assert us.federation is not None
        sub = us.subscribe(LocalTalk, Recorder())
        bus.publish_many([Talk(-1)] * 4)
        assert problem(bus, "context 'us'")
        sub.cancel()
        us.federation.remove("us")
        assert not problem(bus, "context 'us'")
