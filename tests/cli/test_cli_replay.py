"""`polycast replay`: events of the past are shown, counted, and given to a subscription again."""

from __future__ import annotations

import io
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shop_events import BigSale, Refund, Sale, url

import polycast as pc
from polycast.delivery.replay import MOST
from polycast.errors import BadOptionError, PipelineError
from polycast.routing.search import History, search_for
from polycast.stores import open_store
from polycast.stores.doctor import open_readonly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Eventually = Callable[[Callable[[], object]], None]
needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None, reason="the extra `spark` is missing"
)


class Keyboard(io.StringIO):
    """A terminal with somebody who types."""

    def isatty(self) -> bool:
        return True


def positions(ran: Any) -> list[int]:
    """Of the events that were shown."""
    assert ran.status == 0, ran.err
    return [row["position"] for row in ran.rows]


def received(store: Path, what: Any = Sale, name: str = "billing", **options: Any) -> list[int]:
    """What a subscription handles when it is attached."""
    seen: list[int] = []
    with pc.Bus(url(store)) as bus:
        bus.subscribe(what, lambda event: seen.append(event.number), durable=name, **options)
        assert bus.flush(30)
    return seen


def in_flight(store: Path, name: str = "billing") -> list[int]:
    with open_readonly(store) as found, found.view() as view:
        return [flight.position for flight in view.flights(name)]


def is_odd(sale: Sale) -> bool:
    """A filter that nobody else can look into."""
    return bool(getattr(sale, "num" + "ber") % 2)


# -- shown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], list(range(1, 11))),
        (["Sale"], [1, 2, 3, 4, 7, 8, 9, 10]),
        (["Sale", "--exact"], [1, 2, 3, 4, 7, 9, 10]),
        (["--limit", "1", "Refund", "--exact"], [5]),
        (["shop_events.Refund"], [5, 6]),
        (["Sale", "--where", "event.number > 2"], [4, 7, 8, 9, 10]),
        (["--where", "event.number == 0"], [1, 5]),
        (["--topic", "/shop/*"], [1, 2, 3, 4, 7, 8, 9]),
        (["/shop/back"], [7, 8, 9]),
        (["BigSale", "--topic", "/shop/back", "--where", "event.customer == 'Ann'"], [8]),
        (["Sale", "--since", "4", "--until", "9"], [4, 7, 8]),
        (["Sale", "--since", "beginning", "--limit", "2"], [1, 2]),
        (["Sale", "--where", "isinstance(event, kind('shop_events.BigSale'))"], [8]),
    ],
)
def test_it_shows_what_a_subscription_would_have_been_given(
    run: Any, store: Path, words: list[str], expected: list[int]
) -> None:
    assert positions(run("replay", store, *words, "--json")) == expected


def test_an_event_looks_as_in_polycast_events(run: Any, store: Path) -> None:
    assert run("replay", store).out == run("tail", store).out
    assert run("replay", store, "--json").out == run("tail", store, "--json").out


def test_it_ends_at_a_time(run: Any, store: Path) -> None:
    times = {row["position"]: row["time"] for row in run("tail", store, "--json").rows}
    moment = datetime.fromtimestamp(times[7], UTC).isoformat()
    found = positions(run("replay", store, "--until", moment, "--json"))
    assert found
    assert all(times[position] < times[7] + 1e-6 for position in found)


def test_a_process_without_the_classes_finds_the_same(store: Path) -> None:
    words = ["replay", str(store), "Sale", "--where", "event.number > 4", "--limit", "9"]
    command = [sys.executable, "-W", "error", "-m", "polycast", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert [int(line.split()[0]) for line in done.stdout.splitlines()] == [8, 9, 10]


def test_text_is_cut_with_a_word_on_how_to_go_on(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(250)])
    ran = run("replay", path)
    assert len(ran.out.splitlines()) == 100
    assert "--since 101" in ran.err
    assert len(run("replay", path, "--json").rows) == 250
    assert run("replay", path, "--since", 151).err == ""


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["Sail"], 1, "did you mean 'Sale'?"),
        (["--where", "event.number >"], 1, "not an expression"),
        (["Sale", "--where", "event.nunber > 1"], 1, "did you mean `number`?"),
        (["Sale", "--where", "print(event)"], 1, "print"),
        (["--topic", "shop"], 1, "shop"),
        (["--since", "yesterday"], 2, "--since yesterday is neither 'beginning'"),
        (["--until", "beginning"], 2, "--until beginning is neither a position"),
        (["--to", "bill"], 1, "did you mean 'billing'?"),
        (["--to", "billing", "--limit", "0"], 1, "1 to 10,000"),
        (["--spark"], 2, "--dry-run"),
        (["--exact", "Sale", "Refund"], 2, "unrecognized arguments: Refund"),
        (["--exact", "--nonsense"], 2, "unrecognized arguments: --nonsense"),
    ],
)
def test_what_cannot_be_meant_is_an_error(
    run: Any, store: Path, words: list[str], status: int, said: str
) -> None:
    ran = run("replay", store, *words)
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err


