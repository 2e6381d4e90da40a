"""The leases of durable subscriptions, as a store has them: deadlines by the wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery import DurableCursor
from polycast.matching import Definition
from polycast.stores.deadlines import wall_offset
from polycast.subscriptions.subscription_registry import cursor_of

if TYPE_CHECKING:
    from polycast.config import Clock
    from polycast.delivery import Consumer
    from polycast.stores import Store, Transaction
    from polycast.subscriptions.heartbeat import FailureDetector
    from polycast.subscriptions.subscription_registry import MailboxTable


class StoredLeases:
    """Writes the leases of the subscriptions of one bus."""

    def __init__(
        self, store: Store, clock: Clock, detector: FailureDetector, mailboxes: MailboxTable
    ) -> None:
        self._store, self._clock, self._detector = store, clock, detector
        self._mailboxes = mailboxes

    def keep(self, consumer: Consumer, lease: float) -> None:
        """Keep the lease of a durable subscription: any bus ends it after that."""
        mailbox, until = consumer.mailbox, self._clock.time() + lease

        def save(tx: Transaction) -> None:
            kept, cursor = tx.subscription(mailbox.name), mailbox.cursor
            if isinstance(cursor, DurableCursor) and kept and kept.token == cursor.number:
                definition = replace(Definition.decoded(kept.definition), lease=lease)
                kept = replace(kept, definition=definition.encoded(), lease=until)
                tx.save(kept)
                self._detector.see(kept)

        if consumer.interest.durable is not None:
            self._store.write(save).result()

    def follow_clock(self) -> None:
        """Write deadlines anew after the wall clock was set: they end when they would have."""
        held = [(mailbox, cursor) for mailbox in self._mailboxes if (cursor := cursor_of(mailbox))]
        for _, cursor in held:
            cursor.clock_stepped()
        leased = [
            (mailbox, cursor.number)
            for mailbox, cursor in held
            if mailbox.state.lease.until is not None
        ]

        def save(tx: Transaction) -> None:
            offset = wall_offset(self._clock)
            for mailbox, number in leased:
                kept = tx.subscription(mailbox.name)
                if kept and kept.token == number and mailbox.state.lease.until is not None:
                    kept = replace(kept, lease=mailbox.state.lease.until + offset)
                    tx.save(kept)
                    self._detector.moved(kept)

        if leased and self._store.failure is None:
            self._store.write(save)
