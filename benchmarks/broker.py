"""Measures the broker: READY's figures 3 and 4, latency, one connection, NATS and FastStream.

python benchmarks/broker.py                     # about 25 minutes
python benchmarks/broker.py --quick             # tries it out; nothing is written
python benchmarks/broker.py --only latency      # one part; nothing is written

The broker has one core to itself, and its publisher and all consumers share another: it takes a
machine with at least two. Files are made in build/benchmarks, which has to be on a disk.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import broker_figures
import broker_latency
import broker_peers
import broker_quiet
import broker_single
from broker_setting import QUICK, Plan, Report
from durable_setting import file_system, scratch, sync_cost
from measure import duration, setting
from tables import Table, show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "broker.json"
IMAGES = HERE.parent / "docs" / "images"

PARTS: dict[str, ModuleType] = {
    "figures": broker_figures,
    "latency": broker_latency,
    "quiet": broker_quiet,
    "single": broker_single,
}
"""Each has `measure`, `tables` and `plain`."""


def measure_all(
    parts: list[str], plan: Plan, report: Report
) -> tuple[dict[str, Any], dict[str, object]]:
    """What was found, by part, and on what."""
    with scratch(quick=plan.is_quick) as folder:
        disk = {"file_system": file_system(folder), "sync": sync_cost(folder)}
        return {name: PARTS[name].measure(plan, folder, report) for name in parts}, disk


def setting_table(disk: dict[str, Any]) -> Table:
    """What the broker shares its time with, and what it is compared with."""
    peers = ", ".join(f"{name} {number}" for name, number in broker_peers.versions().items())
    columns = ("the broker's disk", "one fsync, median", "best", "worst", "peers")
    sync = (duration(disk["sync"][name]) for name in ("median", "best", "worst"))
    return Table("The setting", columns, [(disk["file_system"], *sync, peers or "none")])


def write(found: dict[str, Any], disk: dict[str, object], shown: list[Table]) -> None:
    """All points, and the tables made of them."""
    content = {
        "setting": setting() | disk | {"peers": broker_peers.versions()},
        **{name: PARTS[name].plain(each) for name, each in found.items()},
        "tables": [table.plain() for table in shown],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure, write, draw, show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    parser.add_argument("--only", choices=[*PARTS], action="append", help="only this part")
    options = parser.parse_args()
    from in_process import progress  # here, so that the processes that measure load no peers

    plan = QUICK if options.quick else Plan()
    with progress() as report:
        found, disk = measure_all(options.only or [*PARTS], plan, report)
    shown = [setting_table(disk)]
    for name, each in found.items():
        shown += PARTS[name].tables(each)
    if not (plan.is_quick or options.only):
        write(found, disk, shown)
        broker_figures.draw(found["figures"], IMAGES)
    show(shown)


if __name__ == "__main__":
    main()
