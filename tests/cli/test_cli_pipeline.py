"""`polycast pipeline`: run the data pipeline over a store, and see how it is getting on."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shop_events import Later, Sale, url

import polycast as pc
from polycast.cli.pipeline import (
    LiveProgress,
    PipelineProgress,
    progress_for,
    progress_line,
    summary,
)
from polycast.cli.terminal import StopRequest, Terminal
from polycast.config import SystemClock
from polycast.stores import open_store
from polycast.stores.liveness import has_ended, here
from polycast.stores.pipeline_status import Status, keep_status, status_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

InThread = Callable[[Callable[[], object]], threading.Thread]
needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None, reason="the extra `spark` is missing"
)

RUNNING = Status(
    state="running",
    position=11,
    lag=0,
    batch=4,
    events=1_234,
    pairs=5_678,
    rate=9_876.5,
    process=os.getpid(),
    place=here(),
)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def tell(store: Path, **changes: Any) -> None:
    """Have a pipeline say how it is."""
    import msgspec

    status = msgspec.structs.replace(RUNNING, time=SystemClock.time(), **changes)
    found = open_store(str(store))
    found.write(lambda tx: keep_status(tx, status)).result()
    found.close()


def ended_process() -> int:
    """The number of a process that is no more."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(60)
    return done.pid


def subscribe(store: Path, *names: str) -> None:
    """Have the pipeline route for some subscriptions."""
    with pc.Bus(url(store)) as bus:
        for name in names:
            bus.subscribe(Sale, print, durable=name, engine="spark").detach()
        bus.publish_many([Sale(n) for n in range(20)])


# -- status ----------------------------------------------------------------------------------------


def test_one_that_never_ran_is_said_to_be_so(run: Any, store: Path) -> None:
    out = run("pipeline", "status", store).out
    assert out.splitlines() == [
        "pipeline      never started; `polycast pipeline run STORE` starts it",
        "routed        to position 0, 10 events behind",
        "plan          0 subscriptions",
    ]