def test_a_filter_that_needs_the_classes_is_refused(tmp_path: Path) -> None:
    module = "from dataclasses import dataclass\n@dataclass\nclass Till:\n    n: int\n"
    (tmp_path / "tills.py").write_text(f"{module}    def total(self):\n        return self.n\n")
    fill = (
        "import polycast as pc, tills\n"
        "with pc.Bus('sqlite:///a.db') as bus: bus.publish(tills.Till(3))\n"
    )
    subprocess.run([sys.executable, "-c", fill], cwd=tmp_path, check=True, timeout=60)
    words = ["replay", "a.db", "Till", "--where", "event.total() > 2"]
    done = subprocess.run(
        [sys.executable, "-m", "polycast", *words],
        cwd=tmp_path.parent / tmp_path.name,
        env={"PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "only the classes have" in done.stderr


# -- counted ---------------------------------------------------------------------------------------


def test_a_dry_run_counts_and_samples_and_changes_nothing(run: Any, store: Path) -> None:
    before = store.read_bytes()
    data = run("replay", store, "Sale", "--dry-run", "--json").data
    assert store.read_bytes() == before
    assert data["types"] == {"shop_events.Sale": 7, "shop_events.BigSale": 1}
    assert (data["events"], data["first"], data["last"]) == (8, 1, 10)
    assert [each["position"] for each in data["samples"]] == [1, 2, 3]
    assert data["times"][0] <= data["times"][1]


def test_a_dry_run_in_words(run: Any, store: Path) -> None:
    out = run("replay", store, "--to", "billing", "--dry-run").out
    assert out.startswith("8 events meant, positions 1 to 10\n")
    assert "4 events would go to 'billing' once more\n4 it gets anyway" in out
    assert out.endswith("nothing was changed\n")
    assert in_flight(store) == []


def test_a_dry_run_that_finds_nothing_says_so(run: Any, store: Path) -> None:
    out = run("replay", store, "Sale", "--where", "event.number > 99", "--dry-run").out
    assert out == "no event is meant\n\nnothing was changed\n"


def test_a_dry_run_over_an_empty_log(run: Any, tmp_path: Path) -> None:
    pc.Bus(url(tmp_path / "a.db")).close()
    assert run("replay", tmp_path / "a.db", "--dry-run", "--json").data["events"] == 0


# -- given to a subscription -----------------------------------------------------------------------


def test_a_subscription_gets_what_it_has_handled_once_more_and_only_once(
    run: Any, store: Path
) -> None:
    data = run("replay", store, "--to", "billing", "--yes", "--json").data
    assert (data["count"], data["coming"], data["under_way"]) == (4, 4, 0)
    assert received(store) == list(range(8))
    assert received(store) == []


def test_who_is_attached_gets_them_at_once(run: Any, store: Path, eventually: Eventually) -> None:
    seen: list[int] = []
    with pc.Bus(url(store)) as bus:
        bus.subscribe(Sale, lambda sale: seen.append(sale.number), durable="billing")
        assert bus.flush(30)
        assert seen == [4, 5, 6, 7]
        assert run("replay", store, "--to", "billing", "--until", 3, "--yes").status == 0
        eventually(lambda: len(seen) == 6)
        bus.publish(Sale(8))
        assert bus.flush(30)
    assert seen == [4, 5, 6, 7, 0, 1, 8]
    assert in_flight(store) == []


def test_what_is_asked_for_is_given_only_as_far_as_it_wants_it(run: Any, store: Path) -> None:
    words = ["--where", "event.number < 2", "--to", "billing", "--yes", "--json"]
    assert run("replay", store, *words).data["count"] == 2  # and not the refunds
    assert received(store) == [0, 1, 4, 5, 6, 7]
    assert run("replay", store, "Refund", "--to", "billing", "--yes", "--json").data["count"] == 0


def test_what_is_under_way_is_left_alone(run: Any, store: Path) -> None:
    run("replay", store, "--to", "billing", "--until", 3, "--yes")
    data = run("replay", store, "--to", "billing", "--yes", "--json").data
    assert (data["count"], data["under_way"]) == (2, 2)
    assert received(store) == list(range(8))


def test_only_the_first_of_them_go_if_there_is_a_limit(run: Any, store: Path) -> None:
    assert (
        run("replay", store, "--to", "billing", "--limit", 3, "--yes", "--json").data["count"] == 3
    )
    assert in_flight(store) == [1, 2, 3]


def test_too_many_are_refused_and_a_limit_is_named(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, lambda sale: None, durable="billing")
        bus.publish_many([Sale(n) for n in range(MOST + 5)])
        assert bus.flush(60)
    ran = run("replay", path, "--to", "billing", "--yes")
    assert ran.status == 1
    assert "10,005 events would go to 'billing' once more. Accepted: 1 to 10,000" in ran.err
    assert "more than go at a time" in run("replay", path, "--to", "billing", "--dry-run").out
    assert in_flight(path) == []
    words = ["--to", "billing", "--limit", 1_500, "--yes", "--json"]
    assert run("replay", path, *words).data["count"] == 1_500
    assert received(path) == list(range(1_500))


def test_where_nobody_can_be_asked_nothing_is_done(run: Any, store: Path) -> None:
    ran = run("replay", store, "--to", "billing")
    assert (ran.status, in_flight(store)) == (2, [])
    assert "4 events would go to 'billing' once more, positions 1 to 4" in ran.err
    assert "--yes" in ran.err


@pytest.mark.parametrize(("typed", "expected"), [("y\n", [1, 2, 3, 4]), ("\n", [])])
def test_somebody_at_a_terminal_is_asked(
    run: Any, store: Path, monkeypatch: pytest.MonkeyPatch, typed: str, expected: list[int]
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    monkeypatch.setattr("sys.stderr", Keyboard())
    assert run("replay", store, "--to", "billing").status == 0
    assert in_flight(store) == expected


def test_what_only_the_subscriber_can_ask_it_leaves_out_itself(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        sub = bus.subscribe(Sale, lambda sale: None, durable="billing", where=is_odd)
        bus.publish_many([Sale(n) for n in range(6)])
        assert bus.flush(30)
        sub.detach()
    ran = run("replay", path, "--to", "billing", "--yes")
    assert "6 events at most go to 'billing' once more" in ran.out
    assert received(path, where=is_odd) == [1, 3, 5]
    assert in_flight(path) == []


def test_a_subscription_may_get_what_was_before_it(run: Any, store: Path) -> None:
    with pc.Bus(url(store)) as bus:
        bus.subscribe(Sale, lambda sale: None, durable="late").detach()
    run("replay", store, "--to", "late", "--topic", "/shop/back", "--yes")
    assert received(store, name="late") == [4, 5, 6]


def test_one_member_of_a_durable_group_gets_each(
    run: Any, tmp_path: Path, eventually: Eventually
) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, lambda sale: None, durable="crew", group="crew")
        bus.publish_many([Sale(n) for n in range(5)])
        assert bus.flush(30)
    seen: list[int] = []
    with pc.Bus(url(path)) as one, pc.Bus(url(path)) as other:
        for bus in (one, other):
            bus.subscribe(Sale, lambda sale: seen.append(sale.number), durable="crew", group="crew")
        data = run("replay", path, "--to", "crew", "--yes", "--json").data
        assert data["count"] == 5
        eventually(lambda: len(seen) == 5)
        assert one.flush(30)
        assert other.flush(30)
        one.publish(Sale(5))
        assert one.flush(30)
        assert other.flush(30)
    assert sorted(seen) == list(range(6))


def test_a_member_has_a_higher_token_the_second_time(
    run: Any, tmp_path: Path, eventually: Eventually
) -> None:
    path = tmp_path / "a.db"
    tokens: list[int] = []

    def take(sale: Sale, delivery: pc.Delivery[Sale]) -> None:
        tokens.append(delivery.token)

    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, take, durable="crew", group="crew")
        bus.publish(Sale(0))
        assert bus.flush(30)
    with pc.Bus(url(path)) as bus:
        bus.subscribe(Sale, take, durable="crew", group="crew")
        assert bus.flush(30)
        for times in (2, 3):
            run("replay", path, "--to", "crew", "--yes")
            eventually(lambda times=times: len(tokens) == times)
            assert bus.flush(30)
    assert tokens == sorted(set(tokens))


def test_a_group_that_is_not_durable_has_no_history(run: Any, store: Path) -> None:
    with pc.Bus(url(store)) as bus:
        bus.subscribe(Sale, lambda sale: None, group="crew")
        ran = run("replay", store, "--to", "group:crew", "--yes")
    assert ran.status == 1
    assert "'billing'" in ran.err


def test_a_subscription_that_the_pipeline_routes_for_gets_them_too(
    run: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    with pc.Bus(url(path)) as bus:
        bus.publish_many([Sale(n) for n in range(4)])
        options = {"durable": "billing", "where": lambda sale: sale.number != 2}
        bus.subscribe(Sale, lambda sale: None, engine="spark", **options).detach()
    assert run("replay", path, "--to", "billing", "--yes", "--json").data["count"] == 3
    assert received(path, where=lambda sale: sale.number != 2, engine="spark") == [0, 1, 3]


def test_a_subscription_to_types_that_nobody_described_needs_a_type(tmp_path: Path) -> None:
    (tmp_path / "wishes.py").write_text(
        "from dataclasses import dataclass\nfrom typing import Protocol\n"
        "class HasN(Protocol):\n    n: int\n"
        "@dataclass\nclass Wish:\n    n: int\n"
    )
    program = (
        "import polycast as pc, wishes\n"
        "with pc.Bus('sqlite:///a.db') as bus: bus.publish(wishes.Wish(1))\n"
        "with pc.Bus('sqlite:///a.db') as bus:\n"
        "    bus.subscribe(wishes.HasN, print, durable='all').detach()\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
    path = str(tmp_path / "a.db")
    with closing(sqlite3.connect(path)) as connection, connection:  # a store of long ago
        connection.execute(
            "DELETE FROM descriptions WHERE json_extract(body, '$.name') = 'wishes.HasN'"
        )

    def replay(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "polycast", "replay", path, "--to", "all", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    refused = replay("--yes")
    assert refused.returncode == 1
    assert "no description of wishes.HasN" in refused.stderr
    assert "1 event at most goes to 'all' once more" in replay("Wish", "--yes").stdout


def test_what_the_log_has_let_go_of_meanwhile_is_left_out(store: Path) -> None:
    from polycast.delivery.replay import replay_to

    found = open_store(str(store))
    try:
        with found.view() as view:
            search = search_for(view, to="billing", most=10)
        listed = History(search, found).findings(1, 11).listed
        found.truncate(3)
        assert replay_to(found, "billing", listed) == 2
    finally:
        found.close()
    assert in_flight(store) == [3, 4]


# -- with Spark ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests."""
    from spark_session import shared_session

    session = shared_session()
    yield session
    session.stop()


@needs_spark
def test_spark_finds_what_a_loop_finds(run: Any, store: Path, spark: SparkSession) -> None:
    from polycast.pipeline.history_search import find

    with pc.Bus(url(store)) as bus:
        bus.publish_many([BigSale(n) if n % 3 else Sale(n) for n in range(5_000)])
        bus.publish_many([Refund(n) for n in range(50)], topic="/shop/back")
    cases: list[dict[str, Any]] = [
        {},
        {"what": Sale, "where": lambda sale: sale.number % 7 == 3},
        {"what": BigSale | Refund, "topic": "/shop/**"},
        {"what": pc.all_of(Sale, BigSale)},
        {"what": "shop_events.Sale", "exact": True},
        {"to": "billing"},
        {"to": "refunds", "where": lambda refund: refund.number == 0},
    ]
    with open_readonly(store) as found:
        for case in cases:
            with found.view() as view:
                search = search_for(view, **case, most=MOST)
            for low, high in ((1, found.newest() + 1), (5, 3_000), (7, 7)):
                plainly = History(search, found).findings(low, high)
                assert find(spark, str(store), search, low, high) == plainly


@needs_spark
def test_history_is_delivered_from_python(store: Path, spark: SparkSession) -> None:
    from polycast.pipeline.history_search import deliver

    again: Any = {"to": "billing", "where": lambda sale: sale.number > 1}
    would = deliver(spark, url(store), Sale, **again, dry_run=True)
    assert (would.count, would.events, would.coming, would.at_most) == (2, 6, 4, False)
    assert in_flight(store) == []
    assert deliver(spark, url(store), Sale, **again).count == 2
    assert deliver(spark, url(store), to="billing", limit=1).count == 1
    assert received(store) == [0, 2, 3, 4, 5, 6, 7]
    with pytest.raises(BadOptionError, match="cannot be looked into"):
        deliver(
            spark, url(store), Sale, to="billing", where=lambda sale: is_odd(sale) and sale.number
        )


@needs_spark
def test_the_command_searches_with_spark(run: Any, store: Path, spark: SparkSession) -> None:
    words = ["replay", store, "Sale", "--to", "billing", "--json"]
    plain = run(*words, "--dry-run").data
    assert run(*words, "--dry-run", "--spark").data == plain
    assert run(*words, "--spark", "--yes").data["count"] == plain["count"] == 4


@needs_spark
def test_damage_that_a_worker_meets_is_told_as_what_it_is(store: Path, spark: SparkSession) -> None:
    from polycast.pipeline.history_search import deliver

    with closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE log SET body = x'00' WHERE position = 3")
        connection.commit()
    with pytest.raises(PipelineError, match=r"StoreDamagedError: .*position 3"):
        deliver(spark, url(store), to="billing")
    assert in_flight(store) == []
