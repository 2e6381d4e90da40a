"""What a user's function may raise besides an Exception: it fails, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import TestBus

FAILURES = [SystemExit, GeneratorExit, asyncio.CancelledError]
LEAVING = pytest.mark.parametrize("failure", FAILURES)


class OutOfTime(BaseException):
    """What some libraries raise: no Exception, so that nobody catches it by accident."""


ANY_LEAVING = pytest.mark.parametrize("failure", [*FAILURES, OutOfTime])


@dataclass
class Talk:
    title: str = ""
    length: int = 0

    @property
    def rating(self) -> int:
        """A method of the event itself that leaves."""
        raise FAILURES[self.length]


@dataclass
class Speech:
    title: str = ""


def leave(failure: type[BaseException]) -> Callable[..., Any]:
    """A function that raises it."""

    def function(*_: object) -> Any:
        raise failure("out of here")

    return function


@LEAVING
@pytest.mark.parametrize("form", ["event", "delivery"])
def test_a_callback_in_line_that_leaves_has_failed(
    bus: TestBus, failure: type[BaseException], form: str
) -> None:
    got: list[str] = []
    function = leave(failure)
    callback = function if form == "event" else (lambda talk, delivery: function())
    bus.subscribe(Talk, callback, dispatch="inline", attempts=1)
    bus.subscribe(Talk, lambda talk: got.append(talk.title), dispatch="inline")
    bus.publish(Talk("a"))
    bus.publish(Talk("b"), headers={"by": "the slow path"})
    letters = [(each.event.title, failure.__name__ in each.reason) for each in bus.dead_letters()]
    assert (got, letters) == (["a", "b"], [("a", True), ("b", True)])


@LEAVING
def test_a_callback_of_the_pool_that_leaves_has_failed(
    live: pc.Bus, failure: type[BaseException]
) -> None:
    live.subscribe(Talk, leave(failure), attempts=1)
    live.publish(Talk("a"))
    assert live.flush(5)
    assert [failure.__name__ in each.reason for each in live.dead_letters()] == [True]


@LEAVING
def test_a_coroutine_that_leaves_does_not_end_the_program_whose_loop_it_is_in(
    failure: type[BaseException],
) -> None:
    async def callback(talk: Talk) -> None:
        leave(failure)()

    async def program() -> list[str]:
        async with pc.Bus() as bus:
            bus.subscribe(Talk, callback, attempts=1)
            await bus.publish_async(Talk("a"))
            await asyncio.to_thread(bus.flush, 5)
            return [each.reason for each in bus.dead_letters()]

    [reason] = asyncio.run(program())
    assert failure.__name__ in reason


@ANY_LEAVING
@pytest.mark.parametrize("dispatch", ["inline", "pool"])
@pytest.mark.parametrize("many", [1, 100], ids=["few", "very many"])
def test_a_filter_that_leaves_does_not_match(
    bus: TestBus, failure: type[BaseException], dispatch: Any, many: int
) -> None:
    got: list[str] = []
    for _ in range(many):
        bus.subscribe(Talk, lambda talk: got.append("no"), where=leave(failure), dispatch=dispatch)
    bus.subscribe(Talk, lambda talk: got.append(talk.title), dispatch=dispatch)
    bus.publish(Talk("a"))
    bus.publish(Talk("b"), headers={"by": "the slow path"})
    bus.run_until_idle()
    assert (got, bus.health().counts.filter_failures) == (["a", "b"], 2 * many)


@pytest.mark.parametrize("number", range(len(FAILURES)))
@pytest.mark.parametrize("many", [1, 100], ids=["few", "very many"])
def test_a_property_that_leaves_while_a_filter_reads_it_does_not_match(
    bus: TestBus, number: int, many: int
) -> None:
    got: list[str] = []
    for at in range(many):
        bus.subscribe(Talk, lambda talk: got.append("no"), where=lambda talk: talk.rating == at)  # noqa: B023
    bus.publish(Talk("a", number))
    bus.run_until_idle()
    assert got == []


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_a_matcher_takes_a_property_that_leaves_for_absent(number: int, native: bool) -> None:
    if native:
        pytest.importorskip("polycast.matching.native._kernel")
    matcher: pc.Matcher[str] = pc.Matcher(native=native)
    matcher.add("five", Talk, lambda talk: talk.rating == 5)
    matcher.add("all", Talk, lambda talk: talk.title == "a")
    assert matcher.match(Talk("a", number)) == ["all"]


@ANY_LEAVING
def test_a_member_of_a_group_whose_filter_leaves_is_passed_over(
    bus: TestBus, failure: type[BaseException]
) -> None:
    got: list[str] = []
    bus.subscribe(Talk, lambda talk: got.append("no"), where=leave(failure), group="g")
    bus.subscribe(Talk, lambda talk: got.append(talk.title), group="g")
    bus.publish(Talk("a"))
    bus.run_until_idle()
    assert got == ["a"]


@ANY_LEAVING
def test_a_filter_that_leaves_over_history_does_not_match(failure: type[BaseException]) -> None:
    bus = TestBus(history=10)
    bus.publish(Talk("a"))
    got: list[Talk] = []
    bus.subscribe(Talk, got.append, where=leave(failure), since="beginning")
    bus.run_until_idle()
    assert (got, bus.health().counts.filter_failures) == ([], 1)
    bus.close()


@LEAVING
def test_a_supply_whose_function_leaves_is_asked_again(
    bus: TestBus, failure: type[BaseException]
) -> None:
    talks = pc.DAList(Talk, bus)
    supply = talks.supply(leave(failure), every=1.0)
    bus.advance(3.5)
    assert supply.failures == 3


@LEAVING
@pytest.mark.parametrize("dispatch", ["inline", "pool"])
def test_a_function_of_a_context_that_leaves_keeps_an_event_out_of_it_only(
    failure: type[BaseException], dispatch: Any
) -> None:
    def in_their_words(title: str) -> str:
        raise failure("out of here")

    root = pc.Context("root", types=[Talk])
    abroad = pc.Context("abroad", parent=root, types=[Speech])
    abroad.map(Talk, Speech, "?")
    abroad.rule("Talk.title", in_their_words)
    bus = TestBus()
    got: list[object] = []
    bus.within(abroad).subscribe(object, got.append, dispatch=dispatch)
    bus.subscribe(Talk, got.append, dispatch=dispatch)
    bus.publish(Talk("a"))
    bus.publish(Talk("b"), headers={"by": "the slow path"})
    bus.run_until_idle()
    reasons = [failure.__name__ in each.reason for each in bus.dead_letters()]
    assert (got, reasons) == ([Talk("a"), Talk("b")], [True, True])
    bus.close()


def test_ctrl_c_in_a_callback_in_line_reaches_who_published(live: pc.Bus) -> None:
    live.subscribe(Talk, leave(KeyboardInterrupt), dispatch="inline", attempts=1)
    with pytest.raises(KeyboardInterrupt):
        live.publish(Talk("a"))
    got: list[str] = []
    live.subscribe(Talk, lambda talk: got.append(talk.title), where=lambda t: t.title == "b")
    with pytest.raises(KeyboardInterrupt):
        live.publish(Talk("b"))
    live.flush(5)
    assert got == ["b"]
