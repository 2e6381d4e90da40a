"""Measures publishing within one process, side by side with the peers: `make bench`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import classifying
import fanout
import memory
import queued
import unrelated
from measure import QUICK, Effort, setting
from rich.console import Console
from tables import Table, show

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "in_process.json"
IMAGES = HERE.parent / "docs" / "images"

Report = Callable[[str], None]


@contextmanager
def progress() -> Iterator[Report]:
    """What is being measured, for who watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("measuring") as status:
        yield lambda what: status.update(f"measuring: {what}")


def measure_all(effort: Effort, report: Report) -> dict[str, tuple[Any, ...]]:
    """Everything, in order."""
    return {
        "fanout": fanout.measure(effort, report),
        "unrelated": unrelated.measure(effort, report),
        "queued": (queued.measure(effort, report),),
        "memory": (memory.measure(effort, report),),
        "classifying": (
            classifying.measure_checks(effort, report),
            classifying.measure_publishing(effort, report),
        ),
    }


def tables_of(found: dict[str, tuple[Any, ...]]) -> list[Table]:
    """All tables; the goals come last."""
    first = fanout.tables(*found["fanout"])
    return [
        *first[:-1],
        *unrelated.tables(*found["unrelated"]),
        *queued.tables(*found["queued"]),
        *memory.tables(*found["memory"]),
        *classifying.tables(*found["classifying"]),
        first[-1],
    ]


def write(found: dict[str, tuple[Any, ...]], tables: list[Table]) -> None:
    """All rounds of all contenders, and the tables made of them."""
    checks, publishing = found["classifying"]
    content = {
        "setting": setting(),
        "fanout": fanout.plain(*found["fanout"]),
        "unrelated": unrelated.plain(*found["unrelated"]),
        "queued": queued.plain(*found["queued"]),
        "memory": found["memory"][0],
        "figure_17": classifying.plain(checks),
        "figure_18a": classifying.plain(publishing),
        "tables": [table.plain() for table in tables],
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def draw(found: dict[str, tuple[Any, ...]]) -> None:
    """The pictures of docs/benchmarks/."""
    import plots  # here, so that the processes that measure do not load it

    plots.draw_fanout(found["fanout"][0], IMAGES)
    plots.draw_unrelated(found["unrelated"][1], IMAGES)
    plots.draw_checks(found["classifying"][0], IMAGES)
    plots.draw_publishing(found["classifying"][1], IMAGES)


def main() -> None:
    """Measure, write, draw, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try it out; nothing is written")
    effort = QUICK if parser.parse_args().quick else Effort()
    with progress() as report:
        found = measure_all(effort, report)
    tables = tables_of(found)
    if not effort.is_quick:
        write(found, tables)
        draw(found)
    show(tables)
    about = setting()
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    print(f"\n{about['cores']} cores, {about['python']}; {versions}")


if __name__ == "__main__":
    main()
