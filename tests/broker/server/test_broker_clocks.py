"""Clocks that are set, at a broker and at its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polycast.broker.client.client_connection import ConnectionOptions
from polycast.broker.client.dialer import addresses_of
from polycast.broker.client.remote_store import RemoteStore
from polycast.broker.server.broker import FORGOTTEN, Maintenance
from polycast.broker.server.limits import Quota
from polycast.broker.server.ownership import Usage
from polycast.events import Identity
from polycast.stores import Draft, Retention, StoredReply
from polycast.stores.memory_store import MemoryStore
from polycast.testing import ManualClock

DAY = 86_400.0
either_way = pytest.mark.parametrize("step", [DAY, -DAY], ids=["forward", "back"])


def usage_of(store: Any, clock: ManualClock) -> Usage:
    return Usage(store, clock, lambda owner: Quota())


@either_way
def test_a_client_goes_by_the_clock_of_its_broker_whatever_is_done_to_its_own(
    step: float, serve: Callable[..., Any]
) -> None:
    clock, mine = ManualClock(2_000_000.0), ManualClock(1_000.0)
    store = RemoteStore(ConnectionOptions(addresses_of(serve(clock=clock).url)), clock=mine)
    try:
        assert (store.clock.time(), store.clock.offset()) == (2_000_000.0, 1_999_000.0)
        mine.step(step)
        mine.advance(5)
        assert store.clock.time() == 2_000_005.0
        assert store.clock.offset() == 1_999_000.0 - step
    finally:
        store.close()


@either_way
def test_what_a_client_was_told_is_kept_for_as_long_as_it_may_ask(step: float) -> None:
    clock = ManualClock()
    store: Any = MemoryStore(clock=clock)
    maintenance = Maintenance(store, clock, lambda: None, usage_of(store, clock))

    def is_there() -> bool:
        return store.write(lambda tx: tx.answer("it") is not None).result()

    store.write(lambda tx: tx.put_answer(StoredReply("it", 1, b"", clock.time()))).result()
    clock.step(step)
    maintenance.clean_up()
    assert is_there()
    clock.advance(FORGOTTEN - 10)
    maintenance.clean_up()
    assert is_there()
    clock.advance(2 * DAY + 20)
    maintenance.clean_up()
    assert not is_there()


@either_way
def test_a_broker_lets_go_of_nothing_because_its_clock_was_set(
    step: float,
) -> None:
    clock = ManualClock()
    store: Any = MemoryStore(clock=clock)
    maintenance = Maintenance(store, clock, lambda: None, usage_of(store, clock))
    Retention(age=3_600).keep_in(store)
    _fill(store)
    clock.step(step)
    maintenance.clean_up()
    assert store.oldest() == 1
    clock.advance(DAY + 3_700)
    maintenance.clean_up()
    assert store.oldest() == 3


def _fill(store: Any) -> None:
    about = ("shop.Sale", 1, "00" * 16)
    store.append([Draft(*about, Identity("till", 1, n), "json", b"{}") for n in (1, 2, 3)])
