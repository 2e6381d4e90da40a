"""Each subscription, and each attempt, has an object of its own; what nobody can change is shared.

So it is over a file and at a broker, and in memory if the bus, or a subscription, asks for copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stored_player import Player
from stored_values import Basket, Sealed, Ticket, spoil

import polycast as pc

Eventually = Callable[[Callable[[], object]], None]


@pytest.fixture(params=["memory", "sqlite", "remote"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the events are."""
    return str(request.param)


@pytest.fixture
def bus(place: str, request: pytest.FixtureRequest) -> Iterator[pc.Bus]:
    """A bus whose subscribers share nothing."""
    if place != "memory":
        yield request.getfixturevalue("open_bus")()
        return
    with pc.Bus(isolation="copy", history=1_000) as bus:
        yield bus


class Spoiler:
    """Remembers what it was given, as it was then, and changes it; it may fail a few times."""

    def __init__(self, *, fails: int = 0) -> None:
        self.given: list[Any] = []
        self.objects: list[Any] = []
        self._fails = fails

    def __call__(self, event: Any) -> None:
        self.given.append(list(event.items))
        self.objects.append(event)
        spoil(event)
        if len(self.given) <= self._fails:
            raise OSError("not yet")


def is_spoilt(event: Basket) -> bool:
    return "spoilt" in event.items


# -- other subscriptions ---------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_change_reaches_no_other_callback(bus: pc.Bus, dispatch: Any) -> None:
    spoilers = [Spoiler() for _ in range(3)]
    for each in spoilers:
        bus.subscribe(Basket, each, dispatch=dispatch)
    bus.publish(Basket(1, ["bolt"]))
    assert bus.flush(5)
    assert [each.given for each in spoilers] == [[["bolt"]]] * 3


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_nobody_can_change_the_headers_that_all_get(bus: pc.Bus, dispatch: Any) -> None:
    seen: list[dict[str, str]] = []

    def change(basket: Basket, delivery: pc.Delivery) -> None:
        seen.append(dict(delivery.headers))
        delivery.headers["lane"] = "changed"  # type: ignore[index]

    for _ in range(2):
        bus.subscribe(Basket, change, dispatch=dispatch, attempts=2, backoff=0.001)
    bus.publish(Basket(1, []), headers={"lane": "3"})
    bus.publish(Basket(2, []))
    assert bus.flush(5)
    assert {letter.reason.partition(":")[0] for letter in bus.dead_letters()} == {"TypeError"}
    assert sorted(map(str, seen)) == ["{'lane': '3'}"] * 4 + ["{}"] * 4


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_change_reaches_no_other_filter(bus: pc.Bus, dispatch: Any) -> None:
    spoiler, seen = Spoiler(), list[Basket]()
    bus.subscribe(Basket, spoiler, dispatch=dispatch)
    bus.subscribe(Basket, seen.append, where=is_spoilt, dispatch=dispatch)
    bus.subscribe(Basket, spoiler, dispatch=dispatch, group="both")
    bus.subscribe(Basket, seen.append, dispatch=dispatch, group="one", where=is_spoilt)
    for number in range(20):
        bus.publish(Basket(number, ["bolt"]))
    assert bus.flush(5)
    assert spoiler.given == [["bolt"]] * 40
    assert seen == []


def test_what_a_filter_changes_reaches_no_callback(bus: pc.Bus) -> None:
    def spoils(event: Basket) -> bool:
        spoil(event)
        return True

    spoilers = [Spoiler() for _ in range(3)]
    bus.subscribe(Basket, spoilers[0])
    bus.subscribe(Basket, spoilers[1], where=spoils)
    bus.subscribe(Basket, spoilers[2], since="beginning", where=spoils)
    bus.publish(Basket(1, ["bolt"]))
    assert bus.flush(5)
    assert [each.given for each in spoilers] == [[["bolt"]]] * 3


def test_a_change_reaches_no_filter_that_is_asked_later(bus: pc.Bus) -> None:
    event = Basket(1, ["bolt"])
    spoiler, seen = Spoiler(), list[Basket]()
    bus.subscribe(Basket, spoiler, dispatch="inline")
    bus.publish(event)
    spoil(event)
    assert bus.flush(5)
    bus.subscribe(Basket, seen.append, since="beginning", where=is_spoilt)
    all_of_it = Spoiler()
    bus.subscribe(Basket, all_of_it, since="beginning")
    assert bus.flush(5)
    assert (seen, all_of_it.given, spoiler.given) == ([], [["bolt"]], [["bolt"]])


