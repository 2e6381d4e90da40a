"""The direct engine over a store: publishing appends, and what is in the log is brought to all."""

from __future__ import annotations

from abc import get_cache_token
from contextlib import ExitStack
from functools import partial
from types import CellType
from typing import TYPE_CHECKING, Any

from polycast.errors import NotDecodableError
from polycast.errors.failures import FAILURES
from polycast.events import codec_for
from polycast.events.isolation import Copies, is_fixed
from polycast.routing.dispatcher import Dispatcher
from polycast.routing.publish import ROUNDS, RecipientQuery
from polycast.routing.publish_codegen import Route
from polycast.routing.store_publisher import StorePublisher
from polycast.routing.translation import EventViews
from polycast.runtime import SYSTEM, Runtime
from polycast.stores import Entry, Publisher, Stored, Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.events import Record, Root
    from polycast.routing.plan import Target
    from polycast.routing.publish import Hit
    from polycast.routing.publish_metadata import PublishMetadata, RouteKey
    from polycast.stores import EventType, Receipt, Store
    from polycast.typesystem import Registry

__all__ = ["StoredDispatcher"]

_CLASSES = "classes by hash"


class StoredDispatcher(Dispatcher):
    """Appends what is published, and routes what a log reader reads; positions are the log's."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        clock: Clock,
        admit: Callable[[type], object],
        store: Store,
        registry: Registry,
        within: float,
        runtime: Runtime = SYSTEM,
        kept_locks: Callable[[], list[Any]] = list,
        is_called_back: Callable[[], bool] = bool,
        translation_failed: Callable[[Entry, str, BaseException], None] = lambda *_: None,
    ) -> None:
        super().__init__(
            publisher,
            clock=clock,
            log=None,
            admit=admit,
            runtime=runtime,
            translation_failed=translation_failed,
        )
        self.store, self.registry = store, registry
        self.newest = store.newest
        self._learnt = 0  # descriptions of the store
        self._publishers: dict[tuple[str, int], Publisher] = {}
        self._found: dict[tuple[type, str | None, str | None], tuple[Target, ...]] = {}
        self._found_at: object = None  # the version of the plan, and of what ABCs say
        self.routed = 1  # all before this position has been brought to who wants it
        self.advanced = runtime.condition()
        self._kept_locks = kept_locks  # of that of which the store is told
        self.publishing = StorePublisher(self, store, registry, within, is_called_back)

    def locks(self) -> list[Any]:
        """As any; the store may need what this thread has of durable subscriptions and groups."""
        return [*super().locks(), *self.publishing.locks(), *self._kept_locks()]

    @property
    def passed_on(self) -> int:
        """The newest position of what callbacks have published."""
        return self.publishing.passed_on

    # -- publishing --------------------------------------------------------------------------------

    def _make(self, cls: type, lane: RouteKey) -> Route:
        del cls
        return Route(partial(self.post, label=lane.label()), CellType(False))

    def post_many(self, events: list[Any], label: PublishMetadata) -> list[Receipt]:
        """Append all or nothing; return when that is synced."""
        return self.publishing.post_many(events, label)

    def root_now(self, stored: Stored) -> Root | None:
        """What an event that could not leave its context is in the root, as contexts are now.

        None if it is not known here, or cannot leave; `TranslationFailed` if a function raises.
        """
        record, event = stored.record, self.entry(stored).event
        known = record.context is not None and self.translation.member(record.context, None)
        if not known or isinstance(event, Undecodable):
            return None
        return self.publishing.root_form(event, record)

    def blocking(
        self, events: list[Any], topic: str | None, context: str | None = None
    ) -> list[list[Hit]]:
        """Who of this process can make a publisher wait, and wants these events."""
        with self.changing:
            if next(iter(self.plan), None) is None:
                return []
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
            asking = RecipientQuery(
                EventViews(event, context, self.translation), self.translation.era
            )
            self._ask(asking, parties[type(event)], topic)
            found.append(asking.hits)
        return found

    def wait_until_routed(self, position: int) -> None:
        """What was reserved for an event is in the queues when it has been routed."""
        with self.advanced:
            self.advanced.wait_for(lambda: self.routed > position, self.publishing.within)

    # -- what the log reader reads -----------------------------------------------------------------

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
        return self.translation.becomes(cls, None, context, stored.position)

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
        with ExitStack() as held:
            while hits is None:
                rounds += 1
                if rounds == ROUNDS:
                    held.enter_context(self.starvation_guard.hold_changes())
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
