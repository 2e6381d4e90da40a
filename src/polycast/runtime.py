"""What threads, locks, waits and connections are made of: those of this machine, or others.

The clock that is passed to a bus, a store or a broker may be a whole `Runtime`. Then nothing inside
starts a thread, waits, or reaches others but through it. The simulation in `tests/simulation` runs
stores, brokers and clients on one seed that way.
"""

from __future__ import annotations

import asyncio
import random as _random
import secrets
import socket
import threading
import time as _time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from polycast.locks import InterruptibleEvent, InterruptibleFuture

if TYPE_CHECKING:
    from collections.abc import Callable


def _thread(
    target: Callable[..., None], *, name: str, args: tuple[Any, ...] = ()
) -> threading.Thread:
    return threading.Thread(target=target, args=args, name=name, daemon=True)


def _executor(workers: int, name: str) -> Executor:
    return ThreadPoolExecutor(workers, thread_name_prefix=name)


def _datagrams() -> socket.socket | None:
    with suppress(AttributeError, OSError):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        return made
    return None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runtime:
    """A clock, and the makers of all that a thread may wait for; by default, this machine's."""

    time: Callable[[], float] = _time.time
    monotonic: Callable[[], float] = _time.monotonic
    thread_time: Callable[[], float] = _time.thread_time
    sleep: Callable[[float], None] = _time.sleep
    random: Callable[[], float] = _random.random
    token: Callable[[int], str] = secrets.token_hex
    lock: Callable[[], threading.Lock] = threading.Lock
    rlock: Callable[[], threading.RLock] = threading.RLock
    condition: Callable[..., threading.Condition] = threading.Condition
    event: Callable[[], InterruptibleEvent] = InterruptibleEvent
    queue: Callable[[], SimpleQueue[Any]] = SimpleQueue
    future: Callable[[], InterruptibleFuture[Any]] = InterruptibleFuture
    thread: Callable[..., threading.Thread] = _thread
    executor: Callable[[int, str], Executor] = _executor
    event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    datagrams: Callable[[], socket.socket | None] = _datagrams
    """Sockets that processes of one host wake each other with; without one, they poll."""
    dial: Callable[..., Any] | None = None
    """Opens a connection to a broker; None: a WebSocket."""
    vfs: str | None = None
    """The file layer of SQLite; None: its own."""


SYSTEM = Runtime()


def runtime_of(clock: object) -> Runtime:
    """The runtime that a clock is; that of this machine if it is no more than a clock."""
    return clock if isinstance(clock, Runtime) else SYSTEM
