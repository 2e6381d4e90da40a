"""What comes late, or not at all: work that was done meanwhile, places that were left, faults."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from wire_talks import Talks, framed

from polycast.broker.client.remote_transaction import TransactionRunner
from polycast.broker.wire.calls import STEPS
from polycast.broker.wire.protocol import (
    Done,
    Events,
    Follow,
    FromBroker,
    Refused,
    Step,
    Want,
    Work,
)
from polycast.errors import BadFrameError
from polycast.matching import Definition


def put(name: str) -> Step:
    return Step("put_document", STEPS["put_document"].arguments("kind", name, b"x"))


def remove(name: str) -> Step:
    return Step("remove_document", STEPS["remove_document"].arguments("kind", name))


def answer_to(answers: list[FromBroker], number: int) -> FromBroker:
    return next(each for each in answers if getattr(each, "number", 0) == number)


def test_work_that_comes_when_later_work_was_done_is_refused(talks: Talks) -> None:
    first, second = Work(1, [put("a")], True, 1), Work(2, [remove("a")], True, 2)
    talks.said(framed(first), framed(second))
    answers, ended = talks.said(framed(first))
    refused = answer_to(answers, 1)
    assert isinstance(refused, Refused)
    assert (refused.code, ended) == ("late", None)
    with talks.broker.store.view() as view:
        assert view.documents("kind") == {}


def test_work_that_is_said_again_is_answered_again_and_done_once(talks: Talks) -> None:
    work = Work(1, [put("a"), remove("a"), put("b")], True, 1)
    first, _ = talks.said(framed(work))
    again, _ = talks.said(framed(work))
    assert answer_to(first, 1) == answer_to(again, 1)
    assert isinstance(answer_to(again, 1), Done)


def test_a_place_that_was_named_before_the_latest_is_not_gone_back_to(talks: Talks) -> None:
    wanted = Want(1, "mine", [Definition("x", "list", topic="/a").encoded()])
    answers, _ = talks.said(framed(wanted, Follow(7, 1), Follow(3, 1), Follow(7, 1)))
    streams = {each.stream for each in answers if isinstance(each, Events)}
    assert streams <= {0, 7}


class Failing:
    """A reader that cannot be sent anything."""

    stream, at, groups = 1, 1, 0

    def has_room(self) -> bool:
        return True

    def may_receive(self, record: object) -> bool:
        del record
        return True

    def send_events(self, events: Events) -> None:
        raise RuntimeError("planned")


def test_whatever_fails_while_it_sends_the_broker_says_so_and_goes_on(talks: Talks) -> None:
    reader = Failing()
    talks.broker.fanout.join(reader)
    talks.said(framed(Work(1, [put("a")], True, 1)))
    talks.until(lambda: not talks.broker.is_ready)
    assert any("planned" in each for each in talks.faults.found)
    talks.broker.fanout.leave(reader)
    talks.faults.found.clear()
    talks.until(lambda: talks.broker.is_ready)
    assert talks.is_well()


class Forgetful:
    """A connection to a broker that tells fewer results than there were steps."""

    def ask(self, question: Any) -> Future[Done]:
        work: Work = question(1)
        found: Future[Done] = Future()
        found.set_result(Done(work.number, False, []))
        return found


def test_a_broker_that_tells_too_few_results_is_not_believed() -> None:
    worker = TransactionRunner(Forgetful(), lambda name, arguments: b"", lambda name: None)  # type: ignore[arg-type]
    with pytest.raises(BadFrameError, match="1 steps have 0 results"):
        worker.run(lambda tx: tx.put_document("kind", "name", b""))
