"""Publishing into a store: encode events, submit them in sequence, wait until they are synced."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import CellType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from polycast.errors import (
    BadOptionError,
    BusClosedError,
    PublishBufferFullError,
    PublishUnknownError,
    StoreFailedError,
)
from polycast.events import MSGPACK, EncodedRun, Identity, Record, Root, codec_for
from polycast.routing.publish_codegen import PublishMetadata, Route, RouteKey
from polycast.routing.translation import (
    ContextRemoved,
    LiveForms,
    RecipientQuery,
    TranslationFailed,
    letter_name,
    reason_of,
)
from polycast.runtime import SYSTEM, Home, Runtime
from polycast.stores import Publisher, Receipt, Run, Store, Stored, Stray, Undecodable
from polycast.stores.entry import GivenReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polycast.routing.dispatcher import Dispatcher
    from polycast.routing.record_router import RecordRouter
    from polycast.routing.translation import Recipient

    Within = tuple[str, Root | None, list[bytes] | None]  # what a Run has of a context


_OVERHEAD = 500  # bytes that an event takes besides its payload


@dataclass(eq=False, slots=True)
class QueuedSubmission:
    """Events that the store has not been given yet."""

    runs: list[Run]
    strays: Sequence[Stray]
    size: int
    since: float
    positions: Future[list[int]]
    handed_over: Future[None]


class SubmissionQueue:
    """Gives a store what is published, and to who does not wait for that no more than so much.

    A thread that waits for its receipt has one submission at a time, so only those of
    `publish_async` are counted; but while any wait, all others come after them.
    """

    LIMIT = 16_000_000

    def __init__(
        self,
        submit: Callable[[list[Run], Sequence[Stray]], Future[list[int]]],
        within: float,
        *,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._submit, self._within, self._runtime = submit, within, runtime
        self.limit, self.held = self.LIMIT, 0  # bytes that the store has and has not written
        self._waiting: deque[QueuedSubmission] = deque()
        self.lock = runtime.rlock()  # the store may be done before it returns
        self._is_handing_over = self._closed = False
        self._progress = self._runtime.monotonic()  # when the store was last done with something
        self._emptied = runtime.condition(self.lock)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(
        self, runs: list[Run], strays: Sequence[Stray], *, counted: bool
    ) -> tuple[Future[list[int]], QueuedSubmission | None]:
        """Submit events, now or when there is room; called in the order of their sequence."""
        if not counted and not self._waiting:
            return self._submit(runs, strays), None
        size, new = sum(run.size(_OVERHEAD) for run in runs) if counted else 0, self._runtime.future
        waiting = QueuedSubmission(runs, strays, size, self._runtime.monotonic(), new(), new())
        with self.lock:
            if self._closed:
                raise BusClosedError("publish")
            self._waiting.append(waiting)
        self._hand_over()
        return waiting.positions, None if waiting.handed_over.done() else waiting

    def _hand_over(self) -> None:
        """Give the store what it has room for."""
        with self.lock:
            if self._is_handing_over:
                return
            self._is_handing_over = True
            try:
                while self._waiting and self.held < self.limit:
                    self._hand_over_next(self._waiting.popleft())
            finally:
                self._is_handing_over = False
            if not self._waiting:
                self._emptied.notify_all()

    def _hand_over_next(self, waiting: QueuedSubmission) -> None:
        self.held += waiting.size
        try:
            positions = self._submit(waiting.runs, waiting.strays)
        except Exception as error:  # the store is closed, or has failed
            positions = Future()
            positions.set_exception(error)
        waiting.handed_over.set_result(None)
        positions.add_done_callback(lambda done: self._release(waiting, done))

    def _release(self, waiting: QueuedSubmission, done: Future[list[int]]) -> None:
        with self.lock:
            self.held -= waiting.size
            self._progress = self._runtime.monotonic()
        error = done.exception()
        if error is None:
            waiting.positions.set_result(done.result())
        else:
            waiting.positions.set_exception(error)
        self._hand_over()

    # -- waiting -----------------------------------------------------------------------------------

    def patience(self, waiting: QueuedSubmission) -> float:
        """For how many seconds more to wait for room, unless the store gets on meanwhile."""
        return max(waiting.since, self._progress) + self._within - self._runtime.monotonic()

    def await_turn(self, waiting: QueuedSubmission) -> None:
        """Wait until the store has been given this, as long as it gets on with what it has."""
        while not waiting.handed_over.done():
            left = self.patience(waiting)
            if left <= 0:
                self.withdraw(waiting)
            with suppress(TimeoutError):
                waiting.handed_over.result(max(left, 0.0))

    def withdraw(self, waiting: QueuedSubmission) -> None:
        """Raise `PublishBufferFullError` for what has waited too long, unless it has just gone."""
        with self.lock:
            if waiting not in self._waiting:
                return
            self._waiting.remove(waiting)
            held = self.held
        raise PublishBufferFullError(held, waited=self._within)

    def drain(self, timeout: float) -> None:
        """Wait for what is waiting to be given to the store."""
        with self._emptied:
            self._emptied.wait_for(lambda: not self._waiting, timeout)

    def close(self) -> None:
        """Let nobody wait any more."""
        with self.lock:
            self._closed = True
            left, self._waiting = self._waiting, deque()
        for waiting in left:
            waiting.positions.set_exception(BusClosedError("publish_async()"))
            waiting.handed_over.set_result(None)


class Submission(NamedTuple):
    """Events on their way into the log."""

    publisher: Publisher
    runs: list[Run]
    positions: Future[list[int]]
    waiting: QueuedSubmission | None = None
    """What they wait as, if the store has not been given them yet."""

    def receipts(self, positions: list[int]) -> list[Receipt]:
        """What their publisher gets."""
        pairs = zip(positions, self._identities(), strict=True)
        return [GivenReceipt(position, self.publisher, identity) for position, identity in pairs]

    def _identities(self) -> list[Identity]:
        return [identity for run in self.runs for identity in run.identities()]

    def error_for(self, error: BaseException, within: float) -> BaseException:
        """The error that their publisher gets: it may be that nobody knows what became of them."""
        if isinstance(error, TimeoutError):
            return self._unknown(f"the store has not answered within {within:g} s")
        if isinstance(error, StoreFailedError) and error.unknown:
            return self._unknown(str(error))
        return error

    def _unknown(self, why: str) -> PublishUnknownError:
        identities = tuple(self._identities())
        return PublishUnknownError(identities[0], why=why, identities=identities)


class StorePublisher:
    """Appends what is published on a bus; positions are the log's."""

    def __init__(
        self,
        router: RecordRouter,
        dispatcher: Dispatcher,
        store: Store,
        *,
        within: float,
        is_called_back: Callable[[Home], bool],
        kept_locks: Sequence[Any],
    ) -> None:
        self._router, self._dispatcher, self._store = router, dispatcher, store
        self._registry, self.publisher = router.registry, dispatcher.publisher
        self.within = within  # how long a publisher waits before it does not know
        self.queue = SubmissionQueue(
            lambda runs, strays: store.submit(runs, astray=strays),
            within,
            runtime=dispatcher.runtime,
        )
        self._given = 0  # the last sequence
        self._admitted: WeakSet[type] = WeakSet()
        self._in_line = dispatcher.runtime.rlock()  # who has it takes a sequence and submits
        self._described = 0  # descriptions that the store was told, in the order they came
        self._is_called_back = is_called_back  # whether a callback publishes
        # The store may need what this thread has of durable subscriptions and groups.
        dispatcher.more_locks.append(lambda: [self._in_line, self.queue.lock, *kept_locks])

    def route(
        self, cls: type, topic: str | None, source: str | None = None
    ) -> Callable[[Any], Receipt]:
        """What publishes events of a class: who wants them, only the log reader asks."""
        dispatcher, key = self._dispatcher, RouteKey(topic, source)
        dispatcher.check_free("publish()")
        dispatcher.refuse()
        dispatcher.admit(cls)
        run = partial(self.post, metadata=key.metadata())
        with dispatcher.changing:
            dispatcher.routes.put(cls, key, Route(run, CellType(False)))
            return dispatcher.routes.use(cls, key)

    def post(self, event: Any, metadata: PublishMetadata) -> Receipt:
        """Append one event; return when that is synced."""
        return self.post_many([event], metadata)[0]

    def post_many(self, events: list[Any], metadata: PublishMetadata) -> list[Receipt]:
        """Append all or nothing; return when that is synced."""
        if not events:
            return []
        self._dispatcher.check_free("publish()")
        self._store.check_wait("publish()")
        targets = self.blocking(events, metadata.topic, metadata.context)
        if not any(targets):
            return self.wait(self._submit(events, metadata, waits=True))
        with ExitStack() as room:
            self._dispatcher.refuse()
            self._dispatcher.reserve(targets, room)
            receipts = self.wait(self._submit(events, metadata, waits=True))
            if not self._dispatcher.inline_lock.is_mine():  # it may be this thread that routes
                self._router.wait_until_routed(receipts[-1].position)
        return receipts

    def blocking(
        self, events: list[Any], topic: str | None, context: str | None = None
    ) -> list[list[Recipient]]:
        """Who of this process can make a publisher wait, and wants these events."""
        dispatcher, plan = self._dispatcher, self._dispatcher.plan
        if not plan.targets:
            return []
        candidates = {
            cls: [
                (where, tuple(target for target in targets if target.blocking))
                for where, targets in dispatcher.candidates(cls, topic, context)
            ]
            for cls in set(map(type, events))
        }
        if not any(targets for some in candidates.values() for _, targets in some):
            return []
        queries = [RecipientQuery(LiveForms(event, context, plan.translation)) for event in events]
        return [
            plan.recipients(query, candidates[type(event)], topic)
            for event, query in zip(events, queries, strict=True)
        ]

    def root_now(self, stored: Stored) -> Root | None:
        """What an event that could not leave its context is in the root, as contexts are now.

        None if it is not known here, or cannot leave; `TranslationFailed` if a function raises.
        """
        record, event = stored.record, self._router.entry(stored).event
        translation = self._dispatcher.plan.translation
        known = record.context is not None and translation.member(record.context, None)
        if not known or isinstance(event, Undecodable):
            return None
        return self._root_form(event, record)

    def submit(
        self, events: list[Any], metadata: PublishMetadata, *, waits: bool = True
    ) -> Submission:
        """Take the next places of this publisher; the receipts come when all is synced.

        Who does not wait for them in its thread is held to what the store has room for.
        """
        self._dispatcher.check_free("publish()")
        return self._submit(events, metadata, waits=waits)

    def _submit(self, events: list[Any], metadata: PublishMetadata, *, waits: bool) -> Submission:
        self._dispatcher.refuse()
        for cls in set(map(type, events)):
            if cls not in self._admitted:  # asking takes longer than encoding an event
                self._dispatcher.admit(cls)
                self._admitted.add(cls)
        failures: dict[int, TranslationFailed] = {}
        encoded: list[tuple[EncodedRun, Any]]
        if metadata.context is None:
            encoded = [(run, ()) for run in MSGPACK.encode_runs(events, registry=self._registry)]
        else:
            encoded = self._rooted(events, metadata.context, failures)
        if self._described != self._registry.count:  # of what the events hold, too
            self._describe()
        headers = dict(metadata.headers) if metadata.headers else {}
        about = (metadata.topic, metadata.priority, metadata.expires, headers)
        strays = [
            Stray(number, letter_name(failure.context), reason_of(failure.error))
            for number, failure in failures.items()
        ]
        with self._in_line:
            places = self._places(encoded, metadata.given)
            runs = [
                Run(e.name, e.version, e.hash, first, "msgpack", e.payloads, *about, *within)
                for (e, within), first in zip(encoded, places, strict=True)
            ]
            positions, waiting = self.queue.put(runs, strays, counted=not waits)
        if self._is_called_back(self._dispatcher.home):
            self._dispatcher.callback_publications.begin(positions)
        return Submission(self.publisher, runs, positions, waiting)

    def _rooted(
        self, events: list[Any], context: str, failures: dict[int, TranslationFailed]
    ) -> list[tuple[EncodedRun, Within]]:
        """Events of a context, with what they are in the root."""
        ways = {cls: self._way_out(cls, context) for cls in set(map(type, events))}
        forms: list[Any] = []
        for number, event in enumerate(events):
            try:
                forms.append(ways[type(event)](event))
            except TranslationFailed as error:
                failures[number] = error
                forms.append(None)
        encoded: list[tuple[EncodedRun, Within]] = []
        pairs = zip(events, forms, strict=True)
        for (_, kind), group in groupby(pairs, lambda pair: (type(pair[0]), type(pair[1]))):
            alike = list(group)
            [run] = MSGPACK.encode_runs([event for event, _ in alike], registry=self._registry)
            root: Root | None = None
            payloads: list[bytes] | None = None
            if kind is OwnRoot:
                root = Root(run.name, run.version, run.hash, b"")
            elif kind is not type(None):
                self._dispatcher.admit(kind)
                roots = [form for _, form in alike]
                [made] = MSGPACK.encode_runs(roots, registry=self._registry)
                root, payloads = Root(made.name, made.version, made.hash, b""), made.payloads
            encoded.append((run, (context, root, payloads)))
        return encoded

    def _way_out(self, cls: type, context: str) -> Callable[[Any], Any]:
        """What makes root forms of events; `OWN` if that is itself, None if it cannot leave."""
        translation = self._dispatcher.plan.translation
        there = translation.becomes(cls, context, None)
        if there is None:
            return lambda event: translation.leaves(type(event), context)  # which counts it
        if there is cls and not translation.is_mapped(cls, context):
            return lambda event: OWN
        try:
            return translation.way_out(context)
        except ContextRemoved:
            return lambda event: None

    def _root_form(self, event: Any, record: Record) -> Root | None:
        """The root form of an event, by its context as it is now, as a store keeps it.

        None if it cannot leave its context; `TranslationFailed` if a function raises.
        """
        assert record.context is not None
        form = self._way_out(type(event), record.context)(event)
        if form is None:
            return None
        if isinstance(form, OwnRoot):
            return Root(record.name, record.version, record.hash, b"")
        self._dispatcher.admit(type(form))
        made = codec_for(record.codec).encode(form, registry=self._registry)
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
            raise submission.error_for(error, self.within) from None
        return submission.receipts(positions)

    def _describe(self) -> None:
        """Keep the descriptions of all classes bound here, before events of them are kept."""
        known = self._registry.descriptions()
        before = self._described
        describing = self._store.describe(known[before:])
        self._described = max(before, len(known))
        describing.add_done_callback(lambda done: self._describe_again(before, done))

    def _describe_again(self, before: int, done: Future[None]) -> None:
        """If descriptions could not be stored, store them before the next event."""
        if done.cancelled() or done.exception() is not None:
            self._described = min(self._described, before)


class OwnRoot:
    """In place of a root form: it is the event itself."""


OWN = OwnRoot()
