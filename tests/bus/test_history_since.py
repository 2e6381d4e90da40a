"""History first, then live, without a seam."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Sale:
    number: int = 0


@dataclass
class Refund:
    number: int = 0


@pytest.fixture
def kept() -> Iterator[TestBus]:
    """A bus that keeps five events; it has published eight, a second apart."""
    bus = TestBus(history=5)
    for number in range(1, 9):
        bus.publish(Sale(number))
        bus.clock.advance(1)
    yield bus
    bus.close()


def received(bus: TestBus, since: Any, what: Any = Sale, **options: Any) -> list[int]:
    """The numbers that a subscription gets since some place, and one event more."""
    seen: Recorder[Any] = Recorder()
    bus.subscribe(what, seen, since=since, **options)
    bus.publish(Sale(100))
    bus.run_until_idle()
    return [event.number for event in seen.events]


def moment(bus: TestBus, number: int) -> datetime:
    """When a numbered event was published."""
    start = bus.clock.time() - 8
    return datetime.fromtimestamp(start + number - 1, UTC)


def test_since_beginning_is_the_oldest_kept(kept: TestBus) -> None:
    assert received(kept, "beginning") == [4, 5, 6, 7, 8, 100]


def test_since_a_position_begins_there(kept: TestBus) -> None:
    assert received(kept, 6) == [6, 7, 8, 100]


def test_since_the_oldest_position_kept_is_accepted(kept: TestBus) -> None:
    assert received(kept, 4) == [4, 5, 6, 7, 8, 100]


def test_since_a_moment_begins_with_the_first_event_then(kept: TestBus) -> None:
    assert received(kept, moment(kept, 6)) == [6, 7, 8, 100]


def test_since_between_two_moments_begins_with_the_later(kept: TestBus) -> None:
    assert received(kept, moment(kept, 6) + timedelta(seconds=0.5)) == [7, 8, 100]


def test_since_the_moment_of_the_oldest_kept_is_accepted(kept: TestBus) -> None:
    assert received(kept, moment(kept, 4)) == [4, 5, 6, 7, 8, 100]


def test_since_now_is_live_only(kept: TestBus) -> None:
    assert received(kept, moment(kept, 9)) == [100]


def test_since_the_next_position_is_live_only(kept: TestBus) -> None:
    assert received(kept, 9) == [100]


def test_since_a_position_to_come_begins_there(kept: TestBus) -> None:
    seen: Recorder[Sale] = Recorder()
    kept.subscribe(Sale, seen, since=11)
    kept.publish_many(Sale(number) for number in (9, 10, 11, 12))
    kept.run_until_idle()
    assert [sale.number for sale in seen.events] == [11, 12]


@pytest.mark.parametrize("since", [3, 1])
def test_an_older_position_is_gone(kept: TestBus, since: int) -> None:
    with pytest.raises(pc.HistoryGoneError, match="position 4") as caught:
        kept.subscribe(Sale, print, since=since)
    assert caught.value.oldest == 4


def test_an_older_moment_is_gone(kept: TestBus) -> None:
    with pytest.raises(pc.HistoryGoneError) as caught:
        kept.subscribe(Sale, print, since=moment(kept, 2))
    assert caught.value.oldest == 4


def test_a_refused_since_leaves_no_subscription_behind(kept: TestBus) -> None:
    with pytest.raises(pc.HistoryGoneError):
        kept.subscribe(Sale, print, since=1)
    assert kept.health().subscriptions == ()


def test_a_moment_before_all_events_is_the_beginning_if_nothing_was_let_go() -> None:
    with TestBus(history=100) as bus:
        bus.publish(Sale(1))
        long_ago = datetime.fromtimestamp(bus.clock.time() - 3600, UTC)
        assert received(bus, long_ago) == [1, 100]


def test_without_history_since_is_refused(bus: TestBus) -> None:
    with pytest.raises(pc.NoHistoryError, match=r"pc\.Bus\(history=n\)"):
        bus.subscribe(Sale, print, since="beginning")


@pytest.mark.parametrize("since", ["yesterday", 1.5, True, datetime(2026, 1, 1), object()])
def test_what_is_no_place_is_refused(kept: TestBus, since: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="since"):
        kept.subscribe(Sale, print, since=since)


def test_the_beginning_of_an_empty_history_is_live_only() -> None:
    with TestBus(history=5) as bus:
        assert received(bus, "beginning") == [100]


# -- what history goes through ---------------------------------------------------------------------


def test_history_goes_through_type_and_filter(kept: TestBus) -> None:
    kept.publish(Refund(7))
    got = received(kept, "beginning", where=lambda sale: sale.number % 2 == 0)
    assert got == [6, 8, 100]


def test_history_goes_through_topics() -> None:
    with TestBus(history=10) as bus:
        bus.publish(Sale(1), topic="/a")
        bus.publish(Sale(2), topic="/b")
        bus.publish(Sale(3), topic="/a")
        assert received(bus, "beginning", "/a") == [1, 3]


def test_a_filter_that_fails_on_history_is_counted(kept: TestBus) -> None:
    received(kept, "beginning", where=lambda sale: 1 / (sale.number - 5))
    assert kept.health().counts.filter_failures == 1


def test_history_keeps_headers_and_identity() -> None:
    with TestBus(history=10) as bus:
        receipt = bus.publish(Sale(1), headers={"a": "b"})
        seen: Recorder[Sale] = Recorder()
        bus.subscribe(Sale, seen, since="beginning")
        bus.run_until_idle()
        delivery = seen.deliveries[0]
        assert (delivery.identity, dict(delivery.headers)) == (receipt.identity, {"a": "b"})


def test_what_expired_in_history_is_not_delivered() -> None:
    with TestBus(history=10) as bus:
        bus.publish(Sale(1), expires=5)
        bus.publish(Sale(2))
        bus.advance(10)
        assert received(bus, "beginning") == [2, 100]


def test_history_may_be_longer_than_the_queue(kept: TestBus) -> None:
    assert received(kept, "beginning", queue=2) == [4, 5, 6, 7, 8, 100]


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_history_comes_before_what_is_live(kept: TestBus, dispatch: Any) -> None:
    assert received(kept, 7, dispatch=dispatch) == [7, 8, 100]


def test_a_durable_may_begin_in_history(kept: TestBus) -> None:
    assert received(kept, 7, durable="late") == [7, 8, 100]


def test_a_group_may_begin_in_history(kept: TestBus) -> None:
    assert sorted(received(kept, 7, group="g")) == [7, 8, 100]


def test_history_holds_back_behind_a_failure_too(kept: TestBus) -> None:
    failures = iter([OSError("once")])
    seen: Recorder[Sale] = Recorder(fail=lambda sale: next(failures, None))
    kept.subscribe(Sale, seen, since=6)
    kept.run_until_idle()
    kept.advance(10)
    assert [sale.number for sale in seen.events] == [6, 7, 8]


# -- the seam --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_there_is_no_seam_under_concurrent_publishing(dispatch: Any) -> None:
    with pc.Bus(history=100_000) as bus:
        stop = threading.Event()

        receipts: list[int] = []

        def publish() -> None:
            while not stop.is_set() and len(receipts) < 10_000:
                receipts.append(bus.publish(Sale()).position)
                stop.wait(0)

        threads = [threading.Thread(target=publish, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        seen: list[list[int]] = [[] for _ in range(8)]
        for positions in seen:
            bus.subscribe(
                Sale,
                lambda sale, delivery, mine=positions: mine.append(delivery.position),
                since="beginning",
                dispatch=dispatch,
                overflow="spill",
            )
        stop.set()
        for thread in threads:
            thread.join(10)
        assert bus.flush(60)
    wanted = sorted(receipts)
    wrong = [sorted(set(wanted) ^ set(each)) for each in seen if each != wanted]
    assert wrong == []


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def test_history_that_goes_while_it_is_asked_for_is_an_error_not_a_gap(hasty: None) -> None:
    gaps: list[tuple[int, int]] = []
    with pc.Bus(history=20) as bus:
        stop = threading.Event()

        def publish() -> None:
            while not stop.is_set():
                bus.publish(Sale())

        threads = [threading.Thread(target=publish, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(300):
            since = max(1, bus.health().published - 15)
            first: list[int] = []
            try:
                bus.subscribe(
                    Sale,
                    lambda sale, delivery, mine=first: mine.append(delivery.position),
                    since=since,
                    dispatch="inline",
                    overflow="spill",
                ).cancel()
            except pc.HistoryGoneError:
                continue
            if first and first[0] != since:
                gaps.append((since, first[0]))
        stop.set()
        for thread in threads:
            thread.join(10)
    assert gaps == []
