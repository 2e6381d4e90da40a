"""How much of its quota each owner uses."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from polycast.errors import LimitReached
from polycast.server.belongings import subscriptions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.config import Clock
    from polycast.events import Record
    from polycast.server.access import Identified
    from polycast.server.quotas import Quota
    from polycast.stores import Run, Store, Transaction, View

__all__ = ["Usage", "Using", "size_of", "size_of_run"]

USAGE = "usage"
"""The kind of the documents that say how many bytes an owner has stored on a day."""
DAY = 24 * 3600.0
HELD = ("connections", "subscriptions", "types")
"""What connections have; of types, those that are private to them."""
HEAD = 200  # bytes that an event takes besides its contents
AGAIN = 1.0  # seconds after which the names of an owner at its limit are counted again


class _Day(msgspec.Struct, frozen=True):
    """What an owner has stored on a day."""

    day: int
    bytes: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Day).decode


def size_of(record: Record) -> int:
    """About how many bytes a store keeps for an event."""
    root = 0 if record.root is None else len(record.root.payload)
    return HEAD + len(record.payload) + root + _size_of_headers(record.headers)


def size_of_run(run: Run) -> int:
    """The same of all events of a run: each is kept with what they have in common."""
    payloads = sum(map(len, (*run.payloads, *(run.roots or ()))))
    return payloads + len(run.payloads) * (HEAD + _size_of_headers(run.headers))


def _size_of_headers(headers: dict[str, str]) -> int:
    return sum(len(each) for pair in headers.items() for each in pair)


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
        self._durable: dict[str, int] = {}
        self._counted: dict[str, float] = {}  # when an owner's names were last counted
        self._bytes: dict[str, _Day] = {}  # what the store says
        self._since: Counter[tuple[str, int]] = Counter()  # bytes of a day that it does not know

    def quota(self, who: Identified) -> Quota | None:
        """That of whoever has a token; None for admins, and where there are no tokens."""
        if who.owner is None or who.rights.admin:
            return None
        return self._quota_of(who.owner)

    def check(self, who: Identified, code: str, used: int, more: int) -> None:
        """Raises `LimitReached` if somebody would have more of something than is allowed."""
        quota = self.quota(who)
        limit = None if quota is None else getattr(quota, code)
        if limit is not None and used + more > limit:
            raise _reached(who, code, limit, used, more)

    # -- names -------------------------------------------------------------------------------------

    def add_durable(self, view: View, who: Identified, name: str) -> None:
        """One more name; what a transaction takes back is counted until the next `count`."""
        quota, owner = self.quota(who), who.owner
        if quota is None or owner is None:
            return
        with self._lock:
            used = self._durable.get(owner)
            if used is None or (used >= quota.durable and self._may_count(owner)):
                used = len(set(subscriptions_of(view, owner)) - {name})
            self._durable[owner] = used
            if used >= quota.durable:
                raise _reached(who, "durable", quota.durable, used, 1)
            self._durable[owner] = used + 1

    def _may_count(self, owner: str) -> bool:
        now = self._clock.monotonic()
        if now - self._counted.get(owner, -AGAIN) < AGAIN:
            return False
        self._counted[owner] = now
        return True

    def count(self, names: Counter[str]) -> None:
        """How many names each owner has in the store."""
        with self._lock:
            self._durable = {owner: names[owner] for owner in {*self._durable, *names}}

    # -- bytes -------------------------------------------------------------------------------------

    def add_runs(self, who: Identified, runs: Iterable[Run]) -> None:
        """Raises `LimitReached` for events that are more than may be stored on a day."""
        quota = self.quota(who)
        if quota is not None and quota.bytes_per_day is not None:
            self.add_bytes(who, sum(map(size_of_run, runs)))

    def add_bytes(self, who: Identified, size: int) -> None:
        """The same of so many bytes."""
        quota, owner = self.quota(who), who.owner
        if quota is None or owner is None or quota.bytes_per_day is None or size <= 0:
            return
        day = self._today()
        if owner not in self._bytes:
            with self._store.view() as view:
                body = view.document(USAGE, owner)
            self._bytes.setdefault(owner, _Day(day, 0) if body is None else _decode(body))
        with self._lock:
            used = self._used(owner, day)
            if used + size > quota.bytes_per_day:
                raise _reached(who, "bytes_per_day", quota.bytes_per_day, used, size)
            self._since[owner, day] += size

    def _today(self) -> int:
        return int(self._clock.time() // DAY)

    def _used(self, owner: str, day: int) -> int:
        known = self._bytes.get(owner)
        stored = known.bytes if known is not None and known.day == day else 0
        return stored + self._since[owner, day]

    def save(self) -> None:
        """Tell the store what it does not know yet. Not in the thread that writes it."""
        with self._lock:
            new = {key: size for key, size in self._since.items() if size}
        if new:
            self._store.write(lambda tx: self._save(tx, new)).result()

    def _save(self, tx: Transaction, new: dict[tuple[str, int], int]) -> None:
        told: dict[str, _Day] = {}
        for (owner, day), size in sorted(new.items()):
            body = None if owner in told else tx.document(USAGE, owner)
            before = told.get(owner) if body is None else _decode(body)
            if before is None or before.day < day:
                before = _Day(day, 0)
            told[owner] = _Day(day, before.bytes + size) if before.day == day else before
        for owner, each in told.items():
            tx.put_document(USAGE, owner, _encode(each))
        tx.after(lambda: self._saved(told, new))

    def _saved(self, told: dict[str, _Day], new: dict[tuple[str, int], int]) -> None:
        with self._lock:
            self._bytes.update(told)
            for key, size in new.items():
                self._since[key] -= size
                if not self._since[key]:
                    del self._since[key]

    # -- for people --------------------------------------------------------------------------------

    def durable(self, owner: str) -> int:
        """How many names an owner has, as of the last count."""
        with self._lock:
            return self._durable.get(owner, 0)

    def bytes_today(self, owner: str) -> int:
        """How many bytes it has stored today; 0 where that is not limited."""
        with self._lock:
            return self._used(owner, self._today())


class Using:
    """What one connection has of what its owner may have. In the thread of the loop."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._owner: str | None = None
        self._has: Counter[str] = Counter()

    def hold(self, who: Identified, code: str, total: int) -> None:
        """It has so many of something from now on; `LimitReached` if the owner has too many."""
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
    "durable": "names of durable subscriptions and groups",
    "types": "descriptions of types",
    "bytes_per_day": "bytes stored today (UTC)",
}


def _reached(who: Identified, code: str, limit: int, used: int, more: int) -> LimitReached:
    text = (
        f"the owner {who.owner!r} has {used:,} {_WORDS[code]} and asks for {more:,} more; up to "
        f"{limit:,} are accepted. Whoever keeps the broker's file of tokens can allow more, with "
        f"{code} in the [[owner]] of that name"
    )
    data = {"limit": limit, "used": used, "owner": who.owner, "quota": code}
    return LimitReached(f"{code.replace('_', '-')}-of-owner", text, data)
