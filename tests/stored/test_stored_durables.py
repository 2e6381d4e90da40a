"""Durable names over a file: coming, going, taking over, and other definitions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from stored_events import BigSale, Refund, Sale, big, numbers, sales

import polycast as pc
from polycast.stores import retain
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


def attach(bus: pc.Bus, what: Any = Sale, **options: Any) -> tuple[Any, Recorder[Any]]:
    """Attach a recorder to the durable name."""
    seen: Recorder[Any] = Recorder()
    options.setdefault("durable", "billing")
    return bus.subscribe(what, seen, **options), seen


# -- coming and going ------------------------------------------------------------------------------


def test_what_was_missed_while_detached_comes_after_attaching_again(
    shop: pc.Bus, eventually: Eventually
) -> None:
    sub, before = attach(shop)
    shop.publish(Sale(0))
    eventually(lambda: before.events)
    sub.detach()
    assert sub.state == "detached"
    shop.publish_many(sales(1, 2))
    _, after = attach(shop)
    shop.publish(Sale(3))
    eventually(lambda: len(after.events) == 3)
    assert shop.flush(5)
    assert (numbers(before), numbers(after)) == ([0], [1, 2, 3])


def test_a_durable_begins_where_it_was_first_subscribed(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    other.publish_many(sales(*range(1_200)))
    sub, seen = attach(shop)
    sub.detach()
    _, again = attach(shop)
    other.publish(Sale(2_000))
    eventually(lambda: again.events)
    assert shop.flush(5)
    assert (numbers(seen), numbers(again)) == ([], [2_000])


def test_a_durable_goes_on_in_another_bus(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    sub, before = attach(shop)
    shop.publish_many(sales(*range(100)))
    eventually(lambda: len(before.events) == 100)
    sub.detach()
    shop.publish_many(sales(100, 101))
    _, after = attach(other)
    eventually(lambda: len(after.events) == 2)
    assert other.flush(5)
    assert numbers(after) == [100, 101]


def test_what_was_handled_elsewhere_does_not_come_again_to_a_bus_that_is_behind(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    go, begun = threading.Event(), threading.Event()
    shop.subscribe(Sale, lambda sale: (begun.set(), go.wait(10)), dispatch="inline")
    sub, before = attach(other)
    other.publish_many(sales(*range(1_500)))
    eventually(lambda: len(before.events) == 1_500)
    sub.detach()
    begun.wait(10)
    again, after = attach(shop)
    go.set()
    assert shop.flush(10)
    assert numbers(after) == []
    again.detach()  # which must not have moved its place back
    _, last = attach(other)
    other.publish(Sale(2_000))
    eventually(lambda: last.events)
    assert numbers(last) == [2_000]


def test_a_callback_that_returns_after_detaching_has_handled_its_event(
    shop: pc.Bus, eventually: Eventually
) -> None:
    subs: list[Any] = []
    handled: list[int] = []

    def once(sale: Sale) -> None:
        subs[0].detach()
        handled.append(sale.number)

    with_subscription = threading.Event()
    subs.append(
        shop.subscribe(Sale, lambda sale: (with_subscription.wait(10), once(sale)), durable="d")
    )
    with_subscription.set()
    shop.publish_many(sales(0, 1))
    eventually(lambda: handled)
    eventually(lambda: not subs[0].consumer.busy)
    _, after = attach(shop, durable="d")
    eventually(lambda: after.events)
    assert shop.flush(5)
    assert (handled, numbers(after)) == ([0], [1])


def test_cancel_deletes_the_name(open_bus: OpenBus, eventually: Eventually) -> None:
    with open_bus() as bus:
        sub, _ = attach(bus)
        bus.publish(Sale(0))
        sub.cancel()
        bus.publish(Sale(1))
    with open_bus() as bus:
        _, seen = attach(bus, Refund)  # another definition: the old one is gone
        bus.publish(Refund(2))
        eventually(lambda: seen.events)
        assert numbers(seen) == [2]


def test_cancel_of_a_detached_one_deletes_the_name_unless_somebody_has_it(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    first, _ = attach(shop)
    first.detach()
    second, seen = attach(other)
    first.cancel()
    other.publish(Sale(0))
    eventually(lambda: seen.events)
    assert second.state == "active"
    second.detach()
    second.cancel()
    shop.publish(Sale(1))
    third, again = attach(other)
    other.publish(Sale(2))
    eventually(lambda: again.events)
    assert (numbers(again), third.state) == ([2], "active")


def test_one_who_is_cancelled_elsewhere_ends(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    first, _ = attach(shop)
    second, _ = attach(other)
    second.cancel()
    eventually(lambda: first.state != "active")
    assert first.state in ("taken over", "cancelled")


# -- taking over -----------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [True, False], ids=["one bus", "two buses"])
def test_who_attaches_takes_over_and_the_first_ends(
    same: bool, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    first, before = attach(shop, ack="manual")
    shop.publish_many(sales(0, 1))
    eventually(lambda: before.deliveries)
    second, after = attach(shop if same else other)
    eventually(lambda: first.state == "taken over")
    eventually(lambda: len(after.events) == 2)
    assert isinstance(first.ended, pc.TakenOverError)
    with pytest.raises(pc.TakenOverError):
        first.pause()
    first.cancel()  # it has nothing to cancel any more
    shop.publish(Sale(2))
    eventually(lambda: len(after.events) == 3)
    assert (numbers(after), second.state) == ([0, 1, 2], "active")
    assert after.deliveries[0].token > before.deliveries[0].token


def test_a_name_can_be_taken_back_at_once(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    tokens, subs = [], []
    for bus in (shop, other, shop, other, shop):
        sub, seen = attach(bus)
        subs.append(sub)
    shop.publish(Sale(0))
    eventually(lambda: seen.events)
    tokens.append(seen.deliveries[0].token)
    eventually(lambda: all(each.state == "taken over" for each in subs[:-1]))
    assert subs[-1].state == "active"


def test_whoever_is_taken_over_does_not_disturb_the_other(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    """What the first handles late is handled twice, but never lost or moved."""
    go, begun, handled = threading.Event(), threading.Event(), list[int]()

    def slow(sale: Sale) -> None:
        begun.set()
        go.wait(10)
        handled.append(sale.number)

    shop.subscribe(Sale, slow, durable="billing")
    shop.publish_many(sales(0, 1, 2))
    begun.wait(10)
    second, after = attach(other)
    eventually(lambda: len(after.events) == 3)
    go.set()
    eventually(lambda: handled)
    other.publish(Sale(3))
    eventually(lambda: len(after.events) == 4)
    assert (numbers(after), handled, second.state) == ([0, 1, 2, 3], [0], "active")


def test_threads_that_fight_over_a_name_lose_nothing(
    shop: pc.Bus, other: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    handled: list[int] = []

    def fight(bus: pc.Bus) -> None:
        for _ in range(12):
            sub = bus.subscribe(Sale, lambda sale: handled.append(sale.number), durable="billing")
            try:
                sub.detach()
            except pc.TakenOverError:
                pass

    shop.subscribe(Sale, lambda sale: handled.append(sale.number), durable="billing")
    threads = [in_thread(lambda bus=bus: fight(bus)) for bus in (shop, shop, other)]
    for n in range(60):
        shop.publish(Sale(n))
    for thread in threads:
        thread.join(10)
    shop.subscribe(Sale, lambda sale: handled.append(sale.number), durable="billing")
    eventually(lambda: len(set(handled)) == 60)


# -- another definition ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"what": Refund}, {"selector"}),
        ({"where": big}, {"where"}),
        ({"where": lambda sale: sale.number > 5}, {"where"}),
        ({"level": "strong_bag"}, {"level"}),
        ({"group": "crew"}, {"group"}),
        ({"exact": True}, {"selector"}),
        ({"topic": "/Chat"}, {"selector"}),
    ],
    ids=lambda each: "-".join(each),
)
@pytest.mark.parametrize("same", [True, False], ids=["one bus", "two buses"])
def test_another_definition_is_refused_with_the_difference(
    same: bool, changed: dict[str, Any], fields: set[str], shop: pc.Bus, other: pc.Bus
) -> None:
    first, _ = attach(shop, level="sorted_set")
    with pytest.raises(pc.DurableChangedError) as refused:
        attach(shop if same else other, **{"level": "sorted_set", **changed})
    assert fields <= set(refused.value.difference)
    assert first.state == "active"


def test_the_same_definition_is_accepted_in_other_words(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    attach(shop, where=lambda sale: sale.number > 5)
    second, seen = attach(other, where=lambda deal: deal.number > 5)
    shop.publish_many(sales(5, 6))
    eventually(lambda: seen.events)
    assert (numbers(seen), second.state) == ([6], "active")


@pytest.mark.parametrize("same", [True, False], ids=["one bus", "two buses"])
def test_replace_keeps_the_place_and_asks_the_new_definition(
    same: bool, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    first, before = attach(shop, ack="manual")
    shop.publish_many([Sale(0), BigSale(10), Refund(20)])
    eventually(lambda: before.deliveries)
    second, after = attach(shop if same else other, object, where=big, replace=True)
    shop.publish_many([Sale(1), Refund(21)])
    eventually(lambda: len(after.events) == 3)
    eventually(lambda: first.state == "taken over")
    assert after.events == [BigSale(10), Refund(20), Refund(21)]
    assert second.state == "active"


def test_who_has_not_seen_a_replacement_elsewhere_attaches_to_what_it_is_now(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    go, begun = threading.Event(), threading.Event()
    # In line, so that the thread that would see the replacement is busy.
    shop.subscribe(Refund, lambda refund: (begun.set(), go.wait(10)), dispatch="inline")
    first, _ = attach(shop)
    shop.publish(Refund(0))
    assert begun.wait(10)
    attach(other, object, where=big, replace=True)
    try:
        third, after = attach(shop, object, where=big)
    finally:
        go.set()
    shop.publish_many([Sale(1), Refund(21)])
    eventually(lambda: after.events)
    assert (after.events, first.state, third.state) == ([Refund(21)], "taken over", "active")


def test_a_group_can_become_a_subscription_and_back(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    handled: Recorder[Any] = Recorder()
    options: dict[str, Any] = {"durable": "billing", "level": "strong_set", "replace": True}
    for round_, group in enumerate(["crew", None, "crew", "gang", None]):
        first = 10 * round_
        grouped = {} if group is None else {"group": group}
        subs = [shop.subscribe(Sale, handled, **options, **grouped)]
        if group is not None:
            subs.append(other.subscribe(Sale, handled, **options, **grouped))
        shop.publish_many(sales(*range(first, first + 10)))
        eventually(lambda first=first: len(handled.events) == first + 10)
        assert shop.flush(5)
        assert other.flush(5)
        for sub in subs:
            sub.detach()
    assert sorted(numbers(handled)) == list(range(50))


def test_a_group_that_becomes_a_subscription_has_handled_what_it_has(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    go, begun, handled = threading.Event(), threading.Event(), list[int]()
    options: dict[str, Any] = {"durable": "billing", "level": "strong_set"}
    slow = other.subscribe(Sale, lambda sale: (begun.set(), go.wait(10)), group="crew", **options)
    shop.publish(Sale(0))
    assert begun.wait(10)
    fast = shop.subscribe(Sale, lambda sale: handled.append(sale.number), group="crew", **options)
    shop.publish_many(sales(*range(1, 10)))
    eventually(lambda: len(handled) == 9)
    assert shop.flush(5)
    fast.detach()
    slow.detach()  # in the middle of the first, behind which it has looked at nothing
    go.set()
    _, after = attach(shop, replace=True, **options)
    shop.publish(Sale(10))
    eventually(lambda: 10 in numbers(after))
    assert shop.flush(5)
    assert sorted(numbers(after)) == [0, 10]


@pytest.mark.parametrize("pinned", [True, False])
def test_the_log_is_kept_for_who_is_pinned(
    pinned: bool, open_bus: OpenBus, eventually: Eventually
) -> None:
    bus = open_bus(retention=pc.Retention(age=100))
    sub, _ = attach(bus, pinned=pinned)
    sub.detach()
    bus.publish_many(sales(*range(10)))
    store = bus._engine.store  # type: ignore[attr-defined]
    retain(store, lambda _: time.time() + 1_000)
    _, seen = attach(bus, pinned=pinned)
    bus.publish(Sale(10))
    eventually(lambda: 10 in numbers(seen))
    assert numbers(seen) == (list(range(11)) if pinned else [9, 10])  # the newest always stays
