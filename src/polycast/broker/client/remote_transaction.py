"""Optimistic transactions: they run at the client and commit at the broker, one after the other.

The work runs against answers of the broker and, where these hardly ever differ, against guesses.
Then all of its steps are sent at once, each with the result that it had here. The broker takes them
in a transaction of its own and commits if every result is the same; otherwise it returns the actual
results, and the work runs again.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

from polycast.broker.wire.calls import ERRANDS, READS, STEPS, RemoteMethod
from polycast.broker.wire.protocol import Done, Step, Work, encode_result
from polycast.errors import BadFrameError, BrokerError, StoreClosedError
from polycast.runtime import SYSTEM, Runtime, others_wait
from polycast.stores.claims import ClaimRequest, SettleRequest, StoredProcedure

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.broker.client.client_connection import BrokerConnection
    from polycast.stores import Transaction, View

    Perform = Callable[[Callable[[Transaction], Any]], Any]
    Item = tuple[Callable[[Transaction], Any], Future[Any]] | None  # None is the end

T = TypeVar("T")
TRIES = 100
_FLIGHTS = frozenset({"fly", "claim", "land", "land_before", "remove", "remove_bus"})
_KEPT = frozenset({"save", "take_over", "move", "remove", "remove_bus"})
_MEMBERS = frozenset({"join", "leave", "remove", "remove_bus"})
_REVISED = frozenset({"save", "take_over", "remove", "describe", "put_context", "end_context"})
_DOCUMENTS = frozenset({"put_document", "remove_document"})
_UNTOUCHED: frozenset[str] = frozenset()
_TOUCHED_BY: dict[str, frozenset[str]] = {
    **dict.fromkeys(("oldest", "identity", "descriptions"), _UNTOUCHED),
    **dict.fromkeys(("flights", "flights_at", "flight", "under_way", "free"), _FLIGHTS),
    **dict.fromkeys(("subscription", "subscriptions", "lapsed"), _KEPT),
    **dict.fromkeys(("document", "documents"), _DOCUMENTS),
    **dict.fromkeys(("letters", "count_letters"), frozenset({"bury", "exhume"})),
    **dict.fromkeys(("route", "routes"), frozenset({"begin_route", "end_route", "remove"})),
    "revision": _REVISED | _DOCUMENTS,
    "members": _MEMBERS,
    "strays": _MEMBERS | {"open_bus"},
}
"""Which steps may change the answer to a question; any step, for one that is not listed."""
_GUESSES: dict[str, bytes] = {
    name: encode_result(True)  # no other client has it
    for name in ("move", "keep_bus", "claim")
} | {"take_over": encode_result(0)}

_GROWING = frozenset({"newest"})
"""Questions whose answer only grows, all the time: an earlier answer is no conflict. Otherwise no
client could attach while others publish."""
_TOLD = frozenset({"open_bus"})
"""Steps that are committed with any result if they are the last: otherwise many clients that open
a bus at once would have to guess whose turn it is."""
_ALWAYS_TOLD = frozenset({"take_over"})
"""Steps whose result no later step may depend on, by contract: many clients attach at once."""
_METHODS: dict[type, RemoteMethod] = {
    ClaimRequest: ERRANDS["take_claims"],
    SettleRequest: ERRANDS["settle"],
}


class _Conflict(Exception):
    """An answer that the work has used is not valid any more."""


class TransactionRunner:
    """Runs the transactions of one client. In one thread."""

    def __init__(
        self,
        connection: BrokerConnection,
        ask: Callable[[str, bytes], bytes],
        guesses: Callable[[str], Any],
    ) -> None:
        self.connection, self.ask, self.guesses = connection, ask, guesses
        self._order = 0

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run work until it is committed; its result."""
        if isinstance(work, StoredProcedure):
            return cast("T", self._carry_out(work))
        known = RememberedResults()
        for _ in range(TRIES):
            recording = TransactionRecording(self, known)
            try:
                result = work(cast("Transaction", recording))
                if recording.has_written and not self._keep(recording):
                    # It is committed, but some results differ: run it again for its own result.
                    recording = TransactionRecording(self, known, kept=recording)
                    result = work(cast("Transaction", recording))
            except _Conflict:
                continue
            for callback in recording.after_it:
                callback()
            return result
        raise BrokerError(f"others have changed what was to be changed {TRIES} times; try again")

    def _carry_out(self, errand: StoredProcedure[Any]) -> Any:
        """Have an errand done at the broker, in one step without guesses."""
        asked = errand.asked()
        needless = errand.needless(asked)
        if needless is not None:
            return needless
        method = _METHODS[type(asked)]
        self._order += 1
        done = self.send([Step(method.name, method.arguments(asked))], keep=True)
        reply = method.result(done.results[0])
        errand.heard(reply)
        return reply

    def _keep(self, recording: TransactionRecording) -> bool:
        """Commit the steps; whether all results are those that the work has used."""
        self._order += 1
        steps = recording.steps
        *sent, last = _unguessed(steps)
        if last.name in _TOLD:
            last = Step(last.name, last.arguments)
        done = self.send([*sent, last], keep=True)
        pairs = zip(steps, done.results, strict=True)
        if done.kept and all(step.expected in (b"", result) for step, result in pairs):
            return True
        recording.learn(steps, done.results)
        if not done.kept:
            raise _Conflict
        return False

    def send(self, steps: list[Step], *, keep: bool) -> Done:
        """Have the broker take some steps."""
        order = self._order
        done: Done = self.connection.ask(lambda n: Work(n, steps, keep, order)).result()
        if len(done.results) != len(steps):
            why = f"{len(steps)} steps have {len(done.results)} results"
            raise BadFrameError("`done`", why=why)
        return done


