"""What takes longest begins, so that nobody is left with it at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharing import Stopwatch, begin_with_the_longest, known_seconds, share_of


@dataclass
class Item:
    nodeid: str
    slow: bool = False

    def get_closest_marker(self, name: str) -> object:
        return "it is" if self.slow and name == "slow" else None


@dataclass
class Report:
    nodeid: str
    duration: float


def ordered(known: dict[str, float], *items: Item) -> list[str]:
    given: list[Any] = list(items)
    begin_with_the_longest(given, known)
    return [each.nodeid for each in given]


QUICK, LONG = Item("tests/bus/a.py::test_a"), Item("tests/bus/b.py::test_b", slow=True)
SPARK = Item("tests/pipeline/c.py::test_c"), Item("tests/filters/spark/d.py::test_d")


def test_without_an_earlier_run_spark_begins_and_then_what_is_slow() -> None:
    items = [QUICK, SPARK[0], LONG, SPARK[1]]
    expected = [each.nodeid for each in (*SPARK, LONG, QUICK)]
    assert ordered({}, *items) == expected


def test_what_took_longest_last_time_begins() -> None:
    known = {"spark": 50.0, "tests/bus/a.py": 90.0, "tests/bus/b.py": 3.0}
    assert ordered(known, LONG, SPARK[0], QUICK) == [
        each.nodeid for each in (QUICK, SPARK[0], LONG)
    ]


def test_the_tests_of_a_file_stay_together() -> None:
    first, last = Item("tests/bus/a.py::test_1", slow=True), Item("tests/bus/a.py::test_2")
    assert ordered({}, QUICK, first, last, LONG)[:3] == [
        each.nodeid for each in (QUICK, first, last)
    ]


def test_seconds_are_kept_for_the_next_run_and_those_not_run_stay(tmp_path: Path) -> None:
    path = tmp_path / "build" / "seconds.json"
    assert known_seconds(path) == {}
    for name, duration in (("tests/bus/a.py", 2.0), ("tests/bus/b.py", 3.0)):
        watch = Stopwatch(path)
        for _ in ("setup", "call"):
            watch.pytest_runtest_logreport(Report(f"{name}::test", duration))
        watch.pytest_sessionfinish()
    assert known_seconds(path) == {"tests/bus/a.py": 4.0, "tests/bus/b.py": 6.0}


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "seconds.json"
    path.write_text("{", encoding="utf-8")
    assert known_seconds(path) == {}


def test_all_of_spark_is_one_share() -> None:
    assert {share_of(each.nodeid) for each in SPARK} == {"spark"}
