"""Who owns what is in a store: publishers and subscriptions, by documents.

Buses, adverts and dead letters belong to whoever owns their publisher or subscription.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polycast.routing.translation import context_of_letter

if TYPE_CHECKING:
    from polycast.stores import Letter, Store, Transaction, View

PUBLISHER, SUBSCRIPTION = "owner", "subscription-owner"
"""The kinds of documents with their owners: two, since publishers are never deleted."""
_PUBLISHER, _SUBSCRIPTION = "publisher/", "subscription/"  # prefixes of names of the first kind
_CACHED = 100_000  # owners of publishers that are cached


def owner_of_publisher(view: View, name: str) -> str | None:
    """The owner of a publisher; None if it has none."""
    return _owner(view.document(PUBLISHER, f"{_PUBLISHER}{name}"))


def owner_of_subscription(view: View, name: str) -> str | None:
    """The owner of a subscription, or of the dead letters that a removed one has left."""
    return _owner(view.document(SUBSCRIPTION, name))


def _owner(document: bytes | None) -> str | None:
    return None if document is None else document.decode(errors="replace")


def set_publisher_owner(tx: Transaction, name: str, owner: str) -> None:
    """Set the owner of a publisher."""
    tx.put_document(PUBLISHER, f"{_PUBLISHER}{name}", owner.encode())


def set_subscription_owner(tx: Transaction, name: str, owner: str) -> None:
    """Set the owner of a subscription."""
    tx.put_document(SUBSCRIPTION, name, owner.encode())


def migrate_owners(store: Store) -> None:
    """Move the owners of subscriptions to their own kind, in a store of an earlier version."""
    with store.view() as view:
        owners = view.documents(PUBLISHER)
    stray = {key: owner for key, owner in owners.items() if key.startswith(_SUBSCRIPTION)}

    def move(tx: Transaction) -> None:
        for key, owner in stray.items():
            name = key.removeprefix(_SUBSCRIPTION)
            if tx.document(SUBSCRIPTION, name) is None:
                tx.put_document(SUBSCRIPTION, name, owner)
            tx.remove_document(PUBLISHER, key)

    if stray:
        store.write(move).result()


def owner_of_letter(view: View, letter: Letter) -> str | None:
    """The owner of a dead letter: of its subscription, or for a context of its publisher."""
    if context_of_letter(letter.subscription) is not None:
        return owner_of_publisher(view, letter.record.identity.publisher)
    return owner_of_subscription(view, letter.subscription)


def subscriptions_of(view: View, owner: str) -> list[str]:
    """The subscriptions of an owner, and removed ones that have left dead letters."""
    return [name for name, body in view.documents(SUBSCRIPTION).items() if _owner(body) == owner]


def forget_owners(tx: Transaction) -> Counter[str]:
    """Forget the owners of names of which nothing is left; how many names each owner has."""
    there = {kept.name for kept in tx.subscriptions()}
    left: Counter[str] = Counter()
    for name, owner in tx.documents(SUBSCRIPTION).items():
        if name in there or tx.count_letters(subscription=name):
            left[owner.decode(errors="replace")] += 1
        else:
            tx.remove_document(SUBSCRIPTION, name)
    return left


class PublisherOwners:
    """A cache of the owners of publishers, which never change. For any thread."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def owner(self, view: View, name: str, *, is_committed: bool) -> str | None:
        """The owner of a publisher; one that is not committed yet is not cached."""
        known = self._known.get(name)
        if known is not None:
            return known
        owner = owner_of_publisher(view, name)
        if owner is not None and is_committed:
            if len(self._known) >= _CACHED:
                self._known = {}
            self._known[name] = owner
        return owner
