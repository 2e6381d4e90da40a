"""Waiting for a bus, looking at it, and closing it."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from polycast.delivery.callback_context import inside
from polycast.errors import BusClosedError, SubscriptionEndedError, WouldDeadlockError
from polycast.metrics import Counts
from polycast.subscriptions.health import Health, StuckCallback, SubscriptionHealth, Undelivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.bus.engines import Engine
    from polycast.delivery import LoopThread, Mailbox, Pool, Services, Timers
    from polycast.subscriptions.subscription_registry import Roster

__all__ = ["Life", "close_down", "health_of", "wait_for_quiet"]


class Life:
    """What a bus and its views have in common: whether it is open, closing or closed."""

    def __init__(self, roster: Roster) -> None:
        self._roster, self._state = roster, "open"

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is of the process that this one was forked from."""
        return self._roster.dispatcher.home.is_elsewhere()

    @property
    def state(self) -> str:
        """Open, closing or closed; or of another process."""
        return "of the process this one was forked from" if self.is_elsewhere else self._state

    @state.setter
    def state(self, state: str) -> None:
        self._state = state

    def check(self, operation: str) -> None:
        """Refuse what cannot be done now."""
        self._roster.dispatcher.home.check(f"{operation}()")
        if self._state != "open":
            raise BusClosedError(operation)
        self._roster.check_free(f"{operation}()")


def wait_for_quiet(roster: Roster, timeout: float | None) -> bool:
    """Wait until no mailbox has anything left to do."""
    roster.check_free("flush()", *list(roster.mailboxes.values()))
    if _own(roster) or roster.dispatcher.inline_lock.is_mine():
        raise WouldDeadlockError("flush()", why="it was called inside a callback")
    quiet = _wait(roster, timeout, (), roster.awaited(), check=_check_loop)
    if quiet:
        for box in list(roster.mailboxes.values()):
            with box.locked():  # who has settled the last event may not have buried it yet
                pass
        roster.saved()
    return quiet


def _needs_closed_loop(box: Mailbox) -> bool:
    """Whether all its callbacks run in event loops that have been closed."""
    loops = [consumer.needs_loop() for consumer in box.consumers()]
    return bool(loops) and all(loop is not None and loop.is_closed() for loop in loops)


def _check_loop(boxes: Iterable[Mailbox]) -> None:
    if any(map(_needs_this_loop, boxes)):
        why = "callbacks run in the event loop it would block; await asyncio.to_thread(bus.flush)"
        raise WouldDeadlockError("flush()", why=why)


