"""A store that a broker keeps: the same contract, over a network."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from polycast.broker.client.client_connection import Connection, Handlers
from polycast.broker.client.inbound_stream import News
from polycast.broker.client.remote_transaction import Worker, view_of
from polycast.broker.wire.calls import ASKED, LOG, NOTICES, READ
from polycast.broker.wire.frames import decode_batch, encode_description, encode_result
from polycast.broker.wire.messages import Append, Call, Describe, Want
from polycast.config import SystemClock
from polycast.errors import (
    NotSerialisableError,
    StoreClosedError,
    WouldDeadlockError,
)
from polycast.locks import InterruptibleFuture, check_free, is_awaited, others_wait
from polycast.stores import Coverage, Draft, LogPage, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from polycast.broker.client.client_connection import ConnectionOptions
    from polycast.broker.wire.messages import Events, FromClient, Wanted, Welcome
    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.stores import EventType, Stray, Transaction, View
    from polycast.stores.values import PushedFilter
    from polycast.typesystem import Description

    Job = tuple[Callable[[Transaction], Any], Future[Any]] | None  # None is the end

__all__ = ["RemoteClock", "RemoteStore"]

T = TypeVar("T")
_positions = msgspec.msgpack.Decoder(list[int])
_hashes = msgspec.msgpack.Decoder(list[str] | None)


class Promise(InterruptibleFuture[T]):
    """What a broker will answer. Nobody waits for it for ever; it goes on being asked."""

    def __init__(self, within: float, unreachable: Callable[[float], Exception]) -> None:
        super().__init__()
        self._within, self._unreachable = within, unreachable
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> T:
        """The answer; `BrokerUnreachableError` if it does not come in time."""
        try:
            return super().result(self._within if timeout is None else timeout)
        except TimeoutError:
            if timeout is not None or self.done():
                raise
            raise self._unreachable(self._within) from None


class RemoteClock:
    """The clock of a broker, which all its clients go by; its seconds are those of this machine.

    Between two connections it goes on evenly, whoever sets the wall clock here.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.origin: Callable[[], float] = lambda: 0.0  # its time when the monotonic one was 0
        self.monotonic = clock.monotonic

    def time(self) -> float:
        """Seconds since the epoch, by the wall clock of the broker."""
        return self.monotonic() + self.origin()

    def offset(self) -> float:
        """How far it is ahead of the wall clock here."""
        return self.time() - self._clock.time()


