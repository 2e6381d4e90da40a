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

from polycast.errors import BadOptionError, NotDecodableError, PublishUnknownError, StoreFailedError
from polycast.errors.failures import FAILURES
from polycast.events import MSGPACK, Identity, Root, codec_for
from polycast.events.isolation import Copies, is_fixed
from polycast.routing.dispatcher import Dispatcher, Lane
from polycast.routing.passed_on import PassedOn
from polycast.routing.publish import ROUNDS, Asking
from polycast.routing.publish_codegen import Route
from polycast.routing.submissions import SubmissionQueue
from polycast.routing.translation import Astray, Gone, Sight, letter_name, reason_of
from polycast.stores import Entry, Publisher, Receipt, Run, Stored, Stray, Undecodable
from polycast.stores.entry import GivenReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.events import EncodedRun, Record
    from polycast.routing.plan import Target
    from polycast.routing.publish import Hit
    from polycast.routing.publish_metadata import Label
    from polycast.routing.submissions import Waiting
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
    waiting: Waiting | None = None
    """What they wait as, if the store has not been given them yet."""

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
        if isinstance(error, StoreFailedError) and error.unknown:
            return self._unknown(str(error))
        return error

    def _unknown(self, why: str) -> PublishUnknownError:
        identities = tuple(each for run in self.runs for each in run.identities())
        return PublishUnknownError(identities[0], why=why, identities=identities)


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
        self.queue = SubmissionQueue(self._submit_to_store, within)
        self._given = 0  # the last sequence
        self._in_line = threading.RLock()  # who has it takes a sequence and submits
        self._described = 0  # descriptions that the store was told, in the order they came
        self._learnt = 0  # descriptions of the store
        self._publishers: dict[tuple[str, int], Publisher] = {}
        self._found: dict[tuple[type, str | None, str | None], tuple[Target, ...]] = {}
        self._found_at: object = None  # the version of the plan, and of what ABCs say
        self.routed = 1  # all before this position has been brought to who wants it
        self.advanced = threading.Condition()
        self.is_called_back: Callable[[], bool] = bool  # whether a callback publishes
        self._passed_on = PassedOn(self.advanced)
        self.kept_locks: Callable[[], list[Any]] = list  # of that of which the store is told

    def locks(self) -> list[Any]:
        """As any; the store may need what this thread has of durable subscriptions and groups."""
        return [*super().locks(), self._in_line, self.queue.lock, *self.kept_locks()]

    @property
    def passed_on(self) -> int:
        """The newest position of what callbacks have published."""
        return self._passed_on.newest

    # -- publishing --------------------------------------------------------------------------------

    def _make(self, cls: type, lane: Lane) -> Route:
        del cls
        return Route(partial(self.post, label=lane.label()), CellType(False))

    def post_many(self, events: list[Any], label: Label) -> list[Receipt]:
        """Append all or nothing; return when that is synced."""
        if not events:
            return []
        self.check_free("publish()")
        self.store.check_wait("publish()")
        targets = self.blocking(events, label.topic, label.context)
        if not any(targets):
            return self.wait(self._submit(events, label, waits=True))
        with ExitStack() as room:
            self._refuse()
            self._reserve(targets, room)
            receipts = self.wait(self._submit(events, label, waits=True))
            if not self.turn.is_mine():  # it may be this thread that routes
                self.wait_until_routed(receipts[-1].position)
        return receipts

    def submit(self, events: list[Any], label: Label, *, waits: bool = True) -> Submission:
        """Take the next places of this publisher; the receipts come when all is synced.

        Who does not wait for them in its thread is held to what the store has room for.
        """
        self.check_free("publish()")
        return self._submit(events, label, waits=waits)

    def _submit(self, events: list[Any], label: Label, *, waits: bool) -> Submission:
        self._refuse()
        for cls in set(map(type, events)):
            self.admit(cls)
        astray: dict[int, Astray] = {}
        encoded: list[tuple[EncodedRun, Any]]
        if label.context is None:
            encoded = [(run, ()) for run in MSGPACK.encode_runs(events, registry=self.registry)]
        else:
            encoded = self._rooted(events, label.context, astray)
        if self._described != self.registry.count:  # of what the events hold, too
            self._describe()
        headers = dict(label.headers) if label.headers else {}
        about = (label.topic, label.priority, label.expires, headers)
        with self._in_line:
            places = self._places(encoded, label.given)
            runs = [
                Run(e.name, e.version, e.hash, first, "msgpack", e.payloads, *about, *within)
                for (e, within), first in zip(encoded, places, strict=True)
            ]
            strays = [
                Stray(number, letter_name(each.context), reason_of(each.error))
                for number, each in astray.items()
            ]
            positions, waiting = self.queue.put(runs, strays, counted=not waits)
        if self.is_called_back():
            self._passed_on.begin(positions)
        return Submission(self.publisher, runs, positions, waiting)

    def _submit_to_store(self, runs: list[Run], strays: Sequence[Stray]) -> Future[list[int]]:
        return self.store.submit(runs, astray=strays)

    def _rooted(
        self, events: list[Any], context: str, astray: dict[int, Astray]
    ) -> list[tuple[EncodedRun, Within]]:
        """Events of a context, with what they are in the root."""
        found: list[tuple[EncodedRun, Within]] = []
        forms: list[Any] = []
        ways: dict[type, Callable[[Any], Any]] = {}
        for number, event in enumerate(events):
            way = ways.get(type(event))
            if way is None:
                way = ways[type(event)] = self._way_out(type(event), context)
            try:
                forms.append(way(event))
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

    def _way_out(self, cls: type, context: str) -> Callable[[Any], Any]:
        """What makes root forms of events; `OWN` if that is itself, None if it cannot leave."""
        crossing = self.crossing
        there = crossing.becomes(cls, context, None)
        if there is None:
            return lambda event: crossing.leaves(type(event), context)  # which counts it
        if there is cls and not crossing.is_mapped(cls, context):
            return lambda event: OWN
        try:
            return crossing.way_out(context)
        except Gone:
            return lambda event: None

    def root_now(self, stored: Stored) -> Root | None:
        """What an event that could not leave its context is in the root, as contexts are now.

        None if it is not known here, or still cannot leave; `Astray` if a function raises.
        """
        record, event = stored.record, self.entry(stored).event
        known = record.context is not None and self.crossing.member(record.context, None)
        if record.context is None or not known or isinstance(event, Undecodable):
            return None
        form = self._way_out(type(event), record.context)(event)
        if form is None:
            return None
        if isinstance(form, Own):
            return Root(record.name, record.version, record.hash, b"")
        self.admit(type(form))
        made = codec_for(record.codec).encode(form, registry=self.registry)
        self._describe()
        return Root(made.name, made.version, made.hash, made.payload)

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
            raise BadOptionError("identity", given, accepted="one that this bus has given before")

    def wait(self, submission: Submission) -> list[Receipt]:
        """The receipts, if they come in time."""
        if submission.waiting is not None:
            self.queue.await_turn(submission.waiting)
        try:
            positions = submission.positions.result(self.within)
        except (TimeoutError, StoreFailedError) as error:
            raise submission.told(error, self.within) from None
        return submission.receipts(positions)

    def _describe(self) -> None:
        """Keep the descriptions of all classes bound here, before events of them are kept."""
        known = self.registry.descriptions()
        self.store.describe(known[self._described :])
        self._described = max(self._described, len(known))

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
        found = []
        for event in events:
            asking = Asking(Sight(event, context, self.crossing), self.crossing.era)
            self._ask(asking, parties[type(event)], topic)
            found.append(asking.hits)
        return found

    def wait_until_routed(self, position: int) -> None:
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
        except NotDecodableError:  # who wants everything learns that it cannot be read
            return object
        known[named.hash] = cls
        return cls

    def learn(self) -> bool:
        """Learn the descriptions that others have put into the store; whether some are new."""
        known = self._learnt
        with self.store.view() as view:
            descriptions = view.descriptions(after=known)
        for each in descriptions:
            self.registry.add(each)
        self._learnt = max(self._learnt, known + len(descriptions))
        return bool(descriptions)

    def _decoded(self, record: Record, decode: Callable[..., Any]) -> Any:
        """The event; what its attributes hold may be described later than its own class."""
        try:
            return decode(record, registry=self.registry)
        except NotDecodableError:
            if not self.learn():
                raise
            return decode(record, registry=self.registry)

    def entry(self, stored: Stored) -> Entry:
        """The event of a record; one that cannot be decoded stands for itself."""
        return self._entry_of(stored, stored.record, stored.record.context)

    def _entry_of(self, stored: Stored, record: Record, context: str | None) -> Entry:
        event: object
        own: Copies | None = None
        try:
            decode = codec_for(record.codec).decode
            event = self._decoded(record, decode)
            if not is_fixed(event):
                own = Copies([event], decode, record, self.registry)
        except NotDecodableError as error:
            event = Undecodable(error)
        except FAILURES as error:  # of its class, which may do something when it is made
            why = f"making it raised {type(error).__name__}: {error}"
            event = Undecodable(NotDecodableError(f"an event of class {record.name!r}", why=why))
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
            None,
            own,
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
        hits: list[tuple[Target, object, Entry]] | None = None
        rounds = 0
        with ExitStack() as calm:
            while hits is None:
                rounds += 1
                if rounds == ROUNDS:
                    calm.enter_context(self.calm.asked_for())
                hits = self._bring_once(stored, known)
        for target, _, _ in hits:
            target.wake()

    def _bring_once(
        self, stored: Stored, known: dict[str | None, Entry | None]
    ) -> list[tuple[Target, object, Entry]] | None:
        """Put an event where it is wanted; None if the plan has changed meanwhile."""
        version = self.version
        hits: list[tuple[Target, object, Entry]] = []
        for context, targets in self._parties_of(stored):
            if context not in known:
                known[context] = self.entry_in(stored, context)
            entry = known[context]
            if entry is not None:
                hits += [(*hit, entry) for hit in self.wanted_by(targets, entry)]
        if not hits:
            return hits if version == self.version else None
        with self.order:
            if version != self.version:
                return None
            for target, verdict, entry in hits:
                target.put(entry, verdict)
        return hits

    def wanted_by(self, targets: tuple[Target, ...], entry: Entry) -> list[tuple[Target, object]]:
        """Those whose filters want it, with their verdicts; nobody can look into what is broken."""
        if isinstance(entry.event, Undecodable):
            return [(target, True) for target in targets]
        # Nobody is given what a function may have changed.
        event = entry.fresh() if self.plan.asks_opaque(targets) else entry.event
        return self._matching(targets, event, entry.topic)

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


OWN = Own()
