"""Measures the pipeline on Spark: a worker alone, throughput, the plain way, latency.

python benchmarks/pipeline.py                      # about ten minutes
python benchmarks/pipeline.py --quick              # tries it out; nothing is written
python benchmarks/pipeline.py --only latency       # one part; nothing is written

It makes files of about half a gigabyte in build/benchmarks, which has to be on a disk, and
removes them.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pipeline_alone
import pipeline_latency
import pipeline_throughput
from durable_setting import file_system, scratch, sync_cost
from measure import apart, setting
from pipeline_setting import FULL, QUICK, Plan, Report, store_of
from tables import Table, show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "pipeline.json"
IMAGES = HERE.parent / "docs" / "images"

PARTS: dict[str, ModuleType] = {
    "alone": pipeline_alone,
    "throughput": pipeline_throughput,
    "latency": pipeline_latency,
}
"""Each has `measure`, `tables` and `plain`."""


def measure_all(
    parts: list[str], plan: Plan, report: Report
) -> tuple[dict[str, Any], dict[str, object]]:
    """What was found, by part, and on what."""
    with scratch(quick=plan.is_quick) as folder:
        disk = {"file_system": file_system(folder), "sync": sync_cost(folder)}
        if parts != ["latency"]:
            for size, count in plan.sizes.items():
                report(f"a store with {size:,} subscriptions and {count:,} events")
                apart(_make, store_of(folder, size), size, count)
        return {name: PARTS[name].measure(plan, folder, report) for name in parts}, disk


def _make(path: Path, size: int, count: int) -> None:
    from pipeline_sales import make_store  # here: see pipeline_setting

    make_store(path, size, count)


def write(found: dict[str, Any], disk: dict[str, object], shown: list[Table]) -> None:
    """What was measured, and the tables made of it."""
    content = {
        "setting": setting() | disk | {"pyspark": version("pyspark")},
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

    plan = QUICK if options.quick else FULL
    with progress() as report:
        found, disk = measure_all(options.only or [*PARTS], plan, report)
    shown = [table for name, each in found.items() for table in PARTS[name].tables(each)]
    if not (plan.is_quick or options.only):
        write(found, disk, shown)
        pipeline_throughput.draw(pipeline_throughput.plain(found["throughput"]), IMAGES)
    show(shown)


if __name__ == "__main__":
    main()
