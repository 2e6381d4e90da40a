"""The dead letters of a bus over a store."""

from __future__ import annotations

import dataclasses
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.delivery import DeadLetter, DeadLetters
from polycast.delivery.cursors import letter_of, record_of
from polycast.delivery.replay import Passed, announce
from polycast.errors import AccessDeniedError, BrokerRefusedError
from polycast.errors.failures import STORE_FAILURES
from polycast.events import Record, Root, encode_record
from polycast.matching import Definition
from polycast.plain_text import log_of
from polycast.routing.search import place_of
from polycast.routing.translation import TranslationFailed, context_of_letter, reason_of
from polycast.stores import Flight, Letter, Store, Stored, StoredSubscription, Transaction
from polycast.stores.claims import OUTLIVING, outliving
from polycast.subscriptions.subscription_registry import MailboxTable, is_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.routing import RecordRouter, StorePublisher

    Replay = Callable[[list[DeadLetter]], tuple[list[DeadLetter], list[DeadLetter]]]

PAGE = 500
_log = log_of("polycast")


class StoredLetters(DeadLetters):
    """All dead letters of a store, whichever bus they come from; kept until they are purged."""

    def __init__(
        self,
        store: Store,
        router: RecordRouter,
        publisher: StorePublisher,
        clock: Clock,
        *,
        pending: set[Future[None]],
        post: Replay,
        mailboxes: MailboxTable,
        wait_until_brought: Callable[[int], None],
    ) -> None:
        super().__init__(keep=0, post=post)
        self._store, self._clock, self._router = store, clock, router
        self._publisher, self._pending = publisher, pending  # what flush() waits for
        self._mailboxes, self._wait_until_brought = mailboxes, wait_until_brought

    def __len__(self) -> int:
        if not self._store.is_up:
            return 0
        try:
            with self._store.view() as view:
                return view.count_letters()
        except STORE_FAILURES:  # nothing can be told of a store that is closed or gone
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
        entry = self._router.entry(Stored(kept.position, kept.record))
        return DeadLetter(
            entry, kept.subscription, kept.reason, None, kept.attempts, kept.time, kept.number
        )

    def add(self, letter: DeadLetter) -> None:
        """Keep one more, of a subscription that the store does not know."""
        kept = letter_of(letter)
        burying = self._store.write(lambda tx: tx.bury([kept]))
        self._pending.add(burying)
        burying.add_done_callback(self._pending.discard)
        burying.add_done_callback(partial(_told, letter.subscription))

    def replay(self, *letters: DeadLetter) -> int:
        """Give these, or all, to their subscriptions once more; how many went.

        A subscription that is not attached here finds them when it next is, wherever that is. An
        event that could not leave its context goes if it now can: all in others can have it then.
        """
        chosen = list(letters or self)
        roots = {
            letter.number: root for letter in chosen if (root := self._root_of(letter)) is not None
        }
        chosen = [letter for letter in chosen if letter.number in roots or not _is_stuck(letter)]
        rows = [(e.number, e.subscription, e.position, e.identity.publisher) for e in chosen]
        flown = self._store.write(lambda tx: fly_again(tx, rows, roots)).result()
        mine = [letter for letter in chosen if self._is_for_here(letter)]
        numbers = [letter.number for letter in mine if letter.number not in flown]
        # Taken out first, so that nobody else replays it; its subscription ends with this process.
        taken = self._store.write(lambda tx: tx.exhume(numbers)).result()
        local = [self._letter(kept) for kept in taken]
        # Of a context, for others in it, or in others.
        local += [
            self._with(letter, roots.get(letter.number))
            for letter in mine
            if letter.number in flown
        ]
        posted, stay = self._post(local)
        went = {letter.number for letter in posted}
        left = [letter_of(letter) for letter in stay if letter.number not in flown]
        if left:
            self._store.write(lambda tx: tx.bury(left)).result()
        return len(flown | went)

    def _is_for_here(self, letter: DeadLetter) -> bool:
        """Whether it is of a context, or of a subscription here that the store does not know."""
        mailbox = self._mailboxes.get(letter.subscription)
        is_of_context = context_of_letter(letter.subscription) is not None
        return is_of_context or (mailbox is not None and not is_kept(mailbox))

    def _root_of(self, letter: DeadLetter) -> Root | None:
        """What an event that could not leave its context is in the root now; else why not."""
        if not _is_stuck(letter):
            return None
        self._wait_until_brought(letter.position)
        try:
            return self._publisher.root_now(Stored(letter.position, record_of(letter.entry)))
        except TranslationFailed as failure:
            reason, now = reason_of(failure.error), self._clock.time()

            def note(tx: Transaction) -> None:
                for kept in tx.exhume([letter.number]):
                    tries = kept.attempts + 1
                    tx.bury([replace(kept, reason=reason, attempts=tries, time=now)])

            self._store.write(note).result()
            return None

    def _with(self, letter: DeadLetter, root: Root | None) -> DeadLetter:
        if root is None:
            return letter
        record = replace(record_of(letter.entry), root=root)
        entry = self._router.entry(Stored(letter.position, record))
        return dataclasses.replace(letter, entry=entry)

    def purge(self, *letters: DeadLetter) -> int:
        """Throw these, or all, away; how many went."""
        numbers = [letter.number for letter in letters or self]
        return len(self._store.write(lambda tx: tx.exhume(numbers)).result())


