"""What a client asks of a broker, and how each request is answered."""

from __future__ import annotations

from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.broker.server.remote_transactions import (
    LISTINGS,
    SMALL_READS,
    RolledBack,
    WorkScope,
    perform,
)
from polycast.broker.server.request_limits import OVERHEAD, AppendLimits, check_definitions
from polycast.broker.server.type_catalog import PrivateDescriptions, read_descriptions
from polycast.broker.wire.calls import ASKED, CALLS, NOTICES, READ
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
from polycast.errors import BadFrameError, LimitReachedError, StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from polycast.broker.server.client_session import ClientSession

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
        yield from check_definitions(message.definitions, session.authorization.events)
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