def _needs_this_loop(box: Mailbox) -> bool:
    """Whether its callback runs in the event loop that is running in this thread."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return False
    return any(consumer.needs_loop() is here for consumer in box.consumers())


def _wait(
    roster: Roster,
    timeout: float | None,
    but: tuple[Mailbox | None, ...],
    awaited: tuple[int, int],
    *,
    check: Callable[[Iterable[Mailbox]], None] = lambda boxes: None,
) -> bool:
    quiet = roster.services.quiet
    check(list(roster.mailboxes.values()))
    now = roster.services.runtime.monotonic
    deadline = None if timeout is None else now() + timeout
    while not _is_quiet(roster, but, *awaited):
        for box in list(roster.mailboxes.values()):
            box.recover()
        check(list(roster.mailboxes.values()))  # a plain callback may give an awaitable any time
        left = None if deadline is None else deadline - now()
        if roster.is_broken() or (left is not None and left <= 0):
            return False
        with quiet:
            roster.services.waiting += 1
            # A notification may come between the look and the wait: do not wait for long.
            quiet.wait(0.05 if left is None else min(left, 0.05))
            roster.services.waiting -= 1
    return True


def _is_quiet(roster: Roster, but: tuple[Mailbox | None, ...], position: int, routed: int) -> bool:
    """Whether all is handled; what callbacks have published meanwhile is more to wait for."""
    passed_on = roster.dispatcher.passed_on
    return (
        roster.is_caught_up(max(position, passed_on), routed)
        and all(box.is_idle() for box in list(roster.mailboxes.values()) if box not in but)
        and roster.dispatcher.passed_on == passed_on
    )


def health_of(roster: Roster, *, closed: bool, more: Iterable[str] = ()) -> Health:
    """How everybody is doing."""
    boxes = list(roster.mailboxes.values())
    stuck = tuple(_stuck(boxes, roster.services))
    letters = roster.services.dead_letters
    return Health(
        state="closed" if closed else "open",
        published=roster.published(),
        subscriptions=tuple(_subscription(box) for box in boxes),
        advertised=tuple(roster.advertised()),
        stuck=stuck,
        dead_letters=len(letters),
        counts=reduce(add, (box.counts for box in [*boxes, *roster.cut_off]), Counts()),
        problems=(*_problems(roster, boxes, stuck), *more),
        pipeline=roster.pipeline(),
    )


def _subscription(box: Mailbox) -> SubscriptionHealth:
    state = "paused" if box.paused else "detached" if box.is_detached() else "active"
    return SubscriptionHealth(
        box.name,
        state,
        len(box.backlog),
        len(box.in_flight) + len(box.delayed),
        box.counts,
        "direct" if box.route is None else "spark",
        box.interest.context,
    )


def _stuck(boxes: list[Mailbox], services: Services) -> Iterator[StuckCallback]:
    """READY 4.5: a time stamp for each callback under way; in line nobody watches."""
    now = services.clock.monotonic()
    for consumer in (each for box in boxes for each in box.consumers() if not each.inline):
        since = consumer.started
        if since is not None and now - since >= services.pool.stuck_timeout:
            yield StuckCallback(consumer.title, now - since)


def _problems(roster: Roster, boxes: list[Mailbox], stuck: tuple[StuckCallback, ...]) -> list[str]:
    letters = roster.services.dead_letters
    problems = roster.problems()
    problems += [
        f"the callback of {each.subscription} has not returned for {each.seconds:.0f} s"
        for each in stuck
    ]
    problems += [f"{box.name} was cut off: its queue was full" for box in roster.cut_off]
    problems += [
        f"{len(box.backlog)} events wait for {box.name}, which keeps up to {box.settings.queue}"
        for box in boxes
        if len(box.backlog) >= 0.8 * box.settings.queue
    ]
    problems += [
        f"{box.name} lost {box.counts.dropped} events" for box in boxes if box.counts.dropped
    ]
    problems += [
        f"the filter of {name} fails, so it gets nothing: {trials}"
        for box in boxes
        for name, trials in box.vain()
    ]
    supplies = list(roster.services.supplies)
    problems += [told for each in supplies if (told := each.problem) is not None]
    translation = roster.dispatcher.translation
    problems += [
        f"{box.name} gets nothing: context {box.interest.context!r} was taken out of the federation"
        for box in boxes
        if translation.is_gone(box.interest.context)
    ]
    if len(letters) or letters.let_go:
        kept = (
            f"; {n} of them were cut off and stay until purged" if (n := letters.cut_off()) else ""
        )
        problems.append(f"{len(letters)} dead letters ({letters.let_go} older ones let go){kept}")
    return problems


def close_down(roster: Roster, timeout: float) -> tuple[Undelivered, ...]:
    """Refuse, drain, end everything; what was left, and why."""
    dispatcher = roster.dispatcher

    def refuse() -> None:
        # Who is called back while the bus drains may still publish; nobody else.
        if roster.drained or not (_own(roster) or dispatcher.inline_lock.is_mine()):
            raise BusClosedError("publish")

    own = _own(roster)
    in_turn = dispatcher.inline_lock.is_mine()
    dispatcher.stop(refuse)
    but = tuple(
        box
        for box in list(roster.mailboxes.values())
        if box in own
        or (in_turn and box.inline)
        or _needs_this_loop(box)
        or _needs_closed_loop(box)
    )
    roster.wind_down()
    _wait(roster, timeout, but, (roster.published(), 0))  # what is routed is durable
    roster.drained = True
    boxes = list(roster.mailboxes.values())
    undelivered = tuple(
        Undelivered(box.name, left, _why(box)) for box in boxes if (left := _left(box, own))
    )
    for box in boxes:
        box.end(SubscriptionEndedError(box.title, detail="its bus was closed"))
    for advertisement in list(roster.advertisements):
        advertisement.cancel()
    roster.services.timers.close()
    roster.services.loop.close(0.5)
    roster.services.pool.close(0.5)
    return undelivered


def _left(box: Mailbox, own: tuple[Mailbox, ...]) -> int:
    """What is left of a mailbox, less the event whose callback is closing the bus."""
    if box.winding_down:
        return 0  # it is kept for the next opening
    return len(box.backlog) + len(box.in_flight) + len(box.delayed) - (box in own)


def _own(roster: Roster) -> tuple[Mailbox, ...]:
    """The mailboxes of this bus in whose callbacks this code runs."""
    boxes = list(roster.mailboxes.values())
    return tuple(box for box in inside.get() if any(box is each for each in boxes))


def _why(box: Mailbox) -> str:
    if box.is_detached():
        return "nobody is attached to it"
    if box.paused:
        return "it is paused"
    if box.settings.pull:
        return "nobody has pulled them"
    if _needs_this_loop(box):
        return "its event loop was blocked by close(); use `async with`, or asyncio.to_thread"
    if _needs_closed_loop(box):
        return "its event loop is closed"
    return "its callback did not finish in time" if box.in_flight else "there was no time left"


def in_a_thread(function: Callable[..., None], *arguments: Any) -> None:
    """A finaliser runs anywhere, also where locks are held: what needs one is done elsewhere."""
    with contextlib.suppress(RuntimeError):  # the interpreter goes down
        _thread.start_new_thread(function, arguments)


def stop_threads(engine: Engine, timers: Timers, pool: Pool, loop: LoopThread) -> None:
    """Nobody has the bus any more."""
    if engine.dispatcher.home.is_elsewhere():
        return
    engine.abandon()
    timers.close()
    pool.close(0.0)
    loop.close(0.0)
