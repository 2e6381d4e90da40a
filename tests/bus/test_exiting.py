"""A program that ends without close() delivers what it can, and says what it could not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving

PROGRAM = Path(__file__).with_name("exiting_program.py")
DEADLINE = 60.0
COUNT = 50
CAN_STOP = hasattr(signal, "SIGSTOP") and sys.version_info[:2] != (3, 12)
needs_stop = pytest.mark.skipif(
    not CAN_STOP,
    reason="no process is stopped here, or no thread is started while the program ends",
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody forks here")
WARNING = "was not closed before the program ended"


@pytest.fixture(params=["memory", "sqlite", "broker"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a program publishes that runs in a process of its own."""
    file = f"sqlite:///{tmp_path / 'events.db'}"
    if request.param != "broker":
        yield "memory:" if request.param == "memory" else file
        return
    with Serving(Broker(file)) as serving:
        yield serving.url


@dataclass
class Ended:
    """What a program has said, and how it ended."""

    stdout: str
    stderr: str
    returncode: int


class Program:
    """One that ends by itself."""

    def __init__(self, url: str, how: str, *options: str, also: int = 0) -> None:
        command = [sys.executable, *options, str(PROGRAM), url, how, str(also)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def ended(self) -> Ended:
        stdout, stderr = self.process.communicate(timeout=DEADLINE)
        return Ended(stdout, stderr, self.process.returncode)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        with self.process:
            pass


def ended(url: str, how: str, *options: str, also: int = 0) -> Ended:
    with Program(url, how, *options, also=also) as program:
        return program.ended()


@pytest.fixture(scope="module", autouse=True)
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Program]]:
    """Programs that take seconds to end, at every place; other tests are run meanwhile."""
    folder = tmp_path_factory.mktemp("stuck")
    with ExitStack() as around:
        serving = around.enter_context(Serving(Broker(f"sqlite:///{folder / 'broker.db'}")))
        urls = {"memory": "memory:", "sqlite": f"sqlite:///{folder / 'events.db'}"}
        urls["broker"] = serving.url
        yield {at: around.enter_context(Program(url, "stuck")) for at, url in urls.items()}


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Program]:
    """A program whose broker stops to answer."""
    serve = [sys.executable, "-m", "polycast", "serve", "--listen", "127.0.0.1:0"]
    store = str(tmp_path / "events.db")
    with subprocess.Popen([*serve, "--store", store], stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            found = re.search(r"polycast://[0-9.:]+", broker.stdout.readline())
            assert found is not None
            with Program(found[0], "silent_broker", also=broker.pid) as program:
                yield program
        finally:
            broker.send_signal(signal.SIGCONT)
            broker.terminate()


def got(done: Ended) -> list[int]:
    """What its callbacks were given."""
    return sorted(int(number) for number in re.findall(r"^got (\d+)$", done.stdout, re.M))


@pytest.mark.parametrize("how", ["callbacks", "async_callbacks", "wrapped", "bridge", "failing"])
def test_what_waits_when_the_program_ends_is_delivered(url: str, how: str) -> None:
    done = ended(url, how)
    assert got(done) == list(range(COUNT)), done.stderr
    assert WARNING not in done.stderr  # nothing is lost, and ResourceWarning is off by default
    assert done.returncode == (how == "failing")


def test_who_asks_for_warnings_is_told_that_the_bus_was_not_closed(url: str) -> None:
    done = ended(url, "callbacks", "-W", "default::ResourceWarning")
    assert re.search(rf"ResourceWarning: <Bus .*> {WARNING}", done.stderr)
    assert got(done) == list(range(COUNT))


def test_what_would_need_a_closed_event_loop_is_counted(url: str) -> None:
    done = ended(url, "closed_loop")
    assert got(done) == []
    assert f"closed without delivering {COUNT} for" in done.stderr
    assert "its event loop is closed" in done.stderr
    assert re.search(rf"{WARNING}.*: {COUNT} events were not delivered", done.stderr)


@needs_fork
def test_a_child_that_ends_leaves_the_bus_of_its_parent_alone(url: str) -> None:
    done = ended(url, "forked", "-W", "default::ResourceWarning")
    assert got(done) == list(range(COUNT)), done.stderr
    assert done.stdout.startswith("child\nchild ended with 0\n")
    assert len(re.findall(rf"ResourceWarning: .*{WARNING}", done.stderr)) == 1


@needs_fork
def test_a_bus_of_a_child_is_closed_when_the_child_ends(url: str) -> None:
    done = ended(url, "child")
    assert got(done) == list(range(COUNT)), done.stderr


@needs_fork
def test_a_bus_of_a_multiprocessing_child_is_closed_when_the_child_ends(url: str) -> None:
    done = ended(url, "worker", "-W", "default::ResourceWarning")
    assert got(done) == list(range(COUNT)), done.stderr
    assert "child ended with 0" in done.stdout
    assert WARNING in done.stderr


def test_a_bus_that_nobody_has_is_not_kept_for_the_end() -> None:
    assert ended("memory:", "dropped").stdout == "there: False\n"


def test_a_bus_that_was_closed_says_nothing(url: str) -> None:
    done = ended(url, "closed", "-W", "default::ResourceWarning")
    assert got(done) == list(range(COUNT))
    assert WARNING not in done.stderr


@needs_stop
def test_a_broker_that_does_not_answer_does_not_hold_up_the_end(silent: Program) -> None:
    assert re.search(rf"{WARNING}.* Closing it took longer than 7 s", silent.ended().stderr)


@pytest.mark.parametrize("place", ["memory", "sqlite", "broker"])
def test_what_a_stuck_callback_holds_up_is_counted_and_the_program_ends(
    stuck: dict[str, Program], place: str
) -> None:
    done = stuck[place].ended()
    assert got(done) == list(range(COUNT)), done.stderr
    assert re.search(rf"{WARNING}.*: {COUNT} events were not delivered", done.stderr)


def test_what_waits_in_a_bus_that_nobody_has_any_more_is_delivered(url: str) -> None:
    done = ended(url, "out_of_scope", "-W", "default::ResourceWarning")
    assert got(done) == list(range(COUNT)), done.stderr
    assert re.search(r"ResourceWarning: <Bus .*> was let go of before it was closed", done.stderr)


def test_what_is_stuck_in_a_bus_that_nobody_has_any_more_is_counted(url: str) -> None:
    done = ended(url, "out_of_scope_and_stuck")
    assert got(done) == list(range(COUNT)), done.stderr
    assert re.search(rf"let go of .*: {COUNT} events were not delivered", done.stderr)
