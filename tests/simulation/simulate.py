"""Run seeds: `python tests/simulation/simulate.py --seeds 200`, or one again with `--seed 17`.

Ends with a line of figures; the exit status is 1 if any guarantee was broken. A seed that is named
reproduces its history, byte for byte, in any process.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "proof")]

from simulation_outcome import Outcome  # noqa: E402
from simulation_plan import Plan  # noqa: E402
from simulation_world import simulate  # noqa: E402

__all__ = ["main", "replay_command"]

HANGS = 120.0  # seconds of a seed that only a broken simulation reaches


def replay_command(seed: int) -> str:
    """What runs a seed again."""
    return f"python tests/simulation/simulate.py --seed {seed}"


def main(arguments: list[str], *, run: Callable[[int], Outcome] | None = None) -> int:
    """Run them all, and say what was found."""
    asked = _asked(arguments)
    with suppress(AttributeError, OSError):  # the baton is passed on faster within one core
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    run = run or _run
    if asked.seed is not None:
        return _told(run(asked.seed))
    began, broken, count, events, effects = time.monotonic(), 0, 0, 0, 0
    for seed in _seeds(asked):
        outcome = run(seed)
        count, events = count + 1, events + outcome.events
        effects += outcome.effects
        if outcome.wrong:
            broken += 1
            print(f"BROKEN, seed {seed}: {'; '.join(outcome.wrong[:5])}")
            print(f"  replay: {replay_command(seed)}", flush=True)
        if asked.seconds is not None and time.monotonic() - began > asked.seconds:
            break
    print(
        f"{count} seeds, {events} events, {effects} effects, {broken} broken, "
        f"{time.process_time():.0f} s of processor time"
    )
    return 1 if broken else 0


def _run(seed: int) -> Outcome:
    faulthandler.dump_traceback_later(HANGS, exit=True)
    try:
        return simulate(seed)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _told(outcome: Outcome) -> int:
    """Tell the story of one seed."""
    print(Plan.of(outcome.seed))
    for op in outcome.ops:
        where = f"{op.subscription} {op.key} {op.identity or ''}".strip()
        print(f"{op.at:5} {op.kind:10} {op.process:18} {where} at {op.position}, {op.count}")
    print("\n".join(outcome.notes))
    print("\n".join(outcome.wrong) or "nothing is wrong")
    print(f"fingerprint {outcome.fingerprint()}")
    return 1 if outcome.wrong else 0


def _seeds(asked: argparse.Namespace) -> Iterator[int]:
    if asked.seconds is not None:
        return itertools.count(asked.first)
    return iter(range(asked.first, asked.first + asked.seeds))


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one, and tell its story")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seconds", type=float, help="as many as there is time for")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
