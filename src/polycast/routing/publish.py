"""Publishing in memory: the slow path, for every event that no generated route takes."""

from __future__ import annotations

from abc import get_cache_token
from collections import OrderedDict
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from types import CellType
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError
from polycast.errors.failures import check_has_run, failures_here
from polycast.routing.context_target import (
    ContextGroupTarget,
    ContextTarget,
    EarlyTranslation,
    lazy_test,
    shares_translation,
)
from polycast.routing.dispatcher import ROUNDS, Dispatcher
from polycast.routing.plan import Candidates, Target, is_single, pays_to_index
from polycast.routing.publish_codegen import (
    UNROLLED,
    PublishMetadata,
    Route,
    RouteKey,
    RouteShape,
    call_names,
    expression_of,
    guarded,
    make_route,
    names_for,
)
from polycast.routing.translation import (
    ContextRemoved,
    LiveForm,
    LiveForms,
    RecipientQuery,
    entry_as,
)
from polycast.runtime import LATEST, interrupted, owner_test
from polycast.stores import Entry, Receipt, Recent

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.events import Identity
    from polycast.routing.translation import Recipient


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
            # Have the lock if somebody is called in this thread; it may be ours already.
            with self._lock.hold() if any(inline) else nullcontext(False) as nested:
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
                except failures_here() as error:
                    target.failed(entry_as(entry, form), error)


def _parted(recipients: list[Recipient]) -> dict[bool, list[Recipient]]:
    """Those who are called in the publisher's thread, and those who are not."""
    parts: dict[bool, list[Recipient]] = {False: [], True: []}
    for recipient in recipients:
        parts[recipient[0].inline].append(recipient)
    return parts


