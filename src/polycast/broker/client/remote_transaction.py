"""A transaction that runs here and is kept elsewhere.

The work runs against what the broker answers and, where that is nearly always the same, against
guesses. All of it is then sent as one list of steps, each with the result that it had here. The
broker takes the steps in a transaction of its own and keeps them if every result is the same;
otherwise it tells what they are, and the work runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from polycast.broker.wire.calls import ERRANDS, READS, STEPS
from polycast.broker.wire.frames import encode_result
from polycast.broker.wire.messages import Done, Step, Work
from polycast.errors import BadFrameError, BrokerError
from polycast.stores.claims import ClaimRequest, SettleRequest, StoredProcedure

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.client.client_connection import Connection
    from polycast.broker.wire.calls import Verb
    from polycast.stores import Transaction, View

__all__ = ["Worker", "view_of"]

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
"""Which steps change the answer to a question; one that is not here is changed by any."""
_GUESSES: dict[str, bytes] = {
    name: encode_result(True)  # nobody else has taken it
    for name in ("move", "keep_bus", "claim")
} | {"take_over": encode_result(0)}

_GROWING = frozenset({"newest"})
"""Questions whose answer others change all the time and which only grows: what was told a moment
before is no reason to run the work again. Else nobody could attach while others publish."""
_TOLD = frozenset({"open_bus"})
"""Steps whose result nothing depends on that the work does. As the last, they are kept whatever it
is: many who open a bus at once would else have to guess who of them is the next."""
_ALWAYS_TOLD = frozenset({"take_over"})
"""Steps whose result no later step may depend on, by contract: many who attach at once."""
_VERBS: dict[type, Verb] = {ClaimRequest: ERRANDS["take_claims"], SettleRequest: ERRANDS["settle"]}


class _Again(Exception):
    """What the work was told does not hold any more."""


class Worker:
    """Runs the work of one client, one after the other. In one thread."""

    def __init__(
        self,
        connection: Connection,
        ask: Callable[[str, bytes], bytes],
        guesses: Callable[[str], Any],
    ) -> None:
        self.connection, self.ask, self.guesses = connection, ask, guesses
        self._order = 0

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run some work until it is kept; its result."""
        if isinstance(work, StoredProcedure):
            return cast("T", self._carry_out(work))
        known = Known()
        for _ in range(TRIES):
            recording = Recording(self, known)
            try:
                result = work(cast("Transaction", recording))
                if recording.has_written and not self._keep(recording):
                    # It is kept; only what it was told differs.
                    recording = Recording(self, known, kept=recording)
                    result = work(cast("Transaction", recording))
            except _Again:
                continue
            for done in recording.after_it:
                done()
            return result
        raise BrokerError(f"others have changed what was to be changed {TRIES} times; try again")

    def _carry_out(self, errand: StoredProcedure[Any]) -> Any:
        """Have it done where the store is, as it is there: nothing has to be guessed."""
        asked = errand.asked()
        needless = errand.needless(asked)
        if needless is not None:
            return needless
        verb = _VERBS[type(asked)]
        self._order += 1
        done = self.send([Step(verb.name, verb.arguments(asked))], keep=True)
        reply = verb.result(done.results[0])
        errand.heard(reply)
        return reply

    def _keep(self, recording: Recording) -> bool:
        """Have it kept; whether all is as the work was told."""
        self._order += 1
        steps = recording.steps
        *sent, last = _unguessed(steps)
        if last.name in _TOLD:
            last = Step(last.name, last.arguments)
        done = self.send([*sent, last], keep=True)
        pairs = zip(steps, done.results, strict=True)
        if done.kept and all(each.expected in (b"", result) for each, result in pairs):
            return True
        recording.learn(steps, done.results)
        if not done.kept:
            raise _Again
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
    """Steps as they are sent, without what is told in any case."""
    return [
        Step(each.name, each.arguments) if each.name in _ALWAYS_TOLD else each for each in steps
    ]


