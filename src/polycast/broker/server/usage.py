"""How much of its quota each owner uses."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from polycast.broker.server.counters import Tally
from polycast.broker.server.publisher_owners import subscriptions_of
from polycast.errors import LimitReachedError
from polycast.stores.values import size_of_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.broker.server.access import Identified
    from polycast.broker.server.quotas import Quota
    from polycast.config import Clock
    from polycast.events import Record
    from polycast.stores import Run, Store, Stray, Transaction

__all__ = ["Usage", "Using", "size_of", "size_of_run"]

USAGE = "usage"
"""The kind of the documents that say how many bytes an owner has stored on a day."""
DAY = 24 * 3600.0
HELD = ("connections", "subscriptions", "types")
"""What connections have; of types, those that are private to them."""
STORED = ("durable", "buses", "adverts")
"""What is in the store."""
HEAD = 200  # bytes that an event takes besides its contents


class _Day(msgspec.Struct, frozen=True):
    """Bytes that an owner has stored on a day."""

    day: int
    events: int = 0
    letters: int = 0

    def plus(self, day: int, events: int, letters: int) -> _Day:
        """With some more; what is of a day before that does not count any more."""
        if self.day > day:
            return self
        before = self if self.day == day else _Day(day)
        return _Day(day, before.events + events, before.letters + letters)


_NEVER = _Day(0)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Day).decode


def size_of(record: Record) -> int:
    """About how many bytes a store keeps for an event."""
    root = 0 if record.root is None else len(record.root.payload)
    around = size_of_context(record.topic, record.context, record.headers)
    return HEAD + len(record.payload) + root + around


def size_of_run(run: Run) -> int:
    """The same of all events of a run: each is kept with what they have in common."""
    return run.size(HEAD)


class Usage:
    """What owners have, as far as one broker knows; it may be asked in any thread.

    The bytes of a day are kept in the store when `save` is called, so that they outlive the broker
    and brokers over one store share them. Names are counted in the store.
    """

    def __init__(self, store: Store, clock: Clock, quota_of: Callable[[str], Quota]) -> None:
        self._store, self._clock, self._quota_of = store, clock, quota_of
        self.held: dict[str, Counter[str]] = {each: Counter() for each in HELD}
        """By what and by owner, what connections have. In the thread of the loop."""
        self._lock = threading.Lock()
        self.stored = {each: Tally(clock) for each in STORED}
        """The same in the store."""
        self._days: dict[str, _Day] = {}  # what the store says
        self._since: dict[str, _Day] = {}  # what it does not know yet

    def quota(self, who: Identified) -> Quota | None:
        """That of whoever has a token; None for admins, and where there are no tokens."""
        if who.owner is None or who.rights.admin:
            return None
        return self._quota_of(who.owner)

    def check(self, who: Identified, code: str, used: int, more: int) -> None:
        """Raises `LimitReachedError` if somebody would have more of something than is allowed."""
        quota = self.quota(who)
        limit = None if quota is None else getattr(quota, code)
        if limit is not None and used + more > limit:
            raise _reached(who, code, limit, used, more)

    # -- what is in the store ----------------------------------------------------------------------

    def begin(self) -> None:
        """A transaction begins; what the last one would have added, it has or never will."""
        for each in self.stored.values():
            each.begin()

    def add(self, tx: Transaction, who: Identified, code: str, count: Callable[[], int]) -> None:
        """Raises `LimitReachedError` for one more in the store than the owner may have."""
        quota, owner = self.quota(who), who.owner
        if quota is None or owner is None:
            return
        limit = getattr(quota, code)
        used = self.stored[code].add(tx, owner, limit=limit, count=count)
        if used >= limit:
            raise _reached(who, code, limit, used, 1)

    def add_durable(self, tx: Transaction, who: Identified, name: str) -> None:
        """The same for a name of a durable subscription, or of one with dead letters."""
        owner = who.owner or ""
        self.add(tx, who, "durable", lambda: len(set(subscriptions_of(tx, owner)) - {name}))

    def count(self, names: Counter[str]) -> None:
        """How many names each owner has in the store."""
        self.stored["durable"].set_all(names)

    # -- bytes -------------------------------------------------------------------------------------

    def add_runs(self, who: Identified, runs: Sequence[Run], astray: Sequence[Stray] = ()) -> None:
        """Raises `LimitReachedError` for events that are more than may be stored on a day.

        Those that are astray are dead letters, too.
        """
        quota = self.quota(who)
        if quota is None or quota.bytes_per_day is None:
            return
        size, count = sum(map(size_of_run, runs)), sum(len(run.payloads) for run in runs)
        letters = sum(len(each.reason) + size // count for each in astray)
        self._check_bytes(who, "events", quota.bytes_per_day, size)
        self._check_bytes(who, "letters", quota.bytes_per_day, letters)
        self._add(who.owner or "", size, letters)

    def add_letters(self, tx: Transaction, who: Identified, size: int) -> None:
        """The same for bytes of dead letters, which have as much room by themselves.

        So who has published all that he may can still say what he has handled.
        """
        quota = self.quota(who)
        if quota is not None and quota.bytes_per_day is not None:
            self._check_bytes(who, "letters", quota.bytes_per_day, size)
            tx.after(lambda: self._add(who.owner or "", 0, size))

    def _check_bytes(self, who: Identified, of: str, limit: int, size: int) -> None:
        self._load(who.owner or "")
        with self._lock:
            used = getattr(self._used(who.owner or ""), of)
        if used + size > limit:
            raise _reached(who, "bytes_per_day", limit, used, size, of=of)

    def _add(self, owner: str, events: int, letters: int) -> None:
        with self._lock:
            before = self._since.get(owner, _NEVER)
            self._since[owner] = before.plus(self._today(), events, letters)

    def _load(self, owner: str) -> None:
        """Know what the store knows; before the lock, which the thread that writes it may want."""
        if owner not in self._days:
            with self._store.view() as view:
                body = view.document(USAGE, owner)
            self._days.setdefault(owner, _NEVER if body is None else _decode(body))

    def _today(self) -> int:
        return int(self._clock.time() // DAY)

    def _used(self, owner: str) -> _Day:
        """Today, as far as it is known here. The lock is held."""
        found = _Day(self._today())
        for each in (self._days.get(owner, _NEVER), self._since.get(owner, _NEVER)):
            if each.day == found.day:
                found = found.plus(each.day, each.events, each.letters)
        return found

    def save(self) -> None:
        """Tell the store what it does not know yet. Not in the thread that writes it."""
        with self._lock:
            new = {owner: each for owner, each in self._since.items() if each != _Day(each.day)}
        if new:
            self._store.write(lambda tx: self._save(tx, new)).result()

    def _save(self, tx: Transaction, new: dict[str, _Day]) -> None:
        told: dict[str, _Day] = {}
        for owner, each in new.items():
            body = tx.document(USAGE, owner)
            before = _NEVER if body is None else _decode(body)
            told[owner] = before.plus(each.day, each.events, each.letters)
            tx.put_document(USAGE, owner, _encode(told[owner]))
        tx.after(lambda: self._saved(told, new))

    def _saved(self, told: dict[str, _Day], new: dict[str, _Day]) -> None:
        with self._lock:
            self._days.update(told)
            for owner, each in new.items():
                now = self._since[owner]
                if now.day == each.day:
                    left = now.events - each.events, now.letters - each.letters
                    self._since[owner] = _Day(now.day, *left)

    # -- for people --------------------------------------------------------------------------------

    def durable(self, owner: str) -> int:
        """How many names an owner has, as of the last count."""
        return self.stored["durable"].of(owner)

    def events_today(self, owner: str) -> int:
        """How many bytes of events it has stored today; 0 where that is not limited."""
        with self._lock:
            return self._used(owner).events

    def letters_today(self, owner: str) -> int:
        """The same of dead letters."""
        with self._lock:
            return self._used(owner).letters


class Using:
    """What one connection has of what its owner may have. In the thread of the loop."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._owner: str | None = None
        self._has: Counter[str] = Counter()

    def hold(self, who: Identified, code: str, total: int) -> None:
        """It has so many of something now; `LimitReachedError` if the owner has too many."""
        if who.owner is None or self._usage.quota(who) is None:
            return
        more, all_of_owner = total - self._has[code], self._usage.held[code]
        if more > 0:
            self._usage.check(who, code, all_of_owner[who.owner], more)
        self._owner = who.owner
        self._has[code] = total
        all_of_owner[who.owner] += more

    def leave(self) -> None:
        """It has ended."""
        for code, many in self._has.items():
            held = self._usage.held[code]
            held[self._owner or ""] -= many
            if held[self._owner or ""] <= 0:
                del held[self._owner or ""]
        self._has.clear()


_WORDS = {
    "connections": "connections to this broker",
    "subscriptions": "subscriptions at this broker",
    "buses": "open buses",
    "adverts": "adverts",
    "durable": "names of durable subscriptions and groups",
    "types": "descriptions of types",
    "events": "bytes of events stored today (UTC)",
    "letters": "bytes of dead letters stored today (UTC)",
}


def _reached(
    who: Identified, code: str, limit: int, used: int, more: int, *, of: str = ""
) -> LimitReachedError:
    text = (
        f"the owner {who.owner!r} has {used:,} {_WORDS[of or code]} and asks for {more:,} more; "
        f"up to {limit:,} are accepted. Whoever keeps the broker's file of tokens can allow more, "
        f"with {code} in the [[owner]] of that name"
    )
    data = {"limit": limit, "used": used, "owner": who.owner, "quota": code}
    return LimitReachedError(f"{code.replace('_', '-')}-of-owner", text, data)
