"""Two hundred seeds break no guarantee; one that did would print itself and how to run it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SIMULATE = Path(__file__).with_name("simulate.py")
SEEDS, PARTS = 200, 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_seed_breaks_a_guarantee(part: int) -> None:
    count = SEEDS // PARTS
    command = [sys.executable, str(SIMULATE), "--seeds", str(count), "--first"]
    done = subprocess.run(
        [*command, str(1 + part * count)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5_000:]
    assert f"{count} seeds" in done.stdout
