"""The wall clock is set, forward or back, while buses are open: nobody who lives loses anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from stored_events import Refund, Sale, numbers, sales

import polycast as pc
from polycast.stores import Flight, StoredSubscription
from polycast.stores.doctor import ReadOnlyStore, open_readonly
from polycast.stores.sqlite import SqliteStore
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
PassTime = Callable[..., None]
DAY = 86_400.0
either_way = pytest.mark.parametrize("step", [DAY, -DAY], ids=["forward", "back"])


@pytest.fixture
def buses_opened() -> list[pc.Bus]:
    """The buses of the test."""
    return []


@pytest.fixture
def opened(open_bus: OpenBus, clock: ManualClock, buses_opened: list[pc.Bus]) -> OpenBus:
    """Open a bus by the clock of the test."""

    def open_one(**options: Any) -> pc.Bus:
        buses_opened.append(open_bus(**{"clock": clock, "heartbeat_timeout": 10.0, **options}))
        return buses_opened[-1]

    return open_one


@pytest.fixture
def pass_time(
    path: Path, clock: ManualClock, eventually: Eventually, buses_opened: list[pc.Bus]
) -> PassTime:
    """Let time pass, no faster than those who live can say so."""

    def signs(store: ReadOnlyStore, silent: int) -> set[tuple[int, float]]:
        with store.view() as view:
            return {(each.id, each.until) for each in view.buses() if each.id != silent}

    def hear() -> None:
        for bus in buses_opened:  # that its last sign has arrived it hears before another answer
            with suppress(pc.BusClosedError):
                len(bus.dead_letters())

    def beat(store: ReadOnlyStore, silent: int) -> None:
        hear()
        before, tries = signs(store, silent), 0

        def told() -> bool:
            nonlocal tries
            tries += 1
            if tries % 200 == 0:  # its next sign was not planned yet when time passed
                clock.advance(0.5)
            return not before & signs(store, silent)

        clock.advance(2.0)
        eventually(told)

    def let_pass(seconds: float, *, silent: int = 0) -> None:
        end = clock.monotonic() + seconds
        with open_readonly(path) as store:
            while clock.monotonic() < end:
                beat(store, silent)

    return let_pass


def kept(path: Path) -> list[str]:
    """The names of the subscriptions in a store."""
    with open_readonly(path) as store, store.view() as view:
        return [each.name for each in view.subscriptions()]


def flights(path: Path, name: str) -> list[Flight]:
    with open_readonly(path) as store, store.view() as view:
        return view.flights(name)


def buses(path: Path) -> set[int]:
    with open_readonly(path) as store, store.view() as view:
        return {each.id for each in view.buses()}


@either_way
def test_whoever_lives_keeps_what_he_has(
    step: float,
    opened: OpenBus,
    path: Path,
    clock: ManualClock,
    pass_time: PassTime,
    eventually: Eventually,
) -> None:
    shop, other, seen = opened(publisher="shop"), opened(publisher="other"), Recorder[Any]()
    sub = shop.subscribe(Sale, seen, durable="kept", lease=3_600)
    crew: Recorder[Any] = Recorder()
    for bus in (shop, other):
        options: dict[str, Any] = {"ack": "manual", "ack_timeout": 1_000}
        bus.subscribe(Sale, crew, group="crew", durable="crew", **options)
    shop.publish(Sale(0))
    eventually(lambda: crew.deliveries and seen.events)
    there = buses(path)
    clock.step(step)
    opened(publisher="late")  # which has seen nothing before
    with opened(publisher="canary") as bus:
        bus.subscribe(Sale, Recorder(), durable="canary", lease=3)
    pass_time(16)
    eventually(lambda: "canary" not in kept(path))  # somebody has looked
    assert buses(path) >= there
    assert (sub.state, sorted(kept(path))) == ("active", ["crew", "kept"])
    shop.publish(Sale(1))
    eventually(lambda: len(crew.deliveries) == 2 and len(seen.events) == 2)
    assert (numbers(seen), sorted(numbers(crew))) == ([0, 1], [0, 1])  # nothing came again
    for delivery in crew.deliveries:
        delivery.ack()
    clock.advance(3_600)
    eventually(lambda: sub.state == "expired")
    eventually(lambda: kept(path) == ["crew"])


@either_way
@pytest.mark.parametrize("late", [False, True])
def test_a_subscription_that_is_attached_elsewhere_is_taken_over_and_not_made_anew(
    step: float, late: bool, opened: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    shop, other = opened(publisher="shop"), opened(publisher="other")
    shop.subscribe(Sale, Recorder(), durable="kept", lease=3_600, ack="manual")
    shop.publish_many(sales(0, 1))
    clock.step(step)
    if late:  # it has seen nothing of the lease before the clock was set
        other = opened(publisher="late")
    seen: Recorder[Any] = Recorder()
    other.subscribe(Sale, seen, durable="kept")
    eventually(lambda: len(seen.events) == 2)


@either_way
def test_what_the_dead_had_comes_to_its_end(
    step: float,
    opened: OpenBus,
    path: Path,
    clock: ManualClock,
    pass_time: PassTime,
    eventually: Eventually,
) -> None:
    still = opened(publisher="still", clock=ManualClock())  # its process stands still from now on
    held, taken = Recorder[Any](), Recorder[Any]()
    still.subscribe(Sale, Recorder(), durable="orphan", lease=20)
    still.subscribe(Sale, held, group="crew", durable="crew", ack="manual", ack_timeout=1_000)
    still.publish(Sale(0))
    eventually(lambda: held.deliveries)
    (dead,) = buses(path)
    live = opened(publisher="live")
    live.subscribe(Sale, taken, group="crew", durable="crew")
    live.advertise("/Chat/**")
    clock.step(step)
    eventually(lambda: pass_time(2, silent=dead) or dead not in buses(path))
    eventually(lambda: taken.deliveries)  # that had been claimed by who is dead
    assert (numbers(taken), taken.deliveries[0].count) == ([0], 2)
    eventually(lambda: pass_time(2) or kept(path) == ["crew"])


@either_way
@pytest.mark.parametrize("options", [{"durable": "kept"}, {"group": "crew", "durable": "crew"}])
def test_what_waits_for_another_attempt_comes_neither_early_nor_never(
    step: float,
    options: dict[str, Any],
    opened: OpenBus,
    path: Path,
    clock: ManualClock,
    pass_time: PassTime,
    eventually: Eventually,
) -> None:
    shop, other, seen = opened(publisher="shop"), opened(publisher="other"), Recorder[Any]()
    tried: list[int] = []

    def handle(sale: Sale, delivery: pc.Delivery) -> None:
        tried.append(sale.number)
        if len(tried) == 1:
            delivery.nack(delay=40)
        else:
            seen(sale, delivery)
            delivery.ack()

    shop.subscribe(Sale, handle, ack="manual", **options)
    if "group" in options:
        other.subscribe(Sale, handle, ack="manual", **options)
    shop.publish(Sale(0))
    (name,) = {options["durable"]}
    eventually(lambda: any(each.due and not each.holder for each in flights(path, name)))
    pass_time(2)
    clock.step(step)
    pass_time(20)
    assert tried == [0]
    eventually(lambda: pass_time(0.5) or seen.events)
    assert clock.monotonic() >= 40


# Of a step of a broker's clock, clients hear when they connect again.
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@either_way
def test_what_waits_for_another_attempt_waits_as_long_over_a_reopening(
    step: float,
    opened: OpenBus,
    clock: ManualClock,
    pass_time: PassTime,
    eventually: Eventually,
) -> None:
    tried: list[float] = []

    def handle(sale: Sale, delivery: pc.Delivery) -> None:
        tried.append(clock.monotonic())
        if len(tried) == 1:
            delivery.nack(delay=40)
        else:
            delivery.ack()

    with opened(publisher="shop") as shop:
        shop.subscribe(Sale, handle, durable="kept", ack="manual")
        shop.publish(Sale(0))
        eventually(lambda: tried)
        clock.step(step)
        pass_time(10)
    shop = opened(publisher="shop")
    shop.subscribe(Sale, handle, durable="kept", ack="manual")
    eventually(lambda: pass_time(0.5) or len(tried) == 2)
    assert 40 <= tried[1] - tried[0] < 200


@either_way
def test_what_is_advertised_ends_with_its_lease_and_not_before(
    step: float, opened: OpenBus, clock: ManualClock, eventually: Eventually
) -> None:
    one, other = opened(publisher="one"), opened(publisher="other")
    one.advertise("/Chat/**", lease=100)
    clock.step(step)
    clock.advance(50)
    assert len(other.health().advertised) == 1
    clock.advance(50)
    eventually(lambda: other.health().advertised == ())


@either_way
def test_nothing_gets_old_by_setting_a_clock(
    step: float, opened: OpenBus, path: Path, clock: ManualClock, eventually: Eventually
) -> None:
    age = DAY / 2
    bus = opened(publisher="shop", retention=pc.Retention(age=age), heartbeat_timeout=10 * DAY)
    bus.subscribe(Refund, Recorder(), durable="mark", pinned=False)
    bus.publish_many(sales(0, 1, 2))

    def oldest() -> int:
        with open_readonly(path) as store:
            return store.oldest()

    def cursor() -> int:
        with open_readonly(path) as store, store.view() as view:
            return view.subscriptions()[0].cursor

    clock.step(step)
    for position in (4, 5):  # that it was moved the second time shows that the first run is over
        bus.publish(Sale(position))
        eventually(lambda at=position: clock.advance(1) or cursor() > at)  # type: ignore[misc]
    assert clock.monotonic() < age
    assert oldest() == 1
    clock.step(-step)
    eventually(lambda: clock.advance(600) or oldest() == 5)
    assert clock.monotonic() >= age


def test_a_lease_whose_definition_cannot_be_read_keeps_nobody_from_opening_a_store(
    opened: OpenBus, path: Path, clock: ManualClock, eventually: Eventually
) -> None:
    bus = opened(publisher="shop")
    unreadable = StoredSubscription("strange", b"{}", 1, 1, lease=clock.time() + 60)
    store = SqliteStore(path)
    store.write(lambda tx: tx.save(unreadable)).result(10)
    store.close()
    opened(publisher="other").publish(Sale(1))
    assert kept(path) == ["strange"]
    eventually(lambda: clock.advance(1) or kept(path) == [])
    assert bus.publish(Sale(2))
