"""To whom publishers and subscriptions belong, and with them buses, adverts and dead letters.

Owners of publishers and subscriptions are documents of the store, so all its brokers go by them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polycast.routing.translation import context_of_letter

if TYPE_CHECKING:
    from polycast.stores import Letter, Store, Transaction, View

__all__ = [
    "Publishers",
    "disown",
    "give_publisher",
    "give_subscription",
    "owner_of_letter",
    "owner_of_publisher",
    "owner_of_subscription",
    "sort_owners",
    "subscriptions_of",
]

PUBLISHER, SUBSCRIPTION = "owner", "subscription-owner"
"""The kinds of the documents that say to whom these belong: apart, since publishers never go."""
_PUBLISHER, _SUBSCRIPTION = "publisher/", "subscription/"  # how names begin among the first kind
_REMEMBERED = 100_000  # publishers whose owners are remembered


def owner_of_publisher(view: View, name: str) -> str | None:
    """To whom a publisher belongs; None if it belongs to nobody."""
    return _owner(view.document(PUBLISHER, f"{_PUBLISHER}{name}"))


def owner_of_subscription(view: View, name: str) -> str | None:
    """The same of a subscription, or of one that is gone and has left dead letters."""
    return _owner(view.document(SUBSCRIPTION, name))


def _owner(document: bytes | None) -> str | None:
    return None if document is None else document.decode(errors="replace")


def give_publisher(tx: Transaction, name: str, owner: str) -> None:
    """Let a publisher belong to an owner from now on."""
    tx.put_document(PUBLISHER, f"{_PUBLISHER}{name}", owner.encode())


def give_subscription(tx: Transaction, name: str, owner: str) -> None:
    """The same for a subscription."""
    tx.put_document(SUBSCRIPTION, name, owner.encode())


def sort_owners(store: Store) -> None:
    """Put those of subscriptions where they are looked for, in a store that has them elsewhere."""
    with store.view() as view:
        found = view.documents(PUBLISHER)
    stray = {key: owner for key, owner in found.items() if key.startswith(_SUBSCRIPTION)}

    def sort(tx: Transaction) -> None:
        for key, owner in stray.items():
            name = key.removeprefix(_SUBSCRIPTION)
            if tx.document(SUBSCRIPTION, name) is None:
                tx.put_document(SUBSCRIPTION, name, owner)
            tx.remove_document(PUBLISHER, key)

    if stray:
        store.write(sort).result()


def owner_of_letter(view: View, letter: Letter) -> str | None:
    """A letter belongs with its subscription; that of a context belongs to who published it."""
    if context_of_letter(letter.subscription) is not None:
        return owner_of_publisher(view, letter.record.identity.publisher)
    return owner_of_subscription(view, letter.subscription)


def subscriptions_of(view: View, owner: str) -> list[str]:
    """The names that belong to an owner: of subscriptions, and of those with letters left."""
    return [name for name, whose in view.documents(SUBSCRIPTION).items() if _owner(whose) == owner]


def disown(tx: Transaction) -> Counter[str]:
    """Forget to whom names belonged of which nothing is left; how many each owner has."""
    there = {kept.name for kept in tx.subscriptions()}
    left: Counter[str] = Counter()
    for name, owner in tx.documents(SUBSCRIPTION).items():
        if name in there or tx.count_letters(subscription=name):
            left[owner.decode(errors="replace")] += 1
        else:
            tx.remove_document(SUBSCRIPTION, name)
    return left


class Publishers:
    """Remembers to whom publishers belong, which never changes. For any thread."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def owner(self, view: View, name: str, *, is_committed: bool) -> str | None:
        """As the store has it; what is not committed yet may be undone, and is not remembered."""
        known = self._known.get(name)
        if known is not None:
            return known
        found = owner_of_publisher(view, name)
        if found is not None and is_committed:
            if len(self._known) >= _REMEMBERED:
                self._known = {}
            self._known[name] = found
        return found
