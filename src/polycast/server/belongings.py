"""To whom publishers and subscriptions belong, and with them buses, adverts and dead letters.

Owners of publishers and subscriptions are documents of the store, so all its brokers go by them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polycast.routing.borders.crossing import context_of_letter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores import Letter, Transaction, View

__all__ = [
    "OWNER",
    "Publishers",
    "disown",
    "owner_of_bus",
    "owner_of_letter",
    "owner_of_publisher",
    "owner_of_subscription",
    "publisher_key",
    "subscription_key",
    "subscriptions_of",
]

OWNER = "owner"
"""The kind of the documents that say to whom a publisher or a subscription belongs."""
_REMEMBERED = 100_000  # publishers whose owners are remembered


def publisher_key(name: str) -> str:
    """Under which a document says to whom a publisher belongs."""
    return f"publisher/{name}"


def subscription_key(name: str) -> str:
    """The same of a subscription."""
    return f"subscription/{name}"


def owner_of_publisher(view: View, name: str) -> str | None:
    """To whom a publisher belongs; None if it belongs to nobody."""
    return _owner(view, publisher_key(name))


def owner_of_subscription(view: View, name: str) -> str | None:
    """The same of a subscription, or of one that is gone and has left dead letters."""
    return _owner(view, subscription_key(name))


def owner_of_letter(view: View, letter: Letter) -> str | None:
    """A letter belongs with its subscription; that of a context belongs to who published it."""
    if context_of_letter(letter.subscription) is not None:
        return owner_of_publisher(view, letter.record.identity.publisher)
    return owner_of_subscription(view, letter.subscription)


def owner_of_bus(view: View, bus: int) -> tuple[bool, str | None]:
    """Whether a bus is there, and to whom it belongs."""
    for each in view.buses():
        if each.id == bus:
            return True, owner_of_publisher(view, each.publisher)
    return False, None


def _owner(view: View, key: str) -> str | None:
    found = view.document(OWNER, key)
    return None if found is None else found.decode(errors="replace")


def subscriptions_of(view: View, owner: str) -> list[str]:
    """The names that belong to an owner: of subscriptions, and of those with letters left."""
    return [name for name, whose in _subscriptions(view) if whose == owner]


def _subscriptions(view: View) -> Iterator[tuple[str, str]]:
    prefix = subscription_key("")
    for key, owner in view.documents(OWNER).items():
        if key.startswith(prefix):
            yield key.removeprefix(prefix), owner.decode(errors="replace")


def disown(tx: Transaction) -> Counter[str]:
    """Forget to whom names belonged of which nothing is left; how many each owner has."""
    there = {kept.name for kept in tx.subscriptions()}
    left: Counter[str] = Counter()
    for name, owner in _subscriptions(tx):
        if name in there or tx.count_letters(subscription=name):
            left[owner] += 1
        else:
            tx.remove_document(OWNER, subscription_key(name))
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
