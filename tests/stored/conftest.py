"""Buses over one file, a writer that is held up, and processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from stored_player import Player
from stored_program import Program

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.testing import ManualClock

OpenBus = Callable[..., pc.Bus]


@pytest.fixture(params=["sqlite", "remote"])
def place(request: pytest.FixtureRequest) -> str:
    """How the file is reached: by itself, or through a broker."""
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file with the events."""
    return tmp_path / "events.db"


@pytest.fixture
def url(place: str, path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the events are kept; a broker goes by the clock of the test, if that has one."""
    if place == "sqlite":
        yield f"sqlite:///{path}"
        return
    has_clock = "clock" in request.fixturenames
    clock = request.getfixturevalue("clock") if has_clock else None
    with Serving(Broker(f"sqlite:///{path}", clock=clock)) as serving:
        yield serving.url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_bus(url: str) -> Iterator[OpenBus]:
    """Open a bus over the file; all are closed afterwards."""
    opened: list[pc.Bus] = []

    def open_one(**options: Any) -> pc.Bus:
        bus = pc.Bus(url, **options)
        opened.append(bus)
        return bus

    yield open_one
    for bus in opened:
        bus.close(timeout=0.5)


@pytest.fixture
def shop(open_bus: OpenBus) -> pc.Bus:
    """A bus over the file."""
    return open_bus(publisher="shop")


@pytest.fixture
def other(open_bus: OpenBus) -> pc.Bus:
    """Another bus over the same file."""
    return open_bus(publisher="other")


@pytest.fixture
def player(url: str, path: Path) -> Iterator[Player]:
    """Plays the pipeline over the file."""
    del url  # a broker has opened it
    player = Player(path)
    yield player
    player.store.close()


@pytest.fixture
def held_up(tmp_path: Path) -> Callable[[], AbstractContextManager[None]]:
    """While this lasts nobody can write."""

    @contextmanager
    def hold() -> Iterator[None]:
        connection = apsw.Connection(str(tmp_path / "events.db"))
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()

    return hold


@pytest.fixture
def start(url: str) -> Iterator[Callable[..., Program]]:
    """Start a program with a bus over the file in a process of its own; they are killed after."""
    started: list[Program] = []

    def run(**job: Any) -> Program:
        program = Program(url, job)
        started.append(program)
        return program

    yield run
    for program in started:
        program.kill()


@pytest.fixture
def run_script(tmp_path: Path, url: str) -> Callable[[str], None]:
    """Run a script, which finds `url` and `pc`, in a process of its own, to its end."""

    def run(script: str) -> None:
        path = tmp_path / "script_of_another_process.py"
        before = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        path.write_text(f"{before}import polycast as pc\nurl = {url!r}\n{script}")
        subprocess.run([sys.executable, str(path)], check=True, timeout=20)

    return run
