"""Who owns what is in a store, by documents, and how much of its quotas each owner uses.

Buses, adverts and dead letters belong to whoever owns their publisher or subscription.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from polycast.errors import LimitReachedError
from polycast.routing.translation import context_of_letter
from polycast.stores.values import size_of_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.broker.server.access import Principal
    from polycast.broker.server.limits import Quota
    from polycast.config import Clock
    from polycast.events import Record
    from polycast.stores import Letter, Run, Store, Stray, Transaction, View


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


USAGE = "usage"
"""The kind of documents with the bytes that an owner has stored on a day."""
DAY = 24 * 3600.0
HELD = ("connections", "subscriptions", "types")
"""Quotas of what connections hold; of types, private ones."""
STORED = ("durable", "buses", "adverts")
"""Quotas of what is in the store."""
AGAIN = 1.0  # seconds after which the items of an owner at its limit are recounted
HEAD = 200  # bytes of an event besides its contents


class _Day(msgspec.Struct, frozen=True):
    """Bytes that an owner has stored on a day."""

    day: int
    events: int = 0
    letters: int = 0

    def plus(self, day: int, events: int, letters: int) -> _Day:
        """With more bytes; those of an earlier day do not count any more."""
        if self.day > day:
            return self
        before = self if self.day == day else _Day(day)
        return _Day(day, before.events + events, before.letters + letters)


_NEVER = _Day(0)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Day).decode


def size_of(record: Record) -> int:
    """About how many bytes an event takes in a store."""
    root = 0 if record.root is None else len(record.root.payload)
    around = size_of_context(record.topic, record.context, record.headers)
    return HEAD + len(record.payload) + root + around


def size_of_run(run: Run) -> int:
    """The same for a run: each event is stored with what they have in common."""
    return run.size(HEAD)


class OwnerCounts:
    """The last count of each owner plus what was added since; recounts when a limit is reached.

    Any thread may ask; only the writer thread adds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, int] = {}
        self._counted: dict[str, float] = {}  # when the items of an owner were last counted
        self._adding = 0  # in the current transaction

    def begin(self) -> None:
        """Begin a transaction."""
        self._adding = 0

    def add(self, tx: Transaction, owner: str, *, limit: int, count: Callable[[], int]) -> int:
        """Add one item unless the owner is at its limit; how many it had before."""
        with self._lock:
            known = self._known.get(owner)
            used = self._adding + (known or 0)
            if known is None or (used >= limit and self._may_count(owner)):
                used = count()
                self._known[owner] = used - self._adding
        if used < limit:
            self._adding += 1
            tx.after(lambda: self._added(owner))
        return used

    def _added(self, owner: str) -> None:
        with self._lock:
            self._known[owner] = self._known.get(owner, 0) + 1

    def _may_count(self, owner: str) -> bool:
        now = self._clock.monotonic()
        if now - self._counted.get(owner, -AGAIN) < AGAIN:
            return False
        self._counted[owner] = now
        return True

    def set_all(self, counted: Counter[str]) -> None:
        """Take over a full count."""
        with self._lock:
            self._known = {owner: counted[owner] for owner in {*self._known, *counted}}

    def of(self, owner: str) -> int:
        """How many items an owner has, as far as known."""
        with self._lock:
            return self._known.get(owner, 0)