class Known:
    """What the broker has answered when the work ran before: likely still true."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, bytes, bytes]] = []
        self._results: dict[tuple[str, bytes], bytes] = {}

    def learn(self, steps: list[Step], results: list[bytes]) -> None:
        """Remember the results of some steps."""
        pairs = zip(steps, results, strict=True)
        self._rows = [(step.name, step.arguments, result) for step, result in pairs]
        self._results.update({row[:2]: row[2] for row in self._rows})

    def result(self, at: int, name: str, arguments: bytes) -> bytes | None:
        """That of the same step at the same place, or else wherever it was; or one like it there.

        What work says of the time is another time when it runs again.
        """
        there = self._rows[at] if at < len(self._rows) else None
        if there is not None and there[:2] == (name, arguments):
            return there[2]
        like_it = there[2] if there is not None and there[0] == name else None
        return self._results.get((name, arguments), like_it)


class Recording:
    """Remembers each step of some work, and what it was told."""

    def __init__(self, worker: Worker, known: Known, kept: Recording | None = None) -> None:
        self._worker, self._known = worker, known
        self._grown: list[bytes] = []  # the answers to what only grows
        self._same = [] if kept is None else kept._grown  # what is kept went by these
        self.steps: list[Step] = []
        self.after_it: list[Callable[[], None]] = []

    @property
    def has_written(self) -> bool:
        """Whether there is anything to keep."""
        return any(step.name not in READS for step in self.steps)

    def after(self, done: Callable[[], None]) -> None:
        """Have something done when it is kept."""
        self.after_it.append(done)

    def take(self, verb: Verb, arguments: bytes) -> Any:
        """One more step."""
        if verb.name in _GROWING:
            at = len(self._grown)
            same = self._same[at : at + 1]
            self._grown += same or [self._worker.ask(verb.name, arguments)]
            return verb.result(self._grown[at])
        at, is_question = len(self.steps), verb.name in READS
        if not verb.has_result:
            self.steps.append(Step(verb.name, arguments))
            return None
        result = self._known.result(at, verb.name, arguments)
        if result is None and not is_question:
            result = _GUESSES.get(verb.name)
        if result is None and is_question:
            result = self._asked(verb.name, arguments)
        if result is None:
            result = self._tried(Step(verb.name, arguments))
        self.steps.append(Step(verb.name, arguments, result))
        return verb.result(result)

    def _asked(self, name: str, arguments: bytes) -> bytes | None:
        """What the store says outside of any transaction, while that is what it says inside."""
        by = _TOUCHED_BY.get(name)
        if self.has_written and (by is None or any(each.name in by for each in self.steps)):
            return None
        guess = self._worker.guesses(name)
        return self._worker.ask(name, arguments) if guess is None else encode_result(guess)

    def _tried(self, step: Step) -> bytes:
        """Have the broker take all steps so far, undo them, and tell the last result."""
        steps = [*_unguessed(self.steps), step]
        results = self._worker.send(steps, keep=False).results
        expected = [each.expected or result for each, result in zip(steps, results, strict=True)]
        if expected != results:
            self.learn(steps, results)
            raise _Again
        return results[-1]

    def learn(self, steps: list[Step], results: list[bytes]) -> None:
        """The broker answers otherwise than was thought."""
        self._known.learn(steps, results)


def _step(verb: Verb) -> Callable[..., Any]:
    def method(self: Recording, *args: Any, **options: Any) -> Any:
        return self.take(verb, verb.arguments(*args, **options))

    method.__name__ = verb.name
    return method


for _verb in STEPS.values():
    setattr(Recording, _verb.name, _step(_verb))


class _View:
    """The state as the broker has it, question by question: no answer is older than the last."""

    def __init__(self, ask: Callable[[str, bytes], bytes]) -> None:
        self._ask = ask


def _question(verb: Verb) -> Callable[..., Any]:
    def method(self: _View, *args: Any, **options: Any) -> Any:
        return verb.result(self._ask(verb.name, verb.arguments(*args, **options)))

    method.__name__ = verb.name
    return method


for _verb in READS.values():
    setattr(_View, _verb.name, _question(_verb))


def view_of(ask: Callable[[str, bytes], bytes]) -> View:
    """The state, for who only looks."""
    return cast("View", _View(ask))
