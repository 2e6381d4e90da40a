"""Every example is a script that runs, ends and has something to show; so is the main job."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.append(str(EXAMPLES))

from supply_chain.digests import EVERY  # noqa: E402
from supply_chain.parties import PARTIES  # noqa: E402
from supply_chain.programs import Job  # noqa: E402
from supply_chain.recount import Received, load_received, recount  # noqa: E402

PATIENCE = 60.0


def run(script: Path, *, where: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as its reader would, in a folder of its own, warnings being errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str | None:
    """What is wrong with a finished example."""
    if done.returncode != 0:
        return f"it ended with {done.returncode}:\n{done.stderr}"
    return None if done.stdout.strip() else "it printed nothing"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_an_example_runs_and_prints(script: Path, tmp_path: Path) -> None:
    assert complaint(run(script, where=tmp_path)) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("market_data", "BondAsk.price (Price): Ask.price > with_fee (P4 over BondEvent.price)"),
        ("market_data", "Brief      Obligation  GOV 31    793.60 CHF  05.01.2026 12:00"),
        ("traffic", "Oil of A0 at Location(latitude=52.0, longitude=4.3): area 2.5"),
        ("traffic", "location: Location    Location > to_grid"),
        ("versions", "version 2 hears Order(number=2, total=Money(amount=12.5, currency='EUR')"),
        ("versions", "version 1 hears OrderV1(number=3, total=40.0, address='Main St 1, Spring"),
    ],
)
def test_an_example_of_contexts_says_what_its_parties_see(
    name: str, said: str, tmp_path: Path
) -> None:
    assert said in run(EXAMPLES / f"{name}.py", where=tmp_path).stdout


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("print('hello')", None),
        ("pass", "it printed nothing"),
        ("print('hello'); raise SystemExit(3)", "it ended with 3"),
        ("print('hello'); import warnings; warnings.warn('old')", "UserWarning: old"),
    ],
)
def test_an_example_is_judged_by_its_end_and_its_output(
    source: str, said: str | None, tmp_path: Path
) -> None:
    script = tmp_path / "example.py"
    script.write_text(source, encoding="utf-8")
    found = complaint(run(script, where=tmp_path))
    assert (said is None and found is None) or (said is not None and said in str(found))


# -- the main job, in small ------------------------------------------------------------------------

EVENTS, SUBSCRIPTIONS = 2_000, 60
AUDITOR = "auditor/everything"


def run_main_job(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the main job as its reader would, without a terminal."""
    size = ["--events", str(EVENTS), "--subscriptions", str(SUBSCRIPTIONS)]
    return subprocess.run(
        [sys.executable, "-m", "supply_chain", *size, "--out", str(folder), *options],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that a run has left, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    done = run_main_job(folder, "--engine", "direct")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def verdict_of(folder: Path, tamper: Callable[[Received], Any] = lambda received: None) -> Any:
    """What the recount says of a run, of which something may be changed."""
    job = Job("", str(folder), EVENTS, SUBSCRIPTIONS, 1, "direct", 0.0)
    received = load_received(job)
    tamper(received)
    with np.load(folder / "published.npz") as saved:
        return recount(job, saved["positions"], int(saved["turned"]), received)


def test_the_main_job_ends_by_itself_and_leaves_a_report(played: tuple[Path, str]) -> None:
    folder, said = played
    assert "exactly what it asked for" in said
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyspark") is None, reason="the extra `spark` is not installed")
def test_the_main_job_runs_on_spark(tmp_path: Path) -> None:
    done = run_main_job(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(re.findall(r"^ +(matched|delivered) +([\d,]+) ", done.stdout, re.MULTILINE))
    matched, delivered = (int(told[word].replace(",", "")) for word in ("matched", "delivered"))
    assert delivered <= matched <= 1.1 * delivered  # Spark asks all filters, not a part of them


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = run_main_job(tmp_path, "--engine", "direct")
    assert done.returncode == 1
    assert "use another" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_that_is_right_is_found_right(played: tuple[Path, str]) -> None:
    verdict = verdict_of(played[0])
    assert verdict.is_right
    assert verdict.delivered == verdict.wanted > EVENTS


@pytest.mark.parametrize(
    ("tamper", "counted"),
    [
        (lambda came: came[1:], ("lost", 1)),
        (lambda came: np.delete(came, 700), ("lost", 1)),
        (lambda came: np.append(came, came[-1]), ("duplicated", 1)),
        (lambda came: np.append(came, EVENTS + 7), ("unwanted", 1)),
    ],
)
def test_the_recount_notices_what_is_wrong(
    played: tuple[Path, str], tamper: Callable[[Any], Any], counted: tuple[str, int]
) -> None:
    def change(received: Received) -> None:
        received.positions[AUDITOR] = tamper(received.positions[AUDITOR])

    verdict = verdict_of(played[0], change)
    what, count = counted
    assert not verdict.is_right
    assert getattr(verdict, what) == count
    assert AUDITOR in verdict.wrong[0]


def test_the_recount_notices_an_event_that_looked_otherwise(played: tuple[Path, str]) -> None:
    def change(received: Received) -> None:
        received.digests[AUDITOR][1][5] += 1

    verdict = verdict_of(played[0], change)
    assert not verdict.is_right
    assert verdict.different == 1
    assert verdict.compared > EVENTS / EVERY


def test_every_party_gets_events_in_translation(played: tuple[Path, str]) -> None:
    verdict = verdict_of(played[0])
    assert set(verdict.translated) == set(PARTIES)
    assert min(verdict.translated.values()) > 0


def test_the_recount_notices_a_context_that_was_replaced_elsewhere(
    played: tuple[Path, str],
) -> None:
    folder = played[0]
    with np.load(folder / "published.npz") as saved:
        positions, turned = saved["positions"], int(saved["turned"])
    job = Job("", str(folder), EVENTS, SUBSCRIPTIONS, 1, "direct", 0.0)
    assert 1 < turned < EVENTS
    assert not recount(job, positions, turned // 2, load_received(job)).is_right


def test_the_recount_notices_a_change_that_took_effect_elsewhere(played: tuple[Path, str]) -> None:
    def change(received: Received) -> None:
        for fact in received.history:
            fact["start"] = EVENTS

    assert not verdict_of(played[0], change).is_right
