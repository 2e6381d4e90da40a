"""Which subscriptions' callbacks this code runs in, in threads and tasks alike."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

# Mailboxes, the innermost last: a callback may publish on another bus, which calls back in line.
inside: ContextVar[tuple[Any, ...]] = ContextVar("polycast_inside", default=())


def callbacks_under_way() -> tuple[Any, ...]:
    """Return the mailboxes in whose callbacks this code runs."""
    return inside.get()


def is_called_back(home: object) -> bool:
    """Whether this code runs in a callback of the bus that was opened in a home."""
    return any(box is not None and box.services.home is home for box in inside.get())
