"""What was given and cannot be taken."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from polycast.errors.root import PolycastError, did_you_mean, listed, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BadCallbackError",
    "BadOptionError",
    "BadTopicError",
    "NotAvailableError",
    "NotAwaitedError",
]


class BadTopicError(PolycastError, ValueError):
    """A topic that cannot be published to or subscribed to."""

    def __init__(self, topic: object, *, why: str, at: int | None = None) -> None:
        self.topic = topic
        place = "" if at is None else f"\n  {topic}\n  {' ' * at}^"
        super().__init__(
            f"{topic!r} is not a topic: {why}. A topic looks like '/Chat/Insomnia'; "
            f"in a subscription '*' stands for one level and '**' for any number of levels{place}"
        )


class BadCallbackError(PolycastError, TypeError):
    """A callback that cannot take an event."""

    def __init__(self, callback: object, *, why: str) -> None:
        self.callback = callback
        super().__init__(
            f"{shown(callback)} cannot be a callback: {why}. A callback takes (event) or "
            f"(event, delivery), and may be async"
        )


class BadOptionError(PolycastError, ValueError):
    """An option that does not exist, or a value that it does not take."""

    def __init__(self, option: str, given: object, *, accepted: str, why: str = "") -> None:
        self.option, self.given = option, given
        reason = f": {why}" if why else ""
        super().__init__(f"{option}={given!r:.200} is not accepted{reason}. Accepted: {accepted}")

    @classmethod
    def unknown(cls, option: str, given: object, known: Iterable[str]) -> BadOptionError:
        """The error for an option nobody knows, with the nearest one that exists."""
        names = sorted(known)
        near = difflib.get_close_matches(option, names, n=1)
        hint = f"; did you mean {near[0]}=?" if near else ""
        return cls(option, given, accepted=listed(names), why=f"there is no such option{hint}")

    @classmethod
    def choice(cls, option: str, given: object, choices: Iterable[str]) -> BadOptionError:
        """The error for a value that is none of the choices."""
        names = list(choices)
        accepted = f"one of {listed(map(repr, names))}{did_you_mean(str(given), names)}"
        return cls(option, given, accepted=accepted)


class NotAwaitedError(PolycastError, TypeError):
    """A function gave a coroutine or a generator where nobody runs it: it has done nothing."""

    def __init__(self, what: str, given: object) -> None:
        self.what, self.given = what, type(given).__name__
        super().__init__(
            f"{what} gave {shown(given)}, which nobody awaits or iterates there, so it has done "
            f"nothing. Accepted: a function that does its work before it returns (of callbacks "
            f"with dispatch='pool', which is the default, coroutines are awaited)"
        )


class NotAvailableError(PolycastError):
    """A part that is not installed, or that this version does not have."""

    def __init__(self, what: str, *, why: str, instead: str) -> None:
        self.what = what
        super().__init__(f"{what} is not available: {why}. {instead}")
