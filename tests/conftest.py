"""A bus that is closed afterwards, and waiting for a condition."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

import polycast as pc
from heap import Heap
from polycast.testing import TestBus

DEADLINE = 10.0  # only a broken program reaches it
IN_MEMORY, ENOUGH = "/dev/shm", 4 << 30  # bytes free

# How long an example takes says something of the machine, and nothing of what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if os.path.isdir(IN_MEMORY) and shutil.disk_usage(IN_MEMORY).free > ENOUGH:
    # Syncing is most of what tests over files wait for; what a disk may do is played by others.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", IN_MEMORY)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
    # The programs that tests start would inherit that, and tests interrupt them.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Spare the garbage collector what it need not look at."""
    config.pluginmanager.register(Heap())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Share out the tests of a run by several processes."""
    from sharing import Sharing, Stopwatch

    config.pluginmanager.register(Stopwatch())
    return Sharing(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests of a run by several processes."""
    if hasattr(config, "workerinput"):
        from sharing import begin_with_the_longest, known_seconds

        begin_with_the_longest(items, known_seconds())


@pytest.fixture
def bus() -> Iterator[TestBus]:
    """A bus without threads."""
    bus = TestBus()
    yield bus
    bus.close()


@pytest.fixture
def live() -> Iterator[pc.Bus]:
    """A bus with threads."""
    bus = pc.Bus()
    yield bus
    bus.close(timeout=1)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds; fail if it does not in time."""

    def wait(condition: Callable[[], object]) -> None:
        pause, deadline = threading.Event(), time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, "it did not come true in time"
            pause.wait(0.001)

    return wait


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], object]], threading.Thread]]:
    """Start functions in threads of their own; they must have ended when the test ends."""
    started: list[threading.Thread] = []

    def start(function: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=function, daemon=True)
        started.append(thread)
        thread.start()
        return thread

    yield start
    for thread in started:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in started)
