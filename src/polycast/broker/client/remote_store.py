"""A store at a broker: the same contract, over a network."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from polycast.broker.client.client_connection import BrokerConnection, ConnectionHandlers
from polycast.broker.client.remote_transaction import RemoteWriter, TransactionRunner, view_of
from polycast.broker.wire.calls import ASKED, LOG, NOTICES, READ
from polycast.broker.wire.protocol import (
    Append,
    Call,
    Credit,
    Describe,
    Follow,
    Want,
    decode_batch,
    decode_records,
    encode_description,
    encode_result,
)
from polycast.config import Clock, SystemClock
from polycast.errors import NotSerialisableError, WouldDeadlockError
from polycast.runtime import (
    SYSTEM,
    InterruptibleFuture,
    Runtime,
    check_free,
    is_awaited,
    runtime_of,
)
from polycast.stores import Coverage, Draft, LogPage, Run, Store

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from polycast.broker.client.client_connection import ConnectionOptions
    from polycast.broker.wire.protocol import Events, FromClient, Wanted, Welcome
    from polycast.events import Identity
    from polycast.stores import EventType, Stored, Stray, Transaction, View
    from polycast.stores.values import LogQuery, PushedFilter
    from polycast.typesystem import Description


PARTS = 8  # credit is sent for each such part of the window, not for each frame


class InboundStream:
    """The wanted part of the log from one position on, as far as it has been received."""

    def __init__(
        self,
        tell: Callable[[FromClient], None],
        window: Callable[[], int] = lambda: 0,
        *,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._tell, self._window = tell, window  # bytes that the broker sends ahead
        self.lock = runtime.rlock()
        self._stream = 0
        self._at = 0  # everything before it has been read
        self._received: deque[Events] = deque()
        self._decoded: deque[Stored] = deque()  # of the message that is being read
        self._end = 0  # the position after it
        self._read = 0  # bytes without credit yet
        self.wants: dict[str, list[bytes]] = {}
        self.newest = self.revision = 0
        self.events = 0  # how many were received
        self._commits = -1
        self.is_current = False  # whether this client has changed nothing since

    def resumed(self) -> Iterator[FromClient]:
        """The messages that set up the stream over a new connection."""
        with self.lock:
            for name, definitions in tuple(self.wants.items()):  # other threads may change it
                yield Want(0, name, definitions)
            if self._at:
                yield self._follow(self._at)

    def _follow(self, start: int) -> Follow:
        """Begin a new stream at a position."""
        self._stream += 1
        self._at = start
        self._end = start
        self._read = 0
        self._received.clear()
        self._decoded.clear()
        return Follow(self._stream, start)

    def brought(self, events: Events) -> bool:
        """Take a message of the broker; whether readers should be woken."""
        with self.lock:
            changed = events.commits != self._commits
            self.is_current = True
            self._commits = events.commits
            self.newest = max(self.newest, events.newest)
            self.revision = max(self.revision, events.revision)
            is_mine = events.stream == self._stream
            if is_mine and self._stream:  # without a reader, only progress is sent
                if self._received and not self._received[-1].records:
                    self._received.pop()  # the new message includes its progress
                self._received.append(events)
            return changed or is_mine

    def read(self, start: int, limit: int, size: int | None) -> LogPage:
        """Read from a position on."""
        with self.lock:
            if start != self._at:
                replies: list[FromClient] = [self._follow(start)]
                batch = LogPage([], start, more=False)
            else:
                replies = []
                batch = self._take(limit, size, replies)
        for reply in replies:
            self._tell(reply)
        return batch

    def _take(self, limit: int, size: int | None, replies: list[FromClient]) -> LogPage:
        entries: list[Stored] = []
        much = float("inf") if size is None else size
        while True:
            while self._decoded and len(entries) < limit:
                entries.append(self._decoded.popleft())
                self._at = entries[-1].position + 1
            if self._decoded:
                break
            self._at = max(self._at, self._end)
            if not self._received or len(entries) == limit or much <= 0:
                break
            events = self._received.popleft()
            self._decoded.extend(decode_records(events.records))
            self.events += len(self._decoded)
            self._end = events.upto
            self._read += len(events.records)
            much -= len(events.records)
            if events.records and self._read >= self._window() // PARTS:
                replies.append(Credit(self._read))
                self._read = 0
        return LogPage(entries, self._at, more=bool(self._decoded or self._received))


T = TypeVar("T")
_positions = msgspec.msgpack.Decoder(list[int])
_hashes = msgspec.msgpack.Decoder(list[str] | None)


class Promise(InterruptibleFuture[T]):
    """The answer of a broker. Waiting for it times out; the request stays pending."""

    def __init__(
        self,
        within: float,
        unreachable: Callable[[float], Exception],
        lock: Callable[[], threading.Lock],
    ) -> None:
        super().__init__(lock)
        self._within, self._unreachable = within, unreachable
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> T:
        """The answer; raises `BrokerUnreachableError` if it does not come in time."""
        try:
            return super().result(self._within if timeout is None else timeout)
        except TimeoutError:
            if timeout is not None or self.done():
                raise
            raise self._unreachable(self._within) from None


class RemoteClock:
    """The clock of a broker, which all its clients use; it advances with the monotonic clock here.

    So it goes on evenly between two connections, even if the wall clock here is set.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.origin: Callable[[], float] = lambda: 0.0  # its time when the monotonic clock was 0
        self.monotonic = clock.monotonic

    def time(self) -> float:
        """Seconds since the epoch, by the wall clock of the broker."""
        return self.monotonic() + self.origin()

    def offset(self) -> float:
        """Seconds that it is ahead of the wall clock here."""
        return self.time() - self._clock.time()


