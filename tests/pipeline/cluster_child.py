"""Routes a store and reads it as a table on several JVMs.

`python cluster_child.py URL CHECKPOINT EXECUTORS CORES`
"""

from __future__ import annotations

import json
import sys
import threading
import time

from pyspark.sql import SparkSession
from table_events import Sale

from polycast.pipeline import Pipeline, session
from polycast.pipeline.tables import table

DEADLINE = 60.0
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main(url: str, checkpoint: str, executors: int, cores: int) -> None:
    spark = session(f"local-cluster[{executors},{cores},1024]", settings=SETTINGS)
    there = executors_of(spark, executors)
    pipeline = Pipeline(url, checkpoint=checkpoint, spark=spark, imports=["table_events"])
    status = pipeline.run_available()
    found = table(spark, url, Sale, where=lambda sale: sale.number % 2 == 0)
    rows = found.select("_position", "_type", "number", "customer", "article.price").collect()
    print(
        json.dumps(
            {
                "executors": there,
                "lag": status.lag,
                "tasks": found.rdd.getNumPartitions(),
                "rows": sorted(json.loads(json.dumps(list(row), default=str)) for row in rows),
            }
        )
    )
    spark.stop()


def executors_of(spark: SparkSession, wanted: int) -> int:
    """How many there are, once all are."""
    context, pause = spark.sparkContext._jsc.sc(), threading.Event()
    deadline = time.monotonic() + DEADLINE
    while (found := context.getExecutorMemoryStatus().size() - 1) < wanted:
        if time.monotonic() > deadline:
            break
        pause.wait(0.05)
    return int(found)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
