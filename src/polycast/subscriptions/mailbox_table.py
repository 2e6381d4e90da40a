"""The mailboxes of one bus, by name, by group and by durable name."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING

from polycast.delivery import DurableCursor, StoreCursor
from polycast.errors import BadOptionError, CutOffError, DurableChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.delivery import Consumer, Mailbox
    from polycast.matching import Interest
    from polycast.routing import Dispatcher

__all__ = ["MailboxTable", "cursor_of", "is_kept"]


class MailboxTable:
    """All mailboxes of one bus.

    Its lock is acquired before the dispatcher's, and no user code runs while it is held.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.lock = dispatcher.runtime.rlock()
        self._numbers = itertools.count(1)
        self._by_name: dict[str, Mailbox] = {}
        self._groups: dict[str, Mailbox] = {}
        self._durables: dict[str, Mailbox] = {}
        self.cut_off: deque[Mailbox] = deque(maxlen=100)

    def __iter__(self) -> Iterator[Mailbox]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Mailbox | None:
        """Return the mailbox of a subscription."""
        return self._by_name.get(name)

    def durable(self, name: str | None) -> Mailbox | None:
        """Return the mailbox of a durable name."""
        return self._durables.get(name or "")

    def durables(self) -> list[Mailbox]:
        """Return all mailboxes with durable names."""
        return list(self._durables.values())

    def new_name(self, interest: Interest) -> str:
        """Return a name that tells a subscription from all others of this bus."""
        return interest.durable or f"{interest.selector}#{next(self._numbers)}"

    def find(self, interest: Interest, *, replace: bool) -> Mailbox | None:
        """Return the mailbox of a durable name or group, if it is there and means the same."""
        durable = self.durable(interest.durable)
        if durable is not None:
            difference = durable.interest.difference(interest)
            if difference and not replace:
                raise DurableChangedError(durable.name, difference)
            return None if difference else durable
        group = self._groups.get(interest.group or "")
        if group is not None and group.interest.durable != interest.durable:
            accepted = (
                f"that of the group, which is {group.interest.durable!r}: its members share it"
            )
            raise BadOptionError("durable", interest.durable, accepted=accepted)
        if group is not None and group.interest.context != interest.context:
            accepted = f"members that are all in {group.interest.context or 'the root'!r}"
            raise BadOptionError("group", interest.group, accepted=accepted)
        return group

    def add(self, mailbox: Mailbox) -> None:
        """Register a mailbox under its names."""
        interest = mailbox.interest
        self._by_name[mailbox.name] = mailbox
        if interest.durable is not None:
            self._durables[interest.durable] = mailbox
        if interest.group is not None:
            self._groups[interest.group] = mailbox

    def remove(self, mailbox: Mailbox) -> None:
        """Remove a mailbox from here and from the plan."""
        with self.lock:
            if self._by_name.get(mailbox.name) is mailbox:
                del self._by_name[mailbox.name]
                if isinstance(mailbox.ended, CutOffError):
                    self.cut_off.append(mailbox)
            group, durable = mailbox.interest.group or "", mailbox.interest.durable or ""
            if self._groups.get(group) is mailbox:
                del self._groups[group]
            if self._durables.get(durable) is mailbox:
                del self._durables[durable]
        self._dispatcher.remove(mailbox)

    def leave(self, consumer: Consumer) -> int:
        """Detach a consumer from its mailbox; return how many are left there."""
        mailbox = consumer.mailbox
        with self.lock:
            mailbox.state.detach(consumer)
            mailbox.state.refresh()
            left = len(mailbox.members.consumers())
            if left or mailbox.interest.durable is not None:
                self._dispatcher.change(mailbox)
        return left


def is_kept(mailbox: Mailbox) -> bool:
    """Whether a store knows a mailbox, and it has not ended."""
    return isinstance(mailbox.cursor, StoreCursor) and mailbox.ended is None


def cursor_of(mailbox: Mailbox) -> DurableCursor | None:
    """Return what keeps the cursor of a durable subscription with one consumer."""
    cursor = mailbox.cursor
    return cursor if is_kept(mailbox) and isinstance(cursor, DurableCursor) else None
