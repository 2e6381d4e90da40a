"""The plan of a bus under its locks, and what publishing and reading share: order, positions."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from polycast.errors import NotAvailableError
from polycast.routing.inline_lock import (
    DISPATCHERS,
    InlineLock,
    StarvationGuard,
    forget_other_threads,
)
from polycast.routing.plan import Candidates, Plan, Target
from polycast.routing.publish_codegen import RouteCache
from polycast.runtime import SYSTEM, Home, Runtime, check_free, in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future
    from contextlib import ExitStack
    from threading import RLock
    from weakref import WeakSet

    from polycast.config import Clock
    from polycast.routing.translation import Recipient
    from polycast.stores import Entry, Publisher

ROUNDS = 3  # how often a publisher may be overtaken by changes of the plan


class CallbackPublications:
    """The newest position of it; of some that is not known yet."""

    def __init__(self, lock: RLock) -> None:
        self.newest = 0  # as long as some is not known, none is newer
        self._lock = lock
        self._known = self._under_way = 0

    def begin(self, positions: Future[list[int]]) -> None:
        """Something more is on its way into the log."""
        with self._lock:
            self._under_way += 1
            self.newest = sys.maxsize
        positions.add_done_callback(self._end)

    def _end(self, positions: Future[list[int]]) -> None:
        """It is in the log, or never will be."""
        with self._lock:
            self._under_way -= 1
            if not positions.cancelled() and positions.exception() is None:
                self._known = max([self._known, *positions.result()])
            if not self._under_way:
                self.newest = self._known


class Dispatcher:
    """The plan, the routes made from it, and the order of the log.

    `changing` guards plan and routes, `order` positions and queues. Taken in that order, and
    neither is held while a callback runs.
    """

    def __init__(
        self,
        publisher: Publisher,
        *,
        clock: Clock,
        admit: Callable[[type], object],
        newest: Callable[[], int] | None = None,
        oldest: Callable[[], int | None] = lambda: None,
        snapshot: Callable[[Any], Callable[[], Any] | None] = lambda event: None,
        runtime: Runtime = SYSTEM,
        translation_failed: Callable[[Entry, str, BaseException], None] = lambda *_: None,
    ) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise NotAvailableError(
                "a bus in a Python without the GIL",
                why="its turn-taking relies on the GIL (see polycast/routing/publish_codegen.py)",
                instead="Run it with the ordinary build of Python, or with PYTHON_GIL=1",
            )
        self.home, self.runtime = Home(), runtime
        self.publisher, self.clock, self.admit, self.snapshot = publisher, clock, admit, snapshot
        self.plan, self.routes = Plan(), RouteCache()
        self.inline_lock = InlineLock(runtime.lock)
        self.starvation_guard = StarvationGuard(self.inline_lock.is_mine, runtime.condition)
        self.newest: Callable[[], int] = newest or self.inline_lock.newest
        self._oldest = oldest  # the first position that the log still has
        self.order, self.changing = runtime.rlock(), runtime.rlock()
        self.version, self.is_stopped = 0, False
        self.refuse: Callable[[], None] = lambda: None
        self.translation_failed = translation_failed
        """Told of an event that a function kept from getting to a context."""
        self.callback_publications = CallbackPublications(runtime.rlock())
        self.more_locks: list[Callable[[], list[Any]]] = []  # of what is changed with the plan
        DISPATCHERS.add(self)

    def check_free(self, operation: str) -> None:
        """Refuse what has interrupted a change of the plan, or of the log, in this very thread."""
        self.home.check(operation)
        check_free(operation, *self.locks())

    def locks(self) -> list[Any]:
        """What is held for such a change."""
        more = (lock for locks in self.more_locks for lock in locks())
        return [self.order, self.changing, *more]

    # -- changing the plan -------------------------------------------------------------------------

    def add(self, target: Target, begin: Callable[[int], None]) -> None:
        """Put a target into the plan; `begin` is told the first position it is meant for."""
        self.starvation_guard.wait()
        with self.changing:
            self.plan.add(target)
            stale = self.routes.leading_to(self.plan, target)
            choices = self.plan.targets.choices(target)
            if any(selector.registrable for _, selector in choices):
                stale = self.routes.all()  # from now on they have to look for ABC.register
            with self.order:
                self.expire(stale)
                try:
                    begin(self.newest() + 1)
                except BaseException:
                    self.plan.remove(target)
                    raise

    def change(self, target: Target) -> None:
        """A target's filter, members or way of being called have changed."""
        self.starvation_guard.wait()
        with self.changing:
            if target not in self.plan.targets:
                return
            stale = self.routes.leading_to(self.plan, target)
            self.plan.replace(target)
            stale += self.routes.leading_to(self.plan, target)
            with self.order:
                self.expire(stale)

    def rewrite(self, target: Target) -> None:
        """A filter is asked in another way from now on; the target keeps its place."""
        with self.changing, self.order:
            self.expire(self.routes.leading_to(self.plan, target))

    def remove(self, target: Target) -> None:
        """Take a target out of the plan."""
        self.starvation_guard.wait()
        with self.changing:
            stale = self.routes.leading_to(self.plan, target)
            self.plan.remove(target)
            with self.order:
                self.expire(stale)

    def replan(self) -> None:
        """Contexts have come, gone or changed."""
        if self.home.is_elsewhere():
            return  # a child may go on with them on a bus of its own
        self.starvation_guard.wait()
        with self.changing, self.order:
            self.expire(self.routes.all())
            # As in `add`: who got his position before this has seen the contexts as they were.
            start, oldest = self.newest() + 1, self._oldest()
            self.plan.translation.change(start, start if oldest is None else oldest)

    def expire(self, stale: Iterable[Any]) -> None:
        """The plan has changed, so that these routes are not what it says."""
        self.version += 1
        self.plan.forget()
        self.routes.expire(stale)

    def stop(self, refuse: Callable[[], None]) -> None:
        """Let `refuse` answer every further publish."""
        with self.changing:
            self.refuse, self.is_stopped = refuse, True
            with self.order:
                self.expire(self.routes.all())

    def leave(self) -> None:
        """In a process that was forked: what publishes looks here again, and is refused."""
        self.let_go()
        self.inline_lock.leave()
        self.routes.leave()

    def let_go(self) -> None:
        """Hold no class only because its events were published."""
        self.routes.let_go()
        self.plan.forget()

    # -- asking it ---------------------------------------------------------------------------------

    def candidates(self, cls: type, topic: str | None, source: str | None) -> list[Candidates]:
        """Who can want events of a class that are published in a context, context by context."""
        with self.changing:
            return self.plan.candidates(cls, topic, source)

    def reserve(self, recipients: Iterable[list[Recipient]], room: ExitStack) -> None:
        """Wait until all that can make a publisher wait have room for what they get."""
        counts: dict[Target, int] = {}
        for target in (target for some in recipients for target, _, _ in some if target.blocking):
            counts[target] = counts.get(target, 0) + 1
        for target, count in counts.items():
            target.reserve(count, is_inside=self.inline_lock.is_mine)
            room.callback(target.release, count)


def _let_go(
    phase: str, info: Mapping[str, int], dispatchers: WeakSet[Dispatcher] = DISPATCHERS
) -> None:
    """Before a full collection: hold no class only because its events were published.

    The set is a default, because this is also called while the interpreter goes down.
    """
    if phase == "start" and info["generation"] == 2:
        for dispatcher in list(dispatchers):
            dispatcher.let_go()


def _leave_all() -> None:
    forget_other_threads()
    for dispatcher in list(DISPATCHERS):
        dispatcher.leave()


in_child(_leave_all)
gc.callbacks.append(_let_go)