class RouteCompiler:
    """Compiles what the plan says of the recipients of events that come one way."""

    def __init__(
        self,
        publisher: MemoryPublisher,
        dispatcher: Dispatcher,
        *,
        log: Recent | None,
        isolated: bool,
    ) -> None:
        self._publisher, self._dispatcher = publisher, dispatcher
        self._plan, self._lock = dispatcher.plan, dispatcher.inline_lock
        self._log, self._isolated = log, isolated

    def make(self, cls: type, key: RouteKey) -> Route:
        """The route for events of a class; it may be the slow path."""
        topic = key.topic
        [(_, targets), *others] = self._dispatcher.candidates(cls, topic, key.source)
        others_at = self._context_targets(cls, key, others)
        if others_at is None or any(target.blocking for target in targets):
            # A publisher that may have to wait takes the slow path, which knows how.
            return Route(partial(self._publisher.post, metadata=key.metadata()), CellType(False))
        route = self._make_free(cls, key, targets, others_at)
        # For those who are called in this thread it is translated ahead; others may be faster.
        is_called = any(context.inline for context in others_at)
        is_late = is_called and any(target.direct is None for target in targets)
        if not (self._isolated or is_late or any(target.copies for target in targets)):
            return route
        # What can be changed is copied, or translated, on the slow path, before anybody has it.
        return guarded(route, partial(self._publisher.post, metadata=key.metadata()))

    def _make_free(
        self, cls: type, key: RouteKey, targets: tuple[Target, ...], others_at: list[ContextTarget]
    ) -> Route:
        """A route that hands the very object to those in its own context."""
        topic = key.topic
        is_indexed = not self._dispatcher.routes.is_dense(cls, key) and pays_to_index(targets)
        late = [context for context in others_at if context.inline] if targets else []
        targets = (*map(EarlyTranslation, late), *targets, *others_at)
        calls = [(target, call) for target in targets if (call := target.direct) is not None]
        direct = tuple(target for target, _ in calls)
        chosen = set(direct)
        queued = tuple(target for target in targets if target not in chosen)
        if is_indexed and not any(context.inline for context in others_at):
            return self._make_indexed(cls, key, calls, queued)
        tests = tuple(target.test_for(cls, topic) for target in queued)
        wants = tuple(target.test_for(cls, topic) for target in direct)
        few = direct if len(direct) <= UNROLLED else ()
        written = [expression_of(target, number, cls, topic) for number, target in enumerate(few)]
        shape = replace(
            self._shape(cls, key, targets),
            queued=tuple(test is not None for test in tests),
            direct=tuple(text for text, _ in written) if few else (None,) * len(direct),
        )
        names = self._names(shape, key, direct)
        names.update(names_for(queued, tests))
        names.update(call_names(tuple(call for _, call in calls), wants))
        for _, values in written:
            names.update(values)
        return make_route(shape, self._lock.cells, names)

    def _shape(self, cls: type, key: RouteKey, targets: tuple[Target, ...]) -> RouteShape:
        return RouteShape(
            logged=self._log is not None,
            locked=any(target.inline for target in targets),
            topic=key.topic is not None,
            registrable=self._plan.targets.registrable(cls),
            within=key.source is not None,
        )

    def _context_targets(
        self, cls: type, key: RouteKey, others: list[Candidates]
    ) -> list[ContextTarget] | None:
        """Those in other contexts; None if they need the slow path."""
        if self._plan.translation.becomes(cls, key.source, None) is None and key.source is not None:
            return None  # that is counted there
        if not all(shares_translation(targets) for _, targets in others):
            return None
        try:
            if key.source is not None and any(map(self._plan.translation.way_again, dict(others))):
                return None  # their root form has to be kept
            if key.source is None or len(others) < 2:
                return [self._context_target(*candidates, key) for candidates in others]
            if not shares_translation(tuple(target for _, targets in others for target in targets)):
                return None
            # They share a root form, which is made once.
            inner = [
                self._context_target(*candidates, RouteKey(key.topic)) for candidates in others
            ]
            return [
                ContextGroupTarget(
                    self._plan.translation.way_out(key.source),
                    inner,
                    self._dispatcher.translation_failed,
                )
            ]
        except ContextRemoved:
            return None

    def _context_target(
        self, context: str | None, targets: tuple[Target, ...], key: RouteKey
    ) -> ContextTarget:
        made, topic = self._dispatcher.version, key.topic
        return ContextTarget(
            context,
            targets,
            see=self._plan.translation.way(key.source, context),
            again=self._plan.translation.way_again(context),
            fixed=self._plan.translation.fixed(key.source, context),
            match=lambda there: self._plan.wanting(targets, there, topic),
            tests=[lazy_test(target, topic) for target in targets],
            failed=self._dispatcher.translation_failed,
            is_gone=lambda target: (
                self._dispatcher.version != made and target not in self._plan.targets
            ),
        )

    def _make_indexed(
        self,
        cls: type,
        key: RouteKey,
        calls: list[tuple[Target, Callable[[Any], object]]],
        queued: tuple[Target, ...],
    ) -> Route:
        """A route that asks an index who wants an event, and only groups for themselves."""
        topic, direct = key.topic, tuple(target for target, _ in calls)
        groups = tuple(target for target in queued if not is_single(target))
        shape = replace(self._shape(cls, key, (*direct, *queued)), indexed=True)
        names = self._names(shape, key, direct)
        names["calls"] = tuple(call for _, call in calls)
        names["boxes"] = [(target, target.test_for(cls, topic)) for target in groups]
        dense = partial(self._too_dense, cls, key)
        names["choose"] = self._plan.index.chooser(direct, queued, topic, dense)
        return make_route(shape, self._lock.cells, names)

    def _too_dense(self, cls: type, key: RouteKey) -> None:
        """So many want most events that the next route asks each; until the plan changes."""
        with self._dispatcher.changing, self._dispatcher.order:
            self._dispatcher.expire([(cls, key)])
            self._dispatcher.routes.mark_dense(cls, key)

    def _names(
        self, shape: RouteShape, key: RouteKey, direct: tuple[Target, ...]
    ) -> dict[str, object]:
        locked = shape.locked
        slow = RouteFallback(self._publisher, self._dispatcher, key, direct, locked=locked)
        return {
            "failures_here": failures_here,
            "has_run": _has_run,
            "Receipt": Receipt,
            "Entry": Entry,
            "publisher": self._dispatcher.publisher,
            "topic": key.topic,
            "context": key.source,
            "order": self._dispatcher.order,
            "is_ordering": owner_test(self._dispatcher.order),
            "LATEST": LATEST,
            "refuse_nested": _refuse_nested,
            "append": self._log.append if self._log is not None else None,
            "time": self._dispatcher.clock.time,
            "pending": self._lock.pending,
            "give_turn": self._lock.give,
            "contended": partial(self._publisher.post, metadata=key.metadata()),
            "token": get_cache_token,
            "known": get_cache_token(),
            "registered": slow.registered,
            "again": slow.again,
            "rest": slow.rest,
            "raised": slow.raised,
            "interrupted": slow.interrupted,
        }


