"""Matching side by side with event-ruler, hypermatch and Quamina: their workloads, and ready10.

python benchmarks/matching_peers.py              # about twenty minutes
python benchmarks/matching_peers.py --quick      # up to 1,000 rules; nothing is written
python benchmarks/matching_peers.py --only ready10 --size 10000    # only this; nothing is written

Each contender is a process of its own on the same core, and they take turns. The peers take JSON;
polycast is measured with objects and with JSON. event-ruler is fetched from Maven Central (java,
javac and mvn are needed), hypermatch and Quamina from the Go module proxy (go); what cannot be had
is left out with a line that says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import matching_figures
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
from measure import Effort, Sample, Samples, race, setting
from tables import show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "matching_peers.json"
IMAGES = HERE.parent / "docs" / "images"
CHECKED = 200  # events of which all contenders must find as many matches
COUNTED = 2_000  # events that the mean of the matches is taken from

EFFORT = Effort(rounds=10, slice=0.3, longest=10.0)
HASTE = Effort(rounds=3, slice=0.2, longest=2.0)

Report = Callable[[str], None]
Commands = dict[str, Command]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything may take."""

    effort: Effort = EFFORT
    warming: float = 4.0  # seconds of CPU before the clock runs
    limit: float = 60.0  # seconds for adding all rules, or for any one answer
    sizes: tuple[int, ...] = SIZES
    names: tuple[str, ...] = tuple(WORKLOADS)


QUICK = Plan(HASTE, warming=2.0, limit=30.0, sizes=SIZES[:1])


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
class Start:
    """Who takes part in a race."""

    running: dict[str, Running] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


# -- measuring -------------------------------------------------------------------------------------


def fetched(report: Report) -> tuple[Commands, dict[str, str]]:
    """How the peers are started, and why some cannot be."""
    commands, missing = Commands(), dict[str, str]()
    for peer in PEERS:
        report(f"fetching {peer.name}")
        try:
            commands[peer.name] = peer.command()
        except LeftOut as why:
            missing[peer.name] = str(why)
            print(left_out(peer.name, why))
    return commands, missing


def measure(plan: Plan, commands: Commands, report: Report) -> list[Found]:
    """All workloads, those with many rules at all sizes."""
    found = []
    for name in plan.names:
        for size in plan.sizes if name in GROWING else (1,):
            report(name if name in SMALL else f"{name}, {size:,} rules")
            found.append(_measured(name, size, plan, commands))
    return found


def _measured(name: str, size: int, plan: Plan, commands: Commands) -> Found:
    work = WORKLOADS[name](size)
    with _started(name, size, work, plan, commands) as table:
        matches = statistics.fmean(table.running[POLYCAST].counts(COUNTED))
        _agree(table)
        for each in list(table.running.values()):
            _during(table, each, lambda each=each: _warm(each, plan.warming))
        runs = {each.name: each.run for each in table.running.values()}
        cpu = race(runs, plan.effort)
        wall = {who: _walls(table.running[who], len(cpu[who].times)) for who in cpu}
        building = {who: float(each.built[0]) for who, each in table.running.items()}
        kernel = table.running[POLYCAST].built[1]
        rules = len(work.rules)
        return Found(name, rules, matches, cpu, wall, building, table.missing, kernel)


@contextmanager
def _started(
    name: str, size: int, work: Workload, plan: Plan, commands: Commands
) -> Iterator[Start]:
    """All contenders with their rules, and none of them left behind."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        begin: Commands = {who: ours(who, name, size) for who in (POLYCAST, POLYCAST_JSON)}
        table = Start()
        for peer in PEERS:
            if peer.name not in commands:
                table.missing[peer.name] = "-"
                continue
            try:
                begin[peer.name] = commands[peer.name] + _files(peer, work, Path(folder))
            except NotExpressible:
                table.missing[peer.name] = "not expressible"
        for who, command in begin.items():
            try:
                running = Running(who, command, limit=plan.limit)
            except LeftOut as why:
                table.missing[who] = str(why)
            else:
                table.running[who] = stack.enter_context(running)
        yield table


def _files(peer: Peer, work: Workload, folder: Path) -> list[str]:
    rules, events = folder / f"{peer.name}.rules", folder / "events"
    rules.write_text("\n".join(peer.write(rule) for rule in work.rules) + "\n")
    events.write_bytes(b"\n".join(work.events) + b"\n")
    return [str(rules), str(events)]


def _agree(table: Start) -> None:
    wanted = table.running[POLYCAST].counts(CHECKED)
    for each in list(table.running.values()):
        counts: list[int] = []
        _during(table, each, lambda each=each, counts=counts: counts.extend(each.counts(CHECKED)))
        if each.name in table.running and counts != wanted:
            raise AssertionError(f"{each.name} does not find what {POLYCAST} finds")


def _during(table: Start, each: Running, work: Callable[[], None]) -> None:
    """Who does not end in time, or breaks, takes no further part."""
    try:
        work()
    except LeftOut as why:
        table.missing[each.name] = str(why)
        del table.running[each.name]


def _warm(each: Running, seconds: float) -> None:
    """Events until compilers and caches have had their time."""
    spent, count = 0.0, 1
    while spent < seconds:
        took = each.run(count)
        spent += took
        count = count * 2 if took < seconds / 8 else count


def _walls(each: Running, rounds: int) -> Sample:
    return Sample(tuple(wall / events for events, wall, _ in each.spent[-rounds:]))


# -- the whole -------------------------------------------------------------------------------------


def write(found: list[Found], missing: dict[str, str]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": {**setting(), "peers": {each.name: each.version for each in PEERS}},
        "left out": missing,
        "workloads": [asdict(each) for each in found],
        "tables": [table.plain() for table in matching_figures.tables(found, missing)],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _asked() -> tuple[Plan, bool, Path | None]:
    """What the command line asks for, whether it is everything, and where to draw it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    parser.add_argument("--only", choices=[*WORKLOADS], action="append", help="only this workload")
    parser.add_argument("--size", type=int, action="append", help="only so many rules")
    parser.add_argument("--picture", type=Path, help="draw into this folder, also a part of it")
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    sizes, names = tuple(options.size or plan.sizes), tuple(options.only or plan.names)
    whole = Plan(plan.effort, plan.warming, plan.limit, sizes, names)
    return whole, whole == Plan(), options.picture


def main() -> None:
    """Measure, write, draw, show."""
    plan, everything, picture = _asked()
    from in_process import progress  # here, because it loads other peers

    with progress() as report:
        commands, missing = fetched(report)
        found = measure(plan, commands, report)
    if everything:
        write(found, missing)
    if everything or picture:
        matching_figures.draw(found, picture or IMAGES)
    show(matching_figures.tables(found, missing))


if __name__ == "__main__":
    main()
