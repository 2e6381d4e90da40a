"""The threads and the event loop that call back, watched for those that hang (READY 4.5)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from polycast.plain_text import log_of
from polycast.runtime import SYSTEM, Home, Runtime, is_mine

if TYPE_CHECKING:
    import queue

    from polycast.config import Clock


CORE = 4  # threads kept
MOST = 1_000  # threads at most, if callbacks are slow; those that are stuck do not count
_log = log_of("polycast")
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
        self,
        clock: Clock,
        *,
        stuck_timeout: float,
        most: int = MOST,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self.clock, self.stuck_timeout, self._most = clock, stuck_timeout, most
        self._runtime = runtime
        self._ready: queue.SimpleQueue[Job | None] = runtime.queue()
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
        self._ready.put(job)
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
            job = self._ready.get()
            with self._lock:
                self._idle -= 1
                self._progress += 1
                are_few = self._ready.qsize() > self._idle
            if are_few:
                self._watch.set()
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
            self._ready.put(None)
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
