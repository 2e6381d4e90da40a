"""The dead letters of a bus over a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.delivery import DeadLetter, DeadLetters
from polycast.delivery.keeping import OUTLIVING, letter_of, outliving
from polycast.delivery.replaying import REPLAYED
from polycast.errors import StoreError
from polycast.events import encode_record
from polycast.stores import Flight, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.stores import Entry, Letter, Store, Transaction

__all__ = ["REPLAYED", "StoredLetters", "fly_again"]

PAGE = 500


class StoredLetters(DeadLetters):
    """All dead letters of a store, whichever bus they come from; kept until they are purged."""

    def __init__(
        self,
        store: Store,
        entry: Callable[[Stored], Entry],
        post: Callable[[list[DeadLetter]], list[DeadLetter]],
        is_here: Callable[[DeadLetter], bool],
    ) -> None:
        super().__init__(keep=0, post=post)
        self._store, self._entry, self._is_here = store, entry, is_here

    def __len__(self) -> int:
        try:
            with self._store.view() as view:
                return view.count_letters()
        except StoreError:  # nothing can be told of a store that is closed or gone
            return 0

    def __iter__(self) -> Iterator[DeadLetter]:
        after, more = 0, True
        while more:
            with self._store.view() as view:
                page = view.letters(after=after, limit=PAGE)
            yield from map(self._letter, page)
            more = len(page) == PAGE
            after = page[-1].number if page else after

    def _letter(self, kept: Letter) -> DeadLetter:
        entry = self._entry(Stored(kept.position, kept.record))
        return DeadLetter(
            entry, kept.subscription, kept.reason, None, kept.attempts, kept.time, kept.number
        )

    def add(self, letter: DeadLetter) -> None:
        """Keep one more, of a subscription that the store does not know."""
        kept = letter_of(letter)
        self._store.write(lambda tx: tx.bury([kept]))

    def replay(self, *letters: DeadLetter) -> int:
        """Give these, or all, to their subscriptions once more; how many went.

        A subscription that is not attached here finds them when it next is, wherever that is.
        """
        chosen = list(letters or self)
        rows = [(e.number, e.subscription, e.position, e.identity.publisher) for e in chosen]
        flown = self._store.write(lambda tx: fly_again(tx, rows)).result()
        numbers = [each.number for each in chosen if self._is_here(each)]
        # Taken out first, so that nobody else replays it; its subscription ends with this process.
        taken = self._store.write(lambda tx: tx.exhume(numbers)).result()
        local = [self._letter(each) for each in taken]
        went = {each.number for each in self._post(local)}
        left = [each for each in taken if each.number not in went]
        if left:
            self._store.write(lambda tx: tx.bury(left)).result()
        return len(flown) + len(went)

    def purge(self, *letters: DeadLetter) -> int:
        """Throw these, or all, away; how many went."""
        numbers = [each.number for each in letters or self]
        return len(self._store.write(lambda tx: tx.exhume(numbers)).result())


def fly_again(tx: Transaction, letters: Iterable[tuple[int, str, int, str]]) -> set[int]:
    """Let what the store keeps of their subscriptions know; the numbers of those that went.

    A letter is its number, its subscription, and the position and publisher of its event.
    """
    oldest, went = tx.oldest(), set()
    for number, subscription, position, publisher in letters:
        kept = tx.subscription(subscription)
        found = [] if kept is None else tx.exhume([number])
        for letter in found:
            tx.put_document(REPLAYED, subscription, b"")
            token = tx.revision() + 1  # higher than that of anybody who had claimed it
            tx.fly([Flight(subscription, position, publisher, token=token)])
            if position < oldest:  # the log has let go of it, the letter has not
                body = encode_record(letter.record)
                tx.put_document(OUTLIVING, outliving(subscription, position), body)
            went.add(number)
    return went
