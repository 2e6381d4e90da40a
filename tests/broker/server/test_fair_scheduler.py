"""What takes a store long goes one at a time for each owner, and others do not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from test_flow import Client, run, settled

from polycast.broker.server.access import Principal, Rights
from polycast.broker.server.broker import Broker
from polycast.broker.server.fair_scheduler import LONGEST_REST, SHORT, CpuTimer, FairScheduler
from polycast.broker.server.request_handler import WorkScope, take
from polycast.broker.wire.calls import CALLS, STEPS
from polycast.broker.wire.protocol import Answer, Call, Step
from polycast.errors import LimitReachedError

EVIL = Principal("evil", Rights.of(subscribe=["evil.*"]), owner="evil")
SHOP = Principal("shop", Rights.of(subscribe=["shop.*"]), owner="shop")
COUNT = Step("count_letters", STEPS["count_letters"].arguments())


class Road:
    """Lanes, what was begun in them, and who rests for how long."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Future[Any], CpuTimer]] = []
        self.resting: list[tuple[float, Callable[[], None]]] = []
        self.scheduler = FairScheduler(
            soon=lambda work: work(), later=lambda *rest: self.resting.append(rest)
        )

    def ask(self, party: str, name: str) -> Future[Any]:
        return self.scheduler.ask(party, lambda watch: self._begin(name, watch))

    def _begin(self, name: str, watch: CpuTimer) -> Future[Any]:
        running: Future[Any] = Future()
        self.begun.append((name, running, watch))
        return running

    def end(self, name: str, *, took: float = 0.0) -> None:
        [found] = [each for each in self.begun if each[0] == name]
        found[2].took = took
        found[1].set_result(f"{name} is done")

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.begun]


def test_an_owner_has_one_at_a_time_in_order_and_others_do_not_wait() -> None:
    road = Road()
    asked = [road.ask("evil", name) for name in ("a", "b", "c")]
    other = road.ask("shop", "d")
    assert road.names == ["a", "d"]
    road.end("d")
    assert other.result(0) == "d is done"
    road.end("a")
    assert road.names == ["a", "d", "b"]
    road.end("b")
    road.end("c")
    assert [each.result(0)[0] for each in asked] == ["a", "b", "c"]
    assert len(road.scheduler) == 0


@pytest.mark.parametrize(("took", "rest"), [(2 * SHORT, 2 * SHORT), (100.0, LONGEST_REST)])
def test_who_took_long_waits_as_long_but_not_for_ever(took: float, rest: float) -> None:
    road = Road()
    road.ask("evil", "a"), road.ask("evil", "b")
    road.end("a", took=took)
    assert road.names == ["a"]
    [(seconds, go_on)] = road.resting
    assert seconds == pytest.approx(rest)
    go_on()
    assert road.names == ["a", "b"]


def test_one_that_fails_or_cannot_begin_holds_up_nothing() -> None:
    road = Road()

    def fail(watch: CpuTimer) -> Future[Any]:
        raise KeyError("no")

    failed = road.scheduler.ask("evil", fail)
    wrong, after = road.ask("evil", "wrong"), road.ask("evil", "after")
    road.begun[0][1].set_exception(ValueError("wrong"))
    road.end("after")
    assert isinstance(failed.exception(0), KeyError)
    assert isinstance(wrong.exception(0), ValueError)
    assert after.result(0) == "after is done"


def test_a_stopwatch_counts_what_failed_too() -> None:
    watch = CpuTimer()
    with pytest.raises(ZeroDivisionError):
        watch.time(lambda: sum(range(100_000)) // 0)
    assert watch.took > 0


def test_questions_of_one_owner_wait_for_each_other_over_all_its_connections() -> None:
    async def test(broker: Broker) -> None:
        clients = [Client(broker, who=EVIL) for _ in range(3)]
        arguments = CALLS["count_letters"].arguments()
        broker.scheduler.ask("evil", lambda watch: Future())  # one that never ends
        for each in clients:
            each.say(*(Call(n, "count_letters", arguments) for n in range(1, 4)))
        other = Client(broker, who=SHOP)
        other.say(Call(1, "count_letters", arguments))
        while not other.of(Answer):
            await settled()
        assert not any(each.of(Answer) for each in clients)
        assert len(broker.scheduler) == 9
        for each in (*clients, other):
            await each.close()

    run(test, lambda: Broker("memory:"))


def test_questions_within_one_piece_of_work_have_so_much_time_in_all() -> None:
    broker = Broker()
    authorization = broker.authorize(EVIL)

    def ask(task: WorkScope) -> int:
        found = broker.store.write(lambda tx: len(take(tx, [COUNT] * 3, task)))
        return found.result(5)

    assert ask(WorkScope("evil", 0.0, authorization, seconds=100.0)) == 3
    with pytest.raises(LimitReachedError, match="the questions of one piece of work took"):
        ask(WorkScope("evil", 0.0, authorization, seconds=0.0))
    boss = broker.authorize(Principal("boss", Rights.of(admin=True)))
    assert ask(WorkScope("boss", 0.0, boss, seconds=0.0)) == 3


def test_how_a_group_is_doing_is_not_looked_up_between_two_events() -> None:
    """There may be very much under way in one."""

    async def test(broker: Broker) -> None:
        client = Client(broker, who=EVIL)
        await settled()
        broker.scheduler.ask("evil", lambda watch: Future())
        client.say(Call(1, "standing", CALLS["standing"].arguments("g", at=0.0, limit=1)))
        client.say(Call(2, "members", CALLS["members"].arguments("g")))
        await settled()
        assert len(broker.scheduler) == 2
        await client.close()

    run(test, lambda: Broker("memory:"))
