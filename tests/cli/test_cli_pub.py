"""`polycast pub`: events that are given as JSON."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def last(run: Any, place: str, many: int = 1) -> list[Any]:
    """The last events of the log."""
    return list(run("tail", place, "-n", many, "--json").rows)


def test_an_event_is_published_and_its_receipt_printed(run: Any, place: str) -> None:
    ran = run("pub", place, "shop_events.Sale", '{"number": 8, "note": "x"}', "--json")
    assert ran.status == 0, ran.out
    (receipt,) = ran.rows
    (found,) = last(run, place)
    assert receipt["position"] == found["position"] == 11
    assert receipt["identity"] == found["identity"]
    assert (found["class"], found["event"]) == ("shop_events.Sale", {"number": 8, "note": "x"})


def test_the_receipt_in_words_has_position_and_identity(run: Any, store: Path) -> None:
    ran = run("pub", store, "Sale", '{"number": 8}', "--publisher", "till-9")
    assert ran.out == "position 11, identity till-9/1/1\n"


def test_topic_priority_headers_and_expiry_go_with_it(run: Any, place: str) -> None:
    words = ["--topic", "/shop/front", "--priority", "3", "--header", "lane=3", "--header", "a=b=c"]
    assert run("pub", place, "Sale", *words, "--expires", "60", '{"number": 8}').status == 0
    (found,) = last(run, place)
    assert (found["topic"], found["priority"]) == ("/shop/front", 3)
    assert found["headers"] == {"lane": "3", "a": "b=c"}
    assert found["expires"] > found["time"] + 50


def test_what_is_left_out_has_its_default(run: Any, place: str) -> None:
    run("pub", place, "BigSale", '{"number": 8}')
    assert last(run, place)[0]["event"] == {"number": 8, "note": "", "customer": "nobody"}


def test_a_process_without_the_class_publishes_by_its_description(place: str) -> None:
    words = [sys.executable, "-W", "error", "-m", "polycast", "pub", place, "Sale"]
    done = subprocess.run([*words, '{"number": 8}'], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    words = [sys.executable, "-m", "polycast", "tail", place, "-n", "1", "--json"]
    found = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)
    assert found["event"] == {"number": 8, "note": ""}


def test_every_line_of_a_file_is_an_event(run: Any, store: Path, tmp_path: Path) -> None:
    lines = tmp_path / "events.jsonl"
    lines.write_text("".join(f'{{"number": {n}}}\n' for n in range(1_500)))
    assert len(run("pub", store, "Sale", "--json-lines", lines, "--json").rows) == 1_500
    assert last(run, str(store))[0]["event"]["number"] == 1_499


def test_events_come_from_the_input(run: Any, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"number": 8}\n\n{"number": 9}\n'))
    assert len(run("pub", store, "Sale", "--json-lines", "-", "--json").rows) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"number": }', "event 1: it is no JSON at column 12"),
        ('{"number": 1,\n"note" 2}', "at line 2, column 8"),
        ("[1]", "[1] is given; accepted: an object with the attributes of shop_events.Sale"),
        ('{"number": 1, "note": 3}', "note: 3 is given; accepted: a string"),
        ('{"number": "ff"}', 'number: "ff" is given; accepted: a whole number'),
        ('{"number": 1.0}', "number: 1.0 is given; accepted: a whole number"),
        ('{"number": true}', "number: true is given; accepted: a whole number"),
        ('{"number": NaN}', "it is no JSON: NaN is no number there"),
        ('{"number": 1, "number": 2}', "the name 'number' is there twice"),
        ('{"number": 1, "noet": ""}', "has no attribute 'noet'; did you mean 'note'?"),
        ("{}", "shop_events.Sale needs number"),
    ],
)
def test_what_is_no_event_of_the_type_is_refused(
    run: Any, store: Path, text: str, said: str
) -> None:
    ran = run("pub", store, "Sale", text, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "not-decodable")
    assert said in ran.data["error"]["message"]
    assert last(run, str(store))[0]["position"] == 10


def test_what_tail_prints_is_published_again_as_it_was(run: Any, place: str) -> None:
    (found,) = last(run, place)
    assert run("pub", place, found["class"], json.dumps(found["event"])).status == 0
    assert last(run, place)[0]["event"] == found["event"]


def test_a_bad_line_is_named(run: Any, store: Path, tmp_path: Path) -> None:
    lines = tmp_path / "events.jsonl"
    lines.write_text('{"number": 1}\n{"number"}\n')
    ran = run("pub", store, "Sale", "--json-lines", lines)
    assert f"{lines}, line 2: it is no JSON at column 10" in ran.err


def test_an_unknown_type_is_an_error_with_the_nearest(run: Any, place: str) -> None:
    ran = run("pub", place, "Sail", "{}", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "bad-option")
    assert "did you mean 'Sale'?" in ran.data["error"]["message"]


def test_a_type_that_nobody_has_published_is_imported(place: str, tmp_path: Path) -> None:
    (tmp_path / "stock_events.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Delivery:\n    boxes: int = 1\n"
    )
    words = ["pub", place, "stock_events.Delivery", '{"boxes": 3}', "--import", "stock_events"]
    done = subprocess.run(
        [sys.executable, "-m", "polycast", *words], cwd=tmp_path, timeout=60, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["{}", "--json-lines", "-"],
        ["{}", "--header", "a"],
        ["{}", "--import", "no_such_module"],
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(
    run: Any, store: Path, words: list[str]
) -> None:
    ran = run("pub", store, "Sale", *words, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (2, "usage")


def test_a_store_that_is_not_there_is_not_made(run: Any, tmp_path: Path) -> None:
    assert run("pub", tmp_path / "none.db", "Sale", "{}").status == 1
    assert list(tmp_path.iterdir()) == []
