"""The streaming job: what it routes, how it follows changes, and what stops it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import polycast as pc
from polycast.errors import (
    BadOptionError,
    NotAStoreError,
    NotAvailableError,
    PipelineError,
    PipelineFailedError,
)
from polycast.pipeline import Pipeline, Status, status_of
from polycast.routing import decode_recipients
from polycast.stores import Draft, Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Eventually = Callable[[Callable[[], object]], None]


@dataclass(frozen=True)
class Order:
    number: int
    shop: str = "a"


@dataclass(frozen=True)
class Rush(Order):
    fee: float = 1.0


def pairs(store: Store) -> dict[str, list[int]]:
    """The positions that go to each subscription, by what the store has."""
    found: dict[str, list[int]] = {}
    with store.view() as view:
        names = {route.number: route.name for route in view.routes()}
        for stretch in view.stretches(0, limit=1_000):
            for position, numbers in decode_recipients(stretch.low, stretch.takers):
                for number in numbers:
                    found.setdefault(names[number], []).append(position)
    return found


def unsure(store: Store) -> set[int]:
    with store.view() as view:
        several = view.stretches(0, limit=1_000)
    return set().union(*(decode_recipients(each.low, each.takers).unsure for each in several))


def keep(bus: pc.Bus, name: str, what: Any, **options: Any) -> None:
    """Subscribe for later: nobody is called."""
    bus.subscribe(what, print, durable=name, engine="spark", **options).detach()


def test_it_routes_what_is_there_and_stops(spark: SparkSession, url: str) -> None:
    with pc.Bus(url) as bus:
        keep(bus, "all", Order)
        keep(bus, "rush", Rush)
        keep(bus, "some", Order, where=lambda o: o.number > 7)
        bus.publish_many([Rush(n) if n % 5 == 0 else Order(n) for n in range(10)])
        status = Pipeline(url, spark=spark).run_available()
        store = open_store(path_of(url))
        assert pairs(store) == {"all": list(range(1, 11)), "rush": [1, 6], "some": [9, 10]}
        store.close()
    assert (status.state, status.position, status.lag) == ("stopped", 11, 0)
    assert (status.events, status.pairs, status.subscriptions) == (10, 14, 3)


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def test_subscriptions_come_change_and_go_while_it_runs(
    spark: SparkSession, url: str, eventually: Eventually
) -> None:
    got: dict[str, list[int]] = {"early": [], "late": [], "changed": [], "gone": []}

    def take(name: str) -> Callable[[Order], None]:
        return lambda order: got[name].append(order.number)

    with pc.Bus(url) as bus, Pipeline(url, spark=spark) as pipeline:

        def publish(*numbers: int) -> None:
            bus.publish_many([Order(number) for number in numbers])
            eventually(lambda: pipeline.status().lag == 0)
            bus.flush()

        bus.subscribe(Order, take("early"), durable="early", engine="spark")
        gone = bus.subscribe(Order, take("gone"), durable="gone", engine="spark")
        how = {"durable": "changed", "engine": "spark"}
        bus.subscribe(Order, take("changed"), where=lambda o: o.number < 2, **how)
        publish(1, 2)
        bus.subscribe(Order, take("late"), durable="late", engine="spark")
        bus.subscribe(Order, take("changed"), where=lambda o: o.number > 3, replace=True, **how)
        gone.cancel()
        publish(3, 4)
        assert got == {"early": [1, 2, 3, 4], "late": [3, 4], "changed": [1, 4], "gone": [1, 2]}
        versions = pipeline.status()
        assert (versions.subscriptions, versions.plan) == (3, 3)


def test_history_comes_first_where_it_is_asked_for(
    spark: SparkSession, url: str, eventually: Eventually
) -> None:
    got: list[int] = []
    with pc.Bus(url) as bus:
        bus.publish_many([Order(1), Order(2)])
        bus.subscribe(
            Order,
            lambda order: got.append(order.number),
            durable="audit",
            engine="spark",
            since="beginning",
        )
        bus.publish(Order(3))
        Pipeline(url, spark=spark).run_available()
        eventually(lambda: len(got) == 3)
        assert got == [1, 2, 3]


def test_what_was_published_before_anybody_came_is_not_read(spark: SparkSession, url: str) -> None:
    with pc.Bus(url) as bus:
        bus.publish_many([Order(n) for n in range(500)])
        keep(bus, "late", Order)
        bus.publish(Order(1))
        status = Pipeline(url, spark=spark, batch=10).run_available()
    assert (status.events, status.position, status.batch) == (1, 502, 0)


def test_it_goes_on_where_it_was_with_and_without_its_checkpoint(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    with pc.Bus(url) as bus:
        keep(bus, "all", Order)
        for checkpoint in (tmp_path / "one", tmp_path / "one", None, tmp_path / "two"):
            bus.publish_many([Order(n) for n in range(10)])
            Pipeline(url, spark=spark, checkpoint=checkpoint, batch=7).run_available()
        store = open_store(path_of(url))
        assert pairs(store) == {"all": list(range(1, 41))}
        store.close()


MODULE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Bill:
    cents: int

    def total(self):
        return self.cents + 1

    @property
    def is_left(self):
        if self.cents == 3:
            raise Leaving("out of here")
        return leaves(self)

def is_even(bill):
    for _ in ():
        pass
    return bill.total() % 2 == 0

class Leaving(BaseException):
    pass

def leaves(bill):
    if bill.cents == 4:
        raise SystemExit("which is a failure like any other: it does not match")
    return True
"""


