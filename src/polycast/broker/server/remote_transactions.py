"""Transactions of clients: steps with the results that the client expects, all or none."""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING

import msgspec

from polycast.broker.wire.calls import ERRANDS, READS, STEPS
from polycast.broker.wire.protocol import Done, encode_result
from polycast.errors import BadFrameError, BrokerRefusedError, LimitReachedError
from polycast.stores import StoredReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.authorization import Authorization
    from polycast.broker.wire.protocol import Step, Work
    from polycast.stores import Transaction

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
