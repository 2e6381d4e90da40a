"""The checker finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from proof_checker import check
from proof_history import History, Op, merged, read_history
from proof_model import FAULTS, Run, good_run

from polycast.events import Identity

PLANTED = [(rule, fault) for rule, faults in FAULTS.items() for fault in faults]


def test_at_least_ten_faults_are_planted() -> None:
    assert len(PLANTED) >= 10
    assert FAULTS.keys() == {f"C{n}" for n in range(1, 10)}


@pytest.mark.parametrize("seed", range(60))
def test_a_good_history_has_no_violation(seed: int) -> None:
    run = good_run(seed)
    assert check(run.ops, run.expected, seed=seed) == []


@pytest.mark.parametrize(("rule", "fault"), PLANTED, ids=[f.__name__ for _, f in PLANTED])
def test_a_planted_fault_is_found_by_its_rule(
    rule: str, fault: Callable[[random.Random, Run], list[Op]]
) -> None:
    for seed in range(20):
        run = good_run(seed)
        found = check(fault(random.Random(seed), run), run.expected, seed=seed)
        assert rule in {each.rule for each in found}, seed


@pytest.mark.parametrize(
    ("rule", "fault"),
    [(rule, fault) for rule, fault in PLANTED if rule in ("C3", "C7", "C2", "C6", "C9")],
    ids=[fault.__name__ for rule, fault in PLANTED if rule in ("C3", "C7", "C2", "C6", "C9")],
)
def test_a_fault_of_one_rule_alone_is_found_by_no_other(
    rule: str, fault: Callable[[random.Random, Run], list[Op]]
) -> None:
    run = good_run(1)
    found = check(fault(random.Random(1), run), run.expected, seed=1)
    assert {each.rule for each in found} == {rule}


def test_a_violation_names_rule_subscription_identity_position_and_seed() -> None:
    run = good_run(3)
    ops = FAULTS["C3"][0](random.Random(3), run)
    (violation,) = check(ops, run.expected, seed=3)
    told = str(violation)
    for part in ("C3", violation.subscription, str(violation.identity), "seed 3"):
        assert part in told
    assert f"position {violation.position}" in told


def test_a_torn_last_line_is_ignored_and_the_successor_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "p1"
    history = History(path, "p1")
    history.write("accepted", key="k1", identity=Identity("p1", 1, 1), position=1)
    history.write("accepted", key="k2", identity=Identity("p1", 1, 2), position=2)
    history.close()
    path.write_bytes(path.read_bytes()[:-10])
    successor = History(path, "p1")
    successor.write("accepted", key="k3", identity=Identity("p1", 2, 1), position=3)
    successor.close()
    assert [op.key for op in read_history(path)] == ["k1", "k3"]


def test_histories_are_merged_by_time_and_each_keeps_its_order() -> None:
    one = [Op("begun", "a", 5, key="1"), Op("effect", "a", 5, key="2"), Op("settled", "a", 9)]
    two = [Op("begun", "b", 1), Op("effect", "b", 7)]
    found = merged([one, two])
    assert [op.at for op in found] == [1, 5, 5, 7, 9]
    assert [op for op in found if op.process == "a"] == one