class RemoteStore(ConnectionHandlers, Store):
    """The log and the state of a broker. For any thread."""

    is_tended = True
    is_remote = True

    def __init__(self, options: ConnectionOptions, *, clock: Clock | None = None) -> None:
        here = clock if clock is not None else SystemClock()
        self.clock = RemoteClock(here)
        self._runtime = runtime = runtime_of(here)
        self._within = options.within
        self._watchers: list[Callable[[], None]] = []
        self._private: dict[str, Description] = {}
        self._connection = BrokerConnection(options, self, here, runtime=runtime)
        self._inbound = InboundStream(
            self._connection.tell, lambda: self._connection.limits.window, runtime=runtime
        )
        self._promise: Callable[[], Promise[Any]] = partial(
            Promise, options.within, self._connection.unreachable, runtime.lock
        )
        self._connection.open()
        self.clock.origin = lambda: self._connection.origin
        runner = TransactionRunner(self._connection, self._ask, self._guess)

        def perform(work: Callable[[Transaction], Any]) -> Any:
            result = runner.run(work)
            self._inbound.is_current = False
            return result

        self._writer = RemoteWriter(perform, runtime=runtime)

    def check_wait(self, operation: str) -> None:
        """Refuse to block a thread that the store itself waits for."""
        if is_awaited():
            raise WouldDeadlockError(operation, why="it is called in a thread that others wait for")
        self._connection.check_wait(operation)
        check_free(operation, self._inbound.lock)

    # -- handlers of the connection ----------------------------------------------------------------

    def resumed(self) -> Iterable[FromClient]:
        """The messages to send first over a new connection."""
        private = list(map(encode_description, self._private.values()))
        described: list[FromClient] = [Describe(0, private)] if private else []
        return [*described, *self._inbound.resumed()]

    def brought(self, events: Events) -> None:
        """Take events, or progress without events."""
        if self._inbound.brought(events):
            self._wake()

    def stopped(self, error: Exception) -> None:
        """Wake watchers: the connection is lost. It reconnects by itself if it can."""
        del error
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._watchers):
            with suppress(Exception):
                wake()

    # -- requests ----------------------------------------------------------------------------------

    def _ask(self, name: str, arguments: bytes) -> bytes:
        result: bytes = self._connection.answer(lambda number: Call(number, name, arguments))
        return result

    def _asked(self, name: str, *args: Any, **options: Any) -> Any:
        method = LOG[name]
        return method.result(self._ask(name, method.arguments(*args, **options)))

    def _guess(self, name: str) -> Any:
        """The likely answer to a question, or None."""
        return self._inbound.revision if name == "revision" and self._inbound.is_current else None

    # -- the log -----------------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft | Run], *, astray: Sequence[Stray] = ()
    ) -> Future[list[int]]:
        """Append all events or none; the result comes when the broker has synced them."""
        future: Future[list[int]] = self._runtime.future()
        future.set_running_or_notify_cancel()
        try:
            runs = [_run_of(draft) if isinstance(draft, Draft) else draft for draft in drafts]
            strays = list(astray)
            asked = self._connection.ask(lambda number: Append(number, runs, strays))
        except (OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
            future.set_exception(NotSerialisableError(drafts, path="Record", why=str(error)))
            return future
        asked.add_done_callback(lambda done: _pass_on(done, future, _positions.decode))
        return future

    def _page(self, query: LogQuery) -> LogPage:
        """Read the first records from a position on."""
        page = self._page_at(query)
        # A broker limits each answer; a subscription that catches up asks for more by itself.
        while query.wanted_by is None and query.size is None and len(page.entries) < query.limit:
            limit = query.limit - len(page.entries)
            more = self._page_at(query._replace(start=page.upto, limit=limit))
            if more.upto == page.upto:
                break
            page = LogPage([*page.entries, *more.entries], more.upto)
        return page

    def _page_at(self, query: LogQuery) -> LogPage:
        return decode_batch(self._ask(READ.name, READ.arguments(*query)))

    def news(self, start: int, *, limit: int = 1_000, size: int | None = None) -> LogPage:
        """The events that the broker has sent from a position on."""
        return self._inbound.read(start, limit, size)

    def want(self, name: str, definitions: Sequence[bytes]) -> Coverage:
        """Replace the definitions of a subscription at the broker."""
        copied = list(definitions)
        if not copied:
            if self._inbound.wants.pop(name, None) is not None:
                self._connection.tell(Want(0, name, []))
            return Coverage(0)
        wanted: Wanted = self._connection.answer(lambda number: Want(number, name, copied))
        self._inbound.wants[name] = copied
        return Coverage(wanted.start)

    def asked(self, name: str) -> list[PushedFilter]:
        """What the broker evaluates of the filters of a subscription now."""
        asked: list[PushedFilter] = ASKED.result(self._ask(ASKED.name, ASKED.arguments(name)))
        return asked

    def types(self) -> dict[int, EventType]:
        """The types of stored records."""
        types: dict[int, EventType] = self._asked("types")
        return types

    def newest(self) -> int:
        """The newest position."""
        return int(self._asked("newest"))

    def oldest(self) -> int:
        """The oldest position."""
        return int(self._asked("oldest"))

    def position_at(self, moment: float) -> int:
        """The first position whose time is not before a moment."""
        return int(self._asked("position_at", moment))

    def find(self, identity: Identity) -> int | None:
        """The position of the record with an identity."""
        position: int | None = self._asked("find", identity)
        return position

    def truncate(self, before: int) -> int:
        """Delete records before a position."""
        return int(self._asked("truncate", before))

    def size(self) -> int:
        """The size of the store in bytes."""
        return int(self._asked("size"))

    def notices(self) -> list[str]:
        """What the broker has suspended for the owner of the token, in words."""
        notices: list[str] = NOTICES.result(self._ask(NOTICES.name, NOTICES.arguments()))
        return notices

    # -- the state ---------------------------------------------------------------------------------

    @contextmanager
    def view(self) -> Iterator[View]:
        """A view of the state; each answer is newer than the one before, or as old."""
        yield view_of(self._look)

    def _look(self, name: str, arguments: bytes) -> bytes:
        if name == "revision" and self._inbound.is_current and self._connection.is_up:
            return encode_result(self._inbound.revision)  # as sent with the latest events
        return self._ask(name, arguments)

    def describe(self, descriptions: Sequence[Description]) -> Future[None]:
        """Store descriptions, before any event that is submitted afterwards."""
        future: Promise[None] = self._promise()
        encoded = list(map(encode_description, descriptions))
        asked = self._connection.ask(lambda number: Describe(number, encoded))
        described = {description.hash: description for description in descriptions}

        def answered(done: Future[bytes]) -> None:
            self._inbound.is_current = False  # the answer may come before the news of the commit
            if (
                done.cancelled() or done.exception() is not None
            ):  # another broker may store what is published next
                self._private = self._private | described
            _pass_on(done, future, partial(self._described, described))

        asked.add_done_callback(answered)
        return future

    def _described(self, described: dict[str, Description], answer: bytes) -> None:
        """Remember private descriptions: as those that failed, each new connection gets them."""
        hashes = (digest for digest in _hashes.decode(answer) or () if digest in described)
        self._private = self._private | {digest: described[digest] for digest in hashes}

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Change the state; the result, or what `work` raised, comes when the broker has synced."""
        self._connection.home.check("writing to a broker")
        future: Promise[T] = self._promise()
        self._writer.submit(work, future)
        return future

    # -- connection --------------------------------------------------------------------------------

    @property
    def failure(self) -> Exception | None:
        """Why the connection has ended for good, if it has."""
        return self._connection.failure

    @property
    def trouble(self) -> Exception | None:
        """Why the connection was lost, until a broker has answered again."""
        return self._connection.trouble

    @property
    def welcome(self) -> Welcome:
        """The welcome of the latest connection."""
        welcome = self._connection.welcome
        assert welcome is not None  # since `open` has succeeded
        return welcome

    @property
    def is_up(self) -> bool:
        """Whether a broker is connected now."""
        return self._connection.is_up

    def watch(self, wake: Callable[[], None]) -> None:
        """Call a function when there is something new."""
        self._watchers.append(wake)

    def close(self) -> None:
        """Finish queued transactions, if a broker answers, and disconnect."""
        if self._connection.home.is_elsewhere():
            return
        if not self._writer.close():
            return
        self._writer.join(self._within if self._connection.is_up else 0.0)
        self._connection.close()


def _run_of(draft: Draft) -> Run:
    """A draft as a run of one event."""
    root, roots = draft.root, None
    if root is not None and root.payload:
        root, roots = msgspec.structs.replace(root, payload=b""), [root.payload]
    head = (draft.name, draft.version, draft.hash, draft.identity, draft.codec, [draft.payload])
    about = (draft.topic, draft.priority, draft.expires, draft.headers, draft.context)
    return Run(*head, *about, root, roots)


def _pass_on(done: Future[bytes], future: Future[T], result: Callable[[bytes], T]) -> None:
    error = done.exception()
    if error is None:
        future.set_result(result(done.result()))
    else:
        future.set_exception(error)
