"""The direct engine over a store: publishing appends, and what is in the log is brought to all."""

from __future__ import annotations

import threading
from abc import get_cache_token
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import CellType
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOption, NotDecodable, PublishUnknown, StoreFailed
from polycast.events import MSGPACK, Identity, Root, codec_for
from polycast.routing.codegen import Route
from polycast.routing.crossing import Astray, Gone, Sight
from polycast.routing.dispatcher import Dispatcher, Lane
from polycast.stores import Entry, Publisher, Receipt, Run, Stored, Undecodable
from polycast.stores.entry import GivenReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.events import EncodedRun, Record
    from polycast.routing.plan import Target
    from polycast.routing.posting import Hit
    from polycast.stores import EventType, Store
    from polycast.typesystem import Registry

    Within = tuple[str, Root | None, list[bytes] | None]  # what a Run has of a context

__all__ = ["StoredDispatcher", "Submission"]

_CLASSES = "classes by hash"


@dataclass(frozen=True, slots=True)
class Submission:
    """Events on their way into the log."""

    publisher: Publisher
    runs: list[Run]
    positions: Future[list[int]]

    def receipts(self, positions: list[int]) -> list[Receipt]:
        """What their publisher gets."""
        identities = [each for run in self.runs for each in run.identities()]
        return [
            GivenReceipt(position, self.publisher, identity)
            for position, identity in zip(positions, identities, strict=True)
        ]

    def told(self, error: BaseException, within: float) -> BaseException:
        """What their publisher is told if something went wrong: it may be that nobody knows."""
        if isinstance(error, TimeoutError):
            return self._unknown(f"the store has not answered within {within:g} s")
        if isinstance(error, StoreFailed) and error.unknown:
            return self._unknown(str(error))
        return error

    def _unknown(self, why: str) -> PublishUnknown:
        identities = tuple(each for run in self.runs for each in run.identities())
        return PublishUnknown(identities[0], why=why, identities=identities)


