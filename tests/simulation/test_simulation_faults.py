"""The simulation finds what is wrong: each planted fault, by the rule that it breaks."""

from __future__ import annotations

import re

import pytest
from simulation_faults import FAULTS
from simulation_world import simulate

MOST = 5  # seeds in which a fault has to show


def test_at_least_ten_faults_are_planted() -> None:
    assert len(FAULTS) >= 10


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    found: set[str] = set()
    for seed in range(1, MOST + 1):
        told = simulate(seed, parts=fault.parts, plan=fault.plan(seed)).wrong
        assert not [text for text in told if "Traceback" in text], told
        found |= set(re.findall(r"\bC\d\b|quiet", "\n".join(told)))
        if found & set(fault.rules):
            return
    raise AssertionError(f"{name} was not found; only {found}")


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_world_without_the_fault_breaks_nothing(name: str) -> None:
    assert simulate(1, plan=FAULTS[name].plan(1)).wrong == []
