"""dispatch="inline" with several publishing threads: one at a time, in log order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc

Start = Callable[[Callable[[], object]], threading.Thread]
Wait = Callable[[Callable[[], object]], None]
WAIT = 10.0


@dataclass
class Step:
    name: str = ""
    number: int = 0


FORMS = pytest.mark.parametrize("form", ["event", "delivery"])


def inline(bus: pc.Bus, form: str, function: Any) -> None:
    """Subscribe in line in one of the two forms."""
    callback = function if form == "event" else (lambda event, delivery: function(event))
    bus.subscribe(Step, callback, dispatch="inline", attempts=1)


class Alone:
    """Notes whether two threads were ever inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.threads: list[tuple[str, int]] = []

    def __call__(self, step: Step) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        threading.Event().wait(0)
        self.threads.append((step.name, threading.get_ident()))
        self.inside -= 1


@FORMS
def test_one_event_at_a_time_goes_through(live: pc.Bus, in_thread: Start, form: str) -> None:
    alone = Alone()
    inline(live, form, alone)

    def publish() -> None:
        for number in range(100):
            live.publish(Step("", number))

    for thread in [in_thread(publish) for _ in range(4)]:
        thread.join(WAIT)
    assert alone.most == 1


@FORMS
def test_each_event_is_brought_by_its_own_publisher(
    live: pc.Bus, in_thread: Start, form: str
) -> None:
    alone = Alone()
    inline(live, form, alone)
    idents: dict[str, int] = {}

    def publish(name: str) -> None:
        idents[name] = threading.get_ident()
        for number in range(100):
            live.publish(Step(name, number))

    threads = [in_thread(lambda name=name: publish(name)) for name in "abcd"]
    for thread in threads:
        thread.join(WAIT)
    assert all(idents[name] == ident for name, ident in alone.threads)


def test_events_arrive_in_log_order(live: pc.Bus, in_thread: Start) -> None:
    positions: list[int] = []
    live.subscribe(Step, lambda s, d: positions.append(d.position), dispatch="inline")

    def publish() -> None:
        for number in range(100):
            live.publish(Step("", number))
            live.publish_many([Step(), Step()])

    for thread in [in_thread(publish) for _ in range(4)]:
        thread.join(WAIT)
    assert positions == sorted(positions)
    assert len(positions) == 1200


@FORMS
def test_a_publisher_waits_for_the_turn_of_another(
    live: pc.Bus, in_thread: Start, eventually: Wait, form: str
) -> None:
    begun, go_on, log = threading.Event(), threading.Event(), []

    def callback(step: Step) -> None:
        log.append(f"begin {step.name}")
        if step.name == "a":
            begun.set()
            go_on.wait(WAIT)
        log.append(f"end {step.name}")

    inline(live, form, callback)
    first = in_thread(lambda: live.publish(Step("a")))
    assert begun.wait(WAIT)
    second = in_thread(lambda: live.publish(Step("b")))
    go_on.set()
    first.join(WAIT)
    second.join(WAIT)
    assert log == ["begin a", "end a", "begin b", "end b"]


def interrupted_with_others_waiting(
    bus: pc.Bus, in_thread: Start, eventually: Wait, *, before: Callable[[], object]
) -> int:
    """The most callbacks at once, after one thread was interrupted while another waited."""
    turn, held, release = threading.Event(), threading.Event(), threading.Event()
    inside, most, lock = [0], [0], threading.Lock()

    def callback(step: Step) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        try:
            if step.name == "stop":
                turn.set()
                release_stop.wait(WAIT)
                raise KeyboardInterrupt
            if step.name == "hold":
                held.set()
                release.wait(WAIT)
        finally:
            with lock:
                inside[0] -= 1

    release_stop = threading.Event()
    changes = iter([before])
    bus.subscribe(Step, lambda step: next(changes, lambda: None)(), dispatch="inline", attempts=1)
    bus.subscribe(Step, callback, dispatch="inline", attempts=1)

    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt):
            bus.publish(Step("stop"))

    first = in_thread(interrupted)
    assert turn.wait(WAIT)
    in_thread(lambda: bus.publish(Step("hold")))
    eventually(lambda: bus._dispatcher.inline_lock.pending)
    release_stop.set()
    assert held.wait(WAIT)
    first.join(WAIT)
    third = in_thread(lambda: bus.publish(Step("third")))
    third.join(0.2)  # it has to wait, so this does not return early
    release.set()
    third.join(WAIT)
    return most[0]


def test_an_interrupt_hands_the_turn_over_once(
    live: pc.Bus, in_thread: Start, eventually: Wait
) -> None:
    most = interrupted_with_others_waiting(live, in_thread, eventually, before=lambda: None)
    assert most == 1


def test_an_interrupt_after_a_change_of_plan_hands_the_turn_over_once(
    live: pc.Bus, in_thread: Start, eventually: Wait
) -> None:
    most = interrupted_with_others_waiting(
        live,
        in_thread,
        eventually,
        before=lambda: live.subscribe(Step, lambda step: None, dispatch="inline"),
    )
    assert most == 1


@FORMS
def test_subscribing_and_cancelling_meanwhile_loses_nothing(
    live: pc.Bus, in_thread: Start, form: str
) -> None:
    got: list[tuple[str, int]] = []
    inline(live, form, lambda step: got.append((step.name, step.number)))

    def publish(name: str) -> None:
        for number in range(200):
            live.publish(Step(name, number))

    def come_and_go() -> None:
        for _ in range(50):
            live.subscribe(Step, lambda step: None, dispatch="inline").cancel()

    threads = [in_thread(lambda name=name: publish(name)) for name in "ab"]
    threads.append(in_thread(come_and_go))
    for thread in threads:
        thread.join(WAIT)
    assert sorted(got) == [(name, number) for name in "ab" for number in range(200)]
