"""Fair shares of the time of a broker: in its event loop, in its store, and for filters."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.errors import StoreClosedError
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Begin = Callable[["CpuTimer"], Future[Any]]
    Later = Callable[[float, Callable[[], None]], object]

SLICE = 0.002  # seconds of a party before the others have theirs


class RoundRobin:
    """Deficit round-robin: one slice for each party per round; a party is an owner or a session.

    A party that takes longer owes the rest, and is passed over until it is paid back. A party
    without competition waits for nothing but the loop itself.
    """

    def __init__(self) -> None:
        self._owed: dict[Hashable, float] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._is_due = False

    async def take(self, party: Hashable) -> None:
        """Wait for the turn of a party."""
        if party not in self._waiting and self._owed.get(party, 0.0) < SLICE:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(party, deque()).append(turn)
        self._begin_soon()
        await turn

    def spend(self, party: Hashable, seconds: float) -> None:
        """Charge a party for time in the loop."""
        self._owed[party] = self._owed.get(party, 0.0) + seconds
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a round; the loop serves its sockets between two rounds."""
        self._is_due = False
        self._owed = {party: owed - SLICE for party, owed in self._owed.items() if owed > SLICE}
        for party in list(self._waiting):
            if self._owed.get(party, 0.0) < SLICE:
                self._resume(party)
        if self._owed or self._waiting:
            self._begin_soon()

    def _resume(self, party: Hashable) -> None:
        waiting = self._waiting[party]
        while waiting and (turn := waiting.popleft()).done():
            pass  # the session that waited has ended
        if not turn.done():
            turn.set_result(None)
        if not waiting:
            del self._waiting[party]


R = TypeVar("R")

SHORT = 0.005  # seconds of an operation after which its party need not rest
LONGEST_REST = 0.25  # seconds that a party rests at most


class CpuTimer:
    """Adds up the CPU time of an operation."""

    def __init__(self, thread_time: Callable[[], float] = time.thread_time) -> None:
        self.took, self._now = 0.0, thread_time

    def time(self, work: Callable[[], R]) -> R:
        """Run it."""
        began = self._now()
        try:
            return work()
        finally:
            self.took += self._now() - began


class FairScheduler:
    """A queue of operations for each party; parties do not wait for each other.

    After a long operation its party rests for as long. All methods are called in one thread; `soon`
    schedules a callback there from any thread, `later` after a number of seconds.
    """

    def __init__(
        self,
        *,
        soon: Callable[[Callable[[], None]], None],
        later: Later,
        thread_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self._soon, self._later, self._thread_time = soon, later, thread_time
        self._waiting: dict[Hashable, deque[tuple[Begin, Future[Any]]]] = {}

    def __len__(self) -> int:
        """How many operations wait."""
        return sum(map(len, self._waiting.values()))

    def ask(self, party: Hashable, begin: Begin) -> Future[Any]:
        """Begin an operation when those before it of its party are done; its future result."""
        answer: Future[Any] = Future()
        waiting = self._waiting.get(party)
        if waiting is None:
            self._waiting[party] = deque()
            self._begin(party, begin, answer)
        else:
            waiting.append((begin, answer))
        return answer

    def do(
        self,
        party: Hashable,
        work: Callable[..., Any],
        submit: Callable[[Callable[..., Any]], Future[Any]],
        *,
        is_over: Callable[[], bool],
    ) -> Future[Any]:
        """Submit work to a store or a pool in turn, unless its client has gone by then."""

        def begin(timer: CpuTimer) -> Future[Any]:
            if is_over():
                raise StoreClosedError
            return submit(lambda *given: timer.time(lambda: work(*given)))

        return self.ask(party, begin)

    def _begin(self, party: Hashable, begin: Begin, answer: Future[Any]) -> None:
        timer = CpuTimer(self._thread_time)
        try:
            running = begin(timer)
        except Exception as error:
            answer.set_exception(error)
            self._soon(lambda: self._next(party))
            return

        def ended(done: Future[Any]) -> None:
            self._soon(lambda: self._rest(party, timer.took))
            if (error := _error_of(done)) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result())

        running.add_done_callback(ended)

    def _rest(self, party: Hashable, took: float) -> None:
        if took < SHORT:
            self._next(party)
        else:
            self._later(min(took, LONGEST_REST), lambda: self._next(party))

    def _next(self, party: Hashable) -> None:
        waiting = self._waiting[party]
        if waiting:
            self._begin(party, *waiting.popleft())
        else:
            del self._waiting[party]


def _error_of(done: Future[Any]) -> BaseException | None:
    try:
        return done.exception()
    except BaseException as error:  # it was cancelled: the broker stops
        return error


AT_ONCE = 0.01  # seconds of an owner's filters before others have their turn
TOO_LONG = 0.03  # seconds in one turn that suspend them: a single event took most of it
MOST_STEPS = 2_000_000  # for one event, which cannot be interrupted: about 40 ms
WINDOW = 1.0  # seconds over which time is counted
SHARE = 0.5  # of the window, for the filters of one owner
SHORTEST, LONGEST = 1.0, 600.0  # seconds of a suspension; each is twice as long
_log = log_of("polycast.broker")


@dataclass(frozen=True, slots=True)
class SuspendedFilters:
    """The filters of an owner are suspended."""

    owner: str
    seconds: float
    """Remaining seconds."""
    spent: float
    """Seconds of the window that they took."""

    def __str__(self) -> str:
        return (
            f"the filters of {self.owner!r} took {self.spent:.2f} s of the broker's time within "
            f"{WINDOW:g} s; for {self.seconds:.0f} s more its clients get all events of their "
            f"types and filter them there"
        )


@dataclass(slots=True)
class _Account:
    began: float
    spent: float = 0.0
    suspended_until: float = 0.0
    pause: float = SHORTEST
    last: float = 0.0  # seconds spent before the suspension


class FilterBudget:
    """Adds up time by owner; `monotonic` is the clock."""

    longest = 8_192
    steps: float = MOST_STEPS

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._accounts: dict[str, _Account] = {}

    def allowance(self, party: str) -> float:
        """Seconds that the filters of an owner may take now; 0 while they are suspended."""
        account = self._accounts.get(party)
        if account is None:
            return AT_ONCE
        now = self._monotonic()
        return 0.0 if now < account.suspended_until else AT_ONCE

    def spend(self, party: str, seconds: float) -> None:
        """Charge the filters of an owner; too much in a window suspends them."""
        now = self._monotonic()
        account = self._accounts.setdefault(party, _Account(now))
        if now < account.suspended_until:
            return
        if now - account.began >= WINDOW:
            self._begin_window(account, now)
        account.spent += seconds
        if account.spent > SHARE * WINDOW or seconds > TOO_LONG:
            self._suspend(party, account, now)

    def _begin_window(self, account: _Account, now: float) -> None:
        if now - account.suspended_until > account.pause:  # well-behaved for a while
            account.pause = SHORTEST
        account.began, account.spent = now, 0.0

    def _suspend(self, party: str, account: _Account, now: float) -> None:
        account.suspended_until = now + account.pause
        account.last = account.spent
        account.pause = min(2 * account.pause, LONGEST)
        account.began, account.spent = account.suspended_until, 0.0
        for suspended in self.suspended():
            if suspended.owner == party:
                _log.warning("%s", suspended)

    def suspended(self) -> list[SuspendedFilters]:
        """Whose filters are suspended now, and why."""
        now = self._monotonic()
        return [
            SuspendedFilters(owner, account.suspended_until - now, account.last)
            for owner, account in self._accounts.items()
            if account.suspended_until > now
        ]
