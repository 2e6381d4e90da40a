"""Random lives of durable subscriptions, against a small model of what they must get."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stored_events import Sale, sales

import polycast as pc
from polycast.config import LEVELS

DEADLINE = 10.0
ATTEMPTS = 3
RELIABLE = [name for name, level in LEVELS.items() if level.reliable]


class Subscriber:
    """A durable subscription as the model knows it, and what its callback has seen."""

    def __init__(self, name: str, level: str, grouped: bool, wanted: int) -> None:
        self.name, self.level, self.grouped, self.wanted = name, level, grouped, wanted
        self.subscriptions: dict[int, Any] = {}  # by bus: those that are attached
        self.expected: dict[int, str] = {}  # in the order of the log, and by whom
        self.handled: list[int] = []
        self.failing: dict[int, int] = {}  # how often a number still fails
        self.tokens: dict[int, list[tuple[int, int]]] = {}
        self.lock = threading.Lock()

    def wants(self, number: int) -> bool:
        return number % self.wanted == 0

    def __call__(self, sale: Sale, delivery: pc.Delivery) -> None:
        with self.lock:
            self.tokens.setdefault(sale.number, []).append((delivery.count, delivery.token))
            if self.failing.get(sale.number, 0):
                self.failing[sale.number] -= 1
                raise ValueError(f"not {sale.number}")
            self.handled.append(sale.number)

    def options(self) -> dict[str, Any]:
        group = {"group": f"group of {self.name}"} if self.grouped else {}
        return {"durable": self.name, "level": self.level, **group}


class Lives(RuleBasedStateMachine):
    """Two buses over one file that are closed and opened again; subscribers come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'events.db'}"
        self.buses: list[pc.Bus] = []
        self.subscribers: list[Subscriber] = []
        self.dead: set[tuple[str, int]] = set()
        self.numbers = 0

    @initialize(
        kinds=st.lists(
            st.tuples(st.sampled_from(RELIABLE), st.booleans(), st.sampled_from([1, 2, 3])),
            min_size=1,
            max_size=3,
        )
    )
    def begin(self, kinds: list[tuple[str, bool, int]]) -> None:
        self.buses = [self._open(), self._open()]
        for n, (level, grouped, wanted) in enumerate(kinds):
            self.subscribers.append(Subscriber(f"subscriber {n}", level, grouped, wanted))
            self.attach(n, 0)

    def _open(self) -> pc.Bus:
        return pc.Bus(self.url, heartbeat_timeout=1_000)

    # -- what can happen ---------------------------------------------------------------------------

    @rule(
        bus=st.integers(0, 1),
        many=st.integers(1, 8),
        fails=st.lists(st.tuples(st.integers(0, 7), st.integers(1, ATTEMPTS)), max_size=2),
    )
    def publish(self, bus: int, many: int, fails: list[tuple[int, int]]) -> None:
        first, self.numbers = self.numbers, self.numbers + many
        for each in self.subscribers:
            for offset, times in dict(fails).items():
                if offset < many and each.wants(first + offset):
                    each.failing[first + offset] = times
                    if times == ATTEMPTS:
                        self.dead.add((each.name, first + offset))
            by = self.buses[bus].publisher
            each.expected.update((n, by) for n in range(first, self.numbers) if each.wants(n))
        self.buses[bus].publish_many(sales(*range(first, self.numbers)))

    @rule(who=st.integers(0, 2), bus=st.integers(0, 1))
    def attach(self, who: int, bus: int) -> None:
        if who < len(self.subscribers):
            each = self.subscribers[who]
            if not each.grouped:
                for attached in list(each.subscriptions):
                    _settle(self.buses[attached])  # else it may rightly finish what comes again
                each.subscriptions.clear()  # they are taken over
            if bus not in each.subscriptions:
                where, modulus = None, each.wanted
                if modulus > 1:
                    where = _multiples(modulus)
                each.subscriptions[bus] = self.buses[bus].subscribe(
                    Sale, each, where=where, attempts=ATTEMPTS, backoff=0.001, **each.options()
                )

    @rule(who=st.integers(0, 2), bus=st.integers(0, 1))
    def detach(self, who: int, bus: int) -> None:
        if who < len(self.subscribers):
            subscription = self.subscribers[who].subscriptions.pop(bus, None)
            if subscription is not None:
                _settle(self.buses[bus])  # else what it is busy with would come twice, rightly
                subscription.detach()

    @rule(bus=st.integers(0, 1))
    def reopen(self, bus: int) -> None:
        self.buses[bus].close()
        for each in self.subscribers:
            each.subscriptions.pop(bus, None)
        self.buses[bus] = self._open()

    @precondition(lambda self: any(each.subscriptions for each in self.subscribers))
    @rule()
    def wait(self) -> None:
        self.come_to_rest([each for each in self.subscribers if each.subscriptions])

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def nothing_comes_twice_or_uncalled_for(self) -> None:
        for each in self.subscribers:
            with each.lock:
                handled = list(each.handled)
                tokens = {number: list(given) for number, given in each.tokens.items()}
            assert set(handled) <= set(each.expected)
            for given in tokens.values():
                assert [token for _, token in given] == sorted({token for _, token in given})

    def come_to_rest(self, subscribers: list[Subscriber]) -> None:
        for each in subscribers:
            due = [n for n in each.expected if (each.name, n) not in self.dead]
            self._wait_for(
                lambda each=each, due=due: set(each.handled) == set(due),
                lambda each=each, due=due: (each.options(), due, each.handled),
            )
            if not each.grouped and LEVELS[each.level].unique:
                assert len(each.handled) == len(due), (each.options(), due, each.handled)
            first = list(dict.fromkeys(each.handled))
            order = LEVELS[each.level].order
            for by in set(each.expected.values()) if order != "none" else ():
                of_one = [n for n in first if order == "total" or each.expected[n] == by]
                assert of_one == sorted(of_one), (each.options(), each.expected, each.handled)

    def _wait_for(self, condition: Any, about: Any = lambda: ()) -> None:
        deadline, pause = time.monotonic() + DEADLINE, threading.Event()
        while not condition():
            assert time.monotonic() < deadline, about()
            pause.wait(0.001)

    def _buried(self) -> set[tuple[str, int]]:
        return {(x.subscription, x.event.number) for x in self.buses[0].dead_letters()}

    def teardown(self) -> None:
        try:
            if self.buses:
                for n in range(len(self.subscribers)):
                    if not self.subscribers[n].subscriptions:
                        self.attach(n, 1)
                self.come_to_rest(self.subscribers)
                for bus in self.buses:
                    _settle(bus)
                self._wait_for(lambda: self._buried() == self.dead)
        finally:
            for bus in self.buses:
                bus.close(timeout=1)
            self.folder.cleanup()


def _settle(bus: pc.Bus) -> None:
    assert bus.flush(DEADLINE)


def _multiples(modulus: int) -> Any:
    return {2: _even, 3: _third}[modulus]


def _even(sale: Sale) -> bool:
    return sale.number % 2 == 0


def _third(sale: Sale) -> bool:
    return sale.number % 3 == 0


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=25,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
