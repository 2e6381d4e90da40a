"""Measures contexts as section 6 of FOS does: `make bench`, or with `--quick` to try it out."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

import contexts_bus
import contexts_changing
import contexts_translating
from in_process import HERE, IMAGES, Report, progress
from measure import QUICK, Effort, Samples, setting
from tables import Table, show

RESULTS = HERE / "results" / "contexts.json"
FULL = Effort(rounds=100, slice=0.004, longest=3.0)
SHORT = Effort(rounds=40, slice=0.015)
"""Where one run has many steps."""

Found = dict[str, Any]


def measure_all(effort: Effort, report: Report) -> Found:
    """Everything, in order."""
    short = effort if effort.is_quick else SHORT
    return {
        "translating": contexts_translating.measure(effort, report),
        "throughput": contexts_bus.measure_throughput(short, report),
        "stored": contexts_bus.measure_stored(short, report),
        "latency": contexts_bus.measure_latency(effort, report),
        "consumers": contexts_bus.measure_consumers(short, report),
        "generation": contexts_changing.measure_generation(short, report),
        "change": contexts_changing.measure_change(effort, report),
    }


def tables_of(found: Found) -> list[Table]:
    """All tables."""
    bus = (found[name] for name in ("throughput", "stored", "latency", "consumers"))
    return [
        *contexts_translating.tables(found["translating"]),
        *contexts_bus.tables(*bus),
        *contexts_changing.tables(found["generation"], found["change"]),
    ]


def write(found: Found, tables: list[Table]) -> None:
    """All rounds, and the tables made of them."""
    latency = {
        setup: {rate: asdict(each) for rate, each in by_rate.items()}
        for setup, by_rate in found["latency"].items()
    }
    content = {
        "setting": setting(),
        "translating": {name: _plain(each) for name, each in found["translating"].items()},
        "throughput": _plain(found["throughput"]),
        "stored": _plain(found["stored"]),
        "latency": latency,
        "consumers": {count: _plain(each) for count, each in found["consumers"].items()},
        "generation": {
            selectivity: {size: _plain(each) for size, each in by_size.items()}
            for selectivity, by_size in found["generation"].items()
        },
        "changes": found["change"][2],
        "tables": [table.plain() for table in tables],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _plain(samples: Samples) -> dict[str, list[float]]:
    """Seconds, to three figures: more is noise, and makes the file large."""
    return {
        name: [float(f"{each:.3g}") for each in sample.times] for name, sample in samples.items()
    }


def draw(found: Found) -> None:
    """The pictures of docs/benchmarks/contexts.md."""
    import contexts_plots as plots  # here, so that the processes that measure do not load it

    plots.draw_shapes(found["translating"], IMAGES)
    plots.draw_latency(found["latency"], IMAGES)
    plots.draw_consumers(found["consumers"], IMAGES)
    plots.draw_generation(found["generation"], IMAGES)
    plots.draw_change(found["change"], IMAGES)


def main() -> None:
    """Measure, write, draw, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    effort = QUICK if parser.parse_args().quick else FULL
    with progress() as report:
        found = measure_all(effort, report)
    tables = tables_of(found)
    if not effort.is_quick:
        write(found, tables)
        draw(found)
    show(tables)


if __name__ == "__main__":
    main()
