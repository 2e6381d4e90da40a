"""Acknowledgements, attempts and tokens over a file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from stored_events import Sale, numbers, sales

import polycast as pc
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


def always(sale: Sale) -> Exception:
    """How to fail."""
    return ValueError(f"no {sale.number}")


def test_what_is_not_acknowledged_comes_again_after_a_reopening(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    before: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.subscribe(Sale, before, durable="kept", level="strong_set", ack="manual")
        bus.publish_many(sales(0, 1, 2, 3))
        eventually(lambda: len(before.deliveries) == 4)
        before.deliveries[1].ack()
        before.deliveries[2].ack()
        bus.close(timeout=0)
    after: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.subscribe(Sale, after, durable="kept", level="strong_set")
        bus.publish(Sale(4))
        eventually(lambda: len(after.events) == 3)
        assert bus.flush(5)
    assert sorted(numbers(after)) == [0, 3, 4]


def test_an_acknowledgement_after_the_bus_was_closed_is_refused(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus, seen = open_bus(), Recorder[Any]()
    bus.subscribe(Sale, seen, durable="kept", ack="manual")
    bus.publish(Sale(0))
    eventually(lambda: seen.deliveries)
    bus.close(timeout=0)
    with pytest.raises(pc.NotSettledError):
        seen.deliveries[0].ack()


def test_a_second_acknowledgement_is_refused(shop: pc.Bus, eventually: Eventually) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="kept", ack="manual")
    shop.publish(Sale(0))
    eventually(lambda: seen.deliveries)
    seen.deliveries[0].ack()
    with pytest.raises(pc.NotSettledError, match="settled already"):
        seen.deliveries[0].ack()


@pytest.mark.parametrize("options", [{"durable": "kept"}, {"group": "crew"}, {}])
def test_a_failure_is_tried_again_with_a_higher_count_and_token(
    options: dict[str, Any], shop: pc.Bus, eventually: Eventually
) -> None:
    failures = iter([ValueError("once"), ValueError("twice")])
    seen: Recorder[Any] = Recorder(fail=lambda sale: next(failures, None))
    shop.subscribe(Sale, seen, backoff=0.01, **options)
    shop.publish(Sale(0))
    eventually(lambda: seen.events)
    tokens = [each.token for each in seen.deliveries]
    assert [each.count for each in seen.deliveries] == [1, 2, 3]
    assert tokens == sorted(set(tokens))


def test_attempts_go_on_where_they_were_after_a_reopening(
    open_bus: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    first: Recorder[Any] = Recorder(fail=always)
    with open_bus(clock=clock) as bus:
        bus.subscribe(Sale, first, durable="kept", attempts=3, backoff=10)
        bus.publish(Sale(0))
        eventually(lambda: len(first.deliveries) == 1)
        eventually(lambda: bus.health().subscriptions[0].counts.failed == 1)
    second: Recorder[Any] = Recorder(fail=always)
    with open_bus(clock=clock) as bus:
        mailbox = bus.subscribe(Sale, second, durable="kept", attempts=3, backoff=10).mailbox
        assert len(mailbox.queue.delayed) == 1  # the wait outlives the process, too
        clock.advance(11)
        eventually(lambda: len(second.deliveries) == 1)
        eventually(lambda: len(mailbox.queue.delayed) == 1)
        clock.advance(30)
        eventually(lambda: len(second.deliveries) == 2)
        eventually(lambda: len(bus.dead_letters()) == 1)
        [letter] = bus.dead_letters()
    counts = [each.count for each in first.deliveries + second.deliveries]
    tokens = [each.token for each in first.deliveries + second.deliveries]
    assert (counts, letter.attempts) == ([1, 2, 3], 3)
    assert tokens == sorted(set(tokens))


def test_nack_gives_it_again_after_the_delay(
    open_bus: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    bus, seen = open_bus(clock=clock), Recorder[Any]()
    bus.subscribe(Sale, seen, durable="kept", ack="manual", level="strong_set")
    bus.publish_many(sales(0, 1))
    eventually(lambda: len(seen.deliveries) == 2)
    seen.deliveries[0].nack(delay=60)
    seen.deliveries[1].nack(delay=0)
    eventually(lambda: len(seen.deliveries) == 3)
    assert seen.deliveries[2].position == 2
    clock.advance(61)
    eventually(lambda: len(seen.deliveries) == 4)
    assert (seen.deliveries[3].position, seen.deliveries[3].count) == (1, 2)


def test_reject_is_a_dead_letter_at_once(shop: pc.Bus, eventually: Eventually) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="kept", ack="manual")
    shop.publish(Sale(0))
    eventually(lambda: seen.deliveries)
    seen.deliveries[0].reject("it smells")
    [letter] = shop.dead_letters()
    assert (letter.event, letter.reason, letter.attempts) == (Sale(0), "it smells", 1)


@pytest.mark.parametrize("options", [{"durable": "kept"}, {"group": "crew"}])
def test_what_is_not_acknowledged_in_time_is_given_again_and_the_late_answer_refused(
    options: dict[str, Any], open_bus: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    bus, seen = open_bus(clock=clock, heartbeat_timeout=10_000), Recorder[Any]()
    bus.subscribe(Sale, seen, ack="manual", ack_timeout=5, backoff=1, **options)
    bus.publish(Sale(0))
    eventually(lambda: len(seen.deliveries) == 1)
    clock.advance(6)
    eventually(lambda: bus.health().counts.failed == 1)
    clock.advance(2)
    eventually(lambda: len(seen.deliveries) == 2)
    with pytest.raises(pc.NotSettledError):
        seen.deliveries[0].ack()
    seen.deliveries[1].ack()
    assert seen.deliveries[1].token > seen.deliveries[0].token


def test_an_acknowledgement_of_who_was_taken_over_is_refused(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    before: Recorder[Any] = Recorder()
    after: Recorder[Any] = Recorder()
    shop.subscribe(Sale, before, durable="kept", ack="manual")
    shop.publish(Sale(0))
    eventually(lambda: before.deliveries)
    other.subscribe(Sale, after, durable="kept", ack="manual")
    with pytest.raises(pc.NotSettledError):
        before.deliveries[0].ack()
    eventually(lambda: after.deliveries)
    after.deliveries[0].ack()
    assert after.deliveries[0].token > before.deliveries[0].token


def test_weak_levels_are_never_tried_again(shop: pc.Bus, eventually: Eventually) -> None:
    seen: Recorder[Any] = Recorder(fail=always)
    mailbox = shop.subscribe(Sale, seen, level="weak_bag", durable="kept").mailbox
    shop.publish_many(sales(0, 1))
    eventually(lambda: mailbox.counts.dropped == 2)
    assert (len(seen.deliveries), len(shop.dead_letters())) == (2, 0)


def test_order_waits_for_the_publisher_of_what_failed_only(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    ok: set[int] = set()
    seen: Recorder[Any] = Recorder(
        fail=lambda sale: None if sale.number or 0 in ok else ValueError("not yet")
    )
    shop.subscribe(Sale, seen, durable="kept", level="list", attempts=1_000, backoff=0.01)
    shop.publish_many(sales(0, 1, 2))
    other.publish_many(sales(10, 11))
    eventually(lambda: len(seen.events) == 2)
    assert numbers(seen) == [10, 11]
    ok.add(0)
    eventually(lambda: len(seen.events) == 5)
    assert numbers(seen) == [10, 11, 0, 1, 2]


def test_an_effect_in_the_subscribers_own_database_happens_once(
    tmp_path: Path, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    """The first has its effect and is taken over before it can acknowledge it."""
    database = tmp_path / "effects.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE effects (number INTEGER)")
        connection.commit()
    taken_over, done = threading.Event(), list[int]()

    def handle(sale: Sale, delivery: pc.Delivery) -> None:
        with (
            closing(sqlite3.connect(database)) as connection,
            delivery.transaction(connection) as fresh,
        ):
            if fresh:
                connection.execute("INSERT INTO effects VALUES (?)", (sale.number,))
        done.append(sale.number)
        if len(done) == 1:
            assert taken_over.wait(10)

    shop.subscribe(Sale, handle, durable="kept")
    shop.publish_many(sales(0, 1))
    eventually(lambda: done == [0])
    other.subscribe(Sale, handle, durable="kept")
    eventually(lambda: sorted(done) == [0, 0, 1])
    taken_over.set()
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT number FROM effects ORDER BY number").fetchall()
    assert rows == [(0,), (1,)]


def commits(path: Path) -> int:
    """How many transactions the write-ahead log of a store has, which nothing was moved out of."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    size = 24 + int.from_bytes(log[8:12], "big")
    heads = (log[at : at + 24] for at in range(32, len(log) - size + 1, size))
    return sum(head[4:8] != b"\0\0\0\0" for head in heads if head[8:16] == log[16:24])


ALONE: dict[str, Any] = {}
GROUP = {"group": "workers"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("ack", ALONE), ("nack", ALONE), ("reject", ALONE), ("ack", GROUP), ("reject", GROUP)],
)
def test_an_answer_is_one_transaction(
    open_bus: OpenBus,
    path: Path,
    eventually: Eventually,
    answer: str,
    kind: dict[str, Any],
) -> None:
    bus, seen = open_bus(heartbeat_timeout=3600.0), Recorder[Any]()
    bus.subscribe(Sale, seen, durable="kept", level="strong_set", ack="manual", **kind)
    bus.publish_many(sales(*range(20)))
    eventually(lambda: len(seen.deliveries) == 20)
    bus.flush(0)
    before = commits(path)
    for delivery in seen.deliveries:
        getattr(delivery, answer)(**({"delay": 3600} if answer == "nack" else {}))
    assert 20 <= commits(path) - before <= 24  # heartbeats, and what is looked after, are few
