"""What the mailboxes of a bus want, as its broker is told: it sends nothing else."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from polycast.errors.failures import STORE_FAILURES
from polycast.matching import wanted_from_afar
from polycast.stores.values import NOT_KNOWN, PushedFilter

if TYPE_CHECKING:
    from polycast.delivery import Mailbox
    from polycast.stores import Store


class _Registered(NamedTuple):
    key: str
    start: int


class RemoteInterests:
    """Tells a store that selects what each mailbox wants; other stores need not know."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registered: dict[Mailbox, _Registered] = {}
        self._numbers = itertools.count(1)

    def tell(self, mailbox: Mailbox) -> None:
        """Tell the store what a mailbox wants; it selects by that from some position on."""
        if self._store.is_remote:
            # A name may be attached to again before the one before has left.
            key = self.key(mailbox) or f"{mailbox.name}#{next(self._numbers)}"
            definitions = [wanted_from_afar(interest).encoded() for interest in mailbox.interests()]
            self._registered[mailbox] = _Registered(key, self._store.want(key, definitions).start)

    def withdraw(self, mailbox: Mailbox) -> None:
        """Tell the store that a mailbox wants nothing more."""
        registered = self._registered.pop(mailbox, None)
        if registered is not None:
            self._store.want(registered.key, ())

    def key(self, mailbox: Mailbox) -> str | None:
        """Return the key by which the store knows what a mailbox wants."""
        registered = self._registered.get(mailbox)
        return None if registered is None else registered.key

    def start(self, mailbox: Mailbox) -> int:
        """Return the position from which on a mailbox is sent what is new."""
        registered = self._registered.get(mailbox)
        return 0 if registered is None else registered.start

    def pushed_filter(self, mailbox: Mailbox, number: int) -> PushedFilter | None:
        """Return the part of one of its filters that the store asks before it sends an event."""
        key = self.key(mailbox)
        if key is None:
            return None
        pushed: list[PushedFilter] = []
        if self._store.is_up:  # else the question would wait
            with suppress(*STORE_FAILURES):
                pushed = self._store.asked(key)
        return pushed[number] if number < len(pushed) else NOT_KNOWN
