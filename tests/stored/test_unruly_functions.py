"""Functions of users that fail in unusual ways, where polycast itself calls them: over a file."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc


@pc.event(name="unruly.Parcel")
@dataclass(frozen=True)
class Parcel:
    number: int


@pc.event(name="unruly.Paket")
@dataclass(frozen=True)
class Paket:
    number: int = 0


class OutOfTime(BaseException):
    """What some libraries raise: no Exception, so that nobody catches it by accident."""


class Speechless(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        return f"because of {self.reason}"  # type: ignore[attr-defined]


UNUSUAL = pytest.mark.parametrize("failure", [KeyboardInterrupt, OutOfTime, SystemExit])


def failing(failure: type[BaseException]) -> Any:
    """A function that fails at the second parcel."""

    def function(parcel: Parcel) -> bool:
        if parcel.number == 1:
            raise failure
        return True

    return function


FAILING: list[Any] = []


def packed(parcel: Parcel) -> Paket:
    """A function of a context, which other processes have to find here."""
    FAILING[0](parcel)
    return Paket(parcel.number)


def publish(bus: pc.Bus) -> None:
    for number in range(4):
        bus.publish(Parcel(number))
    assert bus.flush(10)


@UNUSUAL
def test_a_filter_that_fails_stops_nobody_else(url: str, failure: type[BaseException]) -> None:
    others: list[int] = []
    with pc.Bus(url) as bus:
        bus.subscribe(Parcel, lambda parcel: others.append(parcel.number), durable="others")
        bus.subscribe(Parcel, print, where=failing(failure))
        publish(bus)
    assert others == [0, 1, 2, 3]


@UNUSUAL
def test_a_callback_in_line_that_fails_repeats_nothing_for_others(
    url: str, failure: type[BaseException]
) -> None:
    handled: Counter[tuple[str, int]] = Counter()
    with pc.Bus(url) as bus:
        for dispatch in ("inline", "pool"):
            bus.subscribe(
                Parcel,
                lambda parcel, who=dispatch: handled.update([(who, parcel.number)]),
                dispatch=dispatch,
                level="sorted_set",
            )
        bus.subscribe(Parcel, failing(failure), dispatch="inline", attempts=2, backoff=0.001)
        publish(bus)
        assert [letter.event for letter in bus.dead_letters()] == [Parcel(1)]
    assert handled == {(who, number): 1 for who in ("inline", "pool") for number in range(4)}


@UNUSUAL
def test_a_function_of_a_context_that_fails_leaves_a_letter_and_stops_nobody_else(
    url: str, failure: type[BaseException], eventually: Callable[[Callable[[], object]], None]
) -> None:
    root = pc.Context("root", types=[Parcel])
    post = pc.Context("post", parent=root, types=[Paket])
    post.map(Parcel, Paket, "?")
    post.whole(Parcel, packed)
    FAILING.append(failing(failure))
    here: list[int] = []
    there: list[int] = []
    with pc.Bus(url) as bus:
        bus.subscribe(Parcel, lambda parcel: here.append(parcel.number))
        bus.within(post).subscribe(Paket, lambda paket: there.append(paket.number))
        publish(bus)
        eventually(lambda: len(bus.dead_letters()) == 1)
    FAILING.clear()
    assert (here, there) == ([0, 1, 2, 3], [0, 2, 3])


@pytest.mark.parametrize("where", ["memory:", "file"])
@pytest.mark.parametrize("level", ["sorted_set", "strong_set"])
@pytest.mark.parametrize("dispatch", ["inline", "pool"])
def test_an_error_that_cannot_say_what_it_is_is_a_dead_letter_like_any_other(
    url: str, where: str, level: Any, dispatch: Any
) -> None:
    options: Any = {"level": level, "dispatch": dispatch, "attempts": 2, "backoff": 0.001}
    with pc.Bus(url if where == "file" else where) as bus:
        bus.subscribe(Parcel, failing(Speechless), **options)
        publish(bus)
        [letter] = bus.dead_letters()
    assert letter.event == Parcel(1)
    assert letter.reason == "Speechless: (AttributeError while it was put into words)"


@pytest.mark.parametrize("level", ["sorted_set", "strong_set"])
def test_a_reason_with_half_a_surrogate_pair_is_kept(url: str, level: Any) -> None:
    def callback(parcel: Parcel) -> None:
        if parcel.number == 1:
            raise ValueError(f"cannot read {os.fsdecode(bytes([99, 0xE9]))}")

    with pc.Bus(url) as bus:
        bus.subscribe(Parcel, callback, attempts=2, backoff=0.001, level=level, durable="reader")
        publish(bus)
        [letter] = bus.dead_letters()
    assert (letter.event, letter.reason) == (Parcel(1), "ValueError: cannot read c\\udce9")
    again: list[int] = []
    with pc.Bus(url) as bus:
        bus.subscribe(Parcel, lambda p: again.append(p.number), level=level, durable="reader")
        assert bus.flush(10)
    assert again == []


def test_an_error_that_another_thread_raises_in_an_idle_thread_loses_nothing() -> None:
    """As helpers do that limit how long a function may take, if they come too late."""
    handled: list[int] = []
    threads: set[int] = set()

    def callback(parcel: Parcel) -> None:
        threads.add(threading.get_ident())
        handled.append(parcel.number)

    with pc.Bus() as bus:
        bus.subscribe(Parcel, callback)
        publish(bus)
        for thread in threads:
            late = ctypes.py_object(TimeoutError)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), late)
        publish(bus)
    assert handled == [0, 1, 2, 3] * 2
