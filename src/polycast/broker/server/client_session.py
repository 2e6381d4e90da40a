"""One client of a broker: what it says, what it is answered, what it is sent."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.broker.server.append_limits import PIECE, AppendLimits
from polycast.broker.server.connection_limits import group_of
from polycast.broker.server.definition_limits import check_definitions
from polycast.broker.server.error_messages import refused
from polycast.broker.server.outbox import GONE, Outbox
from polycast.broker.server.remote_transactions import LISTINGS, Task, Undone, perform
from polycast.broker.server.type_descriptions import Private, read_descriptions
from polycast.broker.server.usage import Using
from polycast.broker.wire.calls import ASKED, CALLS, READ
from polycast.broker.wire.frames import (
    decode_message,
    encode,
    encode_batch,
    encode_result,
    messages_in,
)
from polycast.broker.wire.messages import (
    PROTOCOL,
    Answer,
    Append,
    Call,
    Credit,
    Describe,
    Done,
    Events,
    Follow,
    FromBroker,
    Hello,
    Want,
    Welcome,
    Work,
)
from polycast.errors import BadFrameError, BrokerRefusedError, LimitReachedError, StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
    from concurrent.futures import Future

    from polycast.broker.server.access import Identified
    from polycast.broker.server.broker import Broker
    from polycast.events import Record

__all__ = ["GONE", "Connection"]

LAST_WORDS = 1.0  # seconds to say why it ends
LATER = 0.05  # seconds after which a client to which nothing was sent hears how far it is
DONE = object()  # nothing is left to do of a message
AT_A_TIME = 4  # questions about many things that one connection may have
MANY, MUCH = 200, 100_000  # steps of a piece of work, and bytes, that may take long
MUCH_LATER = 0.25  # the same for one that has not asked for anything
_QUICK = frozenset(
    {
        *("newest", "oldest", "revision", "subscription", "document", "route", "flight"),
        "notices",
    }
)


class ConnectionEnd(Exception):
    """The connection ends, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Connection:
    """Everything is called in the thread of the event loop, unless it says otherwise."""

    def __init__(
        self,
        broker: Broker,
        send: Callable[[bytes], Awaitable[None]],
        *,
        who: Identified,
        place: str,
    ) -> None:
        self._broker, self.place = broker, place
        self.guard = broker.guard(who)
        self.private, self.using = Private(), Using(broker.usage)
        self._hub, self._store, self._limits = broker.hub, broker.store, broker.limits
        self.client, self.program = "", ""
        self.stream = self.at = self.groups = 0
        self.unread = 0  # bytes of events that the client has not read
        self._pending = 0  # questions that are not answered
        self.held = 0  # bytes of questions that are not answered
        self.told_that_it_lives = 0  # times, while nothing it says was read
        self.owner = who.owner
        self.group = who.owner if who.owner is not None else group_of(place)
        self._party: Hashable = who.owner if who.owner is not None else self
        self._alive: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._outbox = Outbox(
            send,
            limit=self._limits.window,
            frame=self._limits.frame,
            patience=broker.patience,
            of_all=broker.outbound,
        )
        self._outbox.emptied, self._outbox.failed = self._some_was_sent, self.cut_off
        self._outbox.changed = partial(broker.unsent.has_now, self)
        self._ended: ConnectionEnd | None = None
        self._closing = False
        self._hearing: asyncio.Task[None] | None = None
        self._eager = 0  # the client waits to hear that this position has been sent
        self._heard = (0, 0, -1, -1)  # what the client was told of stream, place and changes
        self._progress: asyncio.TimerHandle | None = None
        self._latest: Events | None = None
        self.since = broker.clock.time()
        self._appends = AppendLimits(self._limits, broker.bounds, broker.clock)

    def __str__(self) -> str:
        who = "" if self.guard.who.name == "anybody" else f", token {self.guard.who.name!r}"
        return f"{self.program or 'a client'} at {self.place}{who}"

    # -- its life ----------------------------------------------------------------------------------

    async def run(
        self, receive: Callable[[], Awaitable[bytes | str | None]]
    ) -> ConnectionEnd | None:
        """Talk until one side ends it; why, if it is this one."""
        writer = asyncio.create_task(self._outbox.send_all())
        self._hearing = asyncio.create_task(self._hear_all(receive))
        try:
            await self._hearing
        except asyncio.CancelledError:
            if self._ended is None:  # the broker ends
                self._hearing.cancel()
                raise
        finally:
            self._hub.leave(self)
            self._broker.ring()  # what it wanted is forgotten little by little
            self.using.leave()
            for timer in (self._progress, self._alive):
                if timer is not None:
                    timer.cancel()
            self._broker.holdings.forget(self._make_room, self.owner)
            self._closing = True
            self._outbox.end()
            await asyncio.wait([writer], timeout=LAST_WORDS)
            writer.cancel()
        return self._ended

    def cut_off(self, code: int, why: str) -> None:
        """End it from this side."""
        if self._ended is None:
            self._ended = ConnectionEnd(code, why)
            if self._hearing is not None:
                self._hearing.cancel()

    def let_go(self) -> None:
        """End it: too much waits to be sent to all, and this one has most of it."""
        self.cut_off(1008, "too much waits to be sent, and most of it to this client")

    async def _hear_all(self, receive: Callable[[], Awaitable[bytes | str | None]]) -> None:
        try:
            await self._greet(await asyncio.wait_for(receive(), self._broker.bounds.handshake))
            while (frame := await receive()) is not None:
                await self._hear_each(messages_in(frame))
        except TimeoutError:
            self.cut_off(1008, "it said nothing")
        except BadFrameError as error:
            self._post(refused(0, error))
            self.cut_off(1002, str(error))
        except BrokerRefusedError as error:
            self._post(refused(0, error))
            self.cut_off(1008, str(error))

    async def _hear_each(self, messages: Sequence[msgspec.Raw]) -> None:
        for message in messages:
            parts, more = self._hear(message), True
            while more:
                await self._take_turn()
                began = perf_counter()
                try:
                    more = next(parts, DONE) is not DONE
                finally:
                    self._broker.turns.spend(self._party, perf_counter() - began)

    async def _take_turn(self) -> None:
        await self._broker.turns.take(self._party)
        while not self._room.is_set():
            await self._room.wait()
            await self._broker.turns.take(self._party)

    async def _greet(self, frame: bytes | str | None) -> None:
        if frame is None:
            raise BadFrameError("nothing", why="a connection begins with `hello`")
        messages = messages_in(frame)
        hello, rest = (decode_message(messages[0]) if messages else None), messages[1:]
        if not isinstance(hello, Hello):
            raise BadFrameError("the first message", why="it has to be `hello`")
        if hello.protocol != PROTOCOL:
            text = (
                f"this broker speaks version {PROTOCOL} of the protocol, the client version "
                f"{hello.protocol}; install the same version of polycast on both sides"
            )
            raise BrokerRefusedError("protocol", text)
        if not 0 < len(hello.client) <= 64 or len(hello.program) > 200:
            raise BadFrameError("`hello`", why="a name of 1 to 64 characters is accepted")
        self.client, self.program = hello.client, hello.program
        self._broker.supersede(self)
        self.using.hold(self.guard.who, "connections", 1)
        self._post(
            Welcome(
                PROTOCOL,
                self._broker.name,
                self._broker.identity,
                self._broker.clock.time(),
                self._limits,
                self.guard.who.name,
            )
        )
        self._hub.join(self)
        await self._hear_each(rest)

    # -- what it is sent ---------------------------------------------------------------------------

    def _post(self, message: FromBroker) -> None:
        self._outbox.put(encode(message))
        self._make_room()

    def _some_was_sent(self) -> None:
        self._make_room()
        if self._outbox.was_full and self.has_room():
            self._outbox.was_full = False
            self._broker.ring()

    def has_room(self) -> bool:
        """Whether the client has read most of what it was sent."""
        return self.unread < self._limits.window and self._outbox.has_room()

    @property
    def may_receive_all(self) -> bool:
        """Whether the client has the right to see every event."""
        return self.guard.is_open

    def may_receive(self, record: Record) -> bool:
        """Whether the client has the right to see an event."""
        return self.guard.may_receive(record)

    def send_events(self, events: Events) -> None:
        """Send what the client wants; that there is nothing for it can wait a little."""
        if events.records:
            self.unread += len(events.records)
            self.tell(events)
            return
        new = _told(events)
        if new == self._heard:
            return
        self._latest = events
        changed = events.revision != self._heard[2] or (self.groups and new[3] != self._heard[3])
        if changed or (self._eager and events.upto > self._eager):
            self._eager = 0
            self._tell_latest()
        elif self._progress is None:
            later = LATER if events.stream else MUCH_LATER
            self._progress = asyncio.get_running_loop().call_later(later, self._tell_latest)

    def _tell_latest(self) -> None:
        if self._progress is not None:
            self._progress.cancel()
            self._progress = None
        if self._latest is not None:
            self.tell(self._latest)

    def tell(self, events: Events) -> None:
        """Send it, whatever was sent before."""
        self._latest = None
        if self._eager and events.upto > self._eager:
            self._eager = 0
        self._heard = _told(events)
        self._post(events)

    # -- what it says ------------------------------------------------------------------------------

    def _hear(self, raw: msgspec.Raw) -> Iterator[None]:
        """Do what is asked, in parts: others have their turn between two of them."""
        message = decode_message(raw)
        number = getattr(message, "number", 0)
        try:
            match message:
                case Append():
                    self._append(message)
                case Call():
                    self._answer_call(message)
                case Describe():
                    yield from self._describe(message)
                case Work():
                    self._work(message)
                case Want():
                    yield from self._want(message)
                case Follow() if message.stream <= self.stream:
                    pass  # said before the connection was lost; what follows it has been said
                case Follow():
                    self.stream, self.at = message.stream, max(1, message.start)
                    self.unread = 0  # it does not read what it was sent before
                    self._hub.follow(self)
                    self._broker.ring()
                case Credit():
                    self.unread = max(0, self.unread - message.size)
                    self._broker.ring()
                case Hello():
                    raise BadFrameError("`hello`", why="it was said before")
        except BadFrameError:
            raise
        except Exception as error:  # of this question only
            self._post(refused(number, error))

    def _begin(self, size: int) -> None:
        """One more question that is not answered yet, and how many bytes are held for it."""
        self._pending += 1
        self._hold(size)

    def _end(self, message: FromBroker, size: int) -> None:
        self._pending -= 1
        self._hold(-size)
        self._post(message)

    def _hold(self, size: int) -> None:
        self.held += size
        self._broker.holdings.change(size, self.owner)
        self._make_room()

    def _make_room(self) -> None:
        """Hear nothing more while too much is not answered, or answered and not taken."""
        holdings = self._broker.holdings
        if not holdings.has_room(self.owner):
            holdings.await_room(self._make_room, self.owner)
            self._wait_for_room()
        elif (
            self._pending < self._limits.pending
            and self._outbox.has_room()
            and self.held < self._broker.bounds.inbound
        ):
            self._room.set()
        else:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        self._room.clear()
        if self._alive is None and self._limits.heartbeat > 0 and not self._closing:
            soon = self._limits.heartbeat / 2
            self._alive = asyncio.get_running_loop().call_later(soon, self._say_it_lives)

    def _say_it_lives(self) -> None:
        """Who is not heard gets no answer to its pings: it is told something all the same."""
        self._alive = None
        if not self._room.is_set() and not self._closing and self._outbox.has_room():
            self.told_that_it_lives += 1
            self._hub.tell(self)
            self._make_room()

    def _append(self, message: Append) -> None:
        size = self._appends.admit(message)
        self.guard.check_append(message.runs, message.astray)
        appending = self._store.submit(message.runs, astray=message.astray)
        self._hub.published += sum(len(run.payloads) for run in message.runs)
        self._answer_later(appending, message.number, encode, size)

    def _describe(self, message: Describe) -> Iterator[None]:
        descriptions = yield from read_descriptions(message.descriptions)
        vocabulary = self._broker.vocabulary
        told = self.private.heard(descriptions, self.guard, vocabulary, self.using)
        describing = self._store.describe(told.public)
        size = PIECE * len(message.descriptions)
        private = encode(told.private)
        self._answer_later(describing, message.number, lambda _: private, size)

    def _answer_later(
        self, asked: Future[Any], number: int, result: Callable[[Any], bytes], size: int
    ) -> None:
        """Answer when it is known; as long, so many bytes are held for it."""
        self._begin(size)
        asked.add_done_callback(lambda done: self._later(done, number, result, size))

    def _later(
        self, done: Future[Any], number: int, result: Callable[[Any], bytes], size: int
    ) -> None:
        """Answer from another thread."""
        message: FromBroker
        try:
            found = done.result()
            message = found if isinstance(found, Done) else Answer(number, result(found))
        except Undone as undone:
            message = Done(number, kept=False, results=undone.results)
        except CancelledError:
            message = refused(number, StoreClosedError())
        except BaseException as error:
            message = refused(number, error)
        self._broker.soon(lambda: self._end(message, size))

    def _answer_call(self, message: Call) -> None:
        verb = CALLS.get(message.name)
        if verb is None:
            raise BadFrameError(f"the call {message.name!r}", why="a store has no such method")
        given = verb.given(message.arguments)
        if verb is READ:
            self.guard.check_read(READ, given)
            self._read(message.number, given)
            return
        if message.name == "newest":
            self._eager = self._store.newest()
            self._post(Answer(message.number, encode_result(self._eager)))
            self._broker.ring()
            return
        if verb is ASKED:
            asked = self._hub.asked(self, given["name"])
            self._post(Answer(message.number, encode_result(asked)))
            return
        if message.name in _QUICK:
            result = self._broker.asked(message.name, given, self.guard)
            self._post(Answer(message.number, result))
            return
        ask = partial(self._broker.asked, message.name, given, self.guard)
        asking = self._in_lane(ask, self._broker.pool.submit)
        # What it will be answered is not known yet; a few of these may be much.
        size = max(1, self._broker.bounds.inbound // AT_A_TIME)
        self._answer_later(asking, message.number, bytes, size)

    def _read(self, number: int, given: dict[str, Any]) -> None:
        given["limit"] = min(max(given["limit"], 0), 10_000)
        batch = self._hub.older(self, **given)
        self._post(Answer(number, encode_batch(batch)))

    def _work(self, message: Work) -> None:
        if len(message.steps) > self._limits.pending:
            text = f"work of {len(message.steps)} steps; {self._limits.pending} are accepted"
            raise LimitReachedError("steps", text, {"limit": self._limits.pending})
        # What a client was answered, only its owner is told again.
        client = self.client if self.owner is None else f"{self.owner!r} {self.client}"
        task = Task(client, self._broker.clock.time(), self.guard, self._broker.bounds.answers)
        size = sum(PIECE + len(each.arguments) + len(each.expected) for each in message.steps)
        is_long = len(message.steps) > MANY or size > MUCH
        if any(each.name in LISTINGS for each in message.steps):
            size += self._broker.bounds.answers
            is_long = True
        if is_long:
            working = self._in_lane(partial(perform, work=message, task=task), self._store.write)
        else:
            working = self._store.write(lambda tx: perform(tx, message, task))
        self._answer_later(working, message.number, bytes, size)

    def _in_lane(
        self, work: Callable[..., Any], submit: Callable[[Callable[..., Any]], Future[Any]]
    ) -> Future[Any]:
        """Have done what may take long: for an owner, one after the other."""
        if self.guard.is_open:
            return submit(work)
        lanes = self._broker.lanes
        return lanes.do(self._party, work, submit, is_over=lambda: self._closing)

    def _want(self, message: Want) -> Iterator[None]:
        many = len(message.definitions)
        others = self._hub.wants(self, but=message.name)
        if many and others + many > self._limits.subscriptions:
            text = f"more than {self._limits.subscriptions} subscriptions on one connection"
            raise LimitReachedError("subscriptions", text, {"limit": self._limits.subscriptions})
        yield from check_definitions(message.definitions, self.guard)
        self.using.hold(self.guard.who, "subscriptions", others + many)
        private = self.private.descriptions
        try:
            wanted = yield from self._hub.want(
                self, message.name, message.definitions, private=private
            )
        except BaseException:
            self.using.hold(self.guard.who, "subscriptions", others)
            raise
        self._post(msgspec.structs.replace(wanted, number=message.number))
        self._broker.ring()


def _told(events: Events) -> tuple[int, int, int, int]:
    return events.stream, events.upto, events.revision, events.commits
