"""Dead letters: listed, replayed, purged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Order:
    number: int = 0


class Flaky:
    """A subscriber that fails until it is mended."""

    def __init__(self) -> None:
        self.broken = True
        self.handled: list[int] = []

    def __call__(self, order: Order) -> None:
        if self.broken:
            raise OSError("broken")
        self.handled.append(order.number)


def dead(bus: TestBus, count: int = 3, **options: Any) -> tuple[Any, Flaky]:
    """A subscription whose events have all become dead letters, and that is mended now."""
    flaky = Flaky()
    sub = bus.subscribe(Order, flaky, attempts=1, **options)
    for number in range(count):
        bus.publish(Order(number))
    bus.run_until_idle()
    flaky.broken = False
    return sub, flaky


def numbers(bus: TestBus) -> list[int]:
    """The events in the dead letters."""
    return [letter.event.number for letter in bus.dead_letters()]


def test_dead_letters_are_listed_oldest_first(bus: TestBus) -> None:
    dead(bus)
    assert numbers(bus) == [0, 1, 2]


def test_a_letter_tells_what_why_and_when(bus: TestBus) -> None:
    bus.clock.advance(5)
    sub, _ = dead(bus, 1)
    letter = bus.dead_letters()[0]
    assert (letter.subscription, letter.attempts, letter.time) == (sub.name, 1, bus.clock.time())
    assert isinstance(letter.error, OSError)


def test_a_letter_can_be_read(bus: TestBus) -> None:
    dead(bus, 1)
    text = str(bus.dead_letters()[0])
    assert "Order" in text
    assert "broken" in text


def test_one_letter_for_each_subscription_that_failed(bus: TestBus) -> None:
    for _ in range(2):
        bus.subscribe(Order, Flaky(), attempts=1)
    bus.publish(Order())
    bus.run_until_idle()
    assert len(bus.dead_letters()) == 2


def test_replaying_delivers_them_once_more(bus: TestBus) -> None:
    _, flaky = dead(bus)
    replayed = bus.dead_letters().replay()
    bus.run_until_idle()
    assert (replayed, sorted(flaky.handled), numbers(bus)) == (3, [0, 1, 2], [])


@pytest.mark.parametrize("level", ["sorted_set", "list"])
def test_replaying_keeps_the_order_of_the_log(bus: TestBus, level: Any) -> None:
    _, flaky = dead(bus, 5, level=level)
    bus.dead_letters().replay()
    bus.run_until_idle()
    assert flaky.handled == [0, 1, 2, 3, 4]


def test_replaying_to_a_paused_subscription_keeps_the_order_of_the_log(bus: TestBus) -> None:
    sub, flaky = dead(bus, 5)
    sub.pause()
    bus.dead_letters().replay()
    sub.resume()
    bus.run_until_idle()
    assert flaky.handled == [0, 1, 2, 3, 4]


def test_one_letter_can_be_replayed(bus: TestBus) -> None:
    _, flaky = dead(bus)
    bus.dead_letters().replay(bus.dead_letters()[1])
    bus.run_until_idle()
    assert (flaky.handled, numbers(bus)) == ([1], [0, 2])


def test_a_letter_replayed_twice_is_delivered_once(bus: TestBus) -> None:
    _, flaky = dead(bus, 1)
    letter = bus.dead_letters()[0]
    bus.dead_letters().replay(letter)
    bus.dead_letters().replay(letter)
    bus.run_until_idle()
    assert flaky.handled == [0]


def test_a_letter_that_was_purged_is_not_replayed(bus: TestBus) -> None:
    _, flaky = dead(bus, 1)
    letter = bus.dead_letters()[0]
    bus.dead_letters().purge()
    replayed = bus.dead_letters().replay(letter)
    bus.run_until_idle()
    assert (replayed, flaky.handled) == (0, [])


def test_replaying_goes_to_the_subscription_that_failed_only(bus: TestBus) -> None:
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen)
    dead(bus, 1)
    bus.dead_letters().replay()
    bus.run_until_idle()
    assert len(seen.events) == 1


def test_what_fails_again_is_a_dead_letter_again(bus: TestBus) -> None:
    _, flaky = dead(bus, 1)
    flaky.broken = True
    bus.dead_letters().replay()
    bus.run_until_idle()
    assert numbers(bus) == [0]


def test_a_letter_whose_subscription_is_gone_stays(bus: TestBus) -> None:
    sub, _ = dead(bus, 1)
    sub.cancel()
    replayed = bus.dead_letters().replay()
    assert (replayed, numbers(bus)) == (0, [0])


def test_a_durable_that_is_detached_gets_its_letters_later(bus: TestBus) -> None:
    sub, flaky = dead(bus, 2, durable="billing")
    sub.detach()
    bus.dead_letters().replay()
    bus.subscribe(Order, flaky, durable="billing", attempts=1)
    bus.run_until_idle()
    assert sorted(flaky.handled) == [0, 1]


def test_a_letter_of_a_group_is_replayed_to_the_group(bus: TestBus) -> None:
    _, flaky = dead(bus, 1, group="g")
    bus.dead_letters().replay()
    bus.run_until_idle()
    assert flaky.handled == [0]


def test_a_letter_is_replayed_in_line_too(bus: TestBus) -> None:
    _, flaky = dead(bus, 1, dispatch="inline")
    bus.dead_letters().replay()
    bus.run_until_idle()
    assert flaky.handled == [0]


def test_purging_throws_all_away(bus: TestBus) -> None:
    dead(bus)
    assert (bus.dead_letters().purge(), numbers(bus)) == (3, [])


def test_one_letter_can_be_purged(bus: TestBus) -> None:
    dead(bus)
    bus.dead_letters().purge(bus.dead_letters()[0])
    assert numbers(bus) == [1, 2]


def test_purging_says_how_many_went(bus: TestBus) -> None:
    dead(bus, 1)
    letter = bus.dead_letters()[0]
    bus.dead_letters().purge(letter)
    assert bus.dead_letters().purge(letter) == 0


def test_dead_letters_are_a_problem_of_the_bus(bus: TestBus) -> None:
    dead(bus, 2)
    health = bus.health()
    assert (health.dead_letters, health.ok) == (2, False)


def test_as_many_letters_are_kept_as_was_asked_for() -> None:
    with pc.Bus(dead_letters=2) as bus:
        bus.subscribe(Order, Flaky(), attempts=1, dispatch="inline")
        for number in range(5):
            bus.publish(Order(number))
        letters = bus.dead_letters()
        assert [letter.event.number for letter in letters] == [3, 4]
        assert letters.let_go == 3


def test_slices_of_dead_letters_are_lists(bus: TestBus) -> None:
    dead(bus)
    assert [letter.event.number for letter in bus.dead_letters()[1:]] == [1, 2]