class RemoteStore(Handlers):
    """The log and the state of a broker. Every method may be called in any thread."""

    is_tended = True
    is_remote = True

    def __init__(self, options: ConnectionOptions, *, clock: Clock | None = None) -> None:
        here = clock if clock is not None else SystemClock()
        self.clock = RemoteClock(here)
        self._within = options.within
        self._watchers: list[Callable[[], None]] = []
        self._private: dict[str, Description] = {}
        self._connection = Connection(options, self, here)
        self._news = News(self._connection.tell, lambda: self._connection.limits.window)
        self._work: SimpleQueue[Job] = SimpleQueue()
        self._closing = threading.RLock()
        self._closed = False
        self._connection.open()
        self.clock.origin = lambda: self._connection.origin
        worker = Worker(self._connection, self._ask, self._guess)
        self._writer = threading.Thread(
            target=self._write_all, args=(worker,), name="polycast-remote-store", daemon=True
        )
        self._writer.start()

    def check_wait(self, operation: str) -> None:
        """Refuse a thread that the store itself waits for."""
        if is_awaited():
            raise WouldDeadlockError(operation, why="it is called in a thread that others wait for")
        self._connection.check_wait(operation)
        check_free(operation, self._news.lock)

    # -- what the broker says by itself ------------------------------------------------------------

    def resumed(self) -> Iterable[FromClient]:
        """It is connected, again or for the first time."""
        private = list(map(encode_description, self._private.values()))
        said: list[FromClient] = [Describe(0, private)] if private else []
        return [*said, *self._news.resumed()]

    def brought(self, events: Events) -> None:
        """There are events, or there is progress."""
        if self._news.brought(events):
            self._wake()

    def stopped(self, error: Exception) -> None:
        """The connection is lost; it comes back by itself, unless that is in vain."""
        del error
        self._wake()

    def _wake(self) -> None:
        for woken in tuple(self._watchers):
            with suppress(Exception):
                woken()

    # -- asking ------------------------------------------------------------------------------------

    def _promise(self) -> Promise[Any]:
        return Promise(self._within, self._connection.unreachable)

    def _ask(self, name: str, arguments: bytes) -> bytes:
        found: bytes = self._connection.answer(lambda number: Call(number, name, arguments))
        return found

    def _asked(self, name: str, *args: Any, **options: Any) -> Any:
        verb = LOG[name]
        return verb.result(self._ask(name, verb.arguments(*args, **options)))

    def _guess(self, name: str) -> Any:
        """What a question is nearly always answered with."""
        return self._news.revision if name == "revision" and self._news.is_current else None

    # -- the log -----------------------------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft | Run], *, astray: Sequence[Stray] = ()
    ) -> Future[list[int]]:
        """Append, all or none; the result comes when the broker has synced it."""
        future: Future[list[int]] = InterruptibleFuture()
        future.set_running_or_notify_cancel()
        try:
            runs = [_run_of(each) if isinstance(each, Draft) else each for each in drafts]
            lost = list(astray)
            asked = self._connection.ask(lambda number: Append(number, runs, lost))
        except (OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
            future.set_exception(NotSerialisableError(drafts, path="Record", why=str(error)))
            return future
        asked.add_done_callback(lambda done: _pass_on(done, future, _positions.decode))
        return future

    def append(self, drafts: Sequence[Draft | Run], *, timeout: float | None = None) -> list[int]:
        """The same, waiting for it."""
        self.check_wait("append()")
        return self.submit(drafts).result(timeout)

    def read(
        self,
        start: int,
        *,
        limit: int = 1_000,
        until: int | None = None,
        types: Collection[int] | None = None,
        wanted_by: str | None = None,
        size: int | None = None,
    ) -> LogPage:
        """The first records from a position on."""
        found = self._part(start, limit, until, types, wanted_by, size)
        # A broker gives as much at a time as it can send; whoever catches up asks on by himself.
        while wanted_by is None and size is None and len(found.entries) < limit:
            more = self._part(found.upto, limit - len(found.entries), until, types, None, None)
            if more.upto == found.upto:
                break
            found = LogPage([*found.entries, *more.entries], more.upto)
        return found

    def _part(
        self,
        start: int,
        limit: int,
        until: int | None,
        types: Collection[int] | None,
        wanted_by: str | None,
        size: int | None,
    ) -> LogPage:
        about = {"limit": limit, "until": until, "types": types, "wanted_by": wanted_by}
        about["size"] = size
        return decode_batch(self._ask(READ.name, READ.arguments(start, **about)))

    def news(self, start: int, *, limit: int = 1_000, size: int | None = None) -> LogPage:
        """What the broker has sent from a position on."""
        return self._news.read(start, limit, size)

    def want(self, name: str, definitions: Sequence[bytes]) -> Coverage:
        """Tell the broker what a subscription wants."""
        wanted = list(definitions)
        if not wanted:
            if self._news.wants.pop(name, None) is not None:
                self._connection.tell(Want(0, name, []))
            return Coverage(0)
        found: Wanted = self._connection.answer(lambda number: Want(number, name, wanted))
        self._news.wants[name] = wanted
        return Coverage(found.start)

    def asked(self, name: str) -> list[PushedFilter]:
        """What the broker asks of the filters of a subscription, just now."""
        found: list[PushedFilter] = ASKED.result(self._ask(ASKED.name, ASKED.arguments(name)))
        return found

    def types(self) -> dict[int, EventType]:
        """The types of which there are records."""
        found: dict[int, EventType] = self._asked("types")
        return found

    def newest(self) -> int:
        """The newest position."""
        return int(self._asked("newest"))

    def oldest(self) -> int:
        """The oldest position kept."""
        return int(self._asked("oldest"))

    def position_at(self, moment: float) -> int:
        """The first position kept whose time is not before a moment."""
        return int(self._asked("position_at", moment))

    def find(self, identity: Identity) -> int | None:
        """Where the record with an identity is."""
        found: int | None = self._asked("find", identity)
        return found

    def truncate(self, before: int) -> int:
        """Let go of what is before a position."""
        return int(self._asked("truncate", before))

    def size(self) -> int:
        """How many bytes the store takes."""
        return int(self._asked("size"))

    def notices(self) -> list[str]:
        """What the broker does otherwise than usual for the owner of the token, in words."""
        found: list[str] = NOTICES.result(self._ask(NOTICES.name, NOTICES.arguments()))
        return found

    # -- the state ---------------------------------------------------------------------------------

    @contextmanager
    def view(self) -> Iterator[View]:
        """Look at the state; each answer is of its own moment, and none is older than the last."""
        yield view_of(self._look)

    def _look(self, name: str, arguments: bytes) -> bytes:
        if name == "revision" and self._news.is_current and self._connection.is_up:
            return encode_result(self._news.revision)  # what was sent with the latest events
        return self._ask(name, arguments)

    def describe(self, descriptions: Sequence[Description]) -> Future[None]:
        """Keep descriptions, before what is submitted afterwards."""
        future: Promise[None] = self._promise()
        encoded = list(map(encode_description, descriptions))
        asked = self._connection.ask(lambda number: Describe(number, encoded))
        told = {each.hash: each for each in descriptions}
        asked.add_done_callback(lambda done: _pass_on(done, future, partial(self._kept, told)))
        return future

    def _kept(self, told: dict[str, Description], answer: bytes) -> None:
        """What is private to this client has to be said again to a broker that does not know it."""
        mine = [told[each] for each in _hashes.decode(answer) or () if each in told]
        self._private = self._private | {each.hash: each for each in mine}

    def write(self, work: Callable[[Transaction], T]) -> Future[T]:
        """Change the state; the result, or what `work` raised, comes when the broker has synced."""
        self._connection.home.check("writing to a broker")
        future: Promise[T] = self._promise()
        with self._closing:
            if not self._closed:
                self._work.put((work, future))
                return future
        future.set_exception(StoreClosedError())
        return future

    def _write_all(self, worker: Worker) -> None:
        waiting: deque[Job] = deque()
        with others_wait():
            self._write_each(worker, waiting)

    def _write_each(self, worker: Worker, waiting: deque[Job]) -> None:
        while (item := self._next_work(waiting)) is not None:
            work, future = item
            try:
                result = worker.run(work)
                self._news.is_current = False
                future.set_result(result)
            except BaseException as error:
                future.set_exception(error)
            del work, future, item  # nothing is held while it waits

    def _next_work(self, waiting: deque[Job]) -> Job:
        """What is to be done next; None is the end.

        Of what waits by now, what can wait comes last; but before what comes later.
        """
        if not waiting:
            found = [self._work.get()]
            with suppress(Empty):
                while True:
                    found.append(self._work.get_nowait())
            waiting.extend(sorted(found, key=_turn))
        return waiting.popleft()

    # -- its life ----------------------------------------------------------------------------------

    @property
    def failure(self) -> Exception | None:
        """Why nothing can be written any more, if that is so."""
        return self._connection.failure

    @property
    def trouble(self) -> Exception | None:
        """Why the connection was lost, if no broker has answered since."""
        return self._connection.trouble

    @property
    def welcome(self) -> Welcome:
        """What the broker said when it was last connected."""
        found = self._connection.welcome
        assert found is not None  # it is opened with the connection
        return found

    @property
    def is_up(self) -> bool:
        """Whether a broker is connected now."""
        return self._connection.is_up

    def watch(self, woken: Callable[[], None]) -> None:
        """Have a function called when there is something new."""
        self._watchers.append(woken)

    def close(self) -> None:
        """Finish what was submitted, if a broker answers, and let go."""
        if self._connection.home.is_elsewhere():
            return
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._work.put(None)
        if threading.current_thread() is not self._writer:
            self._writer.join(self._within if self._connection.is_up else 0.0)
        self._connection.close()


def _turn(job: Job) -> int:
    """Whose turn it is among those that wait."""
    return 2 if job is None else int(getattr(job[0], "can_wait", False))


def _run_of(draft: Draft) -> Run:
    """A draft as a run of one."""
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
