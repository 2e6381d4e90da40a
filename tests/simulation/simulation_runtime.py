"""Threads, locks, queues, executors and event loops whose waits the scheduler decides."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty
from typing import Any

from simulation_scheduler import Death, Party, Scheduler, Task

from polycast.runtime import InterruptibleEvent, InterruptibleFuture, Runtime

__all__ = ["runtime_for"]

OFTEN = 0.2  # how often a loop that has more to do lets others run


class SimulatedLock:
    """A `threading.Lock`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_locked = False
        self._waiters: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        while self._is_locked:
            if not blocking or timeout == 0:
                return False
            deadline = None if timeout < 0 else scheduler.now + timeout
            left = None if deadline is None else timeout
            if not scheduler.block(self._waiters, left) and self._is_locked:
                return False
            if deadline is not None:
                timeout = max(0.0, deadline - scheduler.now)
        self._is_locked = True
        return True

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        self._scheduler.wake_any(self._waiters)
        self._scheduler.maybe_pause()

    def locked(self) -> bool:
        return self._is_locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedRLock:
    """A `threading.RLock`, with what `polycast.runtime` asks of one."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Task | None = None
        self._count = 0
        self._waiters: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        me = scheduler.current
        if self._owner is me:
            self._count += 1
            return True
        while self._owner is not None:
            if not blocking:
                return False
            if not scheduler.block(self._waiters, None if timeout < 0 else timeout):
                return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if self._owner is not self._scheduler.current:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiters:
                self._scheduler.wake_any(self._waiters)
            self._scheduler.maybe_pause()

    def _is_owned(self) -> bool:
        return self._owner is self._scheduler.current

    def _release_save(self) -> int:
        count, self._count, self._owner = self._count, 0, None
        self._scheduler.wake_any(self._waiters)
        return count

    def _acquire_restore(self, count: int) -> None:
        try:
            self.acquire()
        except Death:  # what is unwound releases it
            self._owner = self._scheduler.current
            self._count = count
            raise
        self._count = count

    def _at_fork_reinit(self) -> None:
        self._owner, self._count = None, 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedCondition:
    """A `threading.Condition`."""

    def __init__(self, scheduler: Scheduler, lock: Any = None) -> None:
        self._scheduler = scheduler
        self._lock = lock if lock is not None else SimulatedRLock(scheduler)
        self._waiters: list[Task] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self._is_owned = self._lock._is_owned

    def wait(self, timeout: float | None = None) -> bool:
        count = self._lock._release_save()
        try:
            return self._scheduler.block(self._waiters, timeout)
        finally:
            self._lock._acquire_restore(count)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else self._scheduler.now + timeout
        while not (result := predicate()):
            left = None if end is None else end - self._scheduler.now
            if left is not None and left <= 0:
                return result
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiters))):
            self._scheduler.wake(self._waiters.pop(0))

    def notify_all(self) -> None:
        self._scheduler.wake_all(self._waiters)

    def __enter__(self) -> bool:
        entered: bool = self._lock.__enter__()
        return entered

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()


class SimulatedQueue:
    """A `queue.SimpleQueue`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._waiters: list[Task] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        if self._waiters:
            self._scheduler.wake(self._waiters.pop(0))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._scheduler.check()
        while not self._items:
            if not block or not self._scheduler.block(self._waiters, timeout):
                raise Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class SimulatedThread(threading.Thread):
    """A thread that runs when the scheduler says so."""

    def __init__(
        self,
        scheduler: Scheduler,
        party: Party,
        target: Callable[..., None],
        *,
        name: str,
        args: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._scheduler, self._party = scheduler, party
        self._work, self._arguments = target, args
        self._task: Task | None = None

    def start(self) -> None:
        """Begin, some time."""
        self._scheduler.check()
        number = next(self._party.numbers)
        self._task = Task(f"{self._party.name}/{self.name}/{number}", self._party)
        super().start()
        self._scheduler.begin(self._task)

    def run(self) -> None:
        """Do it, when the scheduler says so."""
        task, work, arguments = self._task, self._work, self._arguments
        assert task is not None
        del self._work, self._arguments
        self._scheduler.run(task, lambda: work(*arguments))

    def is_alive(self) -> bool:
        """Whether it was started and is not over."""
        return self._task is not None and not self._task.is_over

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")
        if not self._task.is_over:
            self._scheduler.block(self._task.joiners, timeout)


class SimulatedExecutor(Executor):
    """A pool of threads."""

    def __init__(self, runtime: Runtime, workers: int, name: str) -> None:
        self._runtime, self._workers, self._name = runtime, workers, name
        self._jobs = runtime.queue()
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do something in one of its threads."""
        future: Future[Any] = Future()
        self._jobs.put((future, lambda: fn(*args, **kwargs)))
        if len(self._threads) < self._workers:
            thread = self._runtime.thread(self._work, name=self._name)
            self._threads.append(thread)
            thread.start()
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except Exception as error:
                    future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End its threads."""
        while cancel_futures and self._jobs.qsize():
            self._jobs.get()[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads if wait else ():
            thread.join()


class _Waiting(selectors.BaseSelector):
    """The selector of a loop that has no sockets: it waits for other threads, and for time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiters: list[Task] = []
        self._is_rung = False

    def ring(self) -> None:
        self._is_rung = True
        self._scheduler.wake_all(self._waiters)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            if self._scheduler.dice.random() < OFTEN:
                self._scheduler.pause()
        elif not self._is_rung:
            self._scheduler.block(self._waiters, timeout)
        self._is_rung = False
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError("a simulated loop has no sockets")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError("a simulated loop has no sockets")

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}

    def close(self) -> None:
        pass


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop in simulated time."""

    def __init__(self, scheduler: Scheduler, runtime: Callable[[], Runtime]) -> None:
        self._waiting, self._scheduler, self._runtime = _Waiting(scheduler), scheduler, runtime
        super().__init__(self._waiting)
        self._clock_resolution = 1e-9
        self._threads: SimulatedExecutor | None = None

    def time(self) -> float:
        """Seconds of the simulation."""
        return self._scheduler.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run something in a simulated thread."""
        if executor is None:
            if self._threads is None:
                self._threads = SimulatedExecutor(self._runtime(), 2, "loop-worker")
            executor = self._threads
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        self._waiting.ring()


def runtime_for(
    scheduler: Scheduler,
    party: Party,
    *,
    vfs: str | None = None,
    dial: Callable[..., Any] | None = None,
) -> Runtime:
    """The runtime of a party."""

    def thread(
        target: Callable[..., None], *, name: str, args: tuple[Any, ...] = ()
    ) -> SimulatedThread:
        return SimulatedThread(scheduler, party, target, name=name, args=args)

    def condition(lock: Any = None) -> Any:
        return SimulatedCondition(scheduler, lock)

    def lock() -> Any:
        return SimulatedLock(scheduler)

    dice = scheduler.dice
    runtime = Runtime(
        time=lambda: 1_700_000_000.0 + scheduler.now + party.wall,
        monotonic=lambda: scheduler.now,
        thread_time=lambda: 0.0,
        sleep=scheduler.sleep,
        random=dice.random,
        token=lambda size: f"{dice.getrandbits(8 * size):0{2 * size}x}",
        lock=lock,
        rlock=lambda: SimulatedRLock(scheduler),  # type: ignore[arg-type,return-value]
        condition=condition,
        event=lambda: InterruptibleEvent(lock=lock),
        queue=lambda: SimulatedQueue(scheduler),  # type: ignore[arg-type,return-value]
        future=lambda: InterruptibleFuture(lock),
        thread=thread,
        executor=lambda workers, name: SimulatedExecutor(runtime, workers, name),
        event_loop=lambda: SimulatedLoop(scheduler, lambda: runtime),
        datagrams=lambda: None,
        dial=dial,
        vfs=vfs,
    )
    return runtime
