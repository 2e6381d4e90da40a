"""The second judge finds what is wrong in a history, and nothing where nothing is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from proof_checker import check
from proof_history import Op
from proof_model import FAULTS, Run, good_run
from simulation_judge import Claim, Verdict, judge

# C9 is not of the page that the second judge was written from.
PLANTED = [(rule, fault) for rule, faults in FAULTS.items() for fault in faults if rule != "C9"]


def judged(run: Run, ops: list[Op]) -> list[Verdict]:
    names = {each.name: each.group or each.name for each in run.expected}
    members = {names[each.name]: [] for each in run.expected}
    for each in run.expected:
        members[names[each.name]].append(each)
    claims = [
        Claim(
            name,
            group[0].level,
            lambda op, group=group: any(each.matches(op) for each in group),
            first=min(each.start for each in group),
            until=group[0].until or float("inf"),
            complete=group[0].durable,
            is_group=bool(group[0].group),
        )
        for name, group in members.items()
    ]
    renamed = [replace(op, subscription=names.get(op.subscription, op.subscription)) for op in ops]
    return judge(renamed, claims)


@pytest.mark.parametrize("seed", range(40))
def test_a_good_history_satisfies_the_second_judge(seed: int) -> None:
    run = good_run(seed)
    assert judged(run, run.ops) == []


@pytest.mark.parametrize(("rule", "fault"), PLANTED, ids=[f.__name__ for _, f in PLANTED])
def test_the_second_judge_finds_a_planted_fault(
    rule: str, fault: Callable[[random.Random, Run], list[Op]]
) -> None:
    del rule
    for seed in range(20):
        run = good_run(seed)
        ops = fault(random.Random(seed), run)
        assert judged(run, ops), seed
        assert check(ops, run.expected), seed
