"""Transactions of clients: steps that a client has guessed the results of, done all or none."""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING

import msgspec

from polycast.broker.wire.calls import ERRANDS, READS, STEPS
from polycast.broker.wire.frames import encode_result
from polycast.broker.wire.messages import Done
from polycast.errors import BadFrameError, BrokerRefusedError, LimitReachedError
from polycast.stores import StoredReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.authorization import Guard
    from polycast.broker.wire.messages import Step, Work
    from polycast.stores import Transaction

__all__ = ["Undone", "perform"]

LETTER, LEAST = 500, 2_000  # bytes that a dead letter, and any question, counts for
_TOO_MUCH = "the answers to {} steps of one piece of work take {:,} bytes; {:,} are accepted"
_TOO_LONG = "the questions of one piece of work took {:.2f} s; ask fewer at a time"
_SMALL = {"newest", "oldest", "revision", "subscription", "document", "route", "flight"}
LISTINGS = READS.keys() - _SMALL
"""Questions about many things, which may take long."""
_results = msgspec.msgpack.Decoder(list[bytes])


class Undone(Exception):
    """Steps that are not kept, and the results that they had."""

    def __init__(self, results: list[bytes]) -> None:
        super().__init__(f"{len(results)} steps")
        self.results = results


@dataclass(frozen=True, slots=True)
class Task:
    """What has to be known of a client to work for it."""

    client: str
    now: float
    guard: Guard
    room: int = 4_000_000
    """Bytes that the answers to its questions may take in all: others wait meanwhile."""
    seconds: float = 0.03
    """Of the processor, after which no further question about many things is answered."""


def perform(tx: Transaction, work: Work, task: Task) -> Done:
    """Do what a client asks; `Undone` if it is to be undone, or a guess was wrong."""
    if work.keep:
        known = tx.answer(task.client)
        if known is not None and known.number == work.order:  # it did not hear the answer
            return Done(work.number, kept=True, results=_results.decode(known.body))
        if known is not None and known.number > work.order:
            # It was said again over another connection, was done, and this has come late.
            text = f"work {work.order} was done; {known.number} is the latest of this client"
            raise BrokerRefusedError("late", text)
    results = take(tx, work.steps, task)
    if not work.keep:
        raise Undone(results)
    tx.put_answer(StoredReply(task.client, work.order, encode_result(results), task.now))
    return Done(work.number, kept=True, results=results)


def take(tx: Transaction, steps: Sequence[Step], task: Task) -> list[bytes]:
    """The results of some steps; `Undone` if one has another than was expected.

    The others are taken all the same, so that the client learns as much as possible at once.
    """
    results: list[bytes] = []
    as_expected, told, spent = True, 0, 0.0
    task.guard.begin()
    for step in steps:
        verb = STEPS.get(step.name) or ERRANDS.get(step.name)
        if verb is None:
            raise BadFrameError(f"the step {step.name!r}", why="a transaction has no such method")
        given = verb.given(step.arguments)
        began = thread_time() if step.name in LISTINGS and not task.guard.is_open else None
        if began is not None and spent > task.seconds:
            raise LimitReachedError("answers", _TOO_LONG.format(spent), {"limit": task.seconds})
        value = task.guard.take(tx, verb, given)
        spent += 0.0 if began is None else thread_time() - began
        told += LETTER * len(value) if step.name == "letters" else 0
        result = encode_result(value)
        results.append(result)
        told += LEAST + len(result) if step.name in READS else 0
        if told > task.room and len(results) > 1:
            text = _TOO_MUCH.format(len(results), told, task.room)
            raise LimitReachedError("answers", text, {"limit": task.room})
        as_expected = as_expected and step.expected in (b"", result)
    if not as_expected:
        raise Undone(results)
    return results
