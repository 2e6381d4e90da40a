"""Groups over one file: an event goes to one member, wherever that is."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from stored_events import Sale, numbers, sales

import polycast as pc
from polycast.stores.doctor import open_readonly
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
ORDERED = ["list", "sorted_set"]


class Crew:
    """Members of a group who write down in one list what they have handled."""

    def __init__(self) -> None:
        self.handled: list[tuple[str, int]] = []

    def member(self, bus: pc.Bus, name: str, *, wait: Any = None, **options: Any) -> Any:
        """One more."""

        def handle(sale: Sale) -> None:
            if wait is not None:
                wait(sale)
            self.handled.append((name, sale.number))

        return bus.subscribe(Sale, handle, **{"group": "crew", **options})

    def numbers(self) -> list[int]:
        return [number for _, number in self.handled]


@pytest.fixture
def crew() -> Crew:
    return Crew()


class Gate:
    """Where a callback waits with some events."""

    def __init__(self, *events: int) -> None:
        self._events, self.begun, self.open = events, threading.Event(), threading.Event()

    def __call__(self, sale: Sale) -> None:
        if sale.number in self._events:
            self.begun.set()
            assert self.open.wait(30)


@pytest.mark.parametrize("options", [{}, {"durable": "crew"}])
def test_members_of_several_buses_share_the_work(
    options: dict[str, Any],
    crew: Crew,
    shop: pc.Bus,
    other: pc.Bus,
    eventually: Eventually,
) -> None:
    gate, begun = threading.Event(), set[str]()

    def wait(name: str) -> Callable[[Sale], None]:
        def begin(sale: Sale) -> None:
            begun.add(name)
            gate.wait(30)

        return begin

    for name, bus in [("a", shop), ("b", shop), ("c", other), ("d", other)]:
        crew.member(bus, name, wait=wait(name), **options)
    for n in range(6):
        shop.publish(Sale(n))
    eventually(lambda: len(begun) == 4)  # nobody has two while somebody is idle
    gate.set()
    shop.publish_many(sales(*range(6, 100)))
    eventually(lambda: len(crew.handled) == 100)
    assert sorted(crew.numbers()) == list(range(100))


def test_a_member_that_hangs_does_not_starve_the_others_of_its_bus(
    crew: Crew, shop: pc.Bus, eventually: Eventually
) -> None:
    gate = Gate(0)
    hanging = [crew.member(shop, name, wait=gate) for name in ("a", "b")]
    shop.publish(Sale(0))
    assert gate.begun.wait(10)
    [stuck] = [each.consumer for each in hanging if each.consumer.busy]
    eventually(lambda: time.monotonic() - stuck.started > 0.05)
    try:
        for n in range(1, 5):
            shop.publish(Sale(n))
            eventually(lambda n=n: n in crew.numbers())
    finally:
        gate.open.set()


def test_what_waits_behind_a_callback_that_hangs_goes_to_who_is_idle(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    gate = Gate(100)
    crew.member(shop, "hangs", wait=gate)
    other.publish_many(sales(*range(300)))
    gate.begun.wait(10)
    crew.member(other, "idle", durable=None)
    other.publish_many(sales(*range(300, 330)))
    try:
        eventually(lambda: len(crew.handled) >= 329)
    finally:
        gate.open.set()
    eventually(lambda: len(crew.handled) == 330)
    assert sorted(crew.numbers()) == list(range(330))


def test_what_nobody_has_claimed_behind_a_callback_that_hangs_goes_to_who_joins_elsewhere(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    gate = Gate(0)
    crew.member(shop, "hangs", wait=gate)
    other.publish(Sale(0))
    assert gate.begun.wait(10)
    other.publish_many(sales(*range(1, 100)))
    crew.member(other, "joins")
    try:
        eventually(lambda: sorted(crew.numbers()) == list(range(1, 100)))
    finally:
        gate.open.set()
    eventually(lambda: len(crew.handled) == 100)


def test_members_may_want_different_things(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    crew.member(shop, "even", where=lambda sale: sale.number % 2 == 0)
    crew.member(other, "large", where=lambda sale: sale.number >= 10)
    shop.publish_many(sales(*range(20)))
    eventually(lambda: len(crew.handled) == 15)
    shop.flush(5)
    assert sorted(crew.numbers()) == [0, 2, 4, 6, 8, *range(10, 20)]
    assert all(n % 2 == 0 for name, n in crew.handled if name == "even")
    assert all(n >= 10 for name, n in crew.handled if name == "large")


def test_what_waits_for_one_that_hangs_goes_to_who_wants_it_elsewhere(
    crew: Crew, shop: pc.Bus, other: pc.Bus
) -> None:
    gate, elsewhere = Gate(0), Gate(1)
    crew.member(shop, "hangs", wait=gate)
    crew.member(shop, "picky", where=lambda sale: sale.number > 1_000)
    shop.publish_many(sales(0, 1))
    assert gate.begun.wait(10)
    crew.member(other, "elsewhere", wait=elsewhere)
    try:
        assert elsewhere.begun.wait(10)
    finally:
        gate.open.set()
        elsewhere.open.set()


def test_what_a_member_waits_for_is_not_thrown_away_when_it_leaves(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    gate = Gate(0)
    leaving = crew.member(shop, "leaving", wait=gate)
    crew.member(shop, "picky", where=lambda sale: sale.number > 1_000)
    shop.publish_many(sales(*range(20)))
    assert gate.begun.wait(10)
    crew.member(other, "elsewhere")
    shop.publish_many(sales(*range(20, 40)))
    leaving.cancel()
    gate.open.set()
    eventually(lambda: set(range(20, 40)) <= set(crew.numbers()))
    assert shop.flush(5)
    assert other.flush(5)
    assert len(crew.numbers()) == len(set(crew.numbers()))
    assert shop.health().counts.dropped == 0


def test_what_is_claimed_by_who_leaves_is_free_for_the_others(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    gate, there = Gate(0), Gate(1)
    leaving = crew.member(shop, "leaving", wait=gate)
    crew.member(other, "other", wait=there)
    crew.member(shop, "picky", where=lambda sale: sale.number > 1_000)
    shop.publish_many(sales(*range(30)))
    gate.open.set()
    there.open.set()
    leaving.cancel()
    eventually(lambda: len(set(crew.numbers())) == 30)
    assert sorted(crew.numbers()) == list(range(30))


@pytest.mark.parametrize("level", ["strong_bag", "strong_set", *ORDERED])
def test_a_failure_passes_to_the_next_member(
    level: Any, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    bad: Recorder[Any] = Recorder(fail=lambda sale: ValueError("not me"))
    good: Recorder[Any] = Recorder()
    shop.subscribe(Sale, bad, group="crew", level=level, backoff=0.01)
    other.subscribe(Sale, good, group="crew", level=level, backoff=0.01)
    shop.publish_many(sales(*range(6)))
    eventually(lambda: len(good.events) + len(shop.dead_letters()) == 6)
    assert sorted(numbers(good)) == list(range(6))
    assert len(shop.dead_letters()) == 0


def test_tokens_grow_from_member_to_member(
    shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    failures = iter([ValueError(str(n)) for n in range(5)])
    every: Recorder[Any] = Recorder(fail=lambda sale: next(failures, None))
    for bus in (shop, shop, other):
        bus.subscribe(Sale, every, group="crew", attempts=10, backoff=0.01)
    shop.publish(Sale(0))
    eventually(lambda: every.events)
    tokens = [each.token for each in every.deliveries]
    assert [each.count for each in every.deliveries] == [1, 2, 3, 4, 5, 6]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("level", ORDERED)
@pytest.mark.parametrize("members", [1, 3])
def test_an_ordered_group_holds_back_what_comes_after_a_failure(
    members: int, level: Any, open_bus: OpenBus, eventually: Eventually
) -> None:
    lock, failed, handled = threading.Lock(), set[int](), list[int]()

    def handle(sale: Sale) -> None:
        with lock:
            if sale.number % 10 == 5 and sale.number not in failed:
                failed.add(sale.number)
                raise ValueError("not now")
            handled.append(sale.number)

    buses = [open_bus() for _ in range(members)]
    for bus in buses:
        bus.subscribe(Sale, handle, group="crew", level=level, backoff=0.01)
    for start in range(0, 60, 20):
        buses[0].publish_many(sales(*range(start, start + 20)))
    eventually(lambda: len(handled) == 60)
    assert handled == list(range(60))


def test_a_fifo_group_gives_a_publishers_events_to_one_member_at_a_time(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    under_way: Counter[int] = Counter()
    together: list[int] = []

    def busy(sale: Sale) -> None:
        under_way[sale.number // 100] += 1
        together.append(under_way[sale.number // 100])
        under_way[sale.number // 100] -= 1

    for name, bus in [("a", shop), ("b", other)]:
        crew.member(bus, name, wait=busy, level="list")
    shop.publish_many(sales(*range(40)))
    other.publish_many(sales(*range(100, 140)))
    eventually(lambda: len(crew.handled) == 80)
    for k in (0, 1):
        mine = [n for n in crew.numbers() if n // 100 == k]
        assert mine == sorted(mine)
    assert set(together) == {1}


def test_a_member_that_waits_for_its_turn_does_not_write_all_the_time(
    crew: Crew, path: Path, open_bus: OpenBus, eventually: Eventually
) -> None:
    first, second, third = open_bus(), open_bus(), open_bus()
    options: dict[str, Any] = {"durable": "crew", "level": "sorted_set"}
    early, late = Gate(30), Gate(31)
    leaving = crew.member(first, "first", wait=early, **options)
    first.publish_many(sales(*range(60)))
    early.begun.wait(10)
    leaving.detach()  # it keeps what it has begun, and lets go of the rest
    crew.member(second, "second", wait=late, **options)
    crew.member(third, "third", wait=late, **options)
    early.open.set()
    eventually(late.begun.is_set)
    connection = apsw.Connection(str(path))

    def version() -> int:
        return int(connection.execute("PRAGMA data_version").fetchall()[0][0])

    before, pause = version(), threading.Event()
    pause.wait(0.3)
    assert version() - before < 10
    connection.close()
    late.open.set()
    eventually(lambda: len(set(crew.numbers())) == 60)


# -- coming and going ------------------------------------------------------------------------------


def test_a_group_without_a_name_ends_with_its_last_member(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    first, second = crew.member(shop, "a"), crew.member(other, "b")
    first.cancel()
    shop.publish(Sale(0))
    eventually(lambda: crew.handled == [("b", 0)])
    second.cancel()
    shop.publish(Sale(1))
    crew.member(shop, "a")
    shop.publish(Sale(2))
    eventually(lambda: len(crew.handled) == 2)
    assert crew.numbers() == [0, 2]


def test_a_durable_group_goes_on_without_members(
    crew: Crew, open_bus: OpenBus, eventually: Eventually
) -> None:
    with open_bus() as bus:
        crew.member(bus, "a", durable="crew")
        bus.publish(Sale(0))
        eventually(lambda: crew.handled)
    with open_bus() as bus:
        bus.publish_many(sales(*range(1, 20)))
    one, two = open_bus(), open_bus()
    crew.member(one, "b", durable="crew")
    crew.member(two, "c", durable="crew")
    one.publish(Sale(20))
    eventually(lambda: len(crew.handled) == 21)
    assert sorted(crew.numbers()) == list(range(21))


def test_members_come_and_go_while_events_are_published_and_none_is_lost(
    crew: Crew, open_bus: OpenBus, in_thread: Any, eventually: Eventually
) -> None:
    buses = [open_bus() for _ in range(3)]
    crew.member(buses[0], "stays", durable="crew")

    def come_and_go(bus: pc.Bus) -> None:
        for n in range(10):
            crew.member(bus, f"guest {n}", durable="crew").detach()

    threads = [in_thread(lambda bus=bus: come_and_go(bus)) for bus in buses]
    for n in range(150):
        buses[0].publish(Sale(n))
    for thread in threads:
        thread.join(10)
    eventually(lambda: len(set(crew.numbers())) == 150)
    assert buses[0].flush(5)
    # Who detaches may be handling one, which is then given to another.
    assert sorted(set(crew.numbers())) == list(range(150))


def test_a_group_is_separate_from_other_subscriptions(
    crew: Crew, shop: pc.Bus, other: pc.Bus, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    other.subscribe(Sale, seen)
    crew.member(shop, "a")
    crew.member(shop, "b", group="gang")
    crew.member(other, "b", group="gang")
    shop.publish_many(sales(0, 1, 2))
    eventually(lambda: len(crew.handled) == 6 and len(seen.events) == 3)
    assert sorted(crew.numbers()) == [0, 0, 1, 1, 2, 2]


def is_buried(path: Path, bus: int, clock: ManualClock) -> bool:
    """Whether a bus counts as dead, with some more time for others to see no sign of it."""
    clock.advance(3)
    with open_readonly(path) as store, store.view() as view:
        return all(each.id != bus for each in view.buses())


def first_bus(path: Path) -> int:
    with open_readonly(path) as store, store.view() as view:
        return view.buses()[0].id


def test_a_bus_that_had_counted_as_dead_joins_again(
    crew: Crew, open_bus: OpenBus, path: Path, clock: ManualClock, eventually: Eventually
) -> None:
    still = ManualClock()  # of a process that stands still
    bus = open_bus(clock=still, heartbeat_timeout=10)
    alone = crew.member(bus, "alone")
    durable = crew.member(bus, "durable", group="kept", durable="kept")
    number = first_bus(path)
    open_bus(clock=clock, heartbeat_timeout=10)
    eventually(lambda: is_buried(path, number, clock))
    still.advance(3)

    def is_back() -> bool:
        bus.publish(Sale(len(crew.handled)))
        return {name for name, _ in crew.handled} == {"alone", "durable"}

    eventually(is_back)
    assert (alone.state, durable.state) == ("active", "active")


def test_an_acknowledgement_of_who_had_counted_as_dead_is_refused(
    open_bus: OpenBus, path: Path, clock: ManualClock, eventually: Eventually
) -> None:
    bus, before = open_bus(clock=ManualClock(), heartbeat_timeout=10), Recorder[Any]()
    bus.subscribe(Sale, before, group="crew", durable="crew", ack="manual")
    bus.publish(Sale(0))
    eventually(lambda: before.deliveries)
    number = first_bus(path)
    after: Recorder[Any] = Recorder()
    other = open_bus(clock=clock, heartbeat_timeout=10)
    eventually(lambda: is_buried(path, number, clock))
    other.subscribe(Sale, after, group="crew", durable="crew")
    eventually(lambda: after.events)
    with pytest.raises(pc.NotSettledError):
        before.deliveries[0].ack()
    assert after.deliveries[0].token > before.deliveries[0].token
    assert after.deliveries[0].count == 2
