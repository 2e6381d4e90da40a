"""Reads the log once for all clients, and sends each what it may want.

All of it runs in the thread of the event loop. A client that has not read what it was sent is
behind: it is served from its own place in the log when it has, and costs nobody any memory.
"""

from __future__ import annotations

from collections import Counter, deque
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from polycast.broker.server.definition_limits import parts_of
from polycast.broker.server.encoding_cache import Wanting
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.wire.messages import Events, Wanted
from polycast.routing.stored_plan import Found, RoutingPlan
from polycast.stores import LogPage, StoredRoute
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from typing import Protocol

    from polycast.broker.server.encoding_cache import Share
    from polycast.broker.server.filter_budget import FilterBudget
    from polycast.broker.server.type_ancestry import Vocabulary
    from polycast.events import Record
    from polycast.stores import Store, Stored
    from polycast.stores.values import PushedFilter
    from polycast.typesystem import Description

    class Reader(Protocol):
        """Who is sent what is new."""

        owner: str | None  # to whom its filters count; None: to nobody
        stream: int
        at: int  # all before it has been sent
        groups: int  # how many subscriptions of it share with others

        def has_room(self) -> bool:
            """Whether it has read most of what it was sent."""

        @property
        def may_receive_all(self) -> bool:
            """Whether it has the right to, whatever it is."""

        def may_receive(self, record: Record) -> bool:
            """Whether it has the right to."""

        def send_events(self, events: Events) -> None:
            """Send it."""

        def tell(self, events: Events) -> None:
            """Send it, whatever was sent before."""


__all__ = ["Hub"]

BATCH = 500  # records at a time
MUCH = 2_000_000  # bytes at a time
SCAN = 2_000  # records looked at for one question about what is older
TURN = 0.005  # seconds for what is behind, before others have their turn
COMING = "\0coming"  # behind the name of a subscription, what it will want
_log = server_log()
FEW = 10  # filters looked at again, before the clock is looked at