class Usage:
    """The usage of all owners as far as one broker knows. For any thread.

    `save` writes the bytes of a day to the store, so that they outlive the broker and brokers over
    one store share them.
    """

    def __init__(self, store: Store, clock: Clock, quota_of: Callable[[str], Quota]) -> None:
        self._store, self._clock, self._quota_of = store, clock, quota_of
        self.held: dict[str, Counter[str]] = {code: Counter() for code in HELD}
        """What connections hold, by quota and by owner. In the thread of the loop."""
        self._lock = threading.Lock()
        self.stored = {code: OwnerCounts(clock) for code in STORED}
        """What is in the store."""
        self._days: dict[str, _Day] = {}  # as in the store
        self._since: dict[str, _Day] = {}  # not saved yet

    def quota(self, principal: Principal) -> Quota | None:
        """The quota of a client; None for admins, and where there are no tokens."""
        if principal.owner is None or principal.rights.admin:
            return None
        return self._quota_of(principal.owner)

    def check(self, principal: Principal, code: str, used: int, more: int) -> None:
        """Raise `LimitReachedError` if a client would exceed a quota of its owner."""
        quota = self.quota(principal)
        limit = None if quota is None else getattr(quota, code)
        if limit is not None and used + more > limit:
            raise _reached(principal, code, limit, used, more)

    # -- what is in the store ----------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction."""
        for counts in self.stored.values():
            counts.begin()

    def add(
        self, tx: Transaction, principal: Principal, code: str, count: Callable[[], int]
    ) -> None:
        """Add one item to the store; raises `LimitReachedError` above the owner's quota."""
        quota, owner = self.quota(principal), principal.owner
        if quota is None or owner is None:
            return
        limit = getattr(quota, code)
        used = self.stored[code].add(tx, owner, limit=limit, count=count)
        if used >= limit:
            raise _reached(principal, code, limit, used, 1)

    def add_durable(self, tx: Transaction, principal: Principal, name: str) -> None:
        """The same for the name of a durable subscription, or of one with dead letters."""
        owner = principal.owner or ""
        self.add(tx, principal, "durable", lambda: len(set(subscriptions_of(tx, owner)) - {name}))

    def count(self, names: Counter[str]) -> None:
        """Take over a full count of the names of each owner."""
        self.stored["durable"].set_all(names)

    # -- bytes -------------------------------------------------------------------------------------

    def add_runs(
        self, principal: Principal, runs: Sequence[Run], astray: Sequence[Stray] = ()
    ) -> None:
        """Add events; raises `LimitReachedError` above the quota of bytes per day.

        Events astray count as dead letters, too.
        """
        quota = self.quota(principal)
        if quota is None or quota.bytes_per_day is None:
            return
        size, count = sum(map(size_of_run, runs)), sum(len(run.payloads) for run in runs)
        letters = sum(len(stray.reason) + size // count for stray in astray)
        self._check_bytes(principal, "events", quota.bytes_per_day, size)
        self._check_bytes(principal, "letters", quota.bytes_per_day, letters)
        self._add(principal.owner or "", size, letters)

    def add_letters(self, tx: Transaction, principal: Principal, size: int) -> None:
        """The same for dead letters, which have a quota of the same size by themselves.

        So a client that has used up its events can still settle what it has received.
        """
        quota = self.quota(principal)
        if quota is not None and quota.bytes_per_day is not None:
            self._check_bytes(principal, "letters", quota.bytes_per_day, size)
            tx.after(lambda: self._add(principal.owner or "", 0, size))

    def _check_bytes(self, principal: Principal, of: str, limit: int, size: int) -> None:
        self._load(principal.owner or "")
        with self._lock:
            used = getattr(self._used(principal.owner or ""), of)
        if used + size > limit:
            raise _reached(principal, "bytes_per_day", limit, used, size, of=of)

    def _add(self, owner: str, events: int, letters: int) -> None:
        with self._lock:
            before = self._since.get(owner, _NEVER)
            self._since[owner] = before.plus(self._today(), events, letters)

    def _load(self, owner: str) -> None:
        """Load the usage of an owner; without the lock, which the writer thread may want."""
        if owner not in self._days:
            with self._store.view() as view:
                body = view.document(USAGE, owner)
            self._days.setdefault(owner, _NEVER if body is None else _decode(body))

    def _today(self) -> int:
        return int(self._clock.time() // DAY)

    def _used(self, owner: str) -> _Day:
        """The usage of today. The lock is held."""
        today = _Day(self._today())
        for day in (self._days.get(owner, _NEVER), self._since.get(owner, _NEVER)):
            if day.day == today.day:
                today = today.plus(day.day, day.events, day.letters)
        return today

    def save(self) -> None:
        """Save what is new to the store. Not in its writer thread."""
        with self._lock:
            new = {owner: added for owner, added in self._since.items() if added != _Day(added.day)}
        if new:
            self._store.write(lambda tx: self._save(tx, new)).result()

    def _save(self, tx: Transaction, new: dict[str, _Day]) -> None:
        saved: dict[str, _Day] = {}
        for owner, added in new.items():
            body = tx.document(USAGE, owner)
            before = _NEVER if body is None else _decode(body)
            saved[owner] = before.plus(added.day, added.events, added.letters)
            tx.put_document(USAGE, owner, _encode(saved[owner]))
        tx.after(lambda: self._saved(saved, new))

    def _saved(self, saved: dict[str, _Day], new: dict[str, _Day]) -> None:
        with self._lock:
            self._days.update(saved)
            for owner, added in new.items():
                now = self._since[owner]
                if now.day == added.day:
                    left = now.events - added.events, now.letters - added.letters
                    self._since[owner] = _Day(now.day, *left)

    # -- for people --------------------------------------------------------------------------------

    def durable(self, owner: str) -> int:
        """How many names an owner has, by the last count."""
        return self.stored["durable"].of(owner)

    def events_today(self, owner: str) -> int:
        """Bytes of events stored today; 0 where they are not limited."""
        with self._lock:
            return self._used(owner).events

    def letters_today(self, owner: str) -> int:
        """Bytes of dead letters stored today."""
        with self._lock:
            return self._used(owner).letters


class ConnectionUsage:
    """What one connection holds of its owner's quotas. In the thread of the loop."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._owner: str | None = None
        self._has: Counter[str] = Counter()

    def hold(self, principal: Principal, code: str, total: int) -> None:
        """Set how many items it holds; raises `LimitReachedError` above the owner's quota."""
        if principal.owner is None or self._usage.quota(principal) is None:
            return
        more, all_of_owner = total - self._has[code], self._usage.held[code]
        if more > 0:
            self._usage.check(principal, code, all_of_owner[principal.owner], more)
        self._owner = principal.owner
        self._has[code] = total
        all_of_owner[principal.owner] += more

    def release(self) -> None:
        """Release everything, when the connection has ended."""
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
    principal: Principal, code: str, limit: int, used: int, more: int, *, of: str = ""
) -> LimitReachedError:
    text = (
        f"the owner {principal.owner!r} has {used:,} {_WORDS[of or code]} and asks for {more:,} "
        f"more; up to {limit:,} are accepted. Whoever keeps the broker's file of tokens can allow "
        f"more, with {code} in the [[owner]] of that name"
    )
    data = {"limit": limit, "used": used, "owner": principal.owner, "quota": code}
    return LimitReachedError(f"{code.replace('_', '-')}-of-owner", text, data)
