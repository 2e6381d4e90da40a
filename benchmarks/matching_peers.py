"""Matching side by side with event-ruler: the workloads of such matchers, and ready10.

python benchmarks/matching_peers.py              # half an hour
python benchmarks/matching_peers.py --quick      # a few rules; nothing is fetched or written
python benchmarks/matching_peers.py --only ready10 --size 10000    # only this; nothing is written

Each contender is a process of its own on the same core, and they take turns. The peer takes JSON;
polycast is measured with objects and with JSON. event-ruler is fetched from Maven Central (java,
javac and mvn are needed); if it cannot be had, it is left out with a line that says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import matching_peers_figures
from matching_contenders import (
    PEERS,
    POLYCAST,
    POLYCAST_JSON,
    Command,
    LeftOut,
    Peer,
    Running,
    left_out,
    ours,
)
from matching_rules import NotExpressible
from matching_workloads import GROWING, SIZES, SMALL, WORKLOADS, Workload
from measure import QUICK as QUICK_EFFORT
from measure import Effort, Sample, Samples, race, setting
from tables import show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "matching_peers.json"
IMAGES = HERE.parent / "docs" / "images"
HARDLY = 1.03  # times faster
CHECKED = 200  # events of which all contenders must find as many matches
COUNTED = 2_000  # events that the mean of the matches is taken from

OURS = (POLYCAST, POLYCAST_JSON)
EFFORT = Effort(rounds=10, slice=0.3, longest=10.0)

Report = Callable[[str], None]
Commands = dict[str, Command]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything may take."""

    effort: Effort = EFFORT
    warming: tuple[float, float] = (1.0, 40.0)  # seconds of CPU of a step, and of all at most
    limit: float = 180.0  # seconds for adding all rules, or for any one answer
    sizes: tuple[int, ...] = SIZES
    names: tuple[str, ...] = tuple(WORKLOADS)


