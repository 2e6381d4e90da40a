"""For your tests: a bus that does nothing until it is told to, and a clock turned by hand."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from polycast.bus import Bus, Undelivered
from polycast.delivery import Delivery, LoopThread, Pool, Timers, Workers
from polycast.errors import BadOptionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from polycast.config import Clock, Isolation
    from polycast.delivery.threads import Job
    from polycast.runtime import Runtime

__all__ = ["ManualClock", "Recorder", "TestBus"]

T = TypeVar("T")


class ManualClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = start
        self._passed = 0.0

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds since it was made."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise BadOptionError("seconds", seconds, accepted="0 or more: time does not go back")
        self._passed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back, while no time passes."""
        self._start += seconds


class Recorder(Generic[T]):
    """A subscriber that remembers; it can be told to fail."""

    def __init__(self, *, fail: Callable[[T], BaseException | None] | None = None) -> None:
        self.events: list[T] = []
        self.deliveries: list[Delivery] = []
        self._fail = fail

    def __call__(self, event: T, delivery: Delivery) -> None:
        """Take an event; remember it unless told to fail."""
        self.deliveries.append(delivery)
        error = None if self._fail is None else self._fail(event)
        if error is not None:
            raise error
        self.events.append(event)


class _StillPool(Pool):
    """A pool without threads: jobs wait until somebody runs them."""

    def __init__(self, clock: Any, *, stuck_timeout: float) -> None:
        super().__init__(clock, stuck_timeout=stuck_timeout)
        self._jobs: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def run_one(self) -> int:
        """Run the next job, if there is one."""
        if not self._jobs:
            return 0
        self._jobs.popleft().run()
        return 1


class _StillLoop(LoopThread):
    """An event loop that runs only while it is told to."""

    def get(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def run_ready(self) -> int:
        """Run what is ready, if anything is."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return 0
        before = len(asyncio.all_tasks(loop))
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        return 1 if before or asyncio.all_tasks(loop) else 0

    def close(self, timeout: float) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.close()


def _still_workers(stuck_timeout: float, clock: Clock, runtime: Runtime) -> Workers:
    """Make workers that do something only when they are told to."""
    del runtime
    pool = _StillPool(clock, stuck_timeout=stuck_timeout)
    return Workers(Timers(clock, threaded=False), pool, _StillLoop(), threaded=False)


class TestBus(Bus):
    """A bus in memory without threads: callbacks run in `run_until_idle()`, one after another.

    Durables, order, attempts, leases and dead letters are as on any bus; time is `bus.clock`.
    """

    __test__ = False  # not a test class, whatever its name
    clock: ManualClock
    _workers = staticmethod(_still_workers)

    def __init__(
        self,
        *,
        publisher: str = "test",
        history: int = 0,
        isolation: Isolation = "none",
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock if clock is not None else ManualClock()
        super().__init__(
            publisher=publisher, history=history, isolation=isolation, clock=self.clock
        )

    def run_until_idle(self) -> int:
        """Do all that can be done without letting time pass; how many steps that took."""
        self._dispatcher.home.check("run_until_idle()")
        steps = 0
        while done := self._step():
            steps += done
        return steps

    def _step(self) -> int:
        services = self._services
        assert isinstance(services.pool, _StillPool)
        assert isinstance(services.loop, _StillLoop)
        return services.timers.run_due() + services.pool.run_one() + services.loop.run_ready()

    def advance(self, seconds: float | timedelta) -> int:
        """Do what can be done now, let time pass, and do what is due then."""
        before = self.run_until_idle()
        passed = seconds if isinstance(seconds, int | float) else seconds.total_seconds()
        end = self.clock.monotonic() + passed
        while (due := self._services.timers.next_due()) is not None and due < end:
            self.clock.advance(max(0.0, due - self.clock.monotonic()))
            before += self.run_until_idle()
        self.clock.advance(max(0.0, end - self.clock.monotonic()))
        return before + self.run_until_idle()

    def flush(self, timeout: float | None = None) -> bool:
        """Run until idle; False if something is still to come with time."""
        self.run_until_idle()
        return all(box.state.is_idle() for box in self._subscriptions.mailboxes)

    def close(self, timeout: float = 0.0) -> tuple[Undelivered, ...]:
        """Run until idle, then close; what is left is named."""
        if self._lifecycle.state == "open":
            self.run_until_idle()
        return super().close(0.0)
