"""How far events have got to the subscriptions of a bus, and what is in their way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polycast.delivery import Consumer, Mailbox, StoreCursor
from polycast.delivery.consumer import callbacks_under_way
from polycast.errors import NotSettledError, StoreClosedError, WouldDeadlockError
from polycast.errors.failures import STORE_FAILURES
from polycast.routing.explanation import asked_by_descriptions
from polycast.runtime import await_all
from polycast.stores.values import NOT_KNOWN, PushedFilter
from polycast.subscriptions.health import PipelineHealth, vain_filters
from polycast.subscriptions.retention_job import fullness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from polycast.log_reader.log_reader import LogReader
    from polycast.routing import Dispatcher, RecordRouter
    from polycast.stores import Store
    from polycast.subscriptions.subscription_registry import MailboxTable, SubscriptionRegistry


class MemoryProgress:
    """In memory, what is published is with its subscriptions when `publish` returns."""

    is_broken = False

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.published = dispatcher.newest

    def awaited(self) -> tuple[int, int]:
        """Return what flush() waits for: the newest position, and all that is routed so far."""
        return self.published(), 0

    def is_caught_up(self, position: int, routed: int = 0) -> bool:
        """Whether all up to a position has been brought to its subscriptions."""
        del position, routed
        return True

    def wait_until_saved(self) -> None:
        """Nothing is saved."""

    def pushed_filter(self, consumer: Consumer) -> PushedFilter | None:
        """Return the part of a filter that is asked before an event gets here."""
        del consumer
        return None

    def has_members_elsewhere(self, mailbox: Mailbox) -> bool:
        """Whether other buses may have members of a group."""
        del mailbox
        return False

    def pipeline(self) -> PipelineHealth | None:
        """Return how far the pipeline has come, if it routes for anybody here."""
        return None

    def problems(self) -> list[str]:
        """Return what is wrong with the place where events are kept."""
        return []


@dataclass(eq=False, kw_only=True)
class StoreProgress:
    """The same over a store, which is asked, and the reader of its log."""

    store: Store
    reader: LogReader
    dispatcher: Dispatcher
    router: RecordRouter
    mailboxes: MailboxTable
    pending: set[Future[None]]
    bus: Callable[[], int]
    has_seen_all: Callable[[], bool]
    within: float

    @property
    def is_broken(self) -> bool:
        """Whether some of the log cannot be read, so that waiting for it is in vain."""
        return self.reader.failure is not None

    def published(self) -> int:
        """Return the newest position, as far as it can be known."""
        if self.store.is_up:
            with suppress(*STORE_FAILURES):
                return self.store.newest()
        return self.router.routed - 1

    def awaited(self) -> tuple[int, int]:
        """Return what flush() waits for: the newest position, and all that is routed so far."""
        routed = 0
        with suppress(*STORE_FAILURES):
            if self.reader.routed.mailboxes:
                with self.store.view() as view:
                    routed = view.routed().high
        # A broker that cannot be asked is told: what others have published is not known.
        return self.store.newest() if self.store.is_remote else self.published(), routed

    def is_caught_up(self, position: int, routed: int = 0) -> bool:
        """Whether the reader has brought all up to a position; unless nobody has subscribed."""
        if not self.reader.is_running:
            return True
        if not self.has_seen_all():
            return False
        if self.reader.routed.mailboxes and self.reader.routed.front < routed:
            return False
        return self.router.routed > position

    def wait_until_saved(self) -> None:
        """Return when the store has all dead letters, and all that was said of durable names."""
        await_all(self.pending, self.within)
        for mailbox in self.mailboxes:
            if isinstance(mailbox.cursor, StoreCursor) and mailbox.ended is None:
                with suppress(NotSettledError):  # who was taken over has nothing to save
                    mailbox.cursor.confirm("flush()")

    def wait_until_brought(self, position: int) -> None:
        """Return when all up to a position has been brought to its subscriptions here."""
        if not self.is_caught_up(position) and not self.dispatcher.inline_lock.is_mine():
            self.router.wait_until_routed(position)

    def pushed_filter(self, consumer: Consumer) -> PushedFilter | None:
        """Return the part of a filter that the broker asks, if there is one, or the pipeline."""
        mailbox, route = consumer.mailbox, consumer.mailbox.route
        if route is not None:
            with suppress(*STORE_FAILURES), self.store.view() as view:
                return asked_by_descriptions(view, route.name, route.definition)
            return NOT_KNOWN
        interests = list(mailbox.interests())
        number = interests.index(consumer.interest) if consumer.interest in interests else 0
        return self.reader.interests.pushed_filter(mailbox, number)

    def has_members_elsewhere(self, mailbox: Mailbox) -> bool:
        """Whether other buses have members of a group; perhaps, if the store cannot be asked."""
        with suppress(*STORE_FAILURES), self.store.view() as view:
            return any(member.bus != self.bus() for member in view.members(mailbox.name))
        return True

    def pipeline(self) -> PipelineHealth | None:
        """Return how far the pipeline has come, if it routes for anybody here."""
        if not self.reader.routed.mailboxes or not self.store.is_up:
            return None
        try:
            with self.store.view() as view:
                routed, newest = view.routed(), view.newest()
        except STORE_FAILURES:
            return None
        since, now = self.reader.routed.waits_since, self.dispatcher.clock.monotonic()
        still = 0.0 if since is None else now - since
        return PipelineHealth(routed.high, newest + 1 - routed.high, routed.token > 0, still)

    def problems(self) -> list[str]:
        """Return what is wrong with the store, and what its broker does otherwise than usual."""
        store = self.store
        if not store.is_up and store.failure is None:
            why = "" if store.trouble is None else f" ({store.trouble})"
            text = "that is tried again, and nothing is lost meanwhile"
            return [f"no broker is connected{why}; {text}"]
        notices = self._notices() if store.failure is None else []
        failures = (store.failure, store.trouble, self.reader.failure)  # a notice ends what was
        problems = [*(str(error) for error in failures if error is not None), *notices]
        pipeline = self.pipeline()
        if pipeline is not None and pipeline.is_idle:
            problems.append(str(pipeline))
        problems = list(dict.fromkeys(problems))
        if store.is_up:
            problems += vain_filters(store, self.router, list(self.mailboxes))
        return problems

    def _notices(self) -> list[str]:
        """What the store itself tells."""
        notices: list[str] = []
        with suppress(StoreClosedError):
            try:
                notices += [*fullness(self.store), *self.store.notices()]
            except STORE_FAILURES as error:
                notices.append(str(error))
        return notices


class Quiescence:
    """Waits until the mailboxes of a bus have nothing left to do."""

    def __init__(
        self, subscriptions: SubscriptionRegistry, progress: MemoryProgress | StoreProgress
    ) -> None:
        self._subscriptions, self._progress = subscriptions, progress
        self._dispatcher, self._services = subscriptions.dispatcher, subscriptions.services
        self._mailboxes = subscriptions.mailboxes

    def flush(self, timeout: float | None) -> bool:
        """Wait until all that was published is handled; return whether that came in time."""
        self._subscriptions.check_free("flush()", *self._mailboxes)
        if self.own_mailboxes() or self._dispatcher.inline_lock.is_mine():
            raise WouldDeadlockError("flush()", why="it was called inside a callback")
        is_quiet = self.wait(timeout, (), self._progress.awaited(), check=_check_loop)
        if is_quiet:
            for mailbox in self._mailboxes:
                with (
                    mailbox.queue.locked()
                ):  # whoever settled the last event may still have to bury it
                    pass
            self._progress.wait_until_saved()
        return is_quiet

    def own_mailboxes(self) -> tuple[Mailbox, ...]:
        """Return the mailboxes of this bus in whose callbacks this code runs."""
        mine = {id(mailbox) for mailbox in self._mailboxes}
        return tuple(mailbox for mailbox in callbacks_under_way.get() if id(mailbox) in mine)

    def wait(
        self,
        timeout: float | None,
        skipped: tuple[Mailbox | None, ...],
        awaited: tuple[int, int],
        *,
        check: Callable[[Iterable[Mailbox]], None] = lambda mailboxes: None,
    ) -> bool:
        """Wait for all mailboxes but some; `check` may refuse to wait for them."""
        services, now = self._services, self._services.runtime.monotonic
        check(self._mailboxes)
        deadline = None if timeout is None else now() + timeout
        while not self._is_quiet(skipped, *awaited):
            for mailbox in self._mailboxes:
                mailbox.worker.recover()
            check(self._mailboxes)  # a plain callback may return an awaitable any time
            left = None if deadline is None else deadline - now()
            if self._progress.is_broken or (left is not None and left <= 0):
                return False
            with services.quiet:
                services.waiting += 1
                # A notification may come between the look and the wait: do not wait for long.
                services.quiet.wait(0.05 if left is None else min(left, 0.05))
                services.waiting -= 1
        return True

    def _is_quiet(self, skipped: tuple[Mailbox | None, ...], position: int, routed: int) -> bool:
        """Whether all is handled; what callbacks have published meanwhile is more to wait for."""
        passed_on = self._dispatcher.callback_publications.newest
        return (
            self._progress.is_caught_up(max(position, passed_on), routed)
            and all(
                mailbox.state.is_idle() for mailbox in self._mailboxes if mailbox not in skipped
            )
            and self._dispatcher.callback_publications.newest == passed_on
        )


def needs_this_loop(mailbox: Mailbox) -> bool:
    """Whether its callback runs in the event loop that is running in this thread."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return any(consumer.needs_loop() is running for consumer in mailbox.members.consumers())


def _check_loop(mailboxes: Iterable[Mailbox]) -> None:
    if any(map(needs_this_loop, mailboxes)):
        why = "callbacks run in the event loop it would block; await asyncio.to_thread(bus.flush)"
        raise WouldDeadlockError("flush()", why=why)