class Hub:
    """What all clients want, as one plan, and how far each has been served."""

    def __init__(self, store: Store, vocabulary: Vocabulary, budget: FilterBudget) -> None:
        self._store, self._vocabulary = store, vocabulary
        self._plan = RoutingPlan(Registry(classes=()), budget=budget)
        self._owners: dict[int, Reader] = {}
        self._gone: deque[int] = deque()  # in the plan, and of nobody any more
        self._numbers: dict[Reader, dict[str, list[int]]] = {}
        self._counts: Counter[Reader] = Counter()  # definitions of each
        self._last = 0
        self._idle: dict[Reader, None] = {}  # they wait for nothing
        self._live: dict[Reader, None] = {}
        self._behind: dict[Reader, None] = {}
        self.front = 1  # all before it has been sent to who is not behind
        self.newest = self.revision = self.commits = 0
        self._learnt = -1  # the revision that the plan goes by
        self.sent = self.routed = self.published = 0

    # -- who wants what ----------------------------------------------------------------------------

    def want(
        self,
        reader: Reader,
        name: str,
        definitions: Sequence[bytes],
        *,
        private: Mapping[str, Description] = MappingProxyType({}),
    ) -> Generator[None, None, Wanted]:
        """Have a subscription of a reader want this, and nothing else; what comes of that.

        What is `private` says what it means by its types, and nothing to anybody else. It is done a
        part at a time, so that others have a turn; until the end, what it wanted before it does.
        """
        self._learn()
        coming = f"{name}{COMING}"
        try:
            for part in parts_of(definitions):
                for definition in part:
                    self._add(reader, coming, definition, private)
                yield
        except BaseException:
            self._remove(reader, coming)
            self._remove(reader, name)
            raise
        self._remove(reader, name)
        of_reader = self._numbers.setdefault(reader, {})
        of_reader[name] = of_reader.pop(coming, [])
        start = reader.at if reader in self._behind else self.front
        return Wanted(0, start)

    def asked(self, reader: Reader, name: str) -> list[PushedFilter]:
        """What is asked of the filters of a subscription of a reader, for each definition."""
        return [self._plan.asked(number) for number in self._of(reader, name)]

    def _add(
        self, reader: Reader, name: str, definition: bytes, private: Mapping[str, Description]
    ) -> None:
        self._last += 1
        route = StoredRoute(self._last, name, definition, 0)
        self._plan.add(route, private=private, party=reader.owner)
        self._owners[self._last] = reader
        self._numbers.setdefault(reader, {}).setdefault(name, []).append(self._last)
        self._counts[reader] += 1
        reader.groups += self._is_group(self._last)

    def _remove(self, reader: Reader, name: str) -> None:
        for number in self._numbers.get(reader, {}).pop(name, ()):
            reader.groups -= self._is_group(number)
            self._counts[reader] -= 1
            del self._owners[number]
            self._gone.append(number)

    def _remove_some(self) -> bool:
        """Let the plan forget what nobody wants any more, for a while; whether there is more."""
        began = perf_counter()
        while self._gone and perf_counter() - began < TURN:
            for _ in range(min(FEW, len(self._gone))):
                self._plan.remove(self._gone.popleft())
        return bool(self._gone)

    def _of(self, reader: Reader, name: str) -> list[int]:
        """What a subscription of a reader is in the plan."""
        return self._numbers.get(reader, {}).get(name, [])

    def _is_group(self, number: int) -> bool:
        return self._plan.entries[number].definition.group is not None

    def _learn(self) -> None:
        """Know what the store knows of types and contexts."""
        with self._store.view() as view:
            self.newest, self.revision = view.newest(), view.revision()
            if self.revision != self._learnt:
                self._learnt = self.revision
                self._vocabulary.learn(view)
                self._plan.learn(view, later=True)
                self._plan.learn_contexts(view)

    @property
    def parsed(self) -> int:
        """How many filters were parsed so far."""
        return self._plan.parsed

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return sum(map(len, self._numbers.values()))

    @property
    def behind(self) -> int:
        """How many readers are served from an earlier place of the log."""
        return len(self._behind)

    def wants(self, reader: Reader, *, but: str) -> int:
        """How many definitions a reader has, but for those of one subscription."""
        return self._counts[reader] - len(self._of(reader, but))

    def join(self, reader: Reader) -> None:
        """Tell somebody that something has changed, and nothing more."""
        self._idle[reader] = None

    def follow(self, reader: Reader) -> None:
        """Send a reader what it wants from its place on."""
        if not self._live and not self._behind:
            self.front = max(self.front, self._store.newest() + 1)
        self._forget(reader)
        self._behind[reader] = None

    def _forget(self, reader: Reader) -> None:
        for each in (self._idle, self._live, self._behind):
            each.pop(reader, None)

    def leave(self, reader: Reader) -> None:
        """It is gone."""
        self._forget(reader)
        for name in list(self._numbers.get(reader, ())):
            self._remove(reader, name)
        self._numbers.pop(reader, None)
        self._counts.pop(reader, None)

    # -- what is new -------------------------------------------------------------------------------

    def step(self) -> bool:
        """Send a little; whether there may be more."""
        self._learn()
        began = perf_counter()
        while more := self._plan.reconsider(FEW):
            if perf_counter() - began > TURN:
                break
        if self._live:
            more = self._send_new() or more
        elif not self._behind:
            self.front = self.newest + 1
        more = self._catch_up_some() or more
        more = self._remove_some() or more
        for reader in self._idle:
            self._tell_progress(reader)
        return more

    def _send_new(self) -> bool:
        batch = self._store.read(self.front, limit=BATCH, size=MUCH)
        if batch.upto == self.front:
            for reader in self._live:
                self._tell_progress(reader)
            return False
        wanted = self._wanted(batch.entries)
        for reader in list(self._live):
            share = wanted.share_of(reader)
            if share.count and not reader.has_room():
                del self._live[reader]
                self._behind[reader] = None  # it is at the place where this batch begins
                continue
            reader.at = batch.upto
            if share.count:
                self._send(reader, share)
            else:
                self._tell_progress(reader)
        self.front = batch.upto
        self.routed += len(batch.entries)
        return self.front <= self.newest

    def _wanted(self, records: Sequence[Stored], *, by: Reader | None = None) -> Wanting:
        """Who may want which of some records; with a reader, what it and its owner may."""
        by_takers: dict[tuple[int, ...], list[Stored]] = {}
        if records and self._owners:
            taken = self._found(records, None if by is None else by.owner)
            at = {each.position: each for each in records}
            same: dict[int, list[Stored]] = {}  # many records have one list of takers
            for position, numbers in zip(taken.positions, taken.takers, strict=True):
                if id(numbers) not in same:
                    same[id(numbers)] = by_takers.setdefault(tuple(numbers), [])
                same[id(numbers)].append(at[position])
        lots: dict[Reader, list[int]] = {}
        for number, takers in enumerate(by_takers):
            owners = (self._owners[each] for each in takers if each in self._owners)
            for reader in dict.fromkeys(owners):
                lots.setdefault(reader, []).append(number)
        return Wanting(list(by_takers.values()), lots)

    def _found(self, records: Sequence[Stored], party: str | None) -> Found:
        """Who takes them; one that breaks the plan goes to all, whose clients find out why."""
        try:
            return self._plan.find(records, party=party)
        except Exception as error:
            if len(records) == 1:
                _log.error("position %d goes to all: %r", records[0].position, error)
                return Found([records[0].position], [sorted(self._owners)])
        found = Found()
        for record in records:
            one = self._found([record], party)
            found.positions += one.positions
            found.takers += one.takers
        return found

    def _catch_up_some(self) -> bool:
        """Serve those who are behind, as many as there is time for; whether there may be more."""
        began, more = perf_counter(), False
        for reader in list(self._behind):
            if reader.has_room():
                more = self._catch_up(reader) or more
                if reader in self._behind:  # the others are served before it is again
                    self._behind[reader] = self._behind.pop(reader)
                if perf_counter() - began > TURN:
                    return True
        return more

    def _catch_up(self, reader: Reader) -> bool:
        """Send one reader what is before the front; whether there is more."""
        if reader.at < self.front:
            batch = self._store.read(reader.at, limit=BATCH, until=self.front, size=MUCH)
            share = self._wanted(batch.entries, by=reader).share_of(reader)
            reader.at = max(batch.upto, reader.at)
            self._send(reader, share)
        if reader.at < self.front:
            return True
        del self._behind[reader]
        self._live[reader] = None
        reader.at = self.front
        self._tell_progress(reader)
        return False

    def _send(self, reader: Reader, share: Share) -> None:
        self.sent += share.count
        reader.send_events(self._events(reader, reader.at, share.records))

    def tell(self, reader: Reader) -> None:
        """Tell a reader how far it is, also if it knows."""
        at = reader.at if reader.stream else self.newest + 1
        reader.tell(self._events(reader, at))

    def _tell_progress(self, reader: Reader) -> None:
        at = reader.at if reader.stream else self.newest + 1
        reader.send_events(self._events(reader, at))

    def _events(self, reader: Reader, at: int, records: bytes = b"") -> Events:
        return Events(reader.stream, at, self.newest, self.revision, self.commits, records)

    # -- what is older -----------------------------------------------------------------------------

    def older(
        self,
        reader: Reader,
        start: int,
        *,
        limit: int,
        until: int | None,
        types: Sequence[int] | None,
        wanted_by: str | None,
        size: int | None,
    ) -> LogPage:
        """A part of the log, without what a subscription cannot want."""
        most = limit if wanted_by is None else SCAN
        much = MUCH if size is None else min(max(size, 0), MUCH)
        batch = self._store.read(start, limit=min(most, SCAN), until=until, types=types, size=much)
        entries = [each for each in batch.entries if reader.may_receive(each.record)]
        numbers = set() if wanted_by is None else set(self._of(reader, wanted_by))
        if not numbers or not self._plan.is_settled:
            return LogPage(entries[:limit], _upto(entries, limit, batch.upto))
        taken = self._found(entries, reader.owner)
        mine = {
            position
            for position, takers in zip(taken.positions, taken.takers, strict=True)
            if not numbers.isdisjoint(takers)
        }
        entries = [each for each in entries if each.position in mine]
        return LogPage(entries[:limit], _upto(entries, limit, batch.upto))


def _upto(entries: Sequence[Stored], limit: int, upto: int) -> int:
    return entries[limit].position if len(entries) > limit else upto
