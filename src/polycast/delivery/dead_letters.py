"""Events that could not be delivered: kept, listed, replayed, purged."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from polycast.forks import Home
from polycast.locks import note

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.events import Identity
    from polycast.stores import Entry

__all__ = ["DeadLetter", "DeadLetters"]


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
        """The event as it was published."""
        return self.entry.event

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
            f"{type(self.event).__name__} at {self.position} for {self.subscription}: "
            f"{self.reason} (attempts: {self.attempts})"
        )


class DeadLetters(Sequence[DeadLetter]):
    """All dead letters of a bus, oldest first; beyond `keep` the oldest are let go and counted."""

    def __init__(
        self,
        *,
        keep: int,
        post: Callable[[list[DeadLetter]], tuple[list[DeadLetter], list[DeadLetter]]],
    ) -> None:
        self._letters: deque[DeadLetter] = deque()
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
        return len(self._letters)

    def __iter__(self) -> Iterator[DeadLetter]:
        self._home.check("looking at dead letters")
        note(self._lock)
        with self._lock:
            return iter(list(self._letters))

    def __repr__(self) -> str:
        return f"<{len(self)} dead letters>"

    def add(self, letter: DeadLetter) -> None:
        """Keep one more."""
        note(self._lock)
        with self._lock:
            self._letters.append(letter)
            if len(self._letters) > self._keep:
                self._letters.popleft()
                self.let_go += 1

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
            # What is added meanwhile, by what interrupts this thread, comes after them.
            before, self._letters = self._letters, deque()
            chosen = {id(each) for each in letters or before}
            taken = [each for each in before if id(each) in chosen]
            self._letters.extendleft(each for each in reversed(before) if id(each) not in chosen)
        return taken
