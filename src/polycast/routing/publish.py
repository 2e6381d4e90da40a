"""Publishing in memory: the slow path, for every event that no generated route takes."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError
from polycast.errors.failures import FAILURES, check_has_run
from polycast.routing.dispatcher import ROUNDS
from polycast.routing.recipient_query import LiveForms, RecipientQuery, entry_as
from polycast.routing.route_cache import PublishMetadata, RouteKey
from polycast.routing.route_compiler import RouteCompiler
from polycast.stores import Entry, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.events import Identity
    from polycast.routing.dispatcher import Dispatcher
    from polycast.routing.recipient_query import Recipient
    from polycast.stores import Recent

IDENTITIES_KEPT = 100_000


class MemoryPublisher:
    """Gives events positions and brings them to those who want them."""

    def __init__(
        self, dispatcher: Dispatcher, *, log: Recent | None, isolated: bool = False
    ) -> None:
        self._dispatcher, self._log, self._isolated = dispatcher, log, isolated
        self._lock = dispatcher.inline_lock
        self._retried: OrderedDict[Identity, Receipt] = OrderedDict()
        self._compiler = RouteCompiler(self, dispatcher, log=log, isolated=isolated)

    def route(
        self, cls: type, topic: str | None, source: str | None = None
    ) -> Callable[[Any], Receipt]:
        """The generated function for events of a class on a topic, published in a context."""
        dispatcher, key = self._dispatcher, RouteKey(topic, source)
        dispatcher.check_free("publish()")
        dispatcher.refuse()
        if dispatcher.is_stopped:  # what callbacks publish while the bus drains
            return partial(self.post, metadata=key.metadata())
        dispatcher.admit(cls)
        with dispatcher.changing:
            routes = dispatcher.routes
            if routes.get(cls, key) is None:
                routes.put(cls, key, self._compiler.make(cls, key))
            return routes.use(cls, key)

    def post(self, event: Any, metadata: PublishMetadata) -> Receipt:
        """Publish one event."""
        return self.post_many([event], metadata)[0]

    def post_many(self, events: list[Any], metadata: PublishMetadata) -> list[Receipt]:
        """Publish all or nothing, in one run of positions."""
        if not events:
            return []
        dispatcher, translation = self._dispatcher, self._dispatcher.plan.translation
        dispatcher.check_free("publish()")
        for event in events:
            dispatcher.admit(type(event))
        topic, context = metadata.topic, metadata.context
        queries: list[RecipientQuery] = []
        published: list[Entry] | Receipt | None = None
        rounds = 0
        with ExitStack() as held:
            while published is None:
                dispatcher.refuse()
                rounds += 1
                if rounds == ROUNDS:
                    held.enter_context(dispatcher.starvation_guard.hold_changes())
                with dispatcher.changing:
                    version, revision = dispatcher.version, translation.revision
                    candidates = [
                        dispatcher.candidates(type(event), topic, context) for event in events
                    ]
                if not queries or queries[0].revision != revision:
                    queries = [self._query(event, context, revision) for event in events]
                else:
                    for query in queries:
                        query.ask_again()
                recipients = [
                    dispatcher.plan.recipients(query, some, topic)
                    for query, some in zip(queries, candidates, strict=True)
                ]
                published = self._bring(events, queries, recipients, version, metadata, held)
        if isinstance(published, Receipt):
            return [published]
        return [entry.receipt() for entry in published]

    def _query(self, event: Any, context: str | None, revision: int) -> RecipientQuery:
        dispatcher = self._dispatcher
        translation, snapshot = dispatcher.plan.translation, dispatcher.snapshot
        forms = LiveForms(event, context, translation, snapshot=snapshot)
        if self._isolated:
            forms.copies()  # before any filter sees it
        return RecipientQuery(forms, revision, remembers=True)

    def _bring(
        self,
        events: list[Any],
        queries: list[RecipientQuery],
        recipients: list[list[Recipient]],
        version: int,
        metadata: PublishMetadata,
        held: ExitStack,
    ) -> list[Entry] | Receipt | None:
        """Bring events to those who want them; None if the plan has changed meanwhile."""
        # Who is called in this thread is asked once: it may change meanwhile.
        parts = [_parted(some) for some in recipients]
        queued, inline = [part[False] for part in parts], [part[True] for part in parts]
        dispatcher = self._dispatcher
        with ExitStack() as room:
            dispatcher.reserve(recipients, room)
            with self._lock_if(any(inline)) as nested:
                own = [query.forms.copies() if self._isolated else None for query in queries]
                entries = self._accept(events, own, queued, version, metadata)
                room.close()  # what was accepted is in the queues
                if not isinstance(entries, list):
                    return entries
                held.close()
                for number, entry in enumerate(entries):
                    if metadata.context is not None:
                        translation = dispatcher.plan.translation
                        translation.leaves(type(entry.event), metadata.context)
                    for target, _, _ in queued[number]:
                        target.wake()
                    for context, error in queries[number].failed.items():
                        dispatcher.translation_failed(entry, context, error)
                    work = partial(self.run_inline, entry, inline[number])
                    self._lock.put_off(work) if nested else work()
        return entries

    @contextmanager
    def _lock_if(self, needed: bool) -> Iterator[bool]:  # noqa: FBT001
        """Have the lock if somebody is called in this thread; True if it was ours before."""
        if needed:
            with self._lock.hold() as nested:
                yield nested
        else:
            yield False

    def _accept(
        self,
        events: list[Any],
        copiers: list[Callable[[], Any] | None],
        queued: list[list[Recipient]],
        version: int,
        metadata: PublishMetadata,
    ) -> list[Entry] | Receipt | None:
        """Give positions and fill the queues; None if the plan has changed meanwhile.

        An identity that was published before gets the receipt it got then.
        """
        given, dispatcher, lock = metadata.given, self._dispatcher, self._lock
        about = (metadata.topic, metadata.priority, metadata.expires, metadata.headers, given, None)
        context = (metadata.context, None)
        with dispatcher.order:
            if given is not None and (known := self._receipt_of(given)) is not None:
                return known
            if dispatcher.version != version:
                return None
            moment, publisher = lock.moment(dispatcher.clock.time()), dispatcher.publisher
            entries = [
                Entry(lock.advance(), event, moment, publisher, *about, *context, own)
                for event, own in zip(events, copiers, strict=True)
            ]
            for entry, recipients in zip(entries, queued, strict=True):
                if self._log is not None:
                    self._log.append(entry)
                for target, verdict, form in recipients:
                    target.put(entry_as(entry, form), verdict)
            if given is not None:
                self._retried[given] = entries[0].receipt()
                if len(self._retried) > IDENTITIES_KEPT:
                    self._retried.popitem(last=False)
        return entries

    def _receipt_of(self, given: Identity) -> Receipt | None:
        """The receipt of an identity that was published before."""
        ours = self._dispatcher.publisher
        if (given.publisher, given.epoch) != (ours.name, ours.epoch):
            return self._retried.get(given)
        if not 0 < given.sequence <= self._lock.newest():
            raise BadOptionError("identity", given, accepted="one that this bus has given before")
        return Receipt(given.sequence, ours)

    def run_inline(self, entry: Entry, recipients: list[Recipient]) -> None:
        """With the inline lock: bring one event to those who are called in this thread."""
        for target, verdict, form in recipients:
            call = target.direct
            if call is None:
                target.put(entry_as(entry, form), verdict)
                target.wake()
            elif entry.expires is not None and self._dispatcher.clock.time() >= entry.expires:
                target.expired()
            else:
                try:
                    event = form.event if form.own is None else form.own()
                    if (said := call(event)) is not None:
                        check_has_run("a callback in the publisher's thread", said)
                except FAILURES as error:
                    target.failed(entry_as(entry, form), error)


def _parted(recipients: list[Recipient]) -> dict[bool, list[Recipient]]:
    """Those who are called in the publisher's thread, and those who are not."""
    parts: dict[bool, list[Recipient]] = {False: [], True: []}
    for recipient in recipients:
        parts[recipient[0].inline].append(recipient)
    return parts