def test_what_a_publisher_changes_later_reaches_nobody(bus: pc.Bus, eventually: Eventually) -> None:
    spoiler, event = Spoiler(), Basket(1, ["bolt"])
    sub = bus.subscribe(Basket, spoiler)
    sub.pause()
    bus.publish(event)
    spoil(event)
    sub.resume()
    eventually(lambda: spoiler.given)
    assert spoiler.given == [["bolt"]]


def test_a_change_reaches_no_coroutine(bus: pc.Bus) -> None:
    seen: list[list[str]] = []

    async def one(event: Basket) -> None:
        seen.append(list(event.items))
        spoil(event)
        await asyncio.sleep(0)

    for _ in range(3):
        bus.subscribe(Basket, one)
    bus.publish(Basket(1, ["bolt"]))
    assert bus.flush(5)
    assert seen == [["bolt"]] * 3


async def _two_streams(bus: pc.Bus) -> list[list[str]]:
    async with bus.stream(Basket) as one, bus.stream(Basket) as other:
        await bus.publish_async(Basket(1, ["bolt"]))
        first = await anext(one)
        spoil(first)
        second = await anext(other)
        return [first.items, second.items]


def test_a_change_reaches_no_other_stream(bus: pc.Bus) -> None:
    assert asyncio.run(_two_streams(bus)) == [["bolt", "spoilt"], ["bolt"]]


# -- other attempts --------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_change_reaches_no_further_attempt(
    bus: pc.Bus, eventually: Eventually, dispatch: Any
) -> None:
    spoiler = Spoiler(fails=2)
    bus.subscribe(Basket, spoiler, attempts=3, backoff=0.001, dispatch=dispatch)
    bus.publish(Basket(1, ["bolt"]))
    eventually(lambda: len(spoiler.given) == 3)
    assert spoiler.given == [["bolt"]] * 3
    assert len({id(each) for each in spoiler.objects}) == 3


def test_a_change_reaches_no_attempt_that_was_asked_for(
    bus: pc.Bus, eventually: Eventually
) -> None:
    seen: list[list[str]] = []

    def work(event: Basket, delivery: pc.Delivery) -> None:
        seen.append(list(event.items))
        spoil(event)
        delivery.nack(0) if delivery.count < 3 else delivery.ack()

    bus.subscribe(Basket, work, ack="manual")
    bus.publish(Basket(1, ["bolt"]))
    eventually(lambda: len(seen) == 3)
    assert seen == [["bolt"]] * 3


def test_a_change_reaches_no_other_member_of_a_group(bus: pc.Bus, eventually: Eventually) -> None:
    spoiler = Spoiler(fails=2)
    for _ in range(3):
        bus.subscribe(Basket, spoiler, group="workers", backoff=0.001)
    bus.publish(Basket(1, ["bolt"]))
    eventually(lambda: len(spoiler.given) == 3)
    assert spoiler.given == [["bolt"]] * 3


def test_a_dead_letter_has_the_event_as_it_was_published(
    bus: pc.Bus, eventually: Eventually
) -> None:
    spoiler = Spoiler(fails=1)
    bus.subscribe(Basket, spoiler, attempts=1)
    bus.subscribe(Basket, Spoiler())
    bus.publish(Basket(1, ["bolt"]))
    eventually(lambda: len(bus.dead_letters()) == 1)
    [letter] = bus.dead_letters()
    assert letter.event == Basket(1, ["bolt"])
    spoil(letter.event)
    assert bus.dead_letters().replay() == 1
    eventually(lambda: len(spoiler.given) == 2)
    assert spoiler.given == [["bolt"]] * 2


def test_what_is_only_looked_at_is_not_what_is_taken(bus: pc.Bus, eventually: Eventually) -> None:
    baskets = pc.DAStrongSet(Basket, bus, pull="fifo")
    bus.subscribe(Basket, Spoiler())
    bus.publish(Basket(1, ["bolt"]))
    eventually(lambda: len(baskets) == 1)
    for each in baskets:
        spoil(each)
    assert Basket(1, ["bolt"]) in baskets
    assert baskets.get() == Basket(1, ["bolt"])


