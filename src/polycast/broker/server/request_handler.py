"""What a client asks of a broker: limits, transactions, and how each request is answered."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.broker.server.query_rules import definition_of
from polycast.broker.server.type_catalog import PrivateDescriptions, read_descriptions
from polycast.broker.wire.calls import ASKED, CALLS, ERRANDS, NOTICES, READ, READS, STEPS
from polycast.broker.wire.protocol import (
    Answer,
    Append,
    Call,
    Credit,
    Describe,
    Done,
    Follow,
    FromBroker,
    Hello,
    Want,
    Work,
    decode_message,
    encode,
    encode_batch,
    encode_result,
    refused,
)
from polycast.errors import BadFrameError, BrokerRefusedError, LimitReachedError, StoreClosedError
from polycast.stores import StoredReply, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polycast.broker.server.authorization import Authorization
    from polycast.broker.server.client_session import ClientSession
    from polycast.broker.server.limits import ServerLimits
    from polycast.broker.wire.protocol import Limits, Step
    from polycast.config import Clock


OVERHEAD = 200  # bytes that an event, a step or a description takes besides its contents


class AppendLimits:
    """The limits of one connection; the rate is a token bucket."""

    def __init__(self, limits: Limits, server_limits: ServerLimits, clock: Clock) -> None:
        self._rate, self._clock = limits.rate, clock
        self._most = max(server_limits.appended, 2 * limits.frame)
        self._allowance = float(limits.rate)
        self._counted = clock.monotonic()

    def admit(self, message: Append) -> int:
        """About how many bytes its events take; raises `LimitReachedError` above a limit."""
        size = _size_of(message)
        self._check_size(size)
        self._check_rate(sum(len(run.payloads) for run in message.runs))
        return size

    def _check_size(self, size: int) -> None:
        """Refuse a small message that would become very much in the log."""
        if size > self._most:
            text = (
                f"{size:,} bytes of events in one message, each with its topic, context and "
                f"headers; {self._most:,} are accepted. Publish fewer at a time"
            )
            raise LimitReachedError("too-large", text, {"limit": self._most, "used": size})

    def _check_rate(self, count: int) -> None:
        if not self._rate:
            return
        now = self._clock.monotonic()
        self._allowance = min(self._rate, self._allowance + (now - self._counted) * self._rate)
        self._counted = now
        if count > self._allowance:
            text = f"more than {self._rate} events a second; publish them more slowly"
            raise LimitReachedError("rate", text, {"limit": self._rate})
        self._allowance -= count


def _size_of(message: Append) -> int:
    """About how many bytes events take in memory and in the log."""
    astray = sum(OVERHEAD + len(stray.reason) for stray in message.astray)
    return OVERHEAD + astray + sum(run.size(OVERHEAD) for run in message.runs)


LETTER, LEAST = 500, 2_000  # bytes that a dead letter and any question count for besides
_TOO_MUCH = "the answers to {} steps of one piece of work take {:,} bytes; {:,} are accepted"
_TOO_LONG = "the questions of one piece of work took {:.2f} s; ask fewer at a time"
SMALL_READS = frozenset(
    {"newest", "oldest", "revision", "subscription", "document", "route", "flight"}
)
LISTINGS = READS.keys() - SMALL_READS
"""Questions about many things, which may take long; `SMALL_READS` are about one."""
_results = msgspec.msgpack.Decoder(list[bytes])


class RolledBack(Exception):
    """The steps are rolled back; the results that they had."""

    def __init__(self, results: list[bytes]) -> None:
        super().__init__(f"{len(results)} steps")
        self.results = results


@dataclass(frozen=True, slots=True)
class WorkScope:
    """The client that a transaction is for, its rights and its limits."""

    client: str
    now: float
    authorization: Authorization
    room: int = 4_000_000
    """Bytes of all answers together: other clients wait meanwhile."""
    seconds: float = 0.03
    """CPU time after which no further question about many things is answered."""


def perform(tx: Transaction, work: Work, scope: WorkScope) -> Done:
    """Perform a transaction; raises `RolledBack` if asked to, or if a result is unexpected."""
    if work.keep:
        known = tx.answer(scope.client)
        if known is not None and known.number == work.order:  # the answer was lost
            return Done(work.number, kept=True, results=_results.decode(known.body))
        if known is not None and known.number > work.order:
            # It was repeated over another connection and done; this copy comes late.
            text = f"work {work.order} was done; {known.number} is the latest of this client"
            raise BrokerRefusedError("late", text)
    results = take(tx, work.steps, scope)
    if not work.keep:
        raise RolledBack(results)
    tx.put_answer(StoredReply(scope.client, work.order, encode_result(results), scope.now))
    return Done(work.number, kept=True, results=results)


def take(tx: Transaction, steps: Sequence[Step], scope: WorkScope) -> list[bytes]:
    """The results of some steps; raises `RolledBack` if one is not as expected.

    The steps after it are taken all the same, so that the client learns all results at once.
    """
    results: list[bytes] = []
    as_expected, size, spent = True, 0, 0.0
    scope.authorization.begin()
    for step in steps:
        method = STEPS.get(step.name) or ERRANDS.get(step.name)
        if method is None:
            raise BadFrameError(f"the step {step.name!r}", why="a transaction has no such method")
        given = method.given(step.arguments)
        began = thread_time() if step.name in LISTINGS and not scope.authorization.is_open else None
        if began is not None and spent > scope.seconds:
            raise LimitReachedError("answers", _TOO_LONG.format(spent), {"limit": scope.seconds})
        value = scope.authorization.take(tx, method, given)
        spent += 0.0 if began is None else thread_time() - began
        size += LETTER * len(value) if step.name == "letters" else 0
        result = encode_result(value)
        results.append(result)
        size += LEAST + len(result) if step.name in READS else 0
        if size > scope.room and len(results) > 1:
            text = _TOO_MUCH.format(len(results), size, scope.room)
            raise LimitReachedError("answers", text, {"limit": scope.room})
        as_expected = as_expected and step.expected in (b"", result)
    if not as_expected:
        raise RolledBack(results)
    return results


AT_A_TIME = 4  # questions about many things that one client may have answered at a time
MANY, MUCH = 200, 100_000  # steps of a transaction, and bytes, that may take long
_QUICK = SMALL_READS | {NOTICES.name}


class RequestHandler:
    """Handles the messages of one client. In the thread of the event loop."""

    def __init__(self, session: ClientSession) -> None:
        self._session, self._broker = session, session.broker
        self._store, self._fanout = session.broker.store, session.broker.fanout
        self._limits, self._events = session.broker.limits, session.events
        self._private = PrivateDescriptions()
        self._appends = AppendLimits(
            self._limits, session.broker.server_limits, session.broker.clock
        )

    def handle(self, raw: msgspec.Raw) -> Iterator[None]:
        """Handle one message; yields between two parts, so that other clients have a turn."""
        message = decode_message(raw)
        number = getattr(message, "number", 0)
        try:
            match message:
                case Append():
                    self._append(message)
                case Call():
                    self._call(message)
                case Describe():
                    yield from self._describe(message)
                case Work():
                    self._work(message)
                case Want():
                    yield from self._want(message)
                case Follow() if message.stream <= self._events.stream:
                    pass  # sent before the connection was lost; a later one is in effect
                case Follow():
                    self._events.start(message)
                    self._fanout.follow(self._events)
                    self._broker.ring()
                case Credit():
                    self._events.credit(message.size)
                    self._broker.ring()
                case Hello():
                    raise BadFrameError("`hello`", why="it was said before")
        except BadFrameError:
            raise
        except Exception as error:  # of this request only
            self._session.post(refused(number, error))

    # -- answers -----------------------------------------------------------------------------------

    def _answer_later(
        self, future: Future[Any], number: int, encoded: Callable[[Any], bytes], size: int
    ) -> None:
        """Answer when the future is done; until then, so many bytes count as held."""
        self._session.backpressure.count(1, size)
        future.add_done_callback(lambda done: self._answer(done, number, encoded, size))

    def _answer(
        self, done: Future[Any], number: int, encoded: Callable[[Any], bytes], size: int
    ) -> None:
        """Answer from another thread."""
        message: FromBroker
        try:
            result = done.result()
            message = result if isinstance(result, Done) else Answer(number, encoded(result))
        except RolledBack as rolled_back:
            message = Done(number, kept=False, results=rolled_back.results)
        except CancelledError:
            message = refused(number, StoreClosedError())
        except BaseException as error:
            message = refused(number, error)
        self._broker.soon(lambda: self._finish(message, size))

    def _finish(self, message: FromBroker, size: int) -> None:
        self._session.backpressure.count(-1, -size)
        self._session.post(message)

    def _look_after(self, changing: Future[Any]) -> None:
        """Have the fan-out look at a change at once: clients that only publish hear of it, too."""
        changing.add_done_callback(lambda done: self._broker.soon(self._broker.ring))

    def _in_lane(
        self, work: Callable[..., Any], submit: Callable[[Callable[..., Any]], Future[Any]]
    ) -> Future[Any]:
        """Submit work that may take long: one at a time for each owner."""
        session = self._session
        if session.authorization.is_open:
            return submit(work)
        scheduler = self._broker.scheduler
        return scheduler.do(session.party, work, submit, is_over=lambda: session.is_closing)

    # -- events and types --------------------------------------------------------------------------

    def _append(self, message: Append) -> None:
        size = self._appends.admit(message)
        self._session.authorization.events.check_append(message.runs, message.astray)
        appending = self._store.submit(message.runs, astray=message.astray)
        count = sum(len(run.payloads) for run in message.runs)
        self._fanout.published += count
        if self._session.owner is not None:
            self._count_unrouted(appending, count + size // 1_000)
        self._answer_later(appending, message.number, encode, size)

    def _count_unrouted(self, appending: Future[list[int]], count: int) -> None:
        """Hold events against their owner until they are routed: all later ones wait for that."""
        unrouted, owner = self._broker.unrouted, self._session.owner
        unrouted.change(count, owner)

        def appended() -> None:
            positions = (
                [0] if appending.cancelled() or appending.exception() else appending.result()
            )
            last = positions[-1] if positions else 0
            self._fanout.when_routed(last, lambda: unrouted.change(-count, owner))

        appending.add_done_callback(lambda done: self._broker.soon(appended))

    def _describe(self, message: Describe) -> Iterator[None]:
        descriptions = yield from read_descriptions(message.descriptions)
        session, catalog = self._session, self._broker.type_catalog
        public, private = self._private.sort(
            descriptions, session.authorization, catalog, session.usage
        )
        describing, answer = self._store.describe(public), encode(private)
        size = OVERHEAD * len(message.descriptions)
        self._answer_later(describing, message.number, lambda _: answer, size)
        self._look_after(describing)

    def _want(self, message: Want) -> Iterator[None]:
        session, many = self._session, len(message.definitions)
        others = self._fanout.plan.count(self._events, but=message.name)
        if many and others + many > self._limits.subscriptions:
            text = f"more than {self._limits.subscriptions} subscriptions on one connection"
            raise LimitReachedError("subscriptions", text, {"limit": self._limits.subscriptions})
        for definition in message.definitions:  # too large, malformed, or not granted
            session.authorization.events.check_definition(definition_of(definition))
            yield
        principal = session.authorization.principal
        session.usage.hold(principal, "subscriptions", others + many)
        private = self._private.descriptions
        try:
            wanted = yield from self._fanout.want(
                self._events, message.name, message.definitions, private=private
            )
        except BaseException:
            session.usage.hold(session.authorization.principal, "subscriptions", others)
            raise
        session.post(msgspec.structs.replace(wanted, number=message.number))
        self._broker.ring()

    # -- questions and transactions ----------------------------------------------------------------

    def _call(self, message: Call) -> None:
        method = CALLS.get(message.name)
        if method is None:
            raise BadFrameError(f"the call {message.name!r}", why="a store has no such method")
        given, authorization = method.given(message.arguments), self._session.authorization
        if method is READ:
            authorization.check_read(READ, given)
            given["limit"] = min(max(given["limit"], 0), 10_000)
            self._post_result(message, encode_batch(self._fanout.read(self._events, **given)))
        elif message.name == "newest":
            newest = self._store.newest()
            self._events.await_progress(newest)
            self._post_result(message, encode_result(newest))
            self._broker.ring()
        elif method is ASKED:
            asked = self._fanout.plan.asked(self._events, given["name"])
            self._post_result(message, encode_result(asked))
        elif message.name in _QUICK:
            self._post_result(message, self._broker.asked(message.name, given, authorization))
        else:
            ask = partial(self._broker.asked, message.name, given, authorization)
            asking = self._in_lane(ask, self._broker.pool.submit)
            # The size of its answer is not known yet; a few of these may be much.
            size = max(1, self._broker.server_limits.inbound // AT_A_TIME)
            self._answer_later(asking, message.number, bytes, size)

    def _post_result(self, message: Call, result: bytes) -> None:
        self._session.post(Answer(message.number, result))

    def _work(self, message: Work) -> None:
        if len(message.steps) > self._limits.pending:
            text = f"work of {len(message.steps)} steps; {self._limits.pending} are accepted"
            raise LimitReachedError("steps", text, {"limit": self._limits.pending})
        session, answers = self._session, self._broker.server_limits.answers
        # The answer to a transaction is repeated to its owner only.
        owner = session.owner
        client = session.client if owner is None else f"{owner!r} {session.client}"
        scope = WorkScope(client, self._broker.clock.time(), session.authorization, answers)
        size = sum(OVERHEAD + len(step.arguments) + len(step.expected) for step in message.steps)
        is_long = len(message.steps) > MANY or size > MUCH
        if any(step.name in LISTINGS for step in message.steps):
            size += answers
            is_long = True
        if is_long:
            working = self._in_lane(partial(perform, work=message, scope=scope), self._store.write)
        else:
            working = self._store.write(lambda tx: perform(tx, message, scope))
        self._answer_later(working, message.number, bytes, size)
        self._look_after(working)