def test_status_needs_neither_pyspark_nor_java(store: Path) -> None:
    program = (
        "import sys; from polycast.cli import main\n"
        f"status = main(['pipeline', 'status', {str(store)!r}])\n"
        "heavy = {'pyspark', 'py4j', 'pandas', 'pyarrow', 'rich'} & set(sys.modules)\n"
        "sys.exit(status or bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], timeout=60)
    assert done.returncode == 0


def test_one_that_runs_is_named_with_when_it_said_so(run: Any, store: Path) -> None:
    tell(store)
    lines = run("pipeline", "status", store, clock=Later(3.5)).out.splitlines()
    assert lines[0] == f"pipeline      running in process {os.getpid()}, as of 3 s ago"
    assert lines[3] == "since start   1,234 events, 5,678 pairs, batch 4, 9,876 events/s"
    assert run("pipeline", "status", store, "--json").data["alive"]


def test_one_whose_process_is_gone_is_said_to_be_so(run: Any, store: Path) -> None:
    gone = ended_process()
    tell(store, process=gone)
    out = run("pipeline", "status", store, clock=Later(300)).out
    assert f"told 5 min ago that it was running, and its process {gone} is gone\n" in out
    data = run("pipeline", "status", store, "--json").data
    assert (data["state"], data["alive"], data["process"]) == ("running", False, gone)


def test_a_process_elsewhere_may_live(run: Any, store: Path) -> None:
    gone = ended_process()
    tell(store, process=gone, place="another machine")
    assert f"running in process {gone}" in run("pipeline", "status", store).out
    assert not has_ended(gone, "another machine")
    assert not has_ended(os.getpid(), here())


def test_what_has_failed_says_why(run: Any, store: Path) -> None:
    tell(store, state="failed", failure="the disk is full")
    out = run("pipeline", "status", store).out
    assert out.startswith("pipeline      failed now (")
    assert out.endswith("failure       the disk is full\n")


def test_lag_and_plan_are_those_of_the_store(run: Any, store: Path) -> None:
    subscribe(store, "a", "b")
    data = run("pipeline", "status", store, "--json").data
    assert (data["state"], data["lag"], data["subscriptions"]) == ("never started", 30, 2)
    assert data["plan"] == 11
    assert (
        "plan          2 subscriptions, since position 11" in run("pipeline", "status", store).out
    )


@pytest.mark.parametrize("words", [["status"], ["run", "--once"]])
def test_without_a_store_there_is_an_error(run: Any, tmp_path: Path, words: list[str]) -> None:
    command, *options = words
    ran = run("pipeline", command, tmp_path / "no.db", *options, "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "not-a-store")
    assert run("pipeline", command, "memory:", *options).status == 1


# -- progress --------------------------------------------------------------------------------------


def test_a_line_has_all_that_matters() -> None:
    status = Status(**{**_fields(RUNNING), "lag": 30, "subscriptions": 2, "plan": 11})
    assert progress_line(status) == (
        "running: batch 4, position 10 of 40, 30 events behind, 9,876 events/s, 2 subscriptions, "
        "plan 11, 5,678 pairs"
    )
    assert summary(status, 61.0) == (
        "running after 1 min: 1,234 events routed for 2 subscriptions, 5,678 pairs; "
        "position 10 of 40, 30 events behind"
    )


def _fields(status: Status) -> dict[str, Any]:
    return {name: getattr(status, name) for name in status.__struct_fields__}


def test_a_line_that_says_nothing_new_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    progress = progress_for(Terminal())
    for position in (11, 11, 12):
        progress.show(Status(**{**_fields(RUNNING), "position": position}))
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_on_a_terminal_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_for(Terminal()) as progress:
        assert isinstance(progress, LiveProgress)
        progress.show(RUNNING)
    assert "10 of 10, at the end" in screen.getvalue()
    assert type(progress_for(Terminal(as_json=True))) is PipelineProgress


def test_without_rich_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Screen())
    for name in ("rich", "rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, name, None)
    assert type(progress_for(Terminal())) is PipelineProgress


def test_the_second_time_somebody_asks_is_the_last() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as asked:
        asked.listen()
        signal.raise_signal(signal.SIGTERM)
        assert asked.is_made
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


# -- running ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests."""
    from spark_session import shared_session

    session = shared_session()
    yield session
    session.stop()


def is_listening() -> bool:
    """Whether a signal that is sent now is noted."""
    return getattr(signal.getsignal(signal.SIGTERM), "__name__", "") == "_note"


@needs_spark
def test_once_it_routes_what_is_there(run: Any, store: Path, spark: SparkSession) -> None:
    subscribe(store, "a", "b")
    ran = run("pipeline", "run", store, "--once", "--json")
    assert (ran.status, ran.err) == (0, "")
    last = ran.rows[-1]
    assert (last["state"], last["lag"], last["position"]) == ("stopped", 0, 31)
    assert (last["events"], last["pairs"], last["subscriptions"]) == (20, 40, 2)
    assert status_of(url(store)).state == "stopped"
    again = run("pipeline", "run", store, "--once")
    assert again.out.splitlines()[-1].endswith("position 30 of 30, at the end")


@needs_spark
def test_it_runs_until_it_is_asked_to_stop(
    run: Any, store: Path, spark: SparkSession, in_thread: InThread
) -> None:
    subscribe(store, "a")
    pause = threading.Event()

    def stop_it() -> None:
        while not is_listening() or status_of(url(store)).lag:
            pause.wait(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    in_thread(stop_it)
    ran = run("pipeline", "run", store)
    assert (ran.status, ran.err) == (0, "")
    first, *_, last = ran.out.splitlines()
    assert first.startswith("running: batch ")
    assert last.startswith("stopped after ")
    assert "20 events routed for 1 subscription, 20 pairs" in last


@needs_spark
def test_one_that_is_taken_over_fails_with_why(
    run: Any, store: Path, spark: SparkSession, in_thread: InThread
) -> None:
    subscribe(store, "a")
    pause = threading.Event()

    def take_over() -> None:
        while not is_listening() or status_of(url(store)).lag:
            pause.wait(0.01)
        found = open_store(str(store))
        found.write(lambda tx: tx.take_routing()).result()
        found.close()
        subscribe(store, "b")

    in_thread(take_over)
    ran = run("pipeline", "run", store, "--json")
    assert ran.status == 1
    assert ran.rows[-1]["error"]["code"] == "pipeline-taken-over"
    assert not is_listening()


@needs_spark
def test_a_folder_that_is_no_checkpoint_is_refused_at_once(
    run: Any, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("Dear Ann")
    ran = run("pipeline", "run", store, "--checkpoint", tmp_path / "folder", "--json")
    assert (ran.status, ran.data["error"]["code"]) == (1, "bad-checkpoint")


@needs_spark
def test_modules_that_are_not_there_are_refused(run: Any, store: Path) -> None:
    ran = run("pipeline", "run", store, "--imports", "shop_events,no.such")
    assert ran.status == 1
    assert "no.such" in ran.err
    assert run("pipeline", "run", store, "--batch", "0").status == 1


@needs_spark
def test_without_java_it_says_so(store: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "polycast", "pipeline", "run", str(store), "--json"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["error"]["code"] == "not-available"
    assert "Install Java 17" in told["error"]["message"]


def test_without_pyspark_it_names_what_to_install(store: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from polycast.cli import main\n"
        f"sys.exit(main(['pipeline', 'run', {str(store)!r}]))"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install polycast[spark]" in done.stderr


@needs_spark
@pytest.mark.slow
def test_a_process_of_its_own_is_quiet_and_ends_well_with_ctrl_c(
    store: Path, tmp_path: Path
) -> None:
    # With Spark as who installs it has it: nothing of our own environment.
    subscribe(store, "a")
    words = ["pipeline", "run", str(store), "--json", "--imports", "shop_events"]
    before = set(tmp_path.rglob("*"))
    kept = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    running = subprocess.Popen(
        [sys.executable, "-m", "polycast", *words],
        cwd=tmp_path,
        env={**kept, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        first = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait(60)
    assert first["state"] == "running"
    assert (running.returncode, err) == (0, "")
    assert {json.loads(line)["state"] for line in out.splitlines()} <= {"running", "stopped"}
    assert json.loads(out.splitlines()[-1])["state"] == "stopped"
    assert status_of(url(store)).state == "stopped"
    assert set(tmp_path.rglob("*")) == before  # Spark leaves nothing behind
