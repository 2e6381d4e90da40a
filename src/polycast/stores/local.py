"""What all stores of this process have in common: reads are complete and immediate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from polycast.runtime import check_free
from polycast.stores.values import Coverage, Draft, Letter, PushedFilter, Run

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from polycast.stores.contract import Transaction
    from polycast.stores.values import LogPage, Stray
    from polycast.typesystem import Description


def describe_all(tx: Transaction, descriptions: Sequence[Description]) -> None:
    """Store descriptions."""
    for description in descriptions:
        tx.describe(description)


def bury_astray(
    tx: Transaction,
    drafts: Sequence[Draft],
    positions: Sequence[int],
    astray: Sequence[Stray],
    now: float,
) -> None:
    """Store dead letters for appended drafts that cannot leave their context."""
    for stray in astray:
        name, position = stray.subscription, positions[stray.number]
        if not tx.count_letters(subscription=name, at=position):
            record = drafts[stray.number].at(now)
            tx.bury([Letter(0, name, position, record, stray.reason, 1, now)])


def one_by_one(drafts: Sequence[Draft | Run]) -> list[Draft]:
    """Return single drafts, with each run split into its own."""
    parts = [draft.drafts() if isinstance(draft, Run) else [draft] for draft in drafts]
    return [draft for part in parts for draft in part]


class LocalStore(ABC):
    """A store that omits nothing from reads, so it need not know what is wanted."""

    is_tended = False
    is_up = True
    trouble = None
    is_remote = False

    def check_wait(self, operation: str) -> None:
        """Raise `WouldDeadlockError` in a signal handler or finaliser that interrupts the store."""
        check_free(operation)

    @abstractmethod
    def read(
        self,
        start: int,
        *,
        limit: int = 1_000,
        until: int | None = None,
        types: Collection[int] | None = None,
        wanted_by: str | None = None,
        size: int | None = None,
    ) -> LogPage:
        """The first records from a position on."""

    def news(self, start: int, *, limit: int = 1_000, size: int | None = None) -> LogPage:
        """Read the first records from a position on."""
        return self.read(start, limit=limit, size=size)

    def want(self, name: str, definitions: Sequence[bytes]) -> Coverage:
        """Accept the declaration: nothing is omitted anyway."""
        del name, definitions
        return Coverage(1)

    def asked(self, name: str) -> list[PushedFilter]:
        """Return nothing: filters are evaluated by the subscriber only."""
        del name
        return []
