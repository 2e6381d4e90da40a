"""Signal handlers and finalisers publish in the midst of anything: that works or is refused."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import Credit
from polycast.runtime import InterruptibleEvent, InterruptibleFuture

PROGRAM = Path(__file__).with_name("interrupted_program.py")
DEADLINE = 90.0
HOW = ["collector"] + (["signal"] if hasattr(signal, "setitimer") else [])


@dataclass
class Note:
    text: str = ""


@pytest.fixture(params=["memory", "sqlite", "broker"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a program publishes that runs in a process of its own."""
    if request.param != "broker":
        yield "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'events.db'}"
        return
    with Serving(Broker(f"sqlite:///{tmp_path / 'events.db'}")) as serving:
        yield serving.url


@pytest.mark.parametrize("dispatch", ["inline", "pool"])
@pytest.mark.parametrize("how", HOW)
def test_publishing_in_the_midst_of_publishing_neither_waits_for_ever_nor_loses_anything(
    url: str, how: str, dispatch: str
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), url, how, dispatch, "0.6"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["inner"] + told["refused"] > 0, "nothing was interrupted"
    wrong = {name: told[name] for name in ("lost", "doubled", "more") if told[name]}
    assert (wrong, told["quiet"]) == ({}, True)
    assert told["slowest"] < 10  # else it was the limit of publish_timeout that ended it


class Farewell:
    """Publishes when it goes."""

    def __init__(self, bus: pc.Bus) -> None:
        self._bus = bus

    def __del__(self) -> None:
        self._bus.publish(Note("by __del__"))


@pytest.mark.parametrize("dispatch", ["inline", "pool"])
def test_objects_may_publish_when_they_go(live: pc.Bus, dispatch: Any) -> None:
    got: list[str] = []
    live.subscribe(Note, lambda note: got.append(note.text), dispatch=dispatch)
    going = Farewell(live)
    del going
    thing = Farewell.__new__(Farewell)
    thing._bus = live
    weakref.finalize(thing, live.publish, Note("by weakref.finalize"))
    del thing
    gc.collect()
    assert live.flush(5)
    assert sorted(got) == ["by __del__", "by __del__", "by weakref.finalize"]


def test_what_interrupts_the_order_of_the_log_is_refused_by_name(live: pc.Bus) -> None:
    live.subscribe(Note, lambda note: None)
    live.publish(Note())
    operations = [
        lambda: live.publish(Note()),
        lambda: live.publish(Note(), headers={"by": "the slow path"}),
        lambda: live.publish_many([Note()]),
        lambda: live.publish_async(Note()),
        lambda: live.subscribe(Note, print),
        lambda: live.flush(1),
        lambda: live.close(1),
    ]
    with live._dispatcher.order:
        for operation in operations:
            with pytest.raises(pc.WouldDeadlockError, match="signal handler or a finaliser"):
                operation()
    assert live.publish(Note()).position == 2


def test_what_interrupts_the_thread_that_speaks_with_a_broker_is_refused_by_name(
    tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    refused: dict[threading.Thread, str] = {}
    with (
        Serving(Broker(f"sqlite:///{tmp_path / 'events.db'}")) as serving,
        pc.Bus(serving.url) as bus,
    ):
        bus.publish(Note())
        connection = bus._engine.store._connection  # type: ignore[attr-defined]
        socket = connection._socket
        messages, writer = socket._source, socket._writer

        def interrupted() -> Any:
            thread = threading.current_thread()
            if thread in (writer, threading.main_thread()) and thread not in refused:
                try:
                    bus.publish(Note("by a finaliser"))
                except pc.WouldDeadlockError as error:
                    refused[thread] = str(error)
            return messages()

        socket.take_from(interrupted)
        assert bus.publish(Note()).position == 2  # written by this thread
        connection.tell(Credit(0))  # written by the thread that writes for others
        eventually(lambda: len(refused) == 2)
    assert "has interrupted the bus in this very thread" in refused[threading.main_thread()]
    assert "a thread that others wait for" in refused[writer]


@pytest.mark.parametrize(
    "use", [lambda s: s.cancel(), lambda s: s.pause(), lambda s: s.resume(), lambda s: s.renew(1)]
)
def test_what_interrupts_a_subscription_is_refused_by_name(live: pc.Bus, use: Any) -> None:
    subscription = live.subscribe(Note, lambda note: None)
    with subscription.mailbox.queue.locked(), pytest.raises(pc.WouldDeadlockError):
        use(subscription)
    with subscription.mailbox.queue.locked(), pytest.raises(pc.WouldDeadlockError):
        live.publish(Note())
    assert subscription.state == "active"


def test_an_event_may_be_set_while_it_is_set(
    eventually: Callable[[Callable[[], object]], None],
) -> None:
    woken: list[bool] = []

    class Gate:
        """A lock whose release is interrupted by somebody who sets the event."""

        def __init__(self) -> None:
            self._lock = threading.Lock()

        def acquire(self, timeout: float = -1) -> bool:
            return self._lock.acquire(timeout=timeout)

        def release(self) -> None:
            event.set()
            self._lock.release()

    event = InterruptibleEvent(lock=Gate)  # type: ignore[arg-type]
    waiting = threading.Thread(target=lambda: woken.append(event.wait(30)))
    waiting.start()
    eventually(lambda: event._gates or woken)
    event.set()
    waiting.join(30)
    assert woken == [True]
    assert event.wait(0)
    event.clear()
    assert not event.wait(0)


def test_an_outcome_is_told_those_who_ask_in_its_own_callbacks() -> None:
    outcome: InterruptibleFuture[int] = InterruptibleFuture()
    told: list[int] = []
    outcome.add_done_callback(lambda done: told.append(done.result()))
    with pytest.raises(TimeoutError):
        outcome.result(0)
    outcome.set_result(5)
    assert (told, outcome.result(), outcome.result(0)) == ([5], 5, 5)