class RouteFallback:
    """The slow side of one route: what its generated function leaves to ordinary code."""

    def __init__(
        self,
        publisher: MemoryPublisher,
        dispatcher: Dispatcher,
        key: RouteKey,
        direct: tuple[Target, ...],
        *,
        locked: bool,
    ) -> None:
        self._publisher, self._dispatcher, self._lock = (
            publisher,
            dispatcher,
            dispatcher.inline_lock,
        )
        self._key, self._direct, self._locked = key, direct, locked

    def raised(self, step: int, event: object, here: int, error: BaseException) -> None:
        """A filter or a callback raised."""
        if self._dispatcher.home.is_elsewhere():
            raise error
        number, called = divmod(step, 2)
        if called:
            self._direct[number].failed(self._entry(event, here), error)
        else:
            self._direct[number].unfit(error)

    def interrupted(self, step: int, event: Any, here: int) -> None:
        """A callback raised what is for the publisher; those after it get the event first."""
        if self._dispatcher.home.is_elsewhere():
            return
        if step < 0:
            self._lock.give()
        else:
            self.rest(step // 2 + 1, event, here)

    def rest(self, number: int, event: Any, here: int) -> Receipt:
        """The plan changed while an event was going round: go on with those it still has."""
        plan, key = self._dispatcher.plan, self._key
        self._dispatcher.home.check("going on after a callback that has forked")
        self._lock.own()
        try:
            with self._dispatcher.changing:
                still = [
                    target
                    for target in self._direct[number:]
                    if target in plan.targets or isinstance(target, ContextTarget)
                ]
            entry = self._entry(event, here)
            hits = plan.wanting(still, event, key.topic)
            form = LiveForm(event, key.source)
            self._publisher.run_inline(entry, [(*hit, form) for hit in hits])
        finally:
            self._lock.give()
        return Receipt(here, self._dispatcher.publisher)

    def again(self, event: Any) -> Receipt:
        """The plan changed before the event had gone to anyone: publish it by the new plan."""
        if self._locked:
            self._lock.give()
        return self._publisher.post(event, self._key.metadata())

    def registered(self, event: Any) -> Receipt:
        """A class was registered with some ABC, so old verdicts may be wrong."""
        if self._locked:
            self._lock.give()
        with self._dispatcher.changing, self._dispatcher.order:
            self._dispatcher.expire([(type(event), self._key)])
        return self._publisher.route(type(event), self._key.topic, self._key.source)(event)

    def _entry(self, event: object, here: int) -> Entry:
        dispatcher, key = self._dispatcher, self._key
        moment = self._lock.moment(dispatcher.clock.time())
        return Entry(here, event, moment, dispatcher.publisher, key.topic, context=key.source)


def _refuse_nested() -> None:
    raise interrupted("publish()")


_has_run = partial(check_has_run, "a callback in the publisher's thread")
