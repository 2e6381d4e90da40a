"""One task at a time, chosen by the seed; time passes only when nobody has anything to do.

A task is a real thread, so that stacks, thread-locals and owners of locks are what they always are;
but it runs only while it has the baton, and it passes that on wherever it would wait.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Death", "Party", "Scheduler", "StuckError", "Task"]

EXCESS = 1_000  # times that a dead task may go on waiting; then it is left where it is


class Death(BaseException):
    """Raised in the tasks of a party that has died; nothing they still do has an effect."""


class StuckError(Exception):
    """Everybody waits, and nothing will ever happen."""


class Party:
    """One life of a process: its tasks live and die together, and it has a wall clock."""

    def __init__(self, name: str, *, wall: float = 0.0) -> None:
        self.name, self.wall = name, wall
        self.is_dead = self.is_paused = False
        self.tasks: dict[Task, None] = {}
        self.held: list[Task] = []  # tasks that could run, were it not paused
        self.numbers = itertools.count(1)

    def __repr__(self) -> str:
        return f"<Party {self.name}>"


class Task:
    """One thread of the simulation."""

    def __init__(self, name: str, party: Party) -> None:
        self.name, self.party = name, party
        self.baton = threading.Lock()
        self.baton.acquire()
        self.ident = 0
        self.ticket = 0  # of the wait that is under way; a timer for another one is void
        self.is_waiting = self.is_woken = self.is_over = False
        self.excess = 0
        self.killer: Task | None = None
        self.error: BaseException | None = None  # to be raised where it waits
        self.joiners: list[Task] = []
        party.tasks[self] = None

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class Scheduler:
    """Passes the baton. `preemption` is how often a task that frees a lock lets others run.

    `delay` is how often a task that is woken sleeps on for a while, as on a busy machine.
    """

    def __init__(self, seed: int, *, preemption: float = 0.02, delay: float = 0.02) -> None:
        self.dice = random.Random(seed)
        self.preemption, self.delay = preemption, delay
        self.now = 0.0
        self.trace: list[str] = []
        self.steps = 0
        self.parties: list[Party] = []  # those that stacks are told of
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Task, int]] = []
        self._numbers = itertools.count()
        self.driver = Task("driver", Party("driver"))
        self.driver.ident = threading.get_ident()
        self.current = self.driver

    # -- waiting -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `Death` in a task whose party has died."""
        task = self.current
        if task.error is not None:
            error, task.error = task.error, None
            raise error
        if task.party.is_dead:
            task.excess += 1
            if task.excess > EXCESS:
                self._leave_for_good(task)
            raise Death(task.party.name)

    def block(self, waiters: list[Task] | None, timeout: float | None = None) -> bool:
        """Wait until woken; False if the time is over before."""
        self.check()
        task = self.current
        task.is_waiting, task.is_woken = True, False
        if waiters is not None:
            waiters.append(task)
        if timeout is not None:
            self._set_timer(task, timeout)
        try:
            self._switch(task)
            self.check()
        finally:
            if waiters is not None and not task.is_woken and task in waiters:
                waiters.remove(task)
        return task.is_woken

    def sleep(self, seconds: float) -> None:
        """Let time pass for this task."""
        self.block(None, max(0.0, seconds))

    def pause(self) -> None:
        """Let others run."""
        self.check()
        task = self.current
        task.is_waiting = False
        self._ready.append(task)
        self._switch(task)
        self.check()

    def maybe_pause(self) -> None:
        """Let others run, now and then."""
        if not self.current.party.is_dead and self.dice.random() < self.preemption:
            self.pause()

    def wake(self, task: Task) -> None:
        """End the wait of a task."""
        if not task.is_waiting:
            return
        task.is_waiting, task.is_woken = False, True
        task.ticket += 1
        if self.dice.random() < self.delay:
            self._set_timer(task, self.dice.expovariate(100.0))
        else:
            self._ready.append(task)

    def wake_all(self, waiters: list[Task]) -> None:
        """End all waits of a list."""
        tasks = list(waiters)
        waiters.clear()
        for task in tasks:
            self.wake(task)

    def wake_any(self, waiters: list[Task]) -> None:
        """End the wait of one of them, whichever."""
        if waiters:
            self.wake(waiters.pop(int(self.dice.random() * len(waiters))))

    def _set_timer(self, task: Task, seconds: float) -> None:
        entry = (self.now + seconds, next(self._numbers), task, task.ticket)
        heapq.heappush(self._timers, entry)

    # -- the baton ---------------------------------------------------------------------------------

    def begin(self, task: Task) -> None:
        """Let a new task run some time."""
        self._ready.append(task)

    def run(self, task: Task, work: Callable[[], None]) -> None:
        """The life of a task, in its own thread."""
        task.baton.acquire()
        task.ident = threading.get_ident()
        try:
            if not task.party.is_dead:
                work()
        except Death:
            pass
        finally:
            self._end(task)

    def _end(self, task: Task) -> None:
        task.is_over = True
        task.party.tasks.pop(task, None)
        self.wake_all(task.joiners)
        self._hand_over(task.killer if task.killer is not None else self._next())

    def _switch(self, task: Task) -> None:
        following = self._next()
        if following is not task:
            self._hand_over(following)
            task.baton.acquire()

    def _hand_over(self, task: Task) -> None:
        self.current = task
        task.baton.release()

    def _next(self) -> Task:
        ready, timers = self._ready, self._timers
        while True:
            if ready:
                at = int(self.dice.random() * len(ready)) if len(ready) > 1 else 0
                task, ready[at] = ready[at], ready[-1]
                ready.pop()
                if task.party.is_paused:
                    task.party.held.append(task)
                    continue
                self.steps += 1
                self.trace.append(f"{self.now:.6f} {task.name}")
                return task
            if not timers:
                self.driver.error = StuckError(self.stacks())
                return self.driver
            when, _, task, ticket = heapq.heappop(timers)
            if task.ticket == ticket:
                self.now = max(self.now, when)
                task.ticket += 1
                task.is_waiting = False
                ready.append(task)

    # -- parties -----------------------------------------------------------------------------------

    def hold(self, party: Party) -> None:
        """Let a party stand still."""
        party.is_paused = True

    def resume(self, party: Party) -> None:
        """Let it go on."""
        party.is_paused = False
        self._ready += party.held
        party.held.clear()

    def kill(self, party: Party) -> None:
        """End a party: its tasks unwind at once, without any effect on others."""
        if party.is_dead:
            return
        party.is_dead = True
        self.resume(party)
        me = self.current
        for task in list(party.tasks):
            if task is not me and not task.is_over:
                self._unwind(task, me)
        if me.party is party:
            raise Death(party.name)

    def _unwind(self, task: Task, me: Task) -> None:
        task.ticket += 1
        task.is_waiting = False
        if task in self._ready:
            self._ready.remove(task)
        task.killer = me
        self._hand_over(task)
        me.baton.acquire()

    def _leave_for_good(self, task: Task) -> None:
        """Give up a dead task that does not end; its thread goes with the process."""
        task.is_over = True
        task.party.tasks.pop(task, None)
        if task.killer is not None:
            self._hand_over(task.killer)
        while True:
            task.baton.acquire()

    def stacks(self) -> str:
        """Where each task stands."""
        frames = sys._current_frames()
        parts = []
        tasks = [entry[2] for entry in self._timers] + [self.driver]
        parties = {id(task.party): task.party for task in tasks + list(self.all_tasks())}
        for party in parties.values():
            for task in party.tasks:
                frame = frames.get(task.ident)
                where = "".join(traceback.format_stack(frame)[-8:]) if frame else "?"
                parts.append(f"{task.name}:\n{where}")
        return "\n".join(parts)

    def all_tasks(self) -> Iterator[Task]:
        """The tasks of all parties that were told."""
        for party in self.parties:
            yield from party.tasks

    @contextmanager
    def as_party(self, party: Party) -> Iterator[None]:
        """Run a block of the driver as if in a party."""
        before = self.current.party
        self.current.party = party
        try:
            yield
        finally:
            self.current.party = before
