"""The life of a bus: open, closing, closed."""

from __future__ import annotations

import _thread
import contextlib
from typing import TYPE_CHECKING, Any

from polycast.errors import BusClosedError, SubscriptionEndedError
from polycast.subscriptions.delivery_progress import needs_this_loop
from polycast.subscriptions.health import Undelivered

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.bus.engines import Engine
    from polycast.delivery import Mailbox


class Lifecycle:
    """What a bus and its views have in common: whether it is open, closing or closed."""

    def __init__(self, engine: Engine) -> None:
        self._subscriptions, self._advertisements = engine.subscriptions, engine.advertisements
        self._dispatcher, self._services = engine.dispatcher, engine.services
        self._mailboxes, self._progress = engine.subscriptions.mailboxes, engine.progress
        self._quiescence = engine.quiescence
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

    def drain(self, timeout: float) -> tuple[Undelivered, ...]:
        """Refuse what is published, deliver, and end all; return what was left, and why."""
        own, in_turn = self._quiescence.own_mailboxes(), self._dispatcher.inline_lock.is_mine()
        self._dispatcher.stop(self._refuse)
        skipped = tuple(
            mailbox
            for mailbox in self._mailboxes
            if mailbox in own
            or (in_turn and mailbox.inline)
            or needs_this_loop(mailbox)
            or _needs_closed_loop(mailbox)
        )
        self._subscriptions.backend.wind_down()
        # What is routed is durable.
        self._quiescence.wait(timeout, skipped, (self._progress.published(), 0))
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
        if self._drained or not (
            self._quiescence.own_mailboxes() or self._dispatcher.inline_lock.is_mine()
        ):
            raise BusClosedError("publish")


def _needs_closed_loop(mailbox: Mailbox) -> bool:
    """Whether all its callbacks run in event loops that have been closed."""
    loops = [consumer.needs_loop() for consumer in mailbox.members.consumers()]
    return bool(loops) and all(loop is not None and loop.is_closed() for loop in loops)


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
    if needs_this_loop(mailbox):
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
