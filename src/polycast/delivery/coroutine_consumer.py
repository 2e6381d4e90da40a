"""Coroutine functions as callbacks, called in an event loop."""

from __future__ import annotations

import asyncio
import functools
import itertools
from typing import TYPE_CHECKING

from polycast.delivery.consumer import (
    MOST_AT_ONCE,
    PENDING,
    QUANTUM,
    SKIPPED,
    SLICE,
    TIME_IS_UP,
    UNBEGUN,
    Consumer,
    Outcome,
    inside,
)
from polycast.delivery.queue import ARRIVALS
from polycast.runtime import Forks

if TYPE_CHECKING:
    from polycast.delivery.callbacks import Callback
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.queue import Attempt
    from polycast.matching import Interest


class CoroutineConsumer(Consumer):
    """A coroutine function, called in an event loop."""

    may_lose = drains = True

    def __init__(
        self,
        mailbox: Mailbox,
        callback: Callback,
        *,
        interest: Interest,
        manual: bool,
        loop: asyncio.AbstractEventLoop,
        owns_loop: bool,
    ) -> None:
        super().__init__(mailbox, callback, interest=interest, manual=manual)
        self.loop, self._owns_loop = loop, owns_loop
        self.is_lost = None if owns_loop else loop.is_closed  # the bus closes its own last
        self._task: asyncio.Task[None] | None = None
        self._current: Attempt | None = None

    def start(self, attempt: Attempt) -> Outcome:
        """Ask the loop for a task; a loop that is closed is a failure like any other."""
        self._current = attempt
        try:
            self.loop.call_soon_threadsafe(self._begin, attempt)
        except RuntimeError as error:
            self._current = None
            return error
        return PENDING

    def needs_loop(self) -> asyncio.AbstractEventLoop | None:
        """Its loop."""
        return self.loop

    def _begin(self, attempt: Attempt) -> None:
        under_way: list[Attempt | None] = [attempt]
        self._task = self.loop.create_task(self._run(attempt, under_way))
        self._task.add_done_callback(functools.partial(self._over, under_way))

    def _over(self, under_way: list[Attempt | None], task: asyncio.Task[None]) -> None:
        """A task has ended; if somebody cancelled it, its attempt is not handled."""
        [attempt] = under_way
        if attempt is None:
            return
        outcome: Outcome = asyncio.CancelledError() if task.cancelled() else task.exception()
        if attempt is ARRIVALS and self.entry is None and self.launched is None:
            outcome = SKIPPED  # between two callbacks
        following = self.mailbox.worker.finish(self, attempt, outcome)
        if following is not None:
            self.mailbox.worker.start([(self, following)])

    def lost(self) -> Attempt | None:
        """The attempt that went down with its loop."""
        if not self.busy or not self.loop.is_closed():
            return None
        attempt, self._current = self._current, None
        return attempt

    async def _run(self, attempt: Attempt, under_way: list[Attempt | None]) -> None:
        for number in itertools.count(1):
            outcome: Outcome = UNBEGUN
            if attempt is ARRIVALS:
                attempt, outcome = await self._drain()
                under_way[0] = attempt
            if outcome is TIME_IS_UP:
                await asyncio.sleep(0)
                continue
            if outcome is UNBEGUN:
                outcome = await self._call(attempt)
            following = self.mailbox.worker.finish(self, attempt, outcome)
            under_way[0] = following
            if following is None:
                return
            self._current = attempt = following
            if number % QUANTUM == 0:
                await asyncio.sleep(0)

    async def _drain(self) -> tuple[Attempt, Outcome]:
        """The same as that of a thread of the pool; a coroutine that does not suspend costs little.

        All run in one task, in the order in which they came. Who cancels it cancels one of them.
        """
        mailbox, worker, function = self.mailbox, self.mailbox.worker, self.callback.function
        fast, counts = mailbox.queue.fast, mailbox.counts
        assert fast is not None
        arrivals, take = fast.arrivals, fast.arrivals.popleft
        now, forks = mailbox.services.clock.monotonic, Forks.count
        until = now() + SLICE
        mark = inside.set((*inside.get(), mailbox))
        try:
            for number in range(MOST_AT_ONCE):
                self.started = moment = now()
                if number >= QUANTUM and moment > until:
                    break
                if not arrivals or fast.consumer is not self:
                    return ARRIVALS, SKIPPED
                self.entry = entry = arrivals[0]
                take()
                if self.entry is not entry:
                    return worker.at_hand(self), UNBEGUN
                try:
                    await function(entry.event)
                except (Exception, SystemExit) as error:
                    return worker.at_hand(self), error
                except KeyboardInterrupt as error:
                    if not self._owns_loop:
                        raise
                    return worker.at_hand(self), error
                if self.entry is not entry or Forks.count != forks:
                    return worker.at_hand(self), None
                self.entry = None
                counts.delivered += 1
        finally:
            inside.reset(mark)
        return ARRIVALS, TIME_IS_UP

    async def _call(self, attempt: Attempt) -> Outcome:
        if not self.begins(attempt):
            return SKIPPED
        mark = inside.set((*inside.get(), self.mailbox))
        try:
            await self.callback.function(*self.arguments(attempt))
        except (Exception, SystemExit) as error:
            return error
        except KeyboardInterrupt as error:
            if not self._owns_loop:
                raise
            return error  # the loop is ours, so it stays
        finally:
            inside.reset(mark)
        return self.returned()
