"""Measures a bus over a file: publishing, latency, catching up, DAC figures 21 and 22, memory.

python benchmarks/durable.py                       # about six minutes
python benchmarks/durable.py --quick               # tries it out; nothing is written
python benchmarks/durable.py --only publishing     # one part; nothing is written

It makes files of about a gigabyte in build/benchmarks, which has to be on a disk, and removes
them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import durable_absent
import durable_figures
import durable_idle
import durable_latency
import durable_publishing
import durable_sharing
from durable_setting import QUICK, Plan, Report, file_system, scratch, sync_cost
from measure import duration, setting
from tables import Table, show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "durable.json"
IMAGES = HERE.parent / "docs" / "images"

PARTS: dict[str, ModuleType] = {
    "publishing": durable_publishing,
    "latency": durable_latency,
    "catching-up": durable_absent,
    "figures": durable_figures,
    "idle": durable_idle,
    "sharing": durable_sharing,
}
"""Each has `measure`, `tables` and `plain`."""


def measure_all(
    parts: list[str], plan: Plan, report: Report
) -> tuple[dict[str, Any], dict[str, object]]:
    """What was found, by part, and on what."""
    with scratch(quick=plan.is_quick) as folder:
        disk = {"file_system": file_system(folder), "sync": sync_cost(folder)}
        found = {}
        for name in parts:
            below = folder / name
            below.mkdir()
            found[name] = PARTS[name].measure(plan, below, report)
            shutil.rmtree(below)
        return found, disk


def setting_table(disk: dict[str, Any]) -> Table:
    """What one sync costs: all else is to be seen against it."""
    sync = disk["sync"]
    columns = ("file system", "one fsync, median", "best", "worst", "SQLite", "apsw")
    row = (
        disk["file_system"],
        *(duration(sync[name]) for name in ("median", "best", "worst")),
        apsw.sqlite_lib_version(),
        apsw.apsw_version(),
    )
    return Table("The disk", columns, [row], note="After one page was added to a file.")


def write(found: dict[str, Any], disk: dict[str, object], shown: list[Table]) -> None:
    """All rounds, and the tables made of them."""
    content = {
        "setting": setting() | disk,
        **{name.replace("-", "_"): PARTS[name].plain(each) for name, each in found.items()},
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
        durable_figures.draw(found["figures"], IMAGES)
    show(shown)


if __name__ == "__main__":
    main()
