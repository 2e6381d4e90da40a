"""Fan-out: reads the log once for all clients, and sends each the events that it may want.

All of it runs in the thread of the event loop. A client that has not read what it was sent falls
behind: it is served from its own position in the log later, and holds up nobody's memory.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.wire.protocol import Events, Wanted, encode
from polycast.events import encode_record
from polycast.routing import MatchResult, Plan
from polycast.stores import LogPage, Store, Stored, StoredRoute, View
from polycast.typesystem import Description, Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from polycast.broker.server.fair_scheduler import FilterBudget
    from polycast.broker.server.flow_control import EventStream
    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.stores.values import PushedFilter


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """How many records there are, and their bytes."""

    count: int
    records: bytes


NOTHING = EncodedRecords(0, b"")


class RoutedBatch:
    """Records in lots, and the numbers of the lots that each client may want."""

    def __init__(
        self, lots: Sequence[Sequence[Stored]], wanted: Mapping[EventStream, Sequence[int]]
    ) -> None:
        self._lots, self._wanted = lots, wanted
        self._bodies: dict[int, bytes] = {}
        self._encoded: dict[tuple[int, ...], EncodedRecords] = {}

    def encoded_for(self, recipient: EventStream) -> EncodedRecords:
        """The records that a client wants and may receive."""
        numbers = tuple(self._wanted.get(recipient, ()))
        if not numbers:
            return NOTHING
        if not recipient.may_receive_all:
            records = self._in_order(numbers)
            allowed = [stored for stored in records if recipient.may_receive(stored.record)]
            return self._shared(tuple(-stored.position for stored in allowed), allowed)
        return self._shared(numbers, None)

    def _shared(self, key: tuple[int, ...], records: Sequence[Stored] | None) -> EncodedRecords:
        """Keys are numbers of lots, or else negative positions."""
        encoded = self._encoded.get(key)
        if encoded is None:
            records = self._in_order(key) if records is None else records
            encoded = self._encoded[key] = EncodedRecords(len(records), self._encode(records))
        return encoded

    def _in_order(self, numbers: tuple[int, ...]) -> Sequence[Stored]:
        if len(numbers) == 1:
            return self._lots[numbers[0]]
        records = [stored for number in numbers for stored in self._lots[number]]
        return sorted(records, key=lambda stored: stored.position)

    def _encode(self, records: Iterable[Stored]) -> bytes:
        rows = []
        for stored in records:
            body = self._bodies.get(stored.position)
            if body is None:
                body = self._bodies[stored.position] = encode_record(stored.record)
            rows.append((stored.position, body))
        return encode(rows) if rows else b""


TURN = 0.005  # seconds of a background job before others have their turn
FEW = 10  # filters handled between two looks at the clock
PENDING = "\0coming"  # suffix of a subscription's name for definitions that are being added
_log = server_log()


class ClientPlan:
    """Which client wants which events. In the thread of the event loop."""

    def __init__(self, budget: FilterBudget, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._plan = Plan(Registry(classes=()), budget=budget)
        self._recipients: dict[int, EventStream] = {}  # by the number of a definition
        self._numbers: dict[EventStream, dict[str, list[int]]] = {}  # and by subscription
        self._counts: Counter[EventStream] = Counter()  # definitions of each
        self._removed: deque[int] = deque()  # still in the plan, but of no client
        self._last = 0

    def learn(self, view: View) -> None:
        """Load new types and contexts of the store."""
        self._plan.routes.learn(view, later=True)
        self._plan.routes.learn_contexts(view)

    def replace(
        self,
        recipient: EventStream,
        name: str,
        definitions: Sequence[bytes],
        private: Mapping[str, Description],
    ) -> Generator[None, None, None]:
        """Replace the definitions of a subscription.

        It yields after each, so that other clients have a turn: compiling one may take as long as
        a slice. Until the end, the previous definitions stay in effect. `private` describes types
        for this client only.
        """
        pending = f"{name}{PENDING}"
        try:
            for definition in definitions:
                self._add(recipient, pending, definition, private)
                yield
        except BaseException:
            self._remove(recipient, pending)
            self._remove(recipient, name)
            raise
        self._remove(recipient, name)
        subscriptions = self._numbers.setdefault(recipient, {})
        subscriptions[name] = subscriptions.pop(pending, [])

    def _add(
        self,
        recipient: EventStream,
        name: str,
        definition: bytes,
        private: Mapping[str, Description],
    ) -> None:
        self._last += 1
        route = StoredRoute(self._last, name, definition, 0)
        self._plan.routes.add(route, private=private, owner=recipient.owner)
        self._recipients[self._last] = recipient
        self._numbers.setdefault(recipient, {}).setdefault(name, []).append(self._last)
        self._counts[recipient] += 1
        recipient.groups += self._is_group(self._last)

    def _remove(self, recipient: EventStream, name: str) -> None:
        for number in self._numbers.get(recipient, {}).pop(name, ()):
            recipient.groups -= self._is_group(number)
            self._counts[recipient] -= 1
            del self._recipients[number]
            self._removed.append(number)

    def _is_group(self, number: int) -> bool:
        return self._plan.routes.entries[number].definition.group is not None

    def remove_all(self, recipient: EventStream) -> None:
        """Remove all subscriptions of a client."""
        for name in list(self._numbers.get(recipient, ())):
            self._remove(recipient, name)
        self._numbers.pop(recipient, None)
        self._counts.pop(recipient, None)

    def _of(self, recipient: EventStream, name: str) -> list[int]:
        return self._numbers.get(recipient, {}).get(name, [])

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return sum(map(len, self._numbers.values()))

    def count(self, recipient: EventStream, *, but: str) -> int:
        """How many definitions a client has, except those of one subscription."""
        return self._counts[recipient] - len(self._of(recipient, but))

    def asked(self, recipient: EventStream, name: str) -> list[PushedFilter]:
        """What the broker evaluates of a subscription's filters, for each definition."""
        return [self._plan.routes.asked(number) for number in self._of(recipient, name)]

    # -- upkeep ------------------------------------------------------------------------------------

    def reconsider(self) -> bool:
        """Recompile some filters whose types have changed; whether there is more to do."""
        began = self._now()
        while more := self._plan.routes.reconsider(FEW):
            if self._now() - began > TURN:
                break
        return more

    def purge(self) -> bool:
        """Drop some removed definitions from the plan; whether there is more to do."""
        began = self._now()
        while self._removed and self._now() - began < TURN:
            for _ in range(min(FEW, len(self._removed))):
                self._plan.routes.remove(self._removed.popleft())
        return bool(self._removed)

    # -- matching ----------------------------------------------------------------------------------

    def route(self, records: Sequence[Stored], *, owner: str | None = None) -> RoutedBatch:
        """Who may want which records; for a owner, only its own filters are evaluated."""
        by_routes: dict[tuple[int, ...], list[Stored]] = {}
        if records and self._recipients:
            matches = self._match(records, owner)
            at = {stored.position: stored for stored in records}
            same: dict[int, list[Stored]] = {}  # many records share one list of routes
            for position, numbers in zip(matches.positions, matches.recipients, strict=True):
                if id(numbers) not in same:
                    same[id(numbers)] = by_routes.setdefault(tuple(numbers), [])
                same[id(numbers)].append(at[position])
        lots: dict[EventStream, list[int]] = {}
        for lot, routes in enumerate(by_routes):
            wanting = (self._recipients[route] for route in routes if route in self._recipients)
            for recipient in dict.fromkeys(wanting):
                lots.setdefault(recipient, []).append(lot)
        return RoutedBatch(list(by_routes.values()), lots)

    def select(
        self, recipient: EventStream, name: str, records: Sequence[Stored]
    ) -> Sequence[Stored]:
        """The records that a subscription may want; all of them while that is not known."""
        numbers = set(self._of(recipient, name))
        if not numbers or not self._plan.routes.is_settled:
            return records
        matches = self._match(records, recipient.owner)
        wanted = {
            position
            for position, routes in zip(matches.positions, matches.recipients, strict=True)
            if not numbers.isdisjoint(routes)
        }
        return [stored for stored in records if stored.position in wanted]

    def _match(self, records: Sequence[Stored], owner: str | None) -> MatchResult:
        """Match records; one that breaks the plan goes to all clients, which find out why."""
        try:
            return self._plan.match(records, owner=owner)
        except Exception as error:
            if len(records) == 1:
                _log.error("position %d goes to all: %r", records[0].position, error)
                return MatchResult([records[0].position], [sorted(self._recipients)])
        matches = MatchResult()
        for record in records:
            one = self._match([record], owner)
            matches.positions += one.positions
            matches.recipients += one.recipients
        return matches


