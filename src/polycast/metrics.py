"""Counters of a subscription and of a bus, and failures of user functions."""

from __future__ import annotations

from dataclasses import dataclass, fields

from polycast.plain_text import plain, words_of

FEW = 3  # consecutive failures that may be chance
_LONGEST = 200  # characters of an error


@dataclass(slots=True)
class Counts:
    """Outcomes of events. Its owner's lock protects it."""

    delivered: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    dropped: int = 0
    expired: int = 0
    filter_failures: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Trials:
    """Failures of a user function, counted from the first. Its owner's lock protects it."""

    __slots__ = ("_few", "asked", "error", "failed", "row")

    def __init__(self, few: int = FEW) -> None:
        self._few = few
        self.asked = self.failed = 0
        self.row = 0  # consecutive failures
        self.error = ""  # the last, in one line

    def fail(self, error: BaseException) -> None:
        """Count a failure."""
        self.asked += 1
        self.failed += 1
        self.row += 1
        self.error = _in_one_line(error)

    def work(self, times: int = 1) -> None:
        """Count successes."""
        self.asked += times
        self.row = 0

    @property
    def are_vain(self) -> bool:
        """Whether it currently fails each time."""
        return self.row >= self._few

    def __str__(self) -> str:
        times = f"{self.failed} of {self.asked} times, the last {self.row} in a row"
        return f"{times}; the last error is {self.error}"


def _in_one_line(error: BaseException) -> str:
    name, said = type(error).__name__, words_of(error)
    text = plain(f"{name}: {said}" if said else name)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