def _told(subscription: str, burying: Future[None]) -> None:
    """Nobody waits for it: what a broker refuses would be lost without a word."""
    error = burying.exception()
    if isinstance(error, BrokerRefusedError | AccessDeniedError):
        _log.error("a dead letter of %s was not kept: %s", subscription, error)


def _is_stuck(letter: DeadLetter) -> bool:
    """Whether it is of an event that could not leave its context."""
    record, context = letter.entry.record, context_of_letter(letter.subscription)
    return record is not None and context is not None and _has_no_way(record, context)


def _has_no_way(record: Record, context: str) -> bool:
    return record.context == context and record.root is None


def fly_again(
    tx: Transaction,
    letters: Iterable[tuple[int, str, int, str]],
    roots: Mapping[int, Root] = MappingProxyType({}),
) -> set[int]:
    """Let what the store keeps of their subscriptions know; the numbers of those that went.

    A letter is its number, its subscription, and the position and publisher of its event. Those
    that could not leave their contexts, and now can, have roots; the log has them from now on.
    """
    oldest, went = tx.oldest(), set()
    for number, subscription, position, publisher in letters:
        root = roots.get(number)
        recipients = _recipients(tx, number, subscription, position, root)
        for letter in tx.exhume([number]) if recipients or root is not None else []:
            record = letter.record
            if root is not None:
                record = replace(record, root=root)
                tx.give_root(position, root)
            for name, kept in recipients.items():
                fate = "goes" if name == subscription else place_of(tx, kept).fate(position)
                if fate == "comes" and kept.group:
                    fate = "goes"  # whoever finds it in the log cannot claim it a second time
                if fate == "comes":
                    # It gets there anyway, unless it has come farther than the store knows.
                    announce(tx, name, Passed(position, publisher, kept.token))
                if fate != "goes":
                    continue
                announce(tx, name)
                token = tx.revision() + 1  # higher than that of anybody who had claimed it
                tx.fly([Flight(name, position, publisher, token=token)])
                if position < oldest:  # the log has let go of it, the letter has not
                    body = encode_record(record)
                    tx.put_document(OUTLIVING, outliving(name, position), body)
            went.add(number)
    return went


def _recipients(
    tx: Transaction, number: int, subscription: str, position: int, root: Root | None
) -> dict[str, StoredSubscription]:
    """Who is to have the event of a letter: its subscription, or all in its context.

    If it could not leave its context, all in others, now that it can.
    """
    kept = tx.subscription(subscription)
    if kept is not None:
        return {subscription: kept}
    context = context_of_letter(subscription)
    letters = [] if context is None else tx.letters(after=number - 1, limit=1)
    if context is None or not letters:
        return {}
    if root is None and _has_no_way(letters[0].record, context):
        return {}  # the log does not have what others would see
    there = [kept for kept in tx.subscriptions() if kept.start <= position]
    return {
        kept.name: kept
        for kept in there
        if (Definition.decoded(kept.definition).context == context) is (root is None)
    }
