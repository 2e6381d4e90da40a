"""What takes a store long goes one at a time for each party, and never for more than half of it."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeVar

from polycast.errors import StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Begin = Callable[["Stopwatch"], Future[Any]]
    Later = Callable[[float, Callable[[], None]], object]

__all__ = ["Lanes", "Stopwatch"]

R = TypeVar("R")

SHORT = 0.005  # seconds after which nobody has to wait for what took them
LONGEST = 0.25  # seconds that a party waits at most between two of its own


class Stopwatch:
    """How much of a processor something took."""

    def __init__(self) -> None:
        self.took = 0.0

    def time(self, work: Callable[[], R]) -> R:
        """Do it."""
        began = thread_time()
        try:
            return work()
        finally:
            self.took += thread_time() - began


class Lanes:
    """One after the other for each party, which is an owner; parties do not wait for each other.

    After one that took long its party waits as long. All of it is called in one thread; `soon` has
    something done there, from any thread, and `later` after so many seconds.
    """

    def __init__(self, *, soon: Callable[[Callable[[], None]], None], later: Later) -> None:
        self._soon, self._later = soon, later
        self._waiting: dict[Hashable, deque[tuple[Begin, Future[Any]]]] = {}

    def __len__(self) -> int:
        """How many wait for their turn."""
        return sum(map(len, self._waiting.values()))

    def ask(self, party: Hashable, begin: Begin) -> Future[Any]:
        """Begin something when those before it of its party are done; what comes of it."""
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
        """Have work done by a store or a pool, unless nobody waits for it any more by then."""

        def begin(watch: Stopwatch) -> Future[Any]:
            if is_over():
                raise StoreClosedError
            return submit(lambda *given: watch.time(lambda: work(*given)))

        return self.ask(party, begin)

    def _begin(self, party: Hashable, begin: Begin, answer: Future[Any]) -> None:
        watch = Stopwatch()
        try:
            running = begin(watch)
        except Exception as error:
            answer.set_exception(error)
            self._soon(lambda: self._next(party))
            return

        def ended(done: Future[Any]) -> None:
            self._soon(lambda: self._rest(party, watch.took))
            if (error := _error_of(done)) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(done.result())

        running.add_done_callback(ended)

    def _rest(self, party: Hashable, took: float) -> None:
        if took < SHORT:
            self._next(party)
        else:
            self._later(min(took, LONGEST), lambda: self._next(party))

    def _next(self, party: Hashable) -> None:
        waiting = self._waiting[party]
        if waiting:
            self._begin(party, *waiting.popleft())
        else:
            del self._waiting[party]


def _error_of(done: Future[Any]) -> BaseException | None:
    try:
        return done.exception()
    except BaseException as error:  # it was cancelled: the broker ends
        return error