def _unguessed(steps: list[Step]) -> list[Step]:
    """Steps as they are sent: some without an expected result."""
    return [
        Step(step.name, step.arguments) if step.name in _ALWAYS_TOLD else step for step in steps
    ]


class RememberedResults:
    """The broker's answers in earlier runs of the work: likely still valid."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, bytes, bytes]] = []
        self._results: dict[tuple[str, bytes], bytes] = {}

    def learn(self, steps: list[Step], results: list[bytes]) -> None:
        """Remember the results of some steps."""
        pairs = zip(steps, results, strict=True)
        self._rows = [(step.name, step.arguments, result) for step, result in pairs]
        self._results.update({row[:2]: row[2] for row in self._rows})

    def result(self, at: int, name: str, arguments: bytes) -> bytes | None:
        """The result of the same step, preferably at the same place; or of a similar step there.

        Steps differ when work runs again, since they contain the time.
        """
        row = self._rows[at] if at < len(self._rows) else None
        if row is not None and row[:2] == (name, arguments):
            return row[2]
        similar = row[2] if row is not None and row[0] == name else None
        return self._results.get((name, arguments), similar)


class TransactionRecording:
    """Records the steps of a transaction with their results."""

    def __init__(
        self,
        runner: TransactionRunner,
        known: RememberedResults,
        kept: TransactionRecording | None = None,
    ) -> None:
        self._runner, self._known = runner, known
        self._grown: list[bytes] = []  # answers that only grow
        self._same = [] if kept is None else kept._grown  # those of the committed run
        self.steps: list[Step] = []
        self.after_it: list[Callable[[], None]] = []

    @property
    def has_written(self) -> bool:
        """Whether there is anything to commit."""
        return any(step.name not in READS for step in self.steps)

    def after(self, callback: Callable[[], None]) -> None:
        """Call back after the commit."""
        self.after_it.append(callback)

    def take(self, method: RemoteMethod, arguments: bytes) -> Any:
        """Take a step; its result."""
        if method.name in _GROWING:
            at = len(self._grown)
            same = self._same[at : at + 1]
            self._grown += same or [self._runner.ask(method.name, arguments)]
            return method.result(self._grown[at])
        at, is_question = len(self.steps), method.name in READS
        if not method.has_result:
            self.steps.append(Step(method.name, arguments))
            return None
        result = self._known.result(at, method.name, arguments)
        if result is None and not is_question:
            result = _GUESSES.get(method.name)
        if result is None and is_question:
            result = self._asked(method.name, arguments)
        if result is None:
            result = self._tried(Step(method.name, arguments))
        self.steps.append(Step(method.name, arguments, result))
        return method.result(result)

    def _asked(self, name: str, arguments: bytes) -> bytes | None:
        """The broker's answer outside a transaction; None if earlier steps may have changed it."""
        by = _TOUCHED_BY.get(name)
        if self.has_written and (by is None or any(step.name in by for step in self.steps)):
            return None
        guess = self._runner.guesses(name)
        return self._runner.ask(name, arguments) if guess is None else encode_result(guess)

    def _tried(self, step: Step) -> bytes:
        """Have the broker take all steps so far and roll them back; the last result."""
        steps = [*_unguessed(self.steps), step]
        results = self._runner.send(steps, keep=False).results
        pairs = zip(steps, results, strict=True)
        expected = [step.expected or result for step, result in pairs]
        if expected != results:
            self.learn(steps, results)
            raise _Conflict
        return results[-1]

    def learn(self, steps: list[Step], results: list[bytes]) -> None:
        """Remember the actual results."""
        self._known.learn(steps, results)


