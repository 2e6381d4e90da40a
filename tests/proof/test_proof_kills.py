"""Processes that are killed, paused and flooded keep every guarantee; C1 to C9 are checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from proof_kills import CAST, Troupe, careless, flooded

KILLS = 12  # disturbances per run
CREW = {name: cast for name, cast in CAST.items() if cast[0].group}
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])  # `make torture` has more
def test_killed_and_paused_processes_keep_the_guarantees(tmp_path: Path, seed: int) -> None:
    with Troupe(tmp_path, seed=seed) as troupe:
        for _ in range(KILLS):
            troupe.disturb()
        verdict = troupe.finish()
    assert not verdict.told()
    assert verdict.figures["kills"] > 0
    assert verdict.figures["accepted"] > 50


@pytest.mark.slow
def test_what_a_paused_member_has_is_handled_once_by_another(tmp_path: Path) -> None:
    publishing = {"pause": 0.05}
    with Troupe(tmp_path, seed=3, cast=CREW, publishers=1, publishing=publishing) as troupe:
        for _ in range(3):
            troupe.pause_a_member()
        verdict = troupe.finish()
    assert not verdict.told()
    assert verdict.figures["counted as dead"] > 0


@pytest.mark.slow
def test_effects_without_a_transaction_are_found_out_when_their_process_is_killed(
    tmp_path: Path,
) -> None:
    assert careless(tmp_path, seed=1) > 0


@pytest.mark.slow
@ON_LINUX
def test_a_flood_loses_nothing_and_takes_bounded_memory(tmp_path: Path) -> None:
    verdict = flooded(tmp_path, seed=3, events=2_600, size=20_000)
    assert not verdict.told()


@ON_LINUX
def test_the_memory_of_a_process_is_its_own_and_grows_with_it() -> None:
    code = (
        "from proof_workers import peak_memory as peak\n"
        "before = peak(); held = bytearray(b'x') * 60_000_000; print(before, peak())"
    )
    ballast = bytearray(b"x") * 200_000_000  # the size of this process must not count
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(int, told.stdout.split())
    assert len(ballast) // 1024 > after
    assert after - before > 50_000
