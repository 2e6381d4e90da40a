"""A seed is a history: it comes again byte for byte, in any process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import simulate
from simulation_faults import FAULTS
from simulation_outcome import Outcome
from simulation_world import simulate as simulated

SIMULATE = Path(__file__).with_name("simulate.py")
SEEDS = (3, 8, 18)  # with and without brokers


@pytest.mark.parametrize("seed", SEEDS)
def test_one_seed_twice_gives_the_identical_history(seed: int) -> None:
    assert simulated(seed).history() == simulated(seed).history()


def test_another_seed_gives_another_history() -> None:
    assert len({simulated(seed).fingerprint() for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("hashing", ["0", "77"])
def test_another_process_with_other_hashes_gives_the_same_history(hashing: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SIMULATE), "--seed", str(SEEDS[0])],
        env={**os.environ, "PYTHONHASHSEED": hashing},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert re.findall(r"fingerprint (\w+)", done.stdout) == [simulated(SEEDS[0]).fingerprint()]


def test_a_failing_seed_prints_itself_and_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    assert simulate.main(["--seeds", "1"], run=lambda seed: Outcome(seed, ["C1: lost"])) == 1
    told = capsys.readouterr().out
    assert "BROKEN, seed 1: C1: lost" in told
    assert "python tests/simulation/simulate.py --seed 1" in told


def test_a_planted_fault_gives_the_same_violations_again() -> None:
    fault = FAULTS["acknowledged before the sync"]
    first, again = (simulated(1, parts=fault.parts, plan=fault.plan(1)) for _ in range(2))
    assert first.wrong
    assert first.wrong == again.wrong


BROKE = (215,)
"""What each of these showed is mended."""


@pytest.mark.parametrize("seed", BROKE)
def test_a_seed_that_broke_a_guarantee_once_breaks_none_now(seed: int) -> None:
    assert simulated(seed).wrong == []
