"""Dead letters in a store: everybody sees them, and they go back to whom they were for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stored_events import Sale, numbers, sales

import polycast as pc
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


class Moody(Recorder[Any]):
    """A subscriber that fails until it is in a better mood."""

    def __init__(self) -> None:
        self.good = False
        super().__init__(fail=lambda sale: None if self.good else ValueError(f"no {sale.number}"))


def fail_with(bus: pc.Bus, *events: int, **options: Any) -> tuple[Any, Moody]:
    """Have a subscription fail with some events."""
    moody = Moody()
    options.setdefault("durable", "billing")
    sub = bus.subscribe(Sale, moody, attempts=1, **options)
    bus.publish_many(sales(*events))
    assert bus.flush(5)
    return sub, moody


def test_letters_are_listed_by_every_bus_and_after_a_reopening(
    open_bus: OpenBus, other: pc.Bus
) -> None:
    with open_bus() as bus:
        fail_with(bus, 0, 1)
        assert [letter.position for letter in other.dead_letters()] == [1, 2]
    with open_bus() as bus:
        first, second = bus.dead_letters()
        assert len(bus.dead_letters()) == bus.health().dead_letters == 2
        assert bus.dead_letters()[-1].event == second.event == Sale(1)
    assert (first.subscription, first.attempts) == ("billing", 1)
    assert first.reason == "ValueError: no 0"
    assert first.identity.sequence == 1


def test_a_letter_is_replayed_to_who_is_attached_here(shop: pc.Bus, eventually: Eventually) -> None:
    _, moody = fail_with(shop, 0, 1)
    moody.good = True
    assert shop.dead_letters().replay() == 2
    eventually(lambda: len(moody.events) == 2)
    assert numbers(moody) == [0, 1]
    assert len(shop.dead_letters()) == 0


def test_a_letter_is_replayed_to_who_is_attached_elsewhere(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    _, moody = fail_with(shop, 0, 1)
    moody.good = True
    assert other.dead_letters().replay(other.dead_letters()[1]) == 1
    eventually(lambda: moody.events)
    assert shop.flush(5)
    assert (numbers(moody), len(shop.dead_letters())) == ([1], 1)


def test_a_letter_replayed_while_nobody_is_attached_comes_later(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    with open_bus() as bus:
        fail_with(bus, 0, 1)
    with open_bus() as bus:
        assert bus.dead_letters().replay() == 2
        assert len(bus.dead_letters()) == 0
    seen: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.publish(Sale(2))
        bus.subscribe(Sale, seen, durable="billing")
        eventually(lambda: len(seen.events) == 3)
    assert numbers(seen) == [0, 1, 2]
    with open_bus() as bus:  # and only once
        again: Recorder[Any] = Recorder()
        bus.subscribe(Sale, again, durable="billing")
        assert bus.flush(5)
    assert again.events == []


@pytest.mark.parametrize("options", [{}, {"durable": "crew"}])
def test_a_letter_of_a_group_is_replayed_to_one_of_its_members(
    options: dict[str, Any], shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    _, moody = fail_with(shop, 0, 1, group="crew", **{"durable": None, **options})
    moody.good = True
    seen: Recorder[Any] = Recorder()
    other.subscribe(Sale, seen, group="crew", **options)
    assert other.dead_letters().replay() == 2
    eventually(lambda: len(seen.events) + len(moody.events) == 2)
    assert sorted(numbers(seen) + numbers(moody)) == [0, 1]


def test_a_letter_goes_once_however_often_it_is_replayed(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    _, moody = fail_with(shop, 0)
    moody.good = True
    [here], [there] = shop.dead_letters(), other.dead_letters()
    went = [shop.dead_letters().replay(here), other.dead_letters().replay(there)]
    eventually(lambda: moody.events)
    went.append(shop.dead_letters().replay(here))
    assert shop.flush(5)
    assert (numbers(moody), went) == ([0], [1, 0, 0])


def test_a_letter_of_a_subscription_without_a_name_goes_back_to_that_one_only(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    _, moody = fail_with(shop, 0, durable=None)
    seen: Recorder[Any] = Recorder()
    other.subscribe(Sale, seen)
    other.publish(Sale(1))
    eventually(lambda: seen.events)
    eventually(lambda: len(other.dead_letters()) == 2)
    assert other.dead_letters().replay() == 0
    moody.good = True
    assert shop.dead_letters().replay() == 2
    eventually(lambda: len(moody.events) == 2)
    assert other.flush(5)
    assert (numbers(moody), numbers(seen)) == ([0, 1], [1])


def test_after_flush_a_letter_of_a_subscription_without_a_name_is_kept(shop: pc.Bus) -> None:
    shop.subscribe(Sale, Recorder(fail=lambda sale: LookupError("no such sale")), attempts=1)
    for number in range(1, 11):
        shop.publish(Sale(number))
        assert shop.flush(10)
        assert len(shop.dead_letters()) == number


def test_a_letter_whose_subscription_is_gone_stays(shop: pc.Bus) -> None:
    sub, _ = fail_with(shop, 0)
    sub.cancel()
    assert (shop.dead_letters().replay(), len(shop.dead_letters())) == (0, 1)


def test_a_letter_that_fails_again_is_a_letter_again(shop: pc.Bus, eventually: Eventually) -> None:
    _, moody = fail_with(shop, 0)
    [before] = shop.dead_letters()
    shop.dead_letters().replay()
    eventually(lambda: len(moody.deliveries) == 2)
    eventually(lambda: len(shop.dead_letters()) == 1)
    [after] = shop.dead_letters()
    assert (after.position, after.attempts) == (before.position, 1)
    assert moody.deliveries[1].token > moody.deliveries[0].token


def test_letters_are_purged(shop: pc.Bus, other: pc.Bus) -> None:
    fail_with(shop, 0, 1, 2)
    first, *_ = other.dead_letters()
    assert other.dead_letters().purge(first) == 1
    assert [letter.event.number for letter in shop.dead_letters()] == [1, 2]
    assert (shop.dead_letters().purge(), shop.dead_letters().purge()) == (2, 0)
    assert len(other.dead_letters()) == 0


def test_a_letter_outlives_its_event_in_the_log(shop: pc.Bus, eventually: Eventually) -> None:
    _, moody = fail_with(shop, 0, 1)
    shop.publish(Sale(2))
    assert shop.flush(5)
    shop._engine.store.truncate(3)  # type: ignore[attr-defined]
    assert [letter.event.number for letter in shop.dead_letters()] == [0, 1, 2]
    moody.good = True
    assert shop.dead_letters().replay() == 3
    eventually(lambda: len(moody.events) == 3)


def test_many_letters_are_listed_page_by_page(shop: pc.Bus) -> None:
    fail_with(shop, *range(1_100))
    assert [letter.event.number for letter in shop.dead_letters()] == list(range(1_100))
    assert len(shop.dead_letters()[10:20]) == 10


OLD = """
from dataclasses import dataclass

@pc.event(name="shop.Thing")
@dataclass
class Thing:
    x: int

with pc.Bus(url) as bus:
    bus.publish_many([Thing(1), Thing(2)])
"""


@pytest.mark.parametrize("options", [{}, {"durable": "d"}, {"group": "g"}])
def test_an_event_that_cannot_be_read_is_a_dead_letter(
    options: dict[str, Any],
    shop: pc.Bus,
    run_script: Callable[[str], None],
    eventually: Eventually,
) -> None:
    run_script(OLD)
    from stored_things import Thing  # with a field more, which has no default

    seen: Recorder[Any] = Recorder()
    shop.subscribe(Thing, seen, since="beginning", **options)
    shop.publish(Thing(3, 4))
    eventually(lambda: seen.events)
    assert shop.flush(5)
    assert seen.events == [Thing(3, 4)]
    eventually(lambda: len(shop.dead_letters()) == 2)
    letters = list(shop.dead_letters())
    assert [letter.position for letter in letters] == [1, 2]
    assert "no field 'y'" in letters[0].reason
    shop.dead_letters().replay()
    eventually(lambda: len(shop.dead_letters()) == 2)  # they are back
    assert seen.events == [Thing(3, 4)]
