"""A pull supplier: the collection asks a function for events (DAC 4.1)."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError, BusClosedError
from polycast.errors.failures import check_has_run
from polycast.metrics import Trials
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Services, Timer

_log = log_of("polycast")


def check_supplier(produce: object) -> None:
    """A supplier is called without arguments."""
    for each in (produce, getattr(produce, "func", None), getattr(produce, "__call__", None)):  # noqa: B004
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            accepted = "a function that takes nothing and gives an event; this one is async"
            raise BadOptionError("produce", produce, accepted=accepted)
        if inspect.isgeneratorfunction(each):
            why = "this one is a generator function; give the __next__ of its generator"
            accepted = f"a function that takes nothing and gives an event; {why}"
            raise BadOptionError("produce", produce, accepted=accepted)
    if not callable(produce):
        raise BadOptionError("produce", produce, accepted="a function that takes nothing")
    try:
        inspect.signature(produce).bind()
    except TypeError as error:
        raise BadOptionError(
            "produce", produce, accepted="a function that takes nothing"
        ) from error
    except ValueError:  # some built-ins tell nothing about themselves
        pass


class Supply:
    """Polls a function in the pool; None means that there is nothing now."""

    def __init__(
        self,
        produce: Callable[[], Any],
        add: Callable[[Any], object],
        services: Services,
        *,
        every: float,
        title: str,
    ) -> None:
        self.title = f"the supply of {title}"
        self.started: float | None = None  # since when it has been asking
        self.trials = Trials(few=1)
        self._lock = threading.Lock()
        self._produce, self._add, self._services, self._every = produce, add, services, every
        self._cancelled = False
        services.supplies.add(self)
        self._timer: Timer = services.timers.after(every, self._ask)

    def _ask(self) -> None:
        if not self._cancelled:
            self._services.pool.submit(self)

    def run(self) -> None:
        """In a thread of the pool: take all that there is, then wait for the next time."""
        now = self._services.clock.monotonic
        try:
            self.started = now()
            while not self._cancelled and (event := self._produce()) is not None:
                check_has_run(self.title, event)
                self._add(event)
                self._note(None)
                self.started = now()
            self._note(None)  # that there is nothing is an answer, too
        except BusClosedError:
            self.cancel()
        except BaseException as error:  # SystemExit too: the thread is the pool's, it goes on
            self._note(error)
            _log.exception("%s failed", self.title)
        self.started = None
        if not self._cancelled:
            self._timer = self._services.timers.after(self._every, self._ask)

    @property
    def failures(self) -> int:
        """How often its function has failed."""
        return self.trials.failed

    def _note(self, error: BaseException | None) -> None:
        with self._lock:
            if error is None:
                self.trials.work()
            else:
                self.trials.fail(error)

    @property
    def problem(self) -> str | None:
        """What is wrong with it."""
        with self._lock:
            is_told = self.trials.are_vain and not self._cancelled
            return f"{self.title} fails: {self.trials}" if is_told else None

    def cancel(self) -> None:
        """Ask no more."""
        self._cancelled = True
        self._services.supplies.discard(self)
        self._timer.cancel()
