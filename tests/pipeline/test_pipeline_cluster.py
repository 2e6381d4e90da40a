"""On several JVMs the pipeline and the tables do what they do on one.

Each run has one cluster; `make proof` has more, with POLYCAST_PROOF=1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_home import quick_home
from table_events import OnlineSale, Refund, Sale, Visit

import polycast as pc
from polycast.pipeline.tables import table
from polycast.routing import decode_recipients
from polycast.stores.sqlite.readonly_store import open_readonly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
EVENTS = 9_000  # enough for a task on each
CLUSTERS = [(2, 1)]  # how many executors, and the cores of each
if "POLYCAST_PROOF" in os.environ:
    CLUSTERS += [(1, 2), (2, 2), (3, 1)]


def event_of(number: int) -> Any:
    customer = f"c{number % 7}"
    if number % 5 == 0:
        return Visit(customer, number)
    return (Sale, OnlineSale, Refund)[number % 3](number, customer)


def on_a_cluster(url: str, folder: Path, executors: int, cores: int) -> dict[str, Any]:
    """What a program says that routes and reads the store on several executors."""
    home = quick_home(folder)  # in which executors write
    ran = subprocess.run(
        [
            *(sys.executable, str(HERE / "cluster_child.py"), url, str(folder / "checkpoint")),
            *(str(executors), str(cores)),
        ],
        env={**os.environ, "SPARK_HOME": str(home), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("executors", "cores"), CLUSTERS)
def test_several_executors_do_what_one_process_does(
    url: str, tmp_path: Path, spark: SparkSession, executors: int, cores: int
) -> None:
    wants = {
        "sales": (Sale, None),
        "online": (OnlineSale, None),
        "some": (Sale | Visit, lambda event: event.customer == "c3"),
        "even": (Sale, lambda sale: sale.is_even()),  # which only the class can say
    }
    events = [event_of(number) for number in range(1, EVENTS + 1)]
    with pc.Bus(url) as bus:
        for name, (what, where) in wants.items():
            bus.subscribe(what, print, durable=name, engine="spark", where=where).detach()
        bus.publish_many(events)
    told = on_a_cluster(url, tmp_path, executors, cores)
    assert (told["executors"], told["tasks"], told["lag"]) == (executors, executors * cores, 0)

    with open_readonly(tmp_path / "events.db") as store, store.view() as view:
        names = {route.number: route.name for route in view.routes()}
        kept = view.stretches(0, limit=1_000_000)
    assert len(kept) > 1
    pairs = [
        (position, names[number])
        for each in kept
        for position, numbers in decode_recipients(each.low, each.takers)
        for number in numbers
    ]
    true = [
        (position, name)
        for position, event in enumerate(events, 1)
        for name, (what, where) in wants.items()
        if isinstance(event, what) and (where is None or where(event))
    ]
    assert sorted(pairs) == sorted(true)

    here = table(spark, url, Sale, where=lambda sale: sale.number % 2 == 0)
    rows = here.select("_position", "_type", "number", "customer", "article.price").collect()
    assert told["rows"] == sorted(json.loads(json.dumps(list(row), default=str)) for row in rows)
    assert len(rows) == sum(isinstance(each, Sale) and each.number % 2 == 0 for each in events)
