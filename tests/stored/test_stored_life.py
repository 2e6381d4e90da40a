"""The life of a bus over a file: closing, being forgotten, and files that cannot be used."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from stored_events import Sale, numbers, sales

import polycast as pc
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]


ambient: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _around(url: str) -> None:
    """What runs beside the buses of a test: a broker has threads, too."""
    del url
    ambient.clear()
    ambient.update(threading.enumerate())


def threads() -> list[str]:
    """The threads of buses."""
    there = [each.name for each in threading.enumerate() if each not in ambient]
    return [name for name in there if name.startswith("polycast") and "-broker" not in name]


def files(url: str) -> int:
    """How many files this process has open, less those that a broker keeps for the next client."""
    is_remote, count = url.startswith("polycast"), 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was that of the folder
            count += not (is_remote and ".db" in os.readlink(each))
    return count


def use(bus: pc.Bus) -> None:
    """Make a bus start all it can start."""

    async def asynchronous(sale: Sale) -> None:
        pass

    bus.subscribe(Sale, print, durable="kept", where=lambda sale: sale.number < 0)
    bus.subscribe(Sale, Recorder(), group="crew")
    bus.subscribe(Sale, asynchronous)
    bus.subscribe(Sale, Recorder(), dispatch="inline", since="beginning")
    bus.publish_many(sales(0, 1))
    assert bus.flush(5)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_closing_leaves_no_thread_and_no_file_open(
    url: str, open_bus: OpenBus, eventually: Any
) -> None:
    gc.collect()
    eventually(lambda: threads() == [])
    with open_bus() as bus:
        use(bus)
    eventually(lambda: threads() == [])
    before = files(url)
    for _ in range(3):
        bus = open_bus()
        use(bus)
        bus.close()
        assert threads() == []
    eventually(lambda: files(url) <= before)  # a broker closes its end a little later


def test_a_bus_that_nobody_has_any_more_ends(url: str, eventually: Eventually) -> None:
    bus = pc.Bus(url)
    use(bus)
    gone = weakref.ref(bus)
    del bus
    gc.collect()
    assert gone() is None
    eventually(lambda: threads() == [])
    with pc.Bus(url) as again:  # what it had is there
        seen: Recorder[Any] = Recorder()
        again.subscribe(Sale, seen, since="beginning")
        assert again.flush(5)
    assert numbers(seen) == [0, 1]


def test_closing_does_not_wait_for_what_a_durable_has_still_to_do(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus, go, handled = open_bus(), threading.Event(), list[int]()

    def handle(sale: Sale) -> None:
        go.wait(10)
        handled.append(sale.number)

    bus.subscribe(Sale, handle, durable="kept", queue=50)
    bus.publish_many(sales(*range(2_000)))
    eventually(lambda: bus.health().subscriptions[0].in_flight)
    began = time.monotonic()
    go.set()
    assert bus.close() == ()
    assert time.monotonic() - began < 2
    after: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.subscribe(Sale, after, durable="kept")
        eventually(lambda: len(after.events) + len(handled) == 2_000)
    assert handled + numbers(after) == list(range(2_000))


def test_closing_delivers_what_is_there_to_who_has_no_name(open_bus: OpenBus) -> None:
    bus, seen = open_bus(), Recorder[Any]()
    bus.subscribe(Sale, seen)
    bus.publish_many(sales(*range(500)))
    assert bus.close() == ()
    assert numbers(seen) == list(range(500))


def passed_on(bus: pc.Bus) -> list[int]:
    """What a callback gets that publishes the next sale each time, until there are 30."""
    got: list[int] = []

    def pass_on(sale: Sale) -> None:
        got.append(sale.number)
        if sale.number < 30:
            bus.publish(Sale(sale.number + 1))

    bus.subscribe(Sale, pass_on)
    bus.publish(Sale(1))
    return got


def test_closing_delivers_what_callbacks_publish_meanwhile(open_bus: OpenBus) -> None:
    bus = open_bus()
    got = passed_on(bus)
    assert bus.close(10) == ()
    assert got == list(range(1, 31))


def test_flush_waits_for_what_callbacks_publish_meanwhile(shop: pc.Bus) -> None:
    got = passed_on(shop)
    assert shop.flush(10)
    assert got == list(range(1, 31))


def test_flush_waits_for_what_async_callbacks_publish_and_do_not_await(shop: pc.Bus) -> None:
    got: list[int] = []
    tasks = []

    async def pass_on(sale: Sale) -> None:
        got.append(sale.number)
        if sale.number < 30:
            tasks.append(asyncio.ensure_future(shop.publish_async(Sale(sale.number + 1))))

    shop.subscribe(Sale, pass_on)
    shop.publish(Sale(1))
    assert shop.flush(10)
    assert got == list(range(1, 31))


def test_closing_says_what_could_not_be_delivered(open_bus: OpenBus, eventually: Any) -> None:
    bus = open_bus()
    sub = bus.subscribe(Sale, print)
    sub.pause()
    bus.publish_many(sales(0, 1, 2))
    eventually(lambda: len(sub.mailbox.queue) == 3)
    [left] = bus.close(timeout=0.1)
    assert (left.events, left.why) == (3, "it is paused")


def test_a_callback_that_does_not_return_holds_up_closing_for_the_timeout_only(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus, go, begun = open_bus(), threading.Event(), threading.Event()
    bus.subscribe(Sale, lambda sale: (begun.set(), go.wait(10)), durable="kept")
    bus.publish_many(sales(0, 1))
    begun.wait(10)
    began = time.monotonic()
    bus.close(timeout=0.1)
    assert time.monotonic() - began < 3
    go.set()
    seen: Recorder[Any] = Recorder()
    with open_bus() as bus:
        bus.subscribe(Sale, seen, durable="kept")
        eventually(lambda: len(seen.events) == 2)
    eventually(lambda: threads() == [])


def test_a_bus_may_be_closed_in_a_callback(open_bus: OpenBus, eventually: Eventually) -> None:
    bus = open_bus()
    bus.subscribe(Sale, lambda sale: bus.close(), durable="kept")
    bus.publish(Sale(0))
    eventually(lambda: bus.health().state == "closed")
    eventually(lambda: threads() == [])


def test_flush_waits_for_what_others_have_published(shop: pc.Bus, other: pc.Bus) -> None:
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="kept")
    for n in range(20):
        other.publish(Sale(n))
        assert shop.flush(5)
        assert numbers(seen) == list(range(n + 1))


def test_health_of_a_closed_bus_can_be_asked(shop: pc.Bus) -> None:
    shop.publish(Sale(0))
    shop.close()
    assert shop.health().state == "closed"


def test_subscribing_and_leaving_in_many_threads_leaves_nothing_behind(
    shop: pc.Bus, in_thread: Any, eventually: Eventually
) -> None:
    errors: list[BaseException] = []
    options: list[dict[str, Any]] = [
        {},
        {"durable": "a"},
        {"group": "g"},
        {"durable": "b", "group": "h"},
        {"since": "beginning"},
        {"dispatch": "inline"},
    ]

    def come_and_go(mine: dict[str, Any]) -> None:
        try:
            for n in range(8):
                sub = shop.subscribe(Sale, lambda sale: None, **mine)
                shop.publish(Sale(n))
                sub.detach() if n % 2 and sub.durable and sub.ended is None else sub.cancel()
        except pc.TakenOverError:
            pass
        except BaseException as error:
            errors.append(error)

    started = [in_thread(lambda mine=mine: come_and_go(mine)) for mine in options + options[:2]]
    for thread in started:
        thread.join(10)
    assert errors == []
    assert shop.flush(5)
    assert shop.health().subscriptions == ()
    assert shop.health().dead_letters == 0


# -- files that cannot be used ---------------------------------------------------------------------


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(pc.NotAStoreError, match="there is no folder"):
        pc.Bus(f"sqlite:///{tmp_path / 'missing' / 'events.db'}")


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(pc.NotAStoreError, match="it is a folder"):
        pc.Bus(f"sqlite:///{tmp_path}")


def test_another_file_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("hello, " * 1_000)
    with pytest.raises(pc.NotAStoreError, match="no SQLite file"):
        pc.Bus(f"sqlite:///{path}")
    assert path.read_text().startswith("hello")


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///", "file.db", "sqlite:x.db"])
def test_a_url_without_a_path_says_what_is_accepted(url: str) -> None:
    with pytest.raises(pc.BadOptionError, match="sqlite:///"):
        pc.Bus(url)


def test_no_thread_is_left_of_a_bus_that_could_not_be_opened(
    tmp_path: Path, eventually: Eventually
) -> None:
    with pytest.raises(pc.NotAStoreError):
        pc.Bus(f"sqlite:///{tmp_path}")
    with pytest.raises(pc.BadOptionError):
        pc.Bus(f"sqlite:///{tmp_path / 'events.db'}", history=5)
    eventually(lambda: threads() == [])


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)  # a broker has it open
def test_a_file_that_was_deleted_is_a_problem_that_health_tells(
    open_bus: OpenBus, path: Path
) -> None:
    bus = open_bus()
    bus.publish(Sale(0))
    path.unlink()
    assert bus.health().problems != ()