BATCH = 500  # records at a time
MUCH = 2_000_000  # bytes at a time
SCAN = 2_000  # records read for one request to read the log


class Fanout:
    """How far each client has been served, and what it is sent next."""

    def __init__(
        self,
        store: Store,
        type_catalog: TypeCatalog,
        budget: FilterBudget,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._store, self._type_catalog, self._now = store, type_catalog, monotonic
        self.plan = ClientPlan(budget, monotonic)
        self._idle: dict[EventStream, None] = {}  # clients that do not follow the log
        self._live: dict[EventStream, None] = {}
        self._behind: dict[EventStream, None] = {}
        self.front = 1  # everything before it has been sent to all live clients
        self.newest = self.revision = self.commits = 0
        self._awaiting: deque[tuple[int, Callable[[], None]]] = deque()  # by position
        self._learnt = -1  # the revision of types and contexts that the plan knows
        self.sent = self.routed = self.published = 0

    # -- clients -----------------------------------------------------------------------------------

    def want(
        self,
        recipient: EventStream,
        name: str,
        definitions: Sequence[bytes],
        *,
        private: Mapping[str, Description] = MappingProxyType({}),
    ) -> Generator[None, None, Wanted]:
        """Replace the definitions of a subscription; from where on its events are complete."""
        self._learn()
        yield from self.plan.replace(recipient, name, definitions, private)
        return Wanted(0, recipient.at if recipient in self._behind else self.front)

    def join(self, recipient: EventStream) -> None:
        """Add a client that hears of changes only."""
        self._idle[recipient] = None

    def follow(self, recipient: EventStream) -> None:
        """Send a client the events that it wants, from its position on."""
        if not self._live and not self._behind:
            self.front = max(self.front, self._store.newest() + 1)
        self._forget(recipient)
        self._behind[recipient] = None

    def leave(self, recipient: EventStream) -> None:
        """Remove a client and its subscriptions."""
        self._forget(recipient)
        self.plan.remove_all(recipient)

    def _forget(self, recipient: EventStream) -> None:
        for recipients in (self._idle, self._live, self._behind):
            recipients.pop(recipient, None)

    @property
    def has_followers(self) -> bool:
        """Whether any client waits for events."""
        return bool(self._live or self._behind)

    @property
    def behind(self) -> int:
        """How many clients are served from an earlier position of the log."""
        return len(self._behind)

    def _learn(self) -> None:
        """Load what has changed in the store: positions, types and contexts."""
        with self._store.view() as view:
            self.newest, self.revision = view.newest(), view.revision()
            if self.revision != self._learnt:
                self._learnt = self.revision
                self._type_catalog.learn(view)
                self.plan.learn(view)

    # -- new events --------------------------------------------------------------------------------

    def step(self) -> bool:
        """Send a few events; whether there may be more to do."""
        self._learn()
        more = self.plan.reconsider()
        if self._live:
            more = self._send_new() or more
        elif not self._behind:
            self.front = self.newest + 1
        self._call_awaiting()
        more = self._catch_up_some() or more
        more = self.plan.purge() or more
        for recipient in self._idle:
            self._send(recipient)
        return more

    def _send_new(self) -> bool:
        # What has been committed since may be of a type that the plan does not know yet.
        end = self.newest + 1
        batch = self._store.read(self.front, limit=BATCH, until=end, size=MUCH)
        if batch.upto == self.front:
            for recipient in self._live:
                self._send(recipient)
            return False
        routed = self.plan.route(batch.entries)
        for recipient in list(self._live):
            encoded = routed.encoded_for(recipient)
            if encoded.count and not recipient.has_room():
                del self._live[recipient]
                self._behind[recipient] = None  # from where this batch begins
                continue
            recipient.at = batch.upto
            self._send(recipient, encoded)
        self.front = batch.upto
        self.routed += len(batch.entries)
        return self.front <= self.newest

    def when_routed(self, position: int, call: Callable[[], None]) -> None:
        """Call back when no client that follows the log waits for events up to a position."""
        self._awaiting.append((position, call))
        self._call_awaiting()

    def _call_awaiting(self) -> None:
        # Positions are in order but for those of events that were sent twice, which may wait.
        while self._awaiting and (self._awaiting[0][0] < self.front or not self._live):
            self._awaiting.popleft()[1]()

    def _catch_up_some(self) -> bool:
        """Serve clients that are behind, as time allows; whether there may be more to do."""
        began, more = self._now(), False
        for recipient in list(self._behind):
            if recipient.has_room():
                more = self._catch_up(recipient) or more
                if recipient in self._behind:  # to the end of the queue
                    self._behind[recipient] = self._behind.pop(recipient)
                if self._now() - began > TURN:
                    return True
        return more

    def _catch_up(self, recipient: EventStream) -> bool:
        """Send one client a batch from before the front; whether there is more."""
        if recipient.at < self.front:
            batch = self._store.read(recipient.at, limit=BATCH, until=self.front, size=MUCH)
            encoded = self.plan.route(batch.entries, owner=recipient.owner).encoded_for(recipient)
            recipient.at = max(batch.upto, recipient.at)
            self._send(recipient, encoded)
        if recipient.at < self.front:
            return True
        del self._behind[recipient]
        self._live[recipient] = None
        recipient.at = self.front
        self._send(recipient)
        return False

    def _send(self, recipient: EventStream, encoded: EncodedRecords = NOTHING) -> None:
        """Send events; without any, report progress."""
        self.sent += encoded.count
        recipient.send_events(self._events(recipient, encoded.records))

    def tell(self, recipient: EventStream) -> None:
        """Report progress to a client even if it has not changed."""
        recipient.tell(self._events(recipient))

    def _events(self, recipient: EventStream, records: bytes = b"") -> Events:
        at = recipient.at if recipient.stream else self.newest + 1
        return Events(recipient.stream, at, self.newest, self.revision, self.commits, records)

    # -- reading the log ---------------------------------------------------------------------------

    def read(
        self,
        recipient: EventStream,
        start: int,
        *,
        limit: int,
        until: int | None,
        types: Sequence[int] | None,
        wanted_by: str | None,
        size: int | None,
    ) -> LogPage:
        """Read a part of the log, without events that a subscription cannot want."""
        most = limit if wanted_by is None else SCAN
        much = MUCH if size is None else min(max(size, 0), MUCH)
        batch = self._store.read(start, limit=min(most, SCAN), until=until, types=types, size=much)
        entries = [stored for stored in batch.entries if recipient.may_receive(stored.record)]
        if wanted_by is not None:
            entries = list(self.plan.select(recipient, wanted_by, entries))
        upto = entries[limit].position if len(entries) > limit else batch.upto
        return LogPage(entries[:limit], upto)
