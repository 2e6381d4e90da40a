"""Fan-out: reads the log once for all clients, and sends each the events that it may want.

All of it runs in the thread of the event loop. A client that has not read what it was sent falls
behind: it is served from its own position in the log later, and holds up nobody's memory.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING

from polycast.broker.server.client_plan import TURN, ClientPlan
from polycast.broker.wire.protocol import Events, Wanted
from polycast.stores import LogPage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from polycast.broker.server.encoding_cache import EncodedRecords
    from polycast.broker.server.filter_budget import FilterBudget
    from polycast.broker.server.outbox import EventStream
    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.stores import Store
    from polycast.typesystem import Description

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
            self._report_progress(recipient)
        return more

    def _send_new(self) -> bool:
        batch = self._store.read(self.front, limit=BATCH, size=MUCH)
        if batch.upto == self.front:
            for recipient in self._live:
                self._report_progress(recipient)
            return False
        routed = self.plan.route(batch.entries)
        for recipient in list(self._live):
            encoded = routed.encoded_for(recipient)
            if encoded.count and not recipient.has_room():
                del self._live[recipient]
                self._behind[recipient] = None  # from where this batch begins
                continue
            recipient.at = batch.upto
            if encoded.count:
                self._send(recipient, encoded)
            else:
                self._report_progress(recipient)
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
            routed = self.plan.route(batch.entries, owner=recipient.owner)
            encoded = routed.encoded_for(recipient)
            recipient.at = max(batch.upto, recipient.at)
            self._send(recipient, encoded)
        if recipient.at < self.front:
            return True
        del self._behind[recipient]
        self._live[recipient] = None
        recipient.at = self.front
        self._report_progress(recipient)
        return False

    def _send(self, recipient: EventStream, encoded: EncodedRecords) -> None:
        self.sent += encoded.count
        recipient.send_events(self._events(recipient, encoded.records))

    def tell(self, recipient: EventStream) -> None:
        """Report progress to a client even if it has not changed."""
        recipient.tell(self._events(recipient))

    def _report_progress(self, recipient: EventStream) -> None:
        recipient.send_events(self._events(recipient))

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
