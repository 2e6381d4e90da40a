"""What outlives the process of a subscription: its cursor and what is in flight."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.errors import BrokerRefusedError, NotSettledError, StoreError
from polycast.plain_text import log_of
from polycast.stores import Entry, Flight, Letter, Mark, Store, Transaction
from polycast.stores.claims import forget_outliving
from polycast.stores.liveness import wall_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.delivery.dead_letters import DeadLetter, DeadLetters
    from polycast.delivery.queue import Attempt
    from polycast.events import Record

_log = log_of("polycast")

TOKENS = 1 << 32  # deliveries that one attachment can number
LEAST_AHEAD = 64  # positions, at least, that are written ahead
FACTOR_AHEAD = 8  # how many times as far as the last save took it
MOST_AHEAD = 1 << 20
CAREFUL = 256  # attempts at what is doubted are noted before they begin, after who has died


class Fenced(Exception):
    """Somebody else has attached: what this one says does not count any more."""


class Cursor:
    """Keeps nothing: for subscriptions that end with their process. All is called under a lock."""

    doubt = 0  # what is before this position may have been begun by who had it before

    def fence(self, attempt: Attempt) -> int:
        """What the token of a delivery is higher than."""
        del attempt
        return 0

    def enqueued(self, attempt: Attempt) -> None:
        """It waits, or goes on waiting."""

    def begin(self, attempt: Attempt) -> bool:
        """Its callback is about to be called; whether it may be. No lock is held."""
        del attempt
        return True

    def leave_begun(self, attempt: Attempt) -> None:
        """It is begun, and whoever attaches next has it, too."""

    def done(self, attempt: Attempt) -> None:
        """It needs no further attempt."""

    def redelivers(self, attempt: Attempt, delay: float) -> None:
        """It failed, and waits for another attempt."""

    def buried(self, letter: DeadLetter, letters: DeadLetters) -> None:
        """It is a dead letter."""
        letters.add(letter)

    def postpone(self) -> None:
        """Save nothing of what is said until `resume`: a `confirm` follows, which saves it."""

    def resume(self) -> None:
        """Save again what is said, after `postpone`."""

    def confirm(self, action: str, attempt: Attempt | None = None) -> None:
        """Return when what was said is kept. No lock is held."""


NOTHING_KEPT = Cursor()
"""For all subscriptions that end with their process: it has nothing of its own."""


class StoreCursor(Cursor):
    """Tells a store what became of events, a group of them at a time, without waiting for it."""

    def __init__(self, name: str, store: Store, clock: Clock, fenced: Callable[[], None]) -> None:
        self.name, self.store, self.clock = name, store, clock
        self._fenced = fenced
        self.lock = threading.RLock()
        self._letters: list[Letter] = []
        self._saving = False
        self._dirty = False
        self._postponed = 0  # how many are about to confirm what they say
        self.fenced = False

    def buried(self, letter: DeadLetter, letters: DeadLetters) -> None:
        """The letter is kept in the transaction that says that it is done."""
        del letters
        with self.lock:
            self._letters.append(letter_of(letter))
            self._settled(letter.position)
        self.save_soon()

    def _settled(self, position: int) -> None:
        """It needs no further attempt. The lock is held."""

    def _save(self, tx: Transaction) -> None:
        """Write down what has changed since."""

    # -- saving ------------------------------------------------------------------------------------

    def save_soon(self) -> None:
        """See to it that all is saved; what comes while that is under way goes with the next."""
        with self.lock:
            if self._postponed:
                return
            self._dirty = True
            if self._saving or self.fenced:
                return
            self._saving, self._dirty = True, False
        self.store.write(self._saving_work()).add_done_callback(self._saved)

    def postpone(self) -> None:
        """Leave saving to the `confirm` that follows: one acknowledgement is one commit."""
        with self.lock:
            self._postponed += 1

    def resume(self) -> None:
        """Save again what is said, after `postpone`."""
        with self.lock:
            self._postponed -= 1

    def _saving_work(self) -> Callable[[Transaction], object]:
        """What saves it, as a transaction of its own."""
        return self.save

    def save(self, tx: Transaction) -> None:
        """Write down all that was said, in a transaction of somebody else."""
        self._save(tx)
        with self.lock:
            letters = list(self._letters)
        if letters:
            tx.bury(letters)
            tx.after(lambda: self._buried(len(letters)))

    def _buried(self, count: int) -> None:
        with self.lock:
            del self._letters[:count]

    def _saved(self, saving: Future[object]) -> None:
        error = saving.exception()
        with self.lock:
            self._saving = False
            again = self._dirty
            if isinstance(error, Fenced):
                self.fenced = True
        if isinstance(error, Fenced):
            self._fenced()
        # What a broker refuses, no failure of the store tells.
        elif isinstance(error, BrokerRefusedError) or not isinstance(error, StoreError | None):
            _log.error("saving the place of %s failed", self.name, exc_info=error)
        elif again and error is None:
            self.save_soon()

    def release(self, tx: Transaction) -> None:
        """Save, and let go of the name: whoever attaches next finds all in order."""
        with suppress(Fenced):
            self.save(tx)
            self._detach(tx)

    def remove(self, tx: Transaction) -> None:
        """Save what became dead letters, and forget the rest."""
        with suppress(Fenced):
            self.save(tx)
            tx.remove(self.name)

    def _detach(self, tx: Transaction) -> None:
        """It is attached here no more."""

    def confirm(self, action: str, attempt: Attempt | None = None) -> None:
        """Wait until all that was said so far is on disk."""
        del attempt
        try:
            self.store.write(self._saving_work()).result()
        except Fenced:
            self.fenced = True
            self._fenced()
            why = "its subscription was taken over, so the event is somebody else's"
            raise NotSettledError(action, why=why) from None


class HighWaterMark:
    """Nothing from `limit` on is begun. It moves on with what is saved anyway, before it is met.

    Its keeper's lock guards all but `limit`.
    """

    def __init__(self, start: int) -> None:
        self.limit = first_limit(start)  # as the store has it
        self._base = self._needed = start
        self._ahead = LEAST_AHEAD
        self._is_left = False

    def need(self, position: int) -> None:
        """Somebody waits to begin what is at a position."""
        self._needed = max(self._needed, position + 1)

    def leave(self) -> None:
        """Nothing more is begun."""
        self._is_left = True

    def next(self, handled: int) -> int:
        """Where it is to be once more is saved; what is before `handled` is done with."""
        if self._is_left:
            return self.limit
        base = max(self._base, self._needed, handled)
        self._ahead = max(
            LEAST_AHEAD, min(MOST_AHEAD, FACTOR_AHEAD * (base - self._base)), self._ahead * 3 // 4
        )
        self._base = base
        return self.limit if base + self._ahead // 2 <= self.limit else base + self._ahead


def first_limit(start: int) -> int:
    """Where it is when somebody attaches."""
    return start + LEAST_AHEAD


class DurableCursor(StoreCursor):
    """For a durable subscription that one consumer at a time is attached to."""

    def __init__(
        self,
        name: str,
        store: Store,
        clock: Clock,
        fenced: Callable[[], None],
        *,
        number: int,
        cursor: int,
        position: Callable[[], int],
        doubt: int,
        unclean: bool,
    ) -> None:
        super().__init__(name, store, clock, fenced)
        self.number, self.doubt = number, doubt
        self._high_water = HighWaterMark(cursor)
        self._position = position  # all before it that is wanted has been taken
        self._careful = CAREFUL
        self._wary = doubt if unclean else 0  # before this may be what kills whoever has it
        self._open: dict[int, None] = {}  # taken and not done
        self._noted: dict[int, Flight] = {}  # of these, what has been tried, or is in the store
        self._until: dict[int, float] = {}  # when what waits is due, by the monotonic clock
        self._rows: dict[int, Flight] = {}  # what is in the store
        self._top = self._saved_at = cursor  # after the last that is done; as the store has it
        self._sorted = True  # whether the first that is open came first

    def fence(self, attempt: Attempt) -> int:
        """Whoever attaches later gives higher ones."""
        del attempt
        return self.number * TOKENS

    def restore(self, flights: Sequence[Flight]) -> None:
        """What the store has of it."""
        with self.lock:
            for flight in flights:
                self._rows[flight.position] = self._noted[flight.position] = flight

    def knows(self, position: int) -> bool:
        """Whether it is under way, or was so when it was last saved."""
        with self.lock:
            return position in self._open or position in self._rows

    def enqueued(self, attempt: Attempt) -> None:
        """It waits: the cursor does not pass it without a note."""
        position = attempt.entry.position
        with self.lock:
            if self._open and position < next(reversed(self._open)):
                self._sorted = False
            self._open[position] = None

    def begin(self, attempt: Attempt) -> bool:
        """Not before the store knows that it may be; after a holder that has died it is noted."""
        if self._wary <= attempt.entry.position < self._high_water.limit:
            return not self.fenced
        return self._begin_noted(attempt)

    def _begin_noted(self, attempt: Attempt) -> bool:
        position = attempt.entry.position
        with self.lock:
            self._high_water.need(position)
            if position < self._wary:
                self._note(attempt, 0.0)
                self._careful -= 1
                if not self._careful:
                    self._wary = 0
        with suppress(NotSettledError, StoreError):  # it is not begun, or who calls finds that out
            self.confirm("begin")
        return position < self._high_water.limit and not self.fenced

    def leave_begun(self, attempt: Attempt) -> None:
        """Whoever attaches next is told that it was begun."""
        self._note(attempt, 0.0)

    def done(self, attempt: Attempt) -> None:
        """The cursor may pass it."""
        with self.lock:
            self._settled(attempt.entry.position)
        self.save_soon()

    def redelivers(self, attempt: Attempt, delay: float) -> None:
        """It is noted, with when it is due."""
        self._note(attempt, self.clock.time() + delay)
        with self.lock:
            self._until[attempt.entry.position] = self.clock.monotonic() + delay
        self.save_soon()

    def clock_stepped(self) -> None:
        """Somebody has set the wall clock: what waits for another attempt waits as long as ever."""
        offset = wall_offset(self.clock)
        with self.lock:
            waiting = self._until.keys() & self._noted.keys()
            for at in waiting:
                self._noted[at] = replace(self._noted[at], due=self._until[at] + offset)
        if waiting:
            self.save_soon()

    def _note(self, attempt: Attempt, due: float) -> None:
        position = attempt.entry.position
        with self.lock:
            self._noted[position] = Flight(
                self.name, position, attempt.publisher, attempts=attempt.count, due=due
            )

    def _settled(self, position: int) -> None:
        self._open.pop(position, None)
        self._noted.pop(position, None)
        self._until.pop(position, None)
        self._top = max(self._top, position + 1)
        self._sorted = self._sorted or not self._open

    def cursor(self) -> tuple[int, dict[int, Flight]]:
        """The position to go on from, and what before it is not done. The lock is held."""
        if not self._open:
            return max(self._top, self._position()), dict(self._noted)
        first = next(iter(self._open)) if self._sorted else min(self._open)
        cursor = max(first, self._top, max(self._noted, default=0) + 1)
        before = dict(self._noted)
        for position in self._open:
            if position < cursor:
                if position not in before:
                    before[position] = Flight(self.name, position)
            elif self._sorted:
                break
        return cursor, before

    def has_moved(self) -> bool:
        """Whether it has come farther than the store knows."""
        with self.lock:
            return self.cursor()[0] > self._saved_at

    def forget(self, position: int) -> None:
        """It is wanted no more."""
        with self.lock:
            self._settled(position)

    def release(self, tx: Transaction) -> None:
        """Save, and say goodbye."""
        with self.lock:
            self._high_water.leave()
        super().release(tx)

    def _detach(self, tx: Transaction) -> None:
        kept = tx.subscription(self.name)
        if kept is not None:
            tx.save(replace(kept, holder=None))
            tx.fly([Mark(0, self.doubt).flight(self.name)])

    def _save(self, tx: Transaction) -> None:
        with self.lock:
            cursor, rows = self.cursor()
            limit = self._high_water.next(max(cursor, self._top))
            changed = [flight for at, flight in rows.items() if self._rows.get(at) != flight]
            gone = self._rows.keys() - rows.keys()
        if not tx.move(self.name, token=self.number, cursor=cursor):
            raise Fenced
        if limit != self._high_water.limit:
            tx.fly([Mark(limit, self.doubt).flight(self.name)])
        if changed:
            tx.fly(changed)
        if gone:
            tx.land(self.name, gone)
            forget_outliving(tx, self.name, gone)

        def keep() -> None:
            with self.lock:
                self._rows, self._saved_at = rows, cursor
                self._high_water.limit = limit

        tx.after(keep)


def letter_of(letter: DeadLetter) -> Letter:
    """A dead letter as a store keeps it."""
    return Letter(
        0,
        letter.subscription,
        letter.position,
        record_of(letter.entry),
        letter.reason,
        letter.attempts,
        letter.time,
    )


def record_of(entry: Entry) -> Record:
    """The record that an entry was read from."""
    record = entry.record
    assert record is not None  # it was read from a store
    return record
