"""Events that could not be delivered: kept, listed, replayed, purged."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from polycast.errors import CutOffError
from polycast.runtime import Home, note

if TYPE_CHECKING:
    from polycast.events import Identity
    from polycast.stores import Entry


@dataclass(frozen=True, slots=True, eq=False)
class DeadLetter:
    """One event that one subscription did not handle, and why."""

    entry: Entry
    subscription: str
    reason: str
    error: BaseException | None
    attempts: int
    time: float
    number: int = 0  # by which a store knows it

    @property
    def event(self) -> Any:
        """The event as it was published; one that can be changed is made each time."""
        return self.entry.fresh()

    @property
    def position(self) -> int:
        """Its place in the log."""
        return self.entry.position

    @property
    def identity(self) -> Identity:
        """Who published it, in which epoch, as which event."""
        return self.entry.identity

    def __str__(self) -> str:
        return (
            f"{type(self.entry.event).__name__} at {self.position} for {self.subscription}: "
            f"{self.reason} (attempts: {self.attempts})"
        )


class DeadLetters(Sequence[DeadLetter]):
    """All dead letters of a bus, oldest first; beyond `keep` the oldest are let go and counted.

    Those of a subscription that was cut off count for no limit: a queue that was full would else
    push out its own beginning. Each cut-off adds at most what one queue holds. With `keep=0`
    nothing is kept.
    """

    def __init__(
        self,
        *,
        keep: int,
        post: Callable[[list[DeadLetter]], tuple[list[DeadLetter], list[DeadLetter]]],
    ) -> None:
        self._letters: dict[int, DeadLetter] = {}  # by number, in the order in which they came
        self._limited: OrderedDict[int, None] = OrderedDict()  # the numbers that may be let go
        self._numbers = itertools.count(1)
        self._keep, self._post = keep, post
        self._lock = threading.RLock()
        self._home = Home("the bus of these dead letters")
        self.let_go = 0

    @overload
    def __getitem__(self, index: int) -> DeadLetter: ...
    @overload
    def __getitem__(self, index: slice) -> list[DeadLetter]: ...
    def __getitem__(self, index: int | slice) -> DeadLetter | list[DeadLetter]:
        return list(self)[index]

    def __len__(self) -> int:
        self._home.check("counting dead letters")
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        self._home.check("looking at dead letters")
        note(self._lock)
        with self._lock:
            return iter(list(self._letters.values()))

    def __repr__(self) -> str:
        if self._home.is_elsewhere():
            return "<dead letters of the process this one was forked from>"
        return f"<{len(self)} dead letters>"

    def add(self, letter: DeadLetter) -> None:
        """Keep one more."""
        note(self._lock)
        with self._lock:
            number = next(self._numbers)
            self._letters[number] = letter
            if self._keep and isinstance(letter.error, CutOffError):
                return
            self._limited[number] = None
            if len(self._limited) > self._keep:
                with suppress(KeyError):  # what interrupts this thread has taken it
                    oldest, _ = self._limited.popitem(last=False)
                    del self._letters[oldest]
                    self.let_go += 1

    def cut_off(self) -> int:
        """How many are of subscriptions that were cut off, which are never let go."""
        return len(self._letters) - len(self._limited)

    def replay(self, *letters: DeadLetter) -> int:
        """Give these, or all, to their subscriptions once more; how many went."""
        went, left = self._post(self._take(letters))
        for letter in left:
            self.add(letter)
        return len(went)

    def purge(self, *letters: DeadLetter) -> int:
        """Throw these, or all, away; how many went."""
        return len(self._take(letters))

    def _take(self, letters: tuple[DeadLetter, ...]) -> list[DeadLetter]:
        """Take out those of them, or all, that are still here."""
        self._home.check("taking dead letters")
        note(self._lock)
        with self._lock:
            before = list(self._letters.items())
            chosen = {id(letter) for letter in letters} if letters else None
            taken = []
            for number, letter in before:
                # What interrupts this thread may have taken it meanwhile.
                if chosen is not None and id(letter) not in chosen:
                    continue
                if self._letters.pop(number, None) is not None:
                    taken.append(letter)
                    self._limited.pop(number, None)
        return taken
