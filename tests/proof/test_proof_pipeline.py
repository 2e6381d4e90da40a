"""A pipeline that is killed at any moment routes every event exactly once, for whom it should."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from proof_events import Keynote, Panel, Talk
from proof_pipeline_plan import Plan, judge, true_pairs

import polycast as pc
from polycast.routing import encode_recipients
from polycast.stores import Stretch, open_store

if find_spec("pyspark") is None or sys.platform != "linux":
    pytest.skip("it needs the extra `spark`, and /proc", allow_module_level=True)

from proof_pipeline import CAST, Works

Recipients = dict[int, list[int]]


@pytest.mark.slow
def test_a_pipeline_that_is_killed_routes_everything_exactly_once(tmp_path: Path) -> None:
    # At a pace that leaves Spark the time to begin: `make torture` is in more of a hurry.
    with Works(tmp_path, seed=1, cast={"s1": CAST["s1"]}, pace=0.2) as works:
        works.die_at("written")
        works.die_at("kept")
        works.treat("without its last commit")
        works.lose_workers(1)
        verdict = works.finish()
    assert not verdict.told()
    assert verdict.figures["kills"] == 3
    assert verdict.figures["events"] > 500
    assert verdict.figures["pairs"] > 1_000
    assert verdict.figures["routes"] > 20


# -- whether the run can fail ----------------------------------------------------------------------


def lose(takers: Recipients) -> None:
    takers[7].pop()


def invent(takers: Recipients) -> None:
    takers[7].append(99)


def double(takers: Recipients) -> None:
    takers[7].append(takers[7][0])


@pytest.mark.parametrize(
    ("fault", "end", "told"),
    [
        (lambda takers: None, 61, ""),
        (lose, 61, "1 pairs lost"),
        (invent, 61, "1 pairs wrong"),
        (double, 61, "1 pairs duplicated"),
        (lambda takers: None, 51, "all before 51 is routed, and the log ends at 61"),
    ],
)
def test_what_is_planted_is_found(
    fault: Callable[[Recipients], None], end: int, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "bus.db"
    plan = Plan(path, seed=1)
    with pc.Bus(f"sqlite:///{path}") as bus:
        for number in range(20):
            plan.change()
            key = str(number)
            bus.publish_many([Talk(key, 50, ""), Keynote(key, number, ""), Panel(key, 70, "")])
    plan.stop()
    with closing(open_store(str(path))) as store:
        takers: Recipients = {}
        for position, number in sorted(true_pairs(store, plan.interests)):
            if position < end:
                takers.setdefault(position, []).append(number)
        fault(takers)
        data = encode_recipients(1, list(takers), list(takers.values()))
        token = store.write(lambda tx: tx.take_routing()).result().token
        store.write(lambda tx: tx.advance([Stretch(1, end, data)], token=token)).result()
    found = judge(path, plan.interests).told()
    assert "; ".join(found).startswith(told) if told else not found