@pytest.fixture
def billing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of which workers know nothing, unless it is shipped."""
    name = f"billing_{tmp_path.name}".replace("-", "_")
    package = tmp_path / "shipped" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "events.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(package.parent))
    return __import__(f"{name}.events", fromlist=["events"])


@pytest.mark.parametrize("shipped", [True, False])
def test_functions_and_methods_run_where_their_module_is(
    shipped: bool, billing: Any, spark: SparkSession, url: str, eventually: Eventually
) -> None:
    got: dict[str, list[int]] = {"function": [], "method": []}
    with pc.Bus(url) as bus:
        bus.subscribe(
            billing.Bill,
            lambda bill: got["function"].append(bill.cents),
            where=billing.is_even,
            durable="function",
            engine="spark",
        )
        bus.subscribe(
            billing.Bill,
            lambda bill: got["method"].append(bill.cents),
            where=lambda bill: bill.cents > 2 and bill.total() < 6,
            durable="method",
            engine="spark",
        )
        bus.publish_many([billing.Bill(n) for n in range(6)])
        imports = [billing.__name__] if shipped else []
        status = Pipeline(url, spark=spark, imports=imports).run_available()
        eventually(lambda: sum(map(len, got.values())) == 5)
        bus.flush()
        assert got == {"function": [1, 3, 5], "method": [3, 4]}
        store = open_store(path_of(url))
        assert bool(unsure(store)) is not shipped
        store.close()
    assert status.pairs == (5 if shipped else 6 + 3)


def test_an_event_that_breaks_a_filter_is_a_dead_letter_and_all_go_on(
    billing: Any, spark: SparkSession, url: str, eventually: Eventually
) -> None:
    got: list[int] = []
    with pc.Bus(url) as bus:
        bus.subscribe(
            billing.Bill,
            lambda bill: got.append(bill.cents),
            where=lambda bill: bill.is_left,
            durable="broken",
            engine="spark",
        )
        keep(bus, "whole", billing.Bill)
        bus.publish_many([billing.Bill(n) for n in range(6)])
        status = Pipeline(url, spark=spark, imports=[billing.__name__]).run_available()
        eventually(lambda: len(got) == 4)
        assert got == [0, 1, 2, 5]
        (letter,) = bus.dead_letters()
        assert (letter.subscription, letter.position, letter.event) == (
            "broken",
            4,
            billing.Bill(3),
        )
        assert "Leaving: out of here" in letter.reason
        assert "in is_left" in letter.reason  # the traceback
    assert (status.state, status.pairs) == ("stopped", 10)


def test_an_event_that_cannot_be_decoded_is_a_dead_letter_of_all_who_may_want_it(
    spark: SparkSession, url: str, eventually: Eventually
) -> None:
    got: list[int] = []
    with pc.Bus(url) as bus:
        bus.subscribe(
            Order,
            lambda o: got.append(o.number),
            durable="x",
            engine="spark",
            where=lambda o: o.number,
        )
        first = bus.publish(Order(1))
        store = open_store(path_of(url))
        record = store.read(first.position, limit=1).entries[0].record
        identity = pc.Identity("somebody", 1, 1)
        names = (record.name, record.version, record.hash, identity)
        store.append([Draft(*names, "msgpack", b"\xc1")])
        bus.publish(Order(3))
        Pipeline(url, spark=spark).run_available()
        eventually(lambda: len(got) == 2 and len(bus.dead_letters()) == 1)
        assert [letter.position for letter in bus.dead_letters()] == [2]
        store.close()


def test_a_damaged_record_stops_it_and_is_named(spark: SparkSession, url: str) -> None:
    import apsw

    with pc.Bus(url) as bus:
        keep(bus, "all", Order)
        bus.publish_many([Order(n) for n in range(20)])
    raw = apsw.Connection(path_of(url))
    raw.execute("UPDATE log SET body = zeroblob(length(body)) WHERE position = 7")
    raw.close()
    pipeline = Pipeline(url, spark=spark, batch=5)
    with pytest.raises(PipelineFailedError, match=r"position 6 .*position 7"):
        pipeline.run_available()
    status = pipeline.status()
    assert (status.state, status.position) == ("failed", 6)
    assert "position 7" in (status.failure or "")
    assert status_of(url).state == "failed"


def test_another_pipeline_takes_over(spark: SparkSession, url: str, eventually: Eventually) -> None:
    with pc.Bus(url) as bus:
        keep(bus, "all", Order)
        first = Pipeline(url, spark=spark).start()
        bus.publish(Order(1))
        eventually(lambda: first.status().lag == 0)
        second = Pipeline(url, spark=spark).start()
        bus.publish(Order(2))
        with pytest.raises(PipelineError, match="another pipeline was started"):
            first.wait(10)
        eventually(lambda: second.status().lag == 0)
        assert first.status().state == "failed"
        first.stop()
        second.stop()
        store = open_store(path_of(url))
        assert pairs(store) == {"all": [1, 2]}
        store.close()


def test_it_tells_how_it_is_getting_on(spark: SparkSession, url: str) -> None:
    told: list[Status] = []
    with pc.Bus(url) as bus:
        assert status_of(url).state == "never started"
        keep(bus, "all", Order)
        bus.publish_many([Order(n) for n in range(30)])
        assert (status_of(url).lag, status_of(url).subscriptions) == (30, 1)
        pipeline = Pipeline(url, spark=spark, batch=10, on_batch=told.append)
        pipeline.run_available()
        assert [(each.batch, each.position, each.lag) for each in told] == [
            (0, 11, 20),
            (1, 21, 10),
            (2, 31, 0),
        ]
        assert {each.state for each in told} == {"running"}
        assert told[-1].rate > 0
        assert (status_of(url).state, status_of(url).events) == ("stopped", 30)


def test_it_can_be_stopped_and_started_again(
    spark: SparkSession, url: str, eventually: Eventually
) -> None:
    with pc.Bus(url) as bus:
        keep(bus, "all", Order)
        pipeline = Pipeline(url, spark=spark)
        pipeline.stop()  # nothing to stop
        for number in range(2):
            with pipeline:
                with pytest.raises(PipelineError, match="running already"):
                    pipeline.start()
                bus.publish(Order(number))
                eventually(lambda: pipeline.status().lag == 0)
            assert pipeline.status().state == "stopped"


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda url: Pipeline("memory:"), NotAvailableError, "bus in memory"),
        (lambda url: Pipeline("nowhere"), BadOptionError, "sqlite:///"),
        (lambda url: Pipeline(f"{url}.not"), NotAStoreError, "no such file"),
        (lambda url: Pipeline(url, imports="shop"), BadOptionError, r"\['shop'\]"),
        (lambda url: Pipeline(url, imports=["no.such"]), BadOptionError, "no.such"),
        (lambda url: Pipeline(url, imports=["os; x"]), BadOptionError, "os; x"),
        (lambda url: Pipeline(url, batch=0), BadOptionError, "batch"),
        (lambda url: status_of(f"{url}.not"), NotAStoreError, "no such file"),
    ],
)
def test_bad_input_is_refused_at_once(make: Any, error: Any, why: str, url: str) -> None:
    pc.Bus(url).close()
    with pytest.raises(error, match=why):
        make(url)