class _RemoteView:
    """The state at the broker: each answer is newer than the one before, or as old."""

    def __init__(self, ask: Callable[[str, bytes], bytes]) -> None:
        self._ask = ask

    def take(self, method: RemoteMethod, arguments: bytes) -> Any:
        """Ask a question; its answer."""
        return method.result(self._ask(method.name, arguments))


def _taking(method: RemoteMethod) -> Callable[..., Any]:
    def call(self: TransactionRecording | _RemoteView, *args: Any, **options: Any) -> Any:
        return self.take(method, method.arguments(*args, **options))

    call.__name__ = method.name
    return call


for _class, _methods in ((TransactionRecording, STEPS), (_RemoteView, READS)):
    for _method in _methods.values():
        setattr(_class, _method.name, _taking(_method))


def view_of(ask: Callable[[str, bytes], bytes]) -> View:
    """A read-only view of the state."""
    return cast("View", _RemoteView(ask))


class RemoteWriter:
    """A queue of transactions and the thread that performs them."""

    def __init__(self, perform: Perform, *, runtime: Runtime = SYSTEM) -> None:
        self._perform = perform
        self._queue: SimpleQueue[Item] = runtime.queue()
        self._lock = runtime.rlock()
        self._is_closed = False
        self._thread = runtime.thread(self._run, name="polycast-remote-store")
        self._thread.start()

    def submit(self, work: Callable[[Transaction], Any], future: Future[Any]) -> None:
        """Queue a transaction; the future is resolved when it has been performed."""
        with self._lock:
            if not self._is_closed:
                self._queue.put((work, future))
                return
        future.set_exception(StoreClosedError())

    def close(self) -> bool:
        """Accept no more transactions; whether it was open."""
        with self._lock:
            was_open, self._is_closed = not self._is_closed, True
        if was_open:
            self._queue.put(None)
        return was_open

    def join(self, timeout: float) -> None:
        """Wait for the queued transactions."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        waiting: deque[Item] = deque()
        with others_wait():
            while (item := self._next(waiting)) is not None:
                work, future = item
                try:
                    future.set_result(self._perform(work))
                except BaseException as error:
                    future.set_exception(error)
                del work, future, item  # nothing is kept alive while it waits

    def _next(self, waiting: deque[Item]) -> Item:
        """The next transaction; None is the end.

        Of those queued by now, the ones that can wait come last; but before any queued later.
        """
        if not waiting:
            queued = [self._queue.get()]
            with suppress(Empty):
                while True:
                    queued.append(self._queue.get_nowait())
            waiting.extend(sorted(queued, key=_priority))
        return waiting.popleft()


def _priority(item: Item) -> int:
    return 2 if item is None else int(getattr(item[0], "can_wait", False))
