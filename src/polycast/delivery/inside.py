"""Which subscription's callback this code runs in, in threads and tasks alike."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.delivery.mailbox import Mailbox

__all__ = ["inside"]

inside: ContextVar[Mailbox | None] = ContextVar("polycast_inside", default=None)