QUICK = Plan(
    QUICK_EFFORT,
    warming=(0.001, 0.01),
    limit=30.0,
    sizes=(200,),
    names=("city lots, COMBO", "ready10"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured with one workload."""

    workload: str
    rules: int
    matches: float  # per event
    cpu: Samples  # seconds per event
    wall: Samples
    building: dict[str, float]  # seconds
    missing: dict[str, str]  # why a contender has no figures here
    kernel: str  # what polycast's matcher ran on


@dataclass(slots=True)
class Race:
    """Who takes part, and why others do not."""

    running: dict[str, Running] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def without(self, who: str, why: object) -> None:
        """One less; without polycast there is nothing to compare with."""
        if who in OURS:
            raise RuntimeError(f"{who}: {why}")
        self.missing[who] = str(why)
        if who in self.running:
            self.running.pop(who).close()


# -- measuring -------------------------------------------------------------------------------------


def fetched(report: Report, *, fetch: bool) -> tuple[Commands, dict[str, str]]:
    """How the peers are started, and why some cannot be."""
    commands, missing = Commands(), dict[str, str]()
    for peer in PEERS:
        report(f"fetching {peer.name}")
        try:
            commands[peer.name] = peer.command(fetch=fetch)
        except LeftOut as why:
            missing[peer.name] = str(why)
            print(left_out(peer.name, why))
    return commands, missing


def measure(plan: Plan, commands: Commands, report: Report) -> list[Found]:
    """All workloads, those with many rules at all sizes."""
    found = []
    for name in plan.names:
        able = dict(commands)
        for size in sorted(plan.sizes) if name in GROWING else (1,):
            report(name if name in SMALL else f"{name}, {size:,} rules")
            found.append(_measured(name, size, plan, able))
            # Who does not end in time with these rules is not asked to with ten times as many.
            able = {who: each for who, each in able.items() if who not in found[-1].missing}
    return found


def _measured(name: str, size: int, plan: Plan, commands: Commands) -> Found:
    work = WORKLOADS[name](size)
    with _started(name, size, work, plan, commands) as taking:
        matches = statistics.fmean(taking.running[POLYCAST].counts(COUNTED))
        _agree(taking, name)
        for each in list(taking.running.values()):
            try:
                _warm(each, *plan.warming)
            except LeftOut as why:
                taking.without(each.name, why)
        cpu = _raced(taking, plan.effort)
        wall = {who: _walls(taking.running[who], len(cpu[who].times)) for who in cpu}
        building = {who: float(each.built[0]) for who, each in taking.running.items()}
        kernel = taking.running[POLYCAST].built[1]
        rules = len(work.rules)
        return Found(name, rules, matches, cpu, wall, building, taking.missing, kernel)


def _raced(taking: Race, effort: Effort) -> Samples:
    """Who breaks is left out, and the others begin anew."""
    while True:
        try:
            return race({who: each.run for who, each in taking.running.items()}, effort)
        except LeftOut as why:
            broken = next(each for each in taking.running.values() if each.failed)
            taking.without(broken.name, why)


@contextmanager
def _started(
    name: str, size: int, work: Workload, plan: Plan, commands: Commands
) -> Iterator[Race]:
    """All contenders with their rules, and none of them left behind."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        begin: Commands = {who: ours(who, name, size) for who in OURS}
        taking = Race()
        for peer in PEERS:
            if peer.name not in commands:
                taking.without(peer.name, "-")
                continue
            try:
                begin[peer.name] = commands[peer.name] + _files(peer, work, Path(folder))
            except NotExpressible:
                taking.without(peer.name, "not expressible")
        for who, command in begin.items():
            try:
                # polycast makes its workload itself, and without it there is no comparison.
                limit = plan.limit * (10 if who in OURS else 1)
                running = Running(who, command, limit=limit)
                taking.running[who] = stack.enter_context(running)
            except LeftOut as why:
                taking.without(who, why)
        yield taking


def _files(peer: Peer, work: Workload, folder: Path) -> list[str]:
    rules, events = folder / f"{peer.name}.rules", folder / "events"
    rules.write_text("\n".join(peer.write(rule) for rule in work.rules) + "\n")
    events.write_bytes(b"\n".join(work.events) + b"\n")
    return [str(rules), str(events)]


def _agree(taking: Race, workload: str) -> None:
    """Who does not find what polycast finds takes no part."""
    wanted = taking.running[POLYCAST].counts(CHECKED)
    for each in list(taking.running.values()):
        try:
            if each.counts(CHECKED) != wanted:
                print(left_out(each.name, f"it finds other matches in {workload}"))
                taking.without(each.name, "other matches")
        except LeftOut as why:
            taking.without(each.name, why)


def _warm(each: Running, step: float, longest: float) -> None:
    """Events until it becomes no faster: a compiler at run time takes its time.

    It has become no faster when five steps in a row are hardly faster than the best before them.
    """
    spent, count, best, stale = 0.0, 1, 0.0, 0
    while spent < longest and stale < 5:
        took = max(each.run(count), 1e-6)
        speed, spent = count / took, spent + took
        if took >= step / 2:
            stale = stale + 1 if speed < HARDLY * best else 0
            best = max(best, speed)
        count = min(max(1, round(speed * step)), count * 4)


def _walls(each: Running, rounds: int) -> Sample:
    return Sample(tuple(wall / events for events, wall, _ in each.spent[-rounds:]))


# -- the whole -------------------------------------------------------------------------------------


def write(found: list[Found], missing: dict[str, str]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": {**setting(), "peers": {each.name: each.version for each in PEERS}},
        "left out": missing,
        "workloads": [asdict(each) for each in found],
        "tables": [table.plain() for table in matching_peers_figures.tables(found, missing)],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _asked() -> tuple[Plan, bool, Path | None]:
    """What the command line asks for, whether it is everything, and where to draw it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    parser.add_argument("--only", choices=[*WORKLOADS], action="append", help="only this workload")
    parser.add_argument("--size", type=int, action="append", help="only so many rules")
    parser.add_argument("--limit", type=float, help="seconds for adding rules, or one answer")
    parser.add_argument("--picture", type=Path, help="draw into this folder, also a part of it")
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    sizes, names = tuple(options.size or plan.sizes), tuple(options.only or plan.names)
    whole = Plan(plan.effort, plan.warming, options.limit or plan.limit, sizes, names)
    everything = replace(whole, limit=Plan().limit) == Plan()
    return whole, everything, options.picture


def main() -> None:
    """Measure, write, draw, show."""
    plan, everything, picture = _asked()
    from in_process import progress  # here, because it loads other peers

    with progress() as report:
        commands, missing = fetched(report, fetch=not plan.effort.is_quick)
        found = measure(plan, commands, report)
    if everything:
        write(found, missing)
    if everything or picture:
        matching_peers_figures.draw(found, picture or IMAGES)
    show(matching_peers_figures.tables(found, missing))


if __name__ == "__main__":
    main()
