"""The life of a bus: open, closing, closed; one that nobody closes is delivered, or counted."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from polycast.errors import BusClosedError, PolycastError, SubscriptionEndedError
from polycast.plain_text import log_of
from polycast.runtime import in_child
from polycast.subscriptions.delivery_progress import needs_this_loop
from polycast.subscriptions.health import Undelivered

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.bus.bus import Bus
    from polycast.bus.engines import Engine
    from polycast.delivery import Mailbox
    from polycast.subscriptions.subscription_registry import MailboxTable

WITHIN = 5.0  # seconds for all buses together to deliver what they have
DRAINED_WITHIN = 60.0  # seconds for a bus that nobody has, while the program goes on
GRACE = 2.0  # seconds more for their threads, files and connections
_log = log_of("polycast")
_open: WeakSet[Bus] = WeakSet()
_let_go: dict[threading.Thread, Callable[[], None]] = {}  # what of buses that nobody has


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


class _Hook:
    """Whether this process is going to call `_close_all`."""

    is_set = False


def close_at_exit(bus: Bus) -> None:
    """Close a bus when the interpreter ends, if it is still there and open in this process.

    Exit handlers run last in, first out: this comes before the finalisers of `weakref`, which have
    been registered by the bus. Daemon threads are still running then, and no others.
    """
    if not _Hook.is_set:
        _Hook.is_set = True
        atexit.register(_close_all)
        _finalise_worker()
    _open.add(bus)


def _finalise_worker() -> None:
    """A child that `multiprocessing` has forked calls no exit handlers, only its own finalisers."""
    process, util = map(sys.modules.get, ("multiprocessing.process", "multiprocessing.util"))
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _close_all, exitpriority=0)


def _forget() -> None:
    """A child has exit handlers of its own, and the buses are its parent's."""
    _Hook.is_set = False
    atexit.unregister(_close_all)
    _open.clear()
    _let_go.clear()


in_child(_forget)


def _close_all() -> None:
    deadline = time.monotonic() + WITHIN
    buses = [bus for bus in list(_open) if bus._lifecycle.state == "open"]
    if buses:
        _close_these(buses, deadline)
    for draining in list(_let_go):
        draining.join(max(0.0, deadline - time.monotonic()))
    for tell in list(_let_go.values()):
        tell()


def _close_these(buses: list[Bus], deadline: float) -> None:
    said: dict[Bus, str] = {}
    work = threading.Thread(target=_close_each, args=(buses, deadline, said), daemon=True)
    try:
        work.start()
    except RuntimeError:  # Python 3.12 starts none any more
        _close_each(buses, deadline, said)
    else:
        work.join(WITHIN + GRACE)  # a broker that is silent, or a disk, may take longer
    for bus in buses:
        if bus not in said:
            bus._finalizer.detach()  # it would wait for the same
            said[bus] = f"{_title(bus)}. Closing it took longer than {WITHIN + GRACE:g} s"
            _log.warning("%s: it is not known what was delivered", said[bus])
    for bus, text in list(said.items()):
        warnings.warn(text, ResourceWarning, source=bus, stacklevel=1)


def _close_each(buses: list[Bus], deadline: float, said: dict[Bus, str]) -> None:
    """Close them all; what there is to say of each."""
    if len(buses) > 1:  # what one of them passes on has to find the other open
        for bus in [*buses, *buses]:
            with suppress(PolycastError):
                bus.flush(max(0.0, deadline - WITHIN / 2 - time.monotonic()))
    for bus in buses:
        said[bus] = _close(bus, max(0.0, deadline - time.monotonic()))


def _title(bus: Bus) -> str:
    return f"{bus!r} was not closed before the program ended; use `with pc.Bus() as bus:`"


def _close(bus: Bus, timeout: float) -> str:
    """Close one that was left open; what is said of it."""
    text = _title(bus)
    try:
        left = sum(undelivered.events for undelivered in bus.close(timeout))
    except Exception:  # the others are still to be closed
        _log.exception("%s; closing it failed", text)
        return text
    # Those in memory end with the program.
    letters = 0 if bus._engine.services.source is not None else len(bus.dead_letters())
    if left or letters:
        text += f": {left} events were not delivered, and {letters} dead letters end with it"
        _log.warning("%s", text)
    return text


# -- before the program ends -----------------------------------------------------------------------


def let_go(engine: Engine, lifecycle: Lifecycle, title: str) -> None:
    """Nobody has a bus any more: what waits in it is delivered before its threads end."""
    if lifecycle.is_elsewhere:
        return
    services, mailboxes = engine.services, engine.subscriptions.mailboxes
    # Whether a store has more cannot be asked here: this may be any thread, at any time.
    may_wait = services.source is not None and len(mailboxes) > 0
    if lifecycle.state == "open" and services.threaded and (may_wait or _is_busy(mailboxes)):
        tell = partial(_tell_of, mailboxes, title)
        draining = threading.Thread(target=_drain, args=(engine, tell), daemon=True)
        _let_go[draining] = tell
        with suppress(RuntimeError):  # the interpreter ends, and starts no threads any more
            draining.start()
            return
    stop_threads(engine)


def _is_busy(mailboxes: MailboxTable) -> bool:
    return any(not mailbox.state.is_idle() for mailbox in mailboxes)


def _drain(engine: Engine, tell: Callable[[], None]) -> None:
    """What waits in a bus is delivered, or counted; in a thread of its own."""
    mailboxes, progress = engine.subscriptions.mailboxes, engine.progress
    try:
        with suppress(PolycastError):
            waits = _is_busy(mailboxes) or not progress.is_caught_up(*progress.awaited())
            if not engine.quiescence.flush(DRAINED_WITHIN) or waits:
                tell()
    finally:
        stop_threads(engine)
        _let_go.pop(threading.current_thread(), None)


def _tell_of(mailboxes: MailboxTable, title: str) -> None:
    """What there is to say of a bus that was let go of."""
    left = sum(len(box.queue) + box.state.under_way() for box in mailboxes)
    text = f"{title} was let go of before it was closed; use `with pc.Bus() as bus:`"
    if left:
        text += f": {left} events were not delivered"
        _log.warning("%s", text)
    warnings.warn(text, ResourceWarning, stacklevel=1)
