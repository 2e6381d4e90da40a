"""The job that applies the retention rule of a store from time to time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from polycast.delivery.cursors import Fenced
from polycast.errors import PolycastError
from polycast.plain_text import log_of
from polycast.stores import Store, Transaction, pins, retain, retention_of
from polycast.stores.liveness import AgeClock
from polycast.subscriptions.subscription_registry import MailboxTable, cursor_of, is_kept

if TYPE_CHECKING:
    from polycast.delivery import Services, Timer

EVERY = 10.0  # seconds
NEARLY_FULL = 0.8
_log = log_of("polycast")


class RetentionJob:
    """A job for the pool, every few seconds. Whichever bus does it, it is done for all."""

    def __init__(self, store: Store, services: Services, mailboxes: MailboxTable) -> None:
        self._store, self._services, self._mailboxes = store, services, mailboxes
        self._ages = AgeClock(services.clock)
        self.started: float | None = None  # no user's callback, so it is never stuck
        self._closed = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Run every few seconds from now on."""
        self._timer = self._services.timers.after(EVERY, self._due)

    def _due(self) -> None:
        if not self._closed and self._store.failure is None:
            self._services.pool.submit(self)

    def run(self) -> None:
        """Remove what may go, and do so again later."""
        try:
            if not self._closed:
                self._save_cursors()
                retain(self._store, self._ages.now)
        except PolycastError as error:
            if not self._closed:
                _log.warning("nothing was let go: %s", error)
        if not self._closed:
            self.start()

    def _save_cursors(self) -> None:
        """Tell the store how far those have come who got nothing: they hold nothing back."""
        groups = [
            mailbox.claims for mailbox in self._mailboxes if mailbox.claims and is_kept(mailbox)
        ]
        cursors = [cursor for mailbox in self._mailboxes if (cursor := cursor_of(mailbox))]
        moved = [cursor for cursor in cursors if cursor.has_moved()]

        def save(tx: Transaction) -> None:
            for cursor in moved:
                with suppress(Fenced):  # it is seen elsewhere that somebody has taken over
                    cursor.save(tx)
            for group in groups:
                group.move_on(tx)

        if moved or groups:
            self._store.write(save).result()

    def close(self) -> None:
        """Stop."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()


def fullness(store: Store) -> list[str]:
    """Return a warning if the size that was allowed is nearly taken, with what pins the log."""
    limit = retention_of(store).size
    size = store.size()
    if limit is None or size < NEARLY_FULL * limit:
        return []
    held = [pin for pin in pins(store) if pin.pinned and pin.behind]
    by = f"; {held[0].name} pins it, {held[0].behind} events behind" if held else ""
    return [f"the store takes {size} bytes of the {limit} it may take{by}"]
