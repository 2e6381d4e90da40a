"""The threads of a bus: for callbacks, for its event loop, and for what is to be done later."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from polycast.config import Clock, SystemClock
from polycast.errors.failures import failures_here
from polycast.plain_text import log_of
from polycast.runtime import SYSTEM, Home, Runtime, is_mine, note

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable


_log = log_of("polycast")
CLOCK_LOOK = 0.01  # how often a clock that somebody else turns is looked at, in real seconds
LONGEST = 3_600.0  # a wait may not be as long as a timer
CORE = 4  # threads kept
MOST = 1_000  # threads at most, if callbacks are slow; those that are stuck do not count
TICK = 0.01  # seconds without progress after which more threads are started
LOOK = 0.5  # seconds between two looks at callbacks that run
BURST = 64  # threads started at once, one for each job that waits


class Job(Protocol):
    """Something to run in a thread, with READY's time stamp: since when a callback has run."""

    @property
    def started(self) -> float | None:
        """When the callback under way began; None if there is none."""

    def run(self) -> None:
        """Do it."""


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread and what it does; `replaced` is the time stamp for which another was started."""

    job: Job | None = None
    replaced: float | None = None

    def is_stuck(self, before: float) -> bool:
        """Whether its callback began before a time."""
        since = None if self.job is None else self.job.started
        return since is not None and since <= before

    def is_replaced(self) -> bool:
        """Whether it is stuck in a callback for which another thread was started."""
        job = self.job
        return job is not None and self.replaced is not None and job.started == self.replaced


class Pool:
    """A few threads, more while callbacks are slow, one in place of each that is stuck."""

    def __init__(
        self, clock: Clock, *, stuck_timeout: float, most: int = MOST, runtime: Runtime = SYSTEM
    ) -> None:
        self.clock, self.stuck_timeout, self._most = clock, stuck_timeout, most
        self._runtime = runtime
        self._queued: deque[Job | None] = deque()  # with None, a thread ends
        self._ready: queue.SimpleQueue[bool] = runtime.queue()  # something for each of them
        self._workers: dict[_Worker, threading.Thread] = {}
        self._lock = runtime.rlock()
        self._started = itertools.count(1)
        self._progress = 0
        self._idle = 0
        self._unwatched = False  # whether the watcher sleeps until it is woken
        self._watcher: threading.Thread | None = None
        self._watch, self._pause = runtime.event(), runtime.event()
        self._closed = False
        self._home = Home()

    def submit(self, job: Job) -> None:
        """Run a job soon."""
        self._queued.append(job)
        self._ready.put(True)
        if self._idle <= 0 and len(self._workers) < CORE and not is_mine(self._lock):
            self._add_worker()  # else it is what was interrupted, and the watcher looks, too
        if self._unwatched or self._ready.qsize() > self._idle:
            self._watch.set()

    def _add_worker(self) -> None:
        """Start a thread, and the one that watches over them.

        No lock is held: who starts a thread waits for it, and a finaliser that publishes may run in
        it before it tells that it has begun.
        """
        with self._lock:
            if (
                self._closed
                or sum(not worker.is_replaced() for worker in self._workers) >= self._most
            ):
                return
            worker = _Worker()
            name = f"polycast-{next(self._started)}"
            thread = self._runtime.thread(self._work, args=(worker,), name=name)
            self._workers[worker] = thread
            watcher = None
            if self._watcher is None:
                name = "polycast-watch"
                watcher = self._runtime.thread(self._watch_over, name=name)
                self._watcher = watcher
        try:
            if watcher is not None:
                watcher.start()
            thread.start()
        except RuntimeError:  # there can be no more, or the program ends
            if not self._is_left_to_others(worker, watcher):
                raise

    def _is_left_to_others(self, worker: _Worker, watcher: threading.Thread | None) -> bool:
        """A thread did not start: whether there are others, which go on."""
        with self._lock:
            self._workers.pop(worker, None)
            if watcher is not None and watcher.ident is None:
                self._watcher = None
            return bool(self._workers)

    def _work(self, worker: _Worker) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                self._ready.get()
            except BaseException:  # another thread raised it here, too late for the callback
                _log.exception("a thread of the pool was interrupted between two jobs")
            with self._lock:
                self._idle -= 1
                self._progress += 1
                are_few = self._ready.qsize() > self._idle
            if are_few:
                self._watch.set()
            try:
                job = self._queued.popleft()
            except IndexError:  # the interrupted one has taken it, without having been asked to
                continue
            if job is None:
                break
            worker.job = job
            try:
                job.run()
            except BaseException:  # of a callback in line that is tried again here
                _log.exception("a job of the pool failed")
            finally:
                worker.job = job = None  # who waits keeps nothing alive
            if self._home.is_elsewhere():
                return  # the job has forked, and this is the child
            if self._surplus(worker):
                break
        with self._lock:
            self._workers.pop(worker, None)

    def _surplus(self, worker: _Worker) -> bool:
        with self._lock:
            extra = len(self._workers) > CORE and (worker.replaced is not None or self._idle > 0)
            if extra:
                del self._workers[worker]
            return extra

    def _watch_over(self) -> None:
        before = -1
        while not self._closed:
            # Whoever submits a job from here on wakes the watcher, which would not see it.
            self._unwatched = not self._busy() and self._progress == before
            if self._unwatched and (self._ready.qsize() > 0 or self._progress != before):
                self._unwatched = False
            self._watch.wait(None if self._unwatched else min(self.stuck_timeout / 4, LOOK))
            self._unwatched = False
            self._watch.clear()
            before = self._progress
            self._pause.wait(TICK)
            waiting = self._ready.qsize()
            if waiting > 0:
                if self._idle <= 0 and self._progress == before:
                    for _ in range(min(waiting, BURST)):
                        self._add_worker()
                self._watch.set()  # look again after a tick
            self._replace_stuck()

    def _busy(self) -> bool:
        with self._lock:
            return any(worker.job is not None for worker in self._workers)

    def _replace_stuck(self) -> None:
        before = self.clock.monotonic() - self.stuck_timeout
        with self._lock:
            late = [w for w in self._workers if w.is_stuck(before) and not w.is_replaced()]
            for worker in late:
                worker.replaced = None if worker.job is None else worker.job.started
        for _ in late:
            self._add_worker()

    def close(self, timeout: float) -> None:
        """Let the threads end; those inside a callback are left to themselves."""
        with self._lock:
            self._closed = True
            workers = list(self._workers.values())
            threads = workers if self._watcher is None else [*workers, self._watcher]
        for _ in workers:
            self._queued.append(None)
            self._ready.put(True)
        self._watch.set()
        self._pause.set()
        deadline = self._runtime.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, deadline - self._runtime.monotonic()))


class LoopThread:
    """An event loop in a thread, started when first needed."""

    def __init__(self, *, runtime: Runtime = SYSTEM) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """The loop, running."""
        with self._lock:
            if self._loop is None:
                loop = self._runtime.event_loop()
                thread = self._runtime.thread(self._run, args=(loop,), name="polycast-loop")
                try:
                    thread.start()
                except RuntimeError:  # there can be no more, or the program ends
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def close(self, timeout: float) -> None:
        """End the loop and its thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(timeout)


