"""What a function gives that has yet to run is run, or refused; it is never taken as done."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import TestBus


@dataclass
class Talk:
    title: str = "TPS"

    async def is_good(self) -> bool:
        return False


class Desk:
    """An object that is an async callback."""

    def __init__(self) -> None:
        self.got: list[Talk] = []

    async def __call__(self, talk: Talk) -> None:
        await asyncio.sleep(0)
        self.got.append(talk)


def generate(talk: Talk) -> Iterator[Talk]:
    yield talk


async def generate_async(talk: Talk) -> AsyncIterator[Talk]:
    yield talk


async def never(talk: Talk) -> bool:
    return False


# Each makes a callback of an async one; only the first two can be told at subscribe.
WRAPPERS: list[Any] = [
    pytest.param(lambda desk: functools.partial(desk), id="a partial"),
    pytest.param(lambda desk: functools.partial(desk.__call__), id="a partial of a method"),
    pytest.param(lambda desk: lambda talk: desk(talk), id="a lambda"),
    pytest.param(lambda desk: lambda talk, delivery: desk(talk), id="a lambda with delivery"),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_wrapped_async_callback_has_run_before_its_event_is_acknowledged(
    live: pc.Bus, wrap: Callable[[Desk], Any]
) -> None:
    desk = Desk()
    live.subscribe(Talk, wrap(desk))
    for title in "abc":
        live.publish(Talk(title))
    assert live.flush(10)
    assert [talk.title for talk in desk.got] == ["a", "b", "c"]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_still_bus_runs_a_wrapped_async_callback(
    bus: TestBus, wrap: Callable[[Desk], Any]
) -> None:
    desk = Desk()
    bus.subscribe(Talk, wrap(desk))
    bus.publish(Talk("a"))
    bus.run_until_idle()
    assert desk.got == [Talk("a")]


def test_a_member_of_a_group_may_give_an_awaitable(live: pc.Bus) -> None:
    desk = Desk()
    for _ in range(2):
        live.subscribe(Talk, lambda talk: desk(talk), group="desks")
    for title in "abcd":
        live.publish(Talk(title))
    assert live.flush(10)
    assert sorted(talk.title for talk in desk.got) == ["a", "b", "c", "d"]


def test_it_is_awaited_on_the_loop_that_was_running_at_subscribe() -> None:
    async def main() -> bool:
        got: asyncio.Queue[object] = asyncio.Queue()

        async def callback(talk: Talk) -> None:
            got.put_nowait(asyncio.get_running_loop())

        async with pc.Bus() as bus:
            bus.subscribe(Talk, lambda talk: callback(talk))
            bus.publish(Talk())
            loop = await asyncio.wait_for(got.get(), 10)
        return loop is asyncio.get_running_loop()

    assert asyncio.run(main())


def test_what_it_raises_when_awaited_is_a_failed_attempt(bus: TestBus) -> None:
    async def fail(talk: Talk) -> None:
        raise SystemExit("no")

    bus.subscribe(Talk, lambda talk: fail(talk), attempts=2, backoff=1)
    bus.publish(Talk())
    bus.advance(5)
    [letter] = bus.dead_letters()
    assert (letter.attempts, letter.reason) == (2, "SystemExit: no")


def test_while_it_is_awaited_the_next_event_waits(live: pc.Bus) -> None:
    began, finish = threading.Event(), threading.Event()
    order: list[str] = []

    async def slow(talk: Talk) -> None:
        order.append(f"begin {talk.title}")
        began.set()
        await asyncio.to_thread(finish.wait, 10)
        order.append(f"end {talk.title}")

    live.subscribe(Talk, lambda talk: slow(talk))
    live.publish_many([Talk("a"), Talk("b")])
    assert began.wait(10)
    assert live.health().subscriptions[0].counts.delivered == 0
    finish.set()
    assert live.flush(10)
    assert order == ["begin a", "end a", "begin b", "end b"]


def test_flush_in_the_loop_that_has_to_await_it_is_refused() -> None:
    async def main() -> None:
        async with pc.Bus() as bus:
            bus.subscribe(Talk, lambda talk: never(talk))
            bus.publish(Talk())
            with pytest.raises(pc.WouldDeadlockError, match="event loop"):
                bus.flush()
            assert await asyncio.to_thread(bus.flush, 10)

    asyncio.run(main())


def test_what_its_closed_loop_took_with_it_is_tried_again_and_is_a_dead_letter(
    live: pc.Bus,
) -> None:
    began = threading.Event()

    async def forever(talk: Talk) -> None:
        began.set()
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()

    async def subscribe() -> None:
        live.subscribe(Talk, lambda talk: forever(talk), attempts=1)
        live.publish(Talk())
        assert await asyncio.to_thread(began.wait, 10)

    loop.run_until_complete(subscribe())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert live.flush(10)
    assert len(live.dead_letters()) == 1


# -- in line, nobody awaits ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "callback",
    [
        pytest.param(lambda talk: never(talk), id="called directly"),
        pytest.param(lambda talk, delivery: never(talk), id="called with a delivery"),
        pytest.param(lambda talk: generate(talk), id="a generator"),
        pytest.param(lambda talk: generate_async(talk), id="an async generator"),
        pytest.param(lambda talk: map(print, [talk]), id="map"),
        pytest.param(lambda talk: filter(print, [talk]), id="filter"),
    ],
)
@pytest.mark.parametrize("others", [0, 40])
def test_in_line_an_awaitable_is_a_failed_attempt(
    bus: TestBus, callback: Callable[..., Any], others: int
) -> None:
    for _ in range(others):
        bus.subscribe(Talk, lambda talk: None, dispatch="inline")
    bus.subscribe(Talk, callback, dispatch="inline", attempts=2, backoff=1)
    bus.publish(Talk())
    bus.advance(5)
    [letter] = bus.dead_letters()
    assert isinstance(letter.error, pc.NotAwaitedError)
    assert letter.attempts == 2


def test_in_line_an_awaitable_is_refused_of_what_is_published_inside_a_callback(
    bus: TestBus,
) -> None:
    def publish_more(talk: Talk) -> None:
        if talk.title == "outer":
            bus.publish(Talk("inner"))

    bus.subscribe(Talk, publish_more, dispatch="inline")
    bus.subscribe(Talk, lambda talk: never(talk), dispatch="inline", attempts=1)
    bus.publish(Talk("outer"))
    assert [letter.event.title for letter in bus.dead_letters()] == ["outer", "inner"]


@pytest.mark.parametrize(
    "make",
    [
        generate,
        generate_async,
        lambda talk: (print(each) for each in [talk]),
        lambda talk: map(print, [talk]),
        lambda talk: filter(print, [talk]),
    ],
)
def test_in_the_pool_a_generator_is_a_failed_attempt(
    bus: TestBus, make: Callable[[Talk], object]
) -> None:
    bus.subscribe(Talk, lambda talk: make(talk), attempts=1)
    bus.publish(Talk())
    bus.run_until_idle()
    [letter] = bus.dead_letters()
    assert isinstance(letter.error, pc.NotAwaitedError)


class Generating:
    def __call__(self, talk: Talk) -> Iterator[Talk]:
        yield talk


@pytest.mark.parametrize(
    "callback",
    [generate, generate_async, functools.partial(generate), Generating()],
    ids=["generator", "async generator", "partial", "object"],
)
def test_a_generator_function_is_refused_as_a_callback(bus: TestBus, callback: Any) -> None:
    with pytest.raises(
        pc.BadCallbackError, match="generator function, which runs only if iterated"
    ):
        bus.subscribe(Talk, callback)


# -- filters and suppliers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(lambda talk: never(talk), id="a coroutine"),
        pytest.param(lambda talk: not never(talk), id="its negation"),
        pytest.param(lambda talk: generate(talk), id="a generator"),
        pytest.param(lambda talk: filter(never, [talk]), id="filter"),
        pytest.param(lambda talk: talk.is_good(), id="an async method"),
        pytest.param(lambda talk: not talk.is_good(), id="the negation of an async method"),
    ],
)
@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_filter_that_gives_a_coroutine_fails_and_is_named_once(
    bus: TestBus, where: Any, dispatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[Talk] = []
    bus.subscribe(Talk, got.append, where=where, dispatch=dispatch)
    with caplog.at_level(logging.WARNING, "polycast"):
        bus.publish_many([Talk(), Talk()])
        bus.publish(Talk())
        bus.run_until_idle()
    assert got == []
    assert bus.health().counts.filter_failures == 3
    assert sum("nobody awaits" in each.getMessage() for each in caplog.records) == 1


def test_the_slow_reference_says_the_same_of_such_a_filter() -> None:
    for function in (lambda talk: not never(talk), lambda talk: not talk.is_good()):
        where: pc.Filter[Talk] = pc.lift(Talk, function)
        assert (where.matches(Talk()), where.interpret(Talk())) == (False, False)


@pytest.mark.parametrize("produce", [Desk().__call__, generate_async, generate])
def test_an_async_supplier_is_refused(bus: TestBus, produce: Any) -> None:
    with pytest.raises(pc.BadOptionError, match=r"this one is (async|a generator function)"):
        pc.DAStrongSet(Talk, bus).supply(functools.partial(produce, Talk()), every=1)


def test_a_supplier_that_gives_a_coroutine_fails(
    bus: TestBus, caplog: pytest.LogCaptureFixture
) -> None:
    things: Any = pc.DAStrongSet(Talk, bus)
    supply = things.supply(lambda: never(Talk()), every=1)
    bus.advance(1.5)
    assert supply.failures == 1
    assert "nobody awaits" in caplog.text
    supply.cancel()


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
@pytest.mark.parametrize(
    "gives",
    [
        lambda desk, talk: (desk(talk), desk(talk)),
        lambda desk, talk: [None, desk(talk)],
        lambda desk, talk: {"both": desk(talk)},
        lambda desk, talk: [generate(talk)],
    ],
)
def test_several_coroutines_at_once_are_refused_and_not_taken_as_done(
    live: pc.Bus, dispatch: Any, gives: Callable[[Desk, Talk], object]
) -> None:
    desk = Desk()
    options: Any = {"level": "strong_set", "attempts": 1, "dispatch": dispatch}
    live.subscribe(Talk, lambda talk: gives(desk, talk), **options)
    live.publish(Talk())
    assert live.flush(10)
    [letter] = live.dead_letters()
    assert isinstance(letter.error, pc.NotAwaitedError)
    assert desk.got == []
