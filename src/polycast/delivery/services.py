"""What all subscriptions of a bus share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from polycast.runtime import SYSTEM, Home, Runtime

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.delivery.dead_letters import DeadLetters
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.threads import LoopThread, Pool, Timers


class Supplier(Protocol):
    """Who is asked for events."""

    @property
    def problem(self) -> str | None:
        """What is wrong with it."""


class LogSource(Protocol):
    """The log, from which what did not fit into a queue is read again."""

    def behind(self, mailbox: Mailbox) -> None:
        """There is room again in a queue that is behind the log."""

    def position_of(self, mailbox: Mailbox) -> int:
        """The position before which all has been looked at for a mailbox."""


@dataclass(slots=True, eq=False)
class Services:
    """Clock, threads, dead letters, and whom to tell of changes."""

    clock: Clock
    timers: Timers
    pool: Pool
    loop: LoopThread
    dead_letters: DeadLetters
    in_turn: Callable[[Callable[[], None]], None]
    changed: Callable[[Mailbox], None]  # it is called in another way now
    rewrite: Callable[[Mailbox], None]  # its filter has to be compiled anew
    ended: Callable[[Mailbox], None]
    quiet: threading.Condition  # notified when a mailbox has nothing left to do
    waiting: int = 0  # how many wait for that
    threaded: bool = True
    runtime: Runtime = SYSTEM
    home: Home = field(default_factory=Home)
    source: LogSource | None = None  # None: the bus is in memory
    supplies: set[Supplier] = field(default_factory=set)
