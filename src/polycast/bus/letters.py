"""The dead letters of a bus over a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.delivery import DeadLetter, DeadLetters
from polycast.delivery.keeping import OUTLIVING, letter_of, outliving
from polycast.delivery.replaying import REPLAYED
from polycast.errors import StoreError
from polycast.events import encode_record
from polycast.matching import Definition
from polycast.routing.crossing import context_of_letter
from polycast.routing.history import place_of
from polycast.stores import Flight, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.stores import Entry, Kept, Letter, Store, Transaction

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
        mine = [
            each for each in chosen if self._is_here(each) or context_of_letter(each.subscription)
        ]
        numbers = [each.number for each in mine if each.number not in flown]
        # Taken out first, so that nobody else replays it; its subscription ends with this process.
        taken = self._store.write(lambda tx: tx.exhume(numbers)).result()
        local = [self._letter(each) for each in taken]
        local += [each for each in mine if each.number in flown]  # of a context, for others in it
        went = {each.number for each in self._post(local)}
        left = [each for each in taken if each.number not in went]
        if left:
            self._store.write(lambda tx: tx.bury(left)).result()
        return len(flown | went)

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
        takers = _takers(tx, number, subscription, position)
        for letter in tx.exhume([number]) if takers else []:
            for name in takers:
                if name != subscription and place_of(tx, takers[name]).fate(position) != "goes":
                    continue  # it gets there anyway
                tx.put_document(REPLAYED, name, b"")
                token = tx.revision() + 1  # higher than that of anybody who had claimed it
                tx.fly([Flight(name, position, publisher, token=token)])
                if position < oldest:  # the log has let go of it, the letter has not
                    body = encode_record(letter.record)
                    tx.put_document(OUTLIVING, outliving(name, position), body)
            went.add(number)
    return went


def _takers(tx: Transaction, number: int, subscription: str, position: int) -> dict[str, Kept]:
    """Who is to have the event of a letter: its subscription, or all in its context."""
    kept = tx.subscription(subscription)
    if kept is not None:
        return {subscription: kept}
    context = context_of_letter(subscription)
    found = [] if context is None else tx.letters(after=number - 1, limit=1)
    if not found or found[0].record.context == context:
        return {}  # it could not leave its context, so the log does not have what others would see
    return {
        each.name: each
        for each in tx.subscriptions()
        if each.start <= position and Definition.decoded(each.definition).context == context
    }
