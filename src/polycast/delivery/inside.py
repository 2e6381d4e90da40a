"""Which subscriptions' callbacks this code runs in, in threads and tasks alike."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

__all__ = ["inside"]

# Mailboxes, the innermost last: a callback may publish on another bus, which calls back in line.
inside: ContextVar[tuple[Any, ...]] = ContextVar("polycast_inside", default=())
