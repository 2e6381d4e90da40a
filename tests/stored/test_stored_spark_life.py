"""Subscriptions with engine="spark" over time: answers, dead letters, take-over, groups, death."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from stored_events import Refund, Sale, numbers, sales
from stored_player import Player
from stored_program import Program

import polycast as pc
from polycast.config import level_named
from polycast.matching import Interest, selector_for
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
Start = Callable[..., Program]
SPARK: dict[str, Any] = {"engine": "spark"}
CREW: dict[str, Any] = {"group": "crew", "durable": "crew", "engine": "spark"}


def everything(name: str, level: str = "sorted_set", **options: Any) -> Interest:
    """What a program elsewhere subscribes to."""
    return Interest(selector_for(Sale), None, level_named(level), durable=name, **options)


# -- answers ---------------------------------------------------------------------------------------


def test_what_fails_is_tried_again_and_holds_back_what_comes_after(
    shop: pc.Bus, player: Player
) -> None:
    failing = {1: 2}

    def fail(sale: Sale) -> Exception | None:
        failing[sale.number] = failing.get(sale.number, 0) - 1
        return ValueError("not yet") if failing[sale.number] >= 0 else None

    seen: Recorder[Any] = Recorder(fail=fail)
    player.learn(shop.subscribe(Sale, seen, durable="d", backoff=0.001, **SPARK))
    shop.publish_many(sales(0, 1, 2))
    player.play(cut=lambda: 2)
    assert shop.flush(5)
    assert numbers(seen) == [0, 1, 2]
    assert [each.count for each in seen.deliveries] == [1, 1, 2, 3, 1]


def test_what_fails_for_good_is_a_dead_letter_and_can_be_replayed(
    shop: pc.Bus, player: Player, eventually: Eventually
) -> None:
    broken = threading.Event()
    broken.set()
    seen: Recorder[Any] = Recorder(
        fail=lambda sale: ValueError("no") if sale.number == 1 and broken.is_set() else None
    )
    player.learn(shop.subscribe(Sale, seen, durable="d", attempts=2, backoff=0.001, **SPARK))
    shop.publish_many(sales(0, 1, 2))
    player.play()
    assert shop.flush(5)
    assert [letter.event.number for letter in shop.dead_letters()] == [1]
    broken.clear()
    shop.dead_letters().replay()
    eventually(lambda: len(seen.events) == 3)
    assert sorted(numbers(seen)) == [0, 1, 2]


def test_what_is_not_acknowledged_comes_again_after_detaching(
    shop: pc.Bus, other: pc.Bus, player: Player, eventually: Eventually
) -> None:
    first, second = Recorder[Any](), Recorder[Any]()
    options: dict[str, Any] = {"durable": "d", "ack": "manual", "level": "strong_set", **SPARK}
    sub = shop.subscribe(Sale, first, **options)
    player.learn(sub)
    shop.publish_many(sales(0, 1, 2))
    player.play()
    eventually(lambda: len(first.deliveries) == 3)
    first.deliveries[1].ack()
    first.deliveries[2].nack(60)
    sub.detach()
    other.subscribe(Sale, second, **options)
    eventually(lambda: second.events)
    second.deliveries[0].ack()
    assert numbers(second) == [0]
    assert second.deliveries[0].token > first.deliveries[0].token
    assert [each.position for each in player.flights("d")] == [3]


def test_an_event_that_cannot_be_read_is_a_dead_letter(
    shop: pc.Bus, player: Player, run_script: Callable[[str], None]
) -> None:
    from stored_things import Thing  # with a field more, which has no default

    live, late = Recorder[Any](), Recorder[Any]()
    sub = shop.subscribe(Thing, live, durable="live", **SPARK)
    player.learn(sub)
    shop.subscribe(Thing, print, durable="late", **SPARK).detach()
    run_script(
        "from dataclasses import dataclass\n"
        "@pc.event(name='shop.Thing')\n@dataclass\nclass Thing:\n    x: int\n"
        "with pc.Bus(url) as bus:\n    bus.publish_many([Thing(1), Thing(2)])"
    )
    shop.publish(Thing(3, 4))
    player.play()
    shop.subscribe(Thing, late, durable="late", **SPARK)
    assert shop.flush(5)
    assert live.events == late.events == [Thing(3, 4)]
    letters = {(letter.subscription, letter.position) for letter in shop.dead_letters()}
    assert letters == {("live", 1), ("live", 2), ("late", 1), ("late", 2)}


# -- its life --------------------------------------------------------------------------------------


def test_cancelling_ends_the_route(shop: pc.Bus, player: Player) -> None:
    sub = shop.subscribe(Sale, print, durable="d", **SPARK)
    player.learn(sub)
    shop.publish_many(sales(0, 1))
    sub.cancel()
    assert [(route.start, route.until) for route in player.routes()] == [(1, 3)]
    assert player.cursors(["d"]) == []
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", **SPARK))
    shop.publish(Sale(2))
    player.play()
    assert shop.flush(5)
    assert numbers(seen) == [2]


def test_a_lease_ends_the_route(
    open_bus: OpenBus, player: Player, clock: ManualClock, eventually: Eventually
) -> None:
    bus = open_bus(clock=clock)
    sub = bus.subscribe(Sale, print, durable="d", lease=60, **SPARK)
    player.learn(sub)
    bus.publish(Sale(0))
    clock.advance(61)
    eventually(lambda: sub.state == "expired")
    eventually(lambda: [route.until for route in player.routes()] == [2])


def test_a_second_attachment_takes_over_without_a_gap(
    shop: pc.Bus, other: pc.Bus, player: Player, eventually: Eventually
) -> None:
    first, second = Recorder[Any](), Recorder[Any]()
    sub = shop.subscribe(Sale, first, durable="d", **SPARK)
    player.learn(sub)
    shop.publish_many(sales(*range(10)))
    player.play(4)
    assert shop.flush(5)
    other.subscribe(Sale, second, durable="d", **SPARK)
    shop.publish_many(sales(10, 11))
    player.play()
    eventually(lambda: sub.state == "taken over")
    assert other.flush(5)
    assert (numbers(first), numbers(second)) == (list(range(4)), list(range(4, 12)))
    assert len(player.routes()) == 1


def test_what_a_killed_process_had_comes_again(
    start: Start, shop: pc.Bus, player: Player, eventually: Eventually
) -> None:
    elsewhere = start(durable="d", hold=[1], **SPARK)
    elsewhere.hear("ready")
    player.learn_interest(everything("d"))
    shop.publish_many(sales(0, 1, 2))
    player.play(2)
    elsewhere.hear("began")
    elsewhere.kill()
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="d", **SPARK)
    eventually(lambda: 1 in numbers(seen))
    player.play()
    eventually(lambda: 2 in numbers(seen))
    # The first may come again: its acknowledgement may not have been on disk.
    assert numbers(seen) in ([1, 2], [0, 1, 2])


def test_it_goes_on_in_the_next_opening(open_bus: OpenBus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    for n in range(4):
        bus = open_bus()
        player.learn(bus.subscribe(Sale, seen, durable="d", **SPARK))
        bus.publish_many(sales(*range(10 * n, 10 * n + 10)))
        player.play(7, lambda: 3)
        assert bus.flush(5)
        bus.close()
    assert numbers(seen) == list(range(28))


def test_closing_does_not_wait_for_what_is_routed(shop: pc.Bus, player: Player) -> None:
    go = threading.Event()
    player.learn(shop.subscribe(Sale, lambda sale: go.wait(10), durable="d", queue=1, **SPARK))
    shop.publish_many(sales(*range(20)))
    player.play()
    go.set()
    assert shop.close(5) == ()


# -- groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["strong_set", "list", "sorted_set"])
def test_a_group_of_two_buses_shares_one_route(
    level: Any, shop: pc.Bus, other: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen, also = Recorder[Any](), Recorder[Any]()
    player.learn(shop.subscribe(Sale, seen, level=level, **CREW))
    other.subscribe(Sale, also, level=level, **CREW)
    for n in range(0, 200, 20):
        shop.publish_many(sales(*range(n, n + 20)))
        player.play(15, lambda: 4)
    player.play()
    eventually(lambda: len(seen.events) + len(also.events) >= 200)
    assert shop.flush(5)
    assert other.flush(5)
    assert sorted(numbers(seen) + numbers(also)) == list(range(200))
    assert len(player.routes()) == 1


def test_what_a_killed_member_had_goes_to_another(
    start: Start, open_bus: OpenBus, player: Player, eventually: Eventually
) -> None:
    elsewhere = start(hold=[0], **CREW)
    elsewhere.hear("ready")
    player.learn_interest(everything("crew", "strong_set", group="crew"))
    bus, seen = open_bus(heartbeat_timeout=0.5), Recorder[Any]()
    bus.publish(Sale(0))
    player.play()
    elsewhere.hear("began")
    bus.subscribe(Sale, seen, **CREW)
    bus.publish_many(sales(*range(1, 10)))
    player.play(4)
    elsewhere.kill()
    player.play()
    eventually(lambda: len(seen.events) == 10)
    assert sorted(numbers(seen)) == list(range(10))


def test_a_member_that_joins_by_another_engine_takes_the_others_with_it(
    shop: pc.Bus, other: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    direct = {"group": "crew", "durable": "crew"}
    sub = shop.subscribe(Sale, seen, **CREW)
    player.learn(sub)
    shop.publish_many(sales(0, 1))
    player.play(1)
    assert shop.flush(5)
    leaving = other.subscribe(Sale, seen, **direct)
    shop.publish_many(sales(2, 3))
    player.play()  # beyond the end of the route
    eventually(lambda: sub.mailbox.route is None)
    eventually(lambda: len(seen.events) == 4)
    leaving.detach()
    shop.publish(Sale(4))
    eventually(lambda: len(seen.events) == 5)
    again = shop.subscribe(Sale, seen, **CREW)  # one more member in the same process
    shop.publish_many(sales(5, 6))
    eventually(lambda: again.mailbox.route is not None)
    assert shop.flush(5)
    assert sorted(numbers(seen)) == [0, 1, 2, 3, 4]
    player.play()
    assert shop.flush(5)
    assert sorted(numbers(seen)) == [0, 1, 2, 3, 4, 5, 6]


def test_the_end_of_a_route_is_seen_before_what_comes_after_it(
    shop: pc.Bus, other: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen, held, go = Recorder[Any](), threading.Event(), threading.Event()

    def hold(refund: Refund) -> None:
        held.set()
        go.wait(10)

    shop.subscribe(Refund, hold, dispatch="inline")  # in the thread that reads, after its look
    player.learn(shop.subscribe(Sale, seen, **CREW))
    shop.publish(Refund(0))
    eventually(held.is_set)
    leaving = other.subscribe(Sale, seen, group="crew", durable="crew")
    leaving.detach()
    other.publish_many(sales(1, 2))
    player.play()
    go.set()
    eventually(lambda: len(seen.events) == 2)
    assert sorted(numbers(seen)) == [1, 2]


def test_a_pipeline_that_was_taken_over_changes_nothing(shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", **SPARK))
    shop.publish_many(sales(0, 1))
    old, player.token = player.token, player.take()
    player.play()
    assert shop.flush(5)
    with player.store.view() as view:
        [stretch] = view.stretches(1, limit=10)
    assert not player.store.write(lambda tx: tx.advance([stretch], token=old)).result()
    assert shop.flush(5)
    assert numbers(seen) == [0, 1]
