"""`polycast doctor` of a broker: how it is reached, and the state of its store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shop_events import Sale, url

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.config import SystemClock


def test_it_tells_how_the_broker_is_reached(run: Any, broker: str) -> None:
    found = run("doctor", broker, "--json").data["broker"]
    assert (found["url"], found["protocol"], found["token"]) == (broker, 1, "anybody")
    assert 0 < found["round_trip"] <= found["worst_round_trip"]
    assert abs(found["clock_offset"]) < 5
    assert found["limits"]["frame"] == 16_000_000


def test_it_tells_the_state_that_the_file_has(run: Any, store: Path, broker: str) -> None:
    file = run("doctor", store, "--json", "--no-sync-test").data
    afar = run("doctor", broker, "--json").data
    for part in ("subscriptions", "pins", "retention", "letters", "routing", "state"):
        assert afar[part] == file[part], part
    for part in ("events", "oldest", "newest", "oldest_time", "newest_time"):
        assert afar["log"][part] == file["log"][part]


def test_dead_letters_are_a_warning(run: Any, broker: str) -> None:
    ran = run("doctor", broker)
    assert ran.status == 3
    assert "warning: 2 dead letters of refunds" in ran.out
    assert "round trip" in ran.out


def test_one_without_problems_is_healthy(run: Any, tmp_path: Path) -> None:
    with Serving(Broker(url(tmp_path / "a.db"))) as serving:
        with pc.Bus(serving.url, publisher="till-9") as bus:
            bus.publish(Sale(1))
            assert "till-9" in run("doctor", serving.url).out
        ran = run("doctor", serving.url)
    assert ran.status == 0
    assert ran.out.endswith("healthy: nothing to see to\n")


def test_a_clock_that_is_wrong_is_a_warning(run: Any, tmp_path: Path) -> None:
    class Fast(SystemClock):
        def time(self) -> float:
            return super().time() + 100

    with Serving(Broker(url(tmp_path / "a.db"), clock=Fast())) as serving:
        ran = run("doctor", serving.url)
    assert ran.status == 3
    assert "the clock of the broker differs from the one here by 100.0 s" in ran.out