class Timer:
    """One thing to do at a time."""

    __slots__ = ("_timers", "action", "number", "when")

    def __init__(
        self, when: float, number: int, action: Callable[[], None], timers: Timers
    ) -> None:
        self.when, self.number, self._timers = when, number, timers
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """Do not do it."""
        if self.action is not None:
            self.action = None
            self._timers.one_less()


class Timers:
    """A thread, started when first needed, that does what is due. No user code runs in it."""

    def __init__(self, clock: Clock, *, threaded: bool = True, runtime: Runtime = SYSTEM) -> None:
        self.clock, self._runtime = clock, runtime
        self._threaded = threaded
        self._heap: list[Timer] = []
        # Who comes may interrupt who looks at the heap, in the same thread.
        self._new: deque[Timer] = deque()
        self._numbers = itertools.count()
        self._changed = runtime.condition()  # over an RLock
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cancelled = 0  # how many in the heap
        self._wakes_at = -math.inf  # while the thread sleeps, when it wakes by itself

    def after(self, delay: float, action: Callable[[], None]) -> Timer:
        """Do something after so many seconds."""
        timer = Timer(self.clock.monotonic() + delay, next(self._numbers), action, self)
        note(self._changed)
        with self._changed:
            self._new.append(timer)
            if self._threaded and self._thread is None and not self._closed:
                self._start()
            if timer.when < self._wakes_at:
                self._changed.notify()
        return timer

    def one_less(self) -> None:
        """One was cancelled; when most have been, the thread is to let them leave the heap."""
        note(self._changed)
        with self._changed:
            self._cancelled += 1
            if self._cancelled % 128 == 0:
                self._changed.notify()

    def next_due(self) -> float | None:
        """When the next thing is to be done."""
        with self._changed:
            self._gather()
            return min((t.when for t in self._heap if t.action is not None), default=None)

    def _gather(self) -> None:
        """Put what is new into the heap. The lock is held."""
        while self._new:
            heapq.heappush(self._heap, self._new.popleft())
        if self._cancelled > 100 and self._cancelled > len(self._heap) // 2:
            self._heap = [timer for timer in self._heap if timer.action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _start(self) -> None:
        thread = self._runtime.thread(self._run, name="polycast-timers")
        thread.start()  # which Python refuses while the program ends
        self._thread = thread

    def run_due(self) -> int:
        """Do all that is due now; how many."""
        done = 0
        while self._run_one():
            done += 1
        return done

    def _run_one(self) -> bool:
        action = self._pop_due()
        if action is None:
            return False
        try:
            action()
        except failures_here():
            _log.exception("a timer failed")
        return True

    def _pop_due(self) -> Callable[[], None] | None:
        with self._changed:
            self._gather()
            while self._heap:
                if self._heap[0].action is None:
                    heapq.heappop(self._heap)
                    self._cancelled -= 1
                elif self._heap[0].when <= self.clock.monotonic():
                    return heapq.heappop(self._heap).action
                else:
                    break
        return None

    def _run(self) -> None:
        while not self._closed:
            self.run_due()
            with self._changed:
                if not self._closed:
                    left = self._until_next()
                    self._wakes_at = self._heap[0].when if self._heap else math.inf
                    self._changed.wait(left)
                    self._wakes_at = -math.inf

    def _until_next(self) -> float | None:
        self._gather()
        if not self._heap:
            return None
        left = min(max(0.0, self._heap[0].when - self.clock.monotonic()), LONGEST)
        # The clock of a broker goes by the monotonic clock of its client.
        is_real = self.clock.monotonic in (SystemClock.monotonic, self._runtime.monotonic)
        return left if is_real else min(left, CLOCK_LOOK)

    def close(self) -> None:
        """Do nothing more."""
        with self._changed:
            self._closed = True
            self._heap.clear()
            self._new.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)


class Workers(NamedTuple):
    """The threads of a bus: those of its timers, its callbacks, and its event loop."""

    timers: Timers
    pool: Pool
    loop: LoopThread
    threaded: bool = True

    @classmethod
    def of_a_bus(cls, stuck_timeout: float, clock: Clock, runtime: Runtime) -> Workers:
        """Make those of a bus; each starts when there is something to do."""
        pool = Pool(clock, stuck_timeout=stuck_timeout, runtime=runtime)
        return cls(Timers(clock, runtime=runtime), pool, LoopThread(runtime=runtime))