class StoredDispatcher(Dispatcher):
    """Appends what is published, and routes what a feed reads; positions are the log's."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        clock: Clock,
        admit: Callable[[type], object],
        store: Store,
        registry: Registry,
        within: float,
    ) -> None:
        super().__init__(publisher, clock=clock, log=None, admit=admit)
        self.store, self.registry = store, registry
        self.newest = store.newest
        self.within = within  # how long a publisher waits before it does not know
        self._given = 0  # the last sequence
        self._in_line = threading.Lock()  # who has it takes a sequence and submits
        self._described: set[str] = set()
        self._publishers: dict[tuple[str, int], Publisher] = {}
        self._found: dict[tuple[type, str | None, str | None], tuple[Target, ...]] = {}
        self._found_at: object = None  # the version of the plan, and of what ABCs say
        self.routed = 1  # all before this position has been brought to who wants it
        self.advanced = threading.Condition()

    # -- publishing --------------------------------------------------------------------------------

    def _make(self, cls: type, lane: Lane) -> Route:
        del cls
        post = partial(self.post, topic=lane.topic, context=lane.source)
        return Route(post, CellType(False))

    def post_many(
        self,
        events: list[Any],
        topic: str | None = None,
        priority: int = 0,
        expires: float | None = None,
        headers: Mapping[str, str] | None = None,
        given: Identity | None = None,
        context: str | None = None,
    ) -> list[Receipt]:
        """Append all or nothing; return when that is synced."""
        if not events:
            return []
        about = (topic, priority, expires, headers, given, context)
        targets = self.blocking(events, topic, context)
        if not any(targets):
            return self.wait(self.submit(events, *about))
        with ExitStack() as room:
            self._refuse()
            self._reserve(targets, room)
            receipts = self.wait(self.submit(events, *about))
            if not self.turn.is_mine():  # it may be this thread that routes
                self._wait_until_routed(receipts[-1].position)
        return receipts

    def submit(
        self,
        events: list[Any],
        topic: str | None = None,
        priority: int = 0,
        expires: float | None = None,
        headers: Mapping[str, str] | None = None,
        given: Identity | None = None,
        context: str | None = None,
    ) -> Submission:
        """Take the next places of this publisher; the receipts come when all is synced."""
        self._refuse()
        for cls in set(map(type, events)):
            self.admit(cls)
        astray: dict[int, Astray] = {}
        encoded: list[tuple[EncodedRun, Any]]
        if context is None:
            encoded = [(run, ()) for run in MSGPACK.encode_runs(events, registry=self.registry)]
        else:
            encoded = self._rooted(events, context, astray)
        new = {run.hash for run, _ in encoded} - self._described
        if new or context is not None:
            self._describe()
            self._described |= new
        about = (topic, priority, expires, dict(headers) if headers else {})
        with self._in_line:
            runs = [
                Run(e.name, e.version, e.hash, first, "msgpack", e.payloads, *about, *within)
                for (e, within), first in zip(encoded, self._places(encoded, given), strict=True)
            ]
            positions = self.store.submit(runs)
        if astray:
            positions.add_done_callback(partial(self._tell, runs, astray))
        return Submission(self.publisher, runs, positions)

    def _tell(self, runs: list[Run], astray: dict[int, Astray], done: Future[list[int]]) -> None:
        """Tell of events that are kept, and whose root form could not be made."""
        if done.exception() is not None:
            return
        drafts = [draft for run in runs for draft in run.drafts()]
        for number, each in astray.items():
            record = drafts[number].at(self.clock.time())
            entry = self.entry(Stored(done.result()[number], record))
            self.astray(entry, each.context, each.error)

    def _rooted(
        self, events: list[Any], context: str, astray: dict[int, Astray]
    ) -> list[tuple[EncodedRun, Within]]:
        """Events of a context, with what they are in the root."""
        found: list[tuple[EncodedRun, Within]] = []
        forms = []
        for number, event in enumerate(events):
            try:
                forms.append(self._root_of(event, context))
            except Astray as error:
                astray[number] = error
                forms.append(None)
        pairs = zip(events, forms, strict=True)
        for (_, form), some in groupby(pairs, lambda pair: (type(pair[0]), type(pair[1]))):
            root: Root | None = None
            mine = list(some)
            [run] = MSGPACK.encode_runs([event for event, _ in mine], registry=self.registry)
            if form is type(None):
                found.append((run, (context, root, None)))
            elif form is Own:
                root = Root(run.name, run.version, run.hash, b"")
                found.append((run, (context, root, None)))
            else:
                self.admit(form)
                roots = [root for _, root in mine]
                [those] = MSGPACK.encode_runs(roots, registry=self.registry)
                root = Root(those.name, those.version, those.hash, b"")
                found.append((run, (context, root, those.payloads)))
        return found

    def _root_of(self, event: Any, context: str) -> Any:
        """The root form of an event; `Own` if that is itself, None if it cannot leave."""
        crossing = self.crossing
        there = crossing.leaves(type(event), context)
        if there is None:
            return None
        if there is type(event) and not crossing.is_mapped(type(event), context):
            return Own()
        try:
            return Sight(event, context, crossing).seen(None)
        except Gone:
            return None

    def _places(
        self, runs: list[tuple[EncodedRun, Any]], given: Identity | None
    ) -> Iterator[Identity]:
        """The identities of the first events of each run."""
        if given is not None:
            self._check_given(given)
            yield given
            return
        for run, _ in runs:
            yield Identity(self.publisher.name, self.publisher.epoch, self._given + 1)
            self._given += len(run.payloads)

    def _check_given(self, given: Identity) -> None:
        ours = (given.publisher, given.epoch) == (self.publisher.name, self.publisher.epoch)
        if ours and not 0 < given.sequence <= self._given:
            raise BadOption("identity", given, accepted="one that this bus has given before")

    def wait(self, submission: Submission) -> list[Receipt]:
        """The receipts, if they come in time."""
        try:
            positions = submission.positions.result(self.within)
        except (TimeoutError, StoreFailed) as error:
            raise submission.told(error, self.within) from None
        return submission.receipts(positions)

    def _describe(self) -> None:
        """Keep the descriptions of all classes bound here, before events of them are kept."""
        descriptions = self.registry.descriptions()

        def keep(tx: Any) -> None:
            for each in descriptions:
                tx.describe(each)

        self.store.write(keep)

    def blocking(
        self, events: list[Any], topic: str | None, context: str | None = None
    ) -> list[list[Hit]]:
        """Who of this process can make a publisher wait, and wants these events."""
        with self.changing:
            parties = {
                cls: [
                    (where, tuple(target for target in targets if target.blocking))
                    for where, targets in self.parties(cls, topic, context)
                ]
                for cls in set(map(type, events))
            }
        if not any(targets for each in parties.values() for _, targets in each):
            return []
        return [self._asked(parties[type(event)], event, topic, context)[0] for event in events]

    def _wait_until_routed(self, position: int) -> None:
        """What was reserved for an event is in the queues when it has been routed."""
        with self.advanced:
            self.advanced.wait_for(lambda: self.routed > position, self.within)

    # -- what the feed reads -----------------------------------------------------------------------

    def class_of(self, stored: Stored) -> type:
        """The class of a record, here."""
        record = stored.record
        known: dict[str, type] = self.registry.derived.setdefault(_CLASSES, {})
        return known.get(record.hash) or self.class_named(record)

    def class_named(self, named: Record | EventType) -> type:
        """The class of some name, here; the store may know what this process does not."""
        known: dict[str, type] = self.registry.derived.setdefault(_CLASSES, {})
        if self.registry.described(named.hash) is None:
            self.learn()
        try:
            cls = self.registry.class_for(named.name, named.version, named.hash)
        except NotDecodable:  # who wants everything learns that it cannot be read
            return object
        known[named.hash] = cls
        return cls

    def learn(self) -> None:
        """Learn the descriptions that others have put into the store."""
        with self.store.view() as view:
            descriptions = view.descriptions()
        for each in descriptions:
            self.registry.add(each)

    def entry(self, stored: Stored) -> Entry:
        """The event of a record; one that cannot be decoded stands for itself."""
        return self._entry_of(stored, stored.record, stored.record.context)

    def _entry_of(self, stored: Stored, record: Record, context: str | None) -> Entry:
        event: object
        try:
            event = codec_for(record.codec).decode(record, registry=self.registry)
        except NotDecodable as error:
            event = Undecodable(error)
        key = (record.identity.publisher, record.identity.epoch)
        publisher = self._publishers.get(key)
        if publisher is None:
            if len(self._publishers) > 10_000:
                self._publishers.clear()
            publisher = self._publishers[key] = Publisher(*key, durable=True)
        return Entry(
            stored.position,
            event,
            record.time,
            publisher,
            record.topic,
            record.priority,
            record.expires,
            record.headers or None,
            record.identity,
            stored.record,
            context,
        )

    # -- in other contexts -------------------------------------------------------------------------

    def class_in(self, stored: Stored, context: str | None) -> type | None:
        """The class of a record in a context; None if it does not get there."""
        record = stored.record
        if record.context == context:
            return self.class_of(stored)
        root = record.rooted()
        if root is None:
            return None
        cls = self.class_of(Stored(stored.position, root))
        return self.crossing.becomes(cls, None, context, stored.position)

    def entry_in(self, stored: Stored, context: str | None, *, again: bool = False) -> Entry | None:
        """The event of a record as a context sees it; None if it does not get there."""
        record = stored.record
        if record.context == context:
            return self.entry(stored)
        root = record.rooted()
        if root is None:
            return None
        entry = self._entry_of(stored, root, None)
        if context is None or isinstance(entry.event, Undecodable):
            return entry
        return self.seen_by(context, entry, again=again)

    def crossed(self, context: str | None, entry: Entry, at: int | None) -> Entry | None:
        """As any; the root form is the one that the publisher has made."""
        if entry.record is None or entry.context in (None, context):
            return super().crossed(context, entry, at)
        root = entry.record.rooted()
        if root is None:
            return None
        there = self._entry_of(Stored(entry.position, entry.record), root, None)
        if isinstance(there.event, Undecodable):
            return there
        return super().crossed(context, there, at)

    def _parties_of(self, stored: Stored) -> list[tuple[str | None, tuple[Target, ...]]]:
        """Who can want a record, context by context."""
        topic = stored.record.topic
        with self.changing:
            contexts = self.plan.contexts
        found = []
        for context in contexts:
            cls = self.class_in(stored, context)
            targets = () if cls is None else self.targets(cls, topic, context)
            if targets:
                found.append((context, targets))
        return found

    def bring(self, stored: Stored) -> None:
        """Bring one event to all of this process who want it and are not behind."""
        known: dict[str | None, Entry | None] = {}
        while True:
            version = self.version
            hits: list[tuple[Target, object, Entry]] = []
            for context, targets in self._parties_of(stored):
                if context not in known:
                    known[context] = self.entry_in(stored, context)
                entry = known[context]
                if entry is not None:
                    hits += [(*hit, entry) for hit in self.wanted_by(targets, entry)]
            if not hits and version != self.version:
                continue
            with self.order:
                if version != self.version:
                    continue
                for target, verdict, entry in hits:
                    target.put(entry, verdict)
            for target, _, _ in hits:
                target.wake()
            return

    def wanted_by(self, targets: tuple[Target, ...], entry: Entry) -> list[tuple[Target, object]]:
        """Those whose filters want it, with their verdicts; nobody can look into what is broken."""
        if isinstance(entry.event, Undecodable):
            return [(target, True) for target in targets]
        return self._matching(targets, entry.event, entry.topic)

    def targets(
        self, cls: type, topic: str | None, context: str | None = None
    ) -> tuple[Target, ...]:
        """Who in a context can want events of a class on a topic."""
        with self.changing:
            now = (self.version, get_cache_token())
            if self._found_at != now or len(self._found) > 10_000:
                self._found, self._found_at = {}, now
            key = (cls, topic, context)
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = self.plan.targets(cls, topic, context)
            return found


class Own:
    """In place of a root form: it is the event itself."""