def test_what_was_taken_and_not_acknowledged_comes_as_it_was(bus: pc.Bus) -> None:
    baskets = pc.DAStrongSet(Basket, bus, pull="fifo", durable="baskets")
    bus.publish(Basket(1, ["bolt"]))
    first = baskets.get(5)
    assert first is not None
    spoil(first)
    again = pc.DAStrongSet(Basket, bus, pull="fifo", durable="baskets")
    assert again.get(5) == Basket(1, ["bolt"])


# -- what the pipeline has routed, and what is behind ----------------------------------------------


@pytest.mark.parametrize("place", ["sqlite", "remote"], indirect=True)
def test_a_change_reaches_nobody_else_for_whom_the_pipeline_routes(
    bus: pc.Bus, player: Player, eventually: Eventually
) -> None:
    spoilers = [Spoiler(fails=1) for _ in range(3)]
    for number, each in enumerate(spoilers):
        name = f"durable {number}"
        sub = bus.subscribe(Basket, each, durable=name, engine="spark", backoff=0.001)
        player.learn(sub)
    bus.publish(Basket(1, ["bolt"]))
    player.play()
    eventually(lambda: all(len(each.given) == 2 for each in spoilers))
    assert [each.given for each in spoilers] == [[["bolt"]] * 2] * 3


@pytest.mark.parametrize("place", ["sqlite", "remote"], indirect=True)
def test_a_change_reaches_nobody_else_whose_queue_is_short(
    bus: pc.Bus, eventually: Eventually
) -> None:
    spoilers = [Spoiler() for _ in range(2)]
    for number, each in enumerate(spoilers):
        bus.subscribe(Basket, each, durable=f"durable {number}", queue=2)
    for number in range(20):
        bus.publish(Basket(number, ["bolt"]))
    eventually(lambda: all(len(each.given) == 20 for each in spoilers))
    assert [each.given for each in spoilers] == [[["bolt"]] * 20] * 2


# -- what may be shared ----------------------------------------------------------------------------


def test_what_is_frozen_with_a_list_in_it_is_not_shared(bus: pc.Bus) -> None:
    spoilers = [Spoiler() for _ in range(3)]
    for each in spoilers:
        bus.subscribe(Sealed, each)
    bus.publish(Sealed(["bolt"]))
    assert bus.flush(5)
    assert [each.given for each in spoilers] == [[["bolt"]]] * 3
    assert len({id(each.objects[0]) for each in spoilers}) == 3


def test_what_nobody_can_change_is_one_object_for_all_and_each_attempt(
    bus: pc.Bus, eventually: Eventually
) -> None:
    seen: list[Ticket] = []

    def fail_once(ticket: Ticket, delivery: pc.Delivery) -> None:
        seen.append(ticket)
        if delivery.count == 1:
            raise OSError("not yet")

    for _ in range(3):
        bus.subscribe(Ticket, fail_once, backoff=0.001)
    bus.publish(Ticket(2, ("a1", "a2"), Ticket(1)))
    eventually(lambda: len(seen) == 6)
    assert seen == [Ticket(2, ("a1", "a2"), Ticket(1))] * 6
    assert len({id(each) for each in seen}) == 1


def test_what_holds_a_list_where_none_is_declared_is_not_shared(bus: pc.Bus) -> None:
    odd: Any = ["a1"]
    seen: list[Any] = []
    for _ in range(2):
        bus.subscribe(Ticket, lambda ticket: seen.append(ticket.seats))
    bus.publish(Ticket(1, odd))
    assert bus.flush(5)
    one, other = seen
    assert list(one) == list(other) == ["a1"]
    assert one is not other or isinstance(one, tuple)


def test_a_subscription_may_ask_for_copies_everywhere(bus: pc.Bus) -> None:
    spoilers = [Spoiler() for _ in range(2)]
    for each in spoilers:
        bus.subscribe(Basket, each, copy=True)
    bus.publish(Basket(1, ["bolt"]))
    assert bus.flush(5)
    assert [each.given for each in spoilers] == [[["bolt"]]] * 2
