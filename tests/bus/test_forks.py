"""After os.fork() a bus is its parent's: the child is refused, and the parent goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody forks here")
PROGRAM = Path(__file__).with_name("forked_program.py")
DEADLINE = 60.0
TOLD = ("repr", "close", "new bus", "federated", "seconds")


@pytest.fixture(params=["memory", "sqlite", "broker"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(place: str, tmp_path: Path) -> Iterator[str]:
    """Where a program publishes that runs in a process of its own."""
    if place != "broker":
        yield "memory:" if place == "memory" else f"sqlite:///{tmp_path / 'events.db'}"
        return
    with Serving(Broker(f"sqlite:///{tmp_path / 'events.db'}")) as serving:
        yield serving.url


@pytest.mark.parametrize("how", ["exit", "multiprocessing"])
def test_a_child_is_refused_at_once_and_its_parent_goes_on(
    place: str, url: str, how: str, tmp_path: Path
) -> None:
    told = tmp_path / "told.json"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), url, how, str(told)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    answers = json.loads(told.read_text())
    operations = {name: what for name, what in answers.items() if name not in TOLD}
    assert len(operations) > 30
    assert {name: what for name, what in operations.items() if what != "ForkedError"} == {}
    assert (answers["repr"], answers["close"]) == ("forked", "()")
    assert float(answers["seconds"]) < 10
    # SQLite cannot lock a file in the child that its parent had open.
    new = "ForkedError" if place == "sqlite" else "True ['hello']"
    assert answers["new bus"] == new
    parent = json.loads(done.stdout)
    assert {name: parent[name] for name in ("child", "published", "got", "state", "problems")} == {
        "child": 0,
        "published": 100,
        "got": True,
        "state": "active",
        "problems": [],
    }
