"""What the log reader reads: records become events, which go to the recipients of the plan."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.errors import NotDecodableError
from polycast.errors.failures import failures_here
from polycast.events import Record, codec_for
from polycast.events.isolation import Copies, is_fixed
from polycast.plain_text import words_of
from polycast.routing.dispatcher import ROUNDS, Dispatcher
from polycast.routing.translation import EntryForms, RecipientQuery, TranslationFailed, entry_in
from polycast.stores import Entry, EventType, Publisher, Store, Stored, Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from polycast.routing.plan import Candidates, Target
    from polycast.routing.translation import Recipient
    from polycast.typesystem import Registry

_CLASSES = "classes by hash"
MOST_PUBLISHERS = 10_000  # that are remembered


class RecordRouter:
    """Decodes the records of a store, and routes them to the live subscriptions of a bus."""

    def __init__(
        self, dispatcher: Dispatcher, store: Store, registry: Registry, *, timeout: float
    ) -> None:
        self.dispatcher, self._store, self.registry = dispatcher, store, registry
        self._timeout = timeout  # how long somebody waits for what is read
        self._learnt = 0  # descriptions of the store
        self._publishers: dict[tuple[str, int], Publisher] = {}
        self.routed = 1  # all before this position has been brought to who wants it
        self.advanced = dispatcher.runtime.condition()

    def wait_until_routed(self, position: int) -> None:
        """What was reserved for an event is in the queues when it has been routed."""
        with self.advanced:
            self.advanced.wait_for(lambda: self.routed > position, self._timeout)

    def advance(self, position: int) -> None:
        """All before a position has been routed: tell whoever waits for that."""
        self.routed = max(self.routed, position)
        with self.advanced:
            self.advanced.notify_all()

    # -- records as events -------------------------------------------------------------------------

    def class_of(self, record: Record | EventType) -> type:
        """The class of a record, or a type, here; the store may know what this process does not."""
        known: dict[str, type] = self.registry.derived.setdefault(_CLASSES, {})
        cls = known.get(record.hash)
        if cls is not None:
            return cls
        if self.registry.described(record.hash) is None:
            self.learn()
            known = self.registry.derived.setdefault(_CLASSES, {})
        try:
            cls = self.registry.class_for(record.name, record.version, record.hash)
        except NotDecodableError:  # who wants everything learns that it cannot be read
            return object
        known[record.hash] = cls
        return cls

    def learn(self) -> bool:
        """Learn the descriptions that others have put into the store; whether some are new."""
        known = self._learnt
        with self._store.view() as view:
            descriptions = view.descriptions(after=known)
        for description in descriptions:
            self.registry.add(description)
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
        except failures_here() as error:  # of its class, which may do something when it is made
            why = f"making it raised {type(error).__name__}: {words_of(error)}"
            event = Undecodable(NotDecodableError(f"an event of class {record.name!r}", why=why))
        key = (record.identity.publisher, record.identity.epoch)
        publisher = self._publishers.get(key)
        if publisher is None:
            if len(self._publishers) > MOST_PUBLISHERS:
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
            return self.class_of(record)
        root = record.rooted()
        if root is None:
            return None
        cls = self.class_of(root)
        return self.dispatcher.plan.translation.becomes(cls, None, context, stored.position)

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
        return self._translated(context, entry, again=again)

    def _translated(self, context: str, entry: Entry, *, again: bool) -> Entry | None:
        """The entry in a context. One that comes again may do so because that was mended since."""
        translation = self.dispatcher.plan.translation
        error: TranslationFailed | None = None
        for at in (entry.position, None) if again else (entry.position,):
            try:
                return entry_in(context, entry, translation, at)
            except TranslationFailed as failure:
                error = failure
        assert error is not None
        self.dispatcher.translation_failed(entry, error.context, error.error)
        return None

    def root_of(self, entry: Entry) -> Entry | None:
        """The root form that was kept with the event of an entry; None if it has none."""
        assert entry.record is not None
        root = entry.record.rooted()
        if root is None:
            return None
        return self._entry_of(Stored(entry.position, entry.record), root, None)

    # -- routing them ------------------------------------------------------------------------------

    def wanted(
        self, target: Target, records: Iterable[Stored], *, again: bool = False
    ) -> list[tuple[Entry, object]]:
        """Those of some records, older ones perhaps, that a target wants, with the verdicts."""
        interests, plan = target.interests(), self.dispatcher.plan
        context = interests[0].context
        covered: dict[tuple[type, str | None], bool] = {}
        wanted: list[tuple[Entry, object]] = []
        for stored in records:
            cls, topic = self.class_in(stored, context), stored.record.topic
            if cls is None:
                continue
            if (cls, topic) not in covered:
                covers = (interest.selector.covers(cls, topic) for interest in interests)
                covered[cls, topic] = any(covers)
            if covered[cls, topic]:
                query = self._query(stored, again=again)
                recipients = plan.recipients(query, [(context, (target,))], topic)
                wanted += [(entry, verdict) for _, verdict, entry in recipients]
        return wanted

    def deliver(
        self, stored: Stored, targets: Sequence[Target], unsure: Collection[object]
    ) -> None:
        """Put an event where the pipeline says; ask those that it was unsure of."""
        query = self._query(stored)
        put: list[tuple[Target, Entry]] = []
        for target in targets:
            context = target.interests()[0].context
            if target in unsure:
                candidates = [(context, (target,))]
                asked = self.dispatcher.plan.recipients(query, candidates, stored.record.topic)
                put += [(target, entry) for _, _, entry in asked]
            elif (entry := query.forms.form(context)) is not None:
                put.append((target, entry))
        with self.dispatcher.order:
            for target, entry in put:
                target.put(entry, True)

    def _query(self, stored: Stored, *, again: bool = False) -> RecipientQuery:
        return RecipientQuery(EntryForms(partial(self.entry_in, stored, again=again)))

    def bring(self, stored: Stored) -> None:
        """Bring one event to all of this process who want it and are not behind."""
        dispatcher, topic = self.dispatcher, stored.record.topic
        query = self._query(stored)
        recipients: list[Recipient] | None = None
        rounds = 0
        with ExitStack() as held:
            while recipients is None:
                rounds += 1
                if rounds == ROUNDS:
                    held.enter_context(dispatcher.starvation_guard.hold_changes())
                version = dispatcher.version
                wanting = dispatcher.plan.recipients(query, self._candidates(stored), topic)
                recipients = self._put(wanting, version)
        for target, _, _ in recipients:
            target.wake()

    def _put(self, recipients: list[Recipient], version: int) -> list[Recipient] | None:
        """Put an event where it is wanted; None if the plan has changed meanwhile."""
        dispatcher = self.dispatcher
        if not recipients:
            return recipients if version == dispatcher.version else None
        with dispatcher.order:
            if version != dispatcher.version:
                return None
            for target, verdict, entry in recipients:
                target.put(entry, verdict)
        return recipients

    def _candidates(self, stored: Stored) -> list[Candidates]:
        """Who can want a record, context by context."""
        plan, topic = self.dispatcher.plan, stored.record.topic
        with self.dispatcher.changing:
            contexts = plan.targets.contexts
        candidates: list[Candidates] = []
        for context in contexts:
            cls = self.class_in(stored, context)
            if cls is not None:
                with self.dispatcher.changing:
                    candidates.append((context, plan.targets_of(cls, topic, context)))
        return candidates
