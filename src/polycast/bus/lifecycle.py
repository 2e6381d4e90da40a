"""The life of a bus: waiting until it is quiet, and closing it."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from polycast.delivery.callback_context import inside
from polycast.errors import BusClosedError, SubscriptionEndedError, WouldDeadlockError
from polycast.subscriptions.health import Undelivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.bus.engines import Engine
    from polycast.delivery import Mailbox

__all__ = ["Lifecycle", "in_a_thread", "stop_threads"]


class Lifecycle:
    """What a bus and its views have in common: whether it is open, closing or closed."""

    def __init__(self, engine: Engine) -> None:
        self._subscriptions, self._advertisements = engine.subscriptions, engine.advertisements
        self._dispatcher, self._services = engine.dispatcher, engine.services
        self._mailboxes, self._progress = engine.subscriptions.mailboxes, engine.progress
        self._state = "open"
        self._drained = False  # the bus is closed and has delivered what it could

    @property
    def is_elsewhere(self) -> bool:
        """Whether the bus belongs to the process that this one was forked from."""
        return self._dispatcher.home.is_elsewhere()

    @property
    def state(self) -> str:
        """Open, closing or closed; or of another process."""
        return "of the process this one was forked from" if self.is_elsewhere else self._state

    @state.setter
    def state(self, state: str) -> None:
        self._state = state

    def check(self, operation: str) -> None:
        """Refuse what cannot be done now."""
        self._dispatcher.home.check(f"{operation}()")
        if self._state != "open":
            raise BusClosedError(operation)
        self._subscriptions.check_free(f"{operation}()")

    def flush(self, timeout: float | None) -> bool:
        """Wait until no mailbox has anything left to do; return whether that came in time."""
        self._subscriptions.check_free("flush()", *self._mailboxes)
        if self._own() or self._dispatcher.inline_lock.is_mine():
            raise WouldDeadlockError("flush()", why="it was called inside a callback")
        quiet = self._wait(timeout, (), self._progress.awaited(), check=_check_loop)
        if quiet:
            for mailbox in self._mailboxes:
                with (
                    mailbox.queue.locked()
                ):  # whoever settled the last event may still have to bury it
                    pass
            self._progress.wait_until_saved()
        return quiet

    def drain(self, timeout: float) -> tuple[Undelivered, ...]:
        """Refuse what is published, deliver, and end all; return what was left, and why."""
        own, in_turn = self._own(), self._dispatcher.inline_lock.is_mine()
        self._dispatcher.stop(self._refuse)
        skipped = tuple(
            mailbox
            for mailbox in self._mailboxes
            if mailbox in own
            or (in_turn and mailbox.inline)
            or _needs_this_loop(mailbox)
            or _needs_closed_loop(mailbox)
        )
        self._subscriptions.backend.wind_down()
        # What is routed is durable.
        self._wait(timeout, skipped, (self._progress.published(), 0))
        self._drained = True
        mailboxes = list(self._mailboxes)
        undelivered = tuple(
            Undelivered(mailbox.name, left, _why(mailbox))
            for mailbox in mailboxes
            if (left := _left(mailbox, own))
        )
        for mailbox in mailboxes:
            mailbox.state.end(SubscriptionEndedError(mailbox.title, detail="its bus was closed"))
        self._advertisements.close()
        self._services.timers.close()
        self._services.loop.close(0.5)
        self._services.pool.close(0.5)
        return undelivered

    def _refuse(self) -> None:
        # Whoever is called back while the bus drains may still publish; nobody else.
        if self._drained or not (self._own() or self._dispatcher.inline_lock.is_mine()):
            raise BusClosedError("publish")

    def _own(self) -> tuple[Mailbox, ...]:
        """The mailboxes of this bus in whose callbacks this code runs."""
        mine = {id(mailbox) for mailbox in self._mailboxes}
        return tuple(mailbox for mailbox in inside.get() if id(mailbox) in mine)

    def _wait(
        self,
        timeout: float | None,
        skipped: tuple[Mailbox | None, ...],
        awaited: tuple[int, int],
        *,
        check: Callable[[Iterable[Mailbox]], None] = lambda mailboxes: None,
    ) -> bool:
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


def _needs_closed_loop(mailbox: Mailbox) -> bool:
    """Whether all its callbacks run in event loops that have been closed."""
    loops = [consumer.needs_loop() for consumer in mailbox.members.consumers()]
    return bool(loops) and all(loop is not None and loop.is_closed() for loop in loops)


def _needs_this_loop(mailbox: Mailbox) -> bool:
    """Whether its callback runs in the event loop that is running in this thread."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return any(consumer.needs_loop() is running for consumer in mailbox.members.consumers())


def _check_loop(mailboxes: Iterable[Mailbox]) -> None:
    if any(map(_needs_this_loop, mailboxes)):
        why = "callbacks run in the event loop it would block; await asyncio.to_thread(bus.flush)"
        raise WouldDeadlockError("flush()", why=why)


def _left(mailbox: Mailbox, own: tuple[Mailbox, ...]) -> int:
    """What is left of a mailbox, less the event whose callback is closing the bus."""
    if mailbox.state.winding_down:
        return 0  # it is kept for the next opening
    waiting = len(mailbox.queue) + mailbox.state.under_way()
    return waiting - (mailbox in own)


def _why(mailbox: Mailbox) -> str:
    if not mailbox.members.consumers():
        return "nobody is attached to it"
    if mailbox.queue.paused:
        return "it is paused"
    if mailbox.queue.settings.pull:
        return "nobody has pulled them"
    if _needs_this_loop(mailbox):
        return "its event loop was blocked by close(); use `async with`, or asyncio.to_thread"
    if _needs_closed_loop(mailbox):
        return "its event loop is closed"
    is_late = mailbox.state.under_way() > 0
    return "its callback did not finish in time" if is_late else "there was no time left"


def in_a_thread(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a new thread: a finaliser runs anywhere, also where locks are held."""
    with contextlib.suppress(RuntimeError):  # the interpreter goes down
        _thread.start_new_thread(function, arguments)


def stop_threads(engine: Engine) -> None:
    """End the threads of a bus that nobody has any more."""
    if engine.dispatcher.home.is_elsewhere():
        return
    engine.abandon()
    engine.services.timers.close()
    engine.services.pool.close(0.0)
    engine.services.loop.close(0.0)
