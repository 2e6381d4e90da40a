"""Routes a store and reads it as a table on more than one JVM: `python cluster_child.py URL`."""

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


def main(url: str, checkpoint: str) -> None:
    spark = session("local-cluster[2,1,1024]", settings=SETTINGS)
    executors = executors_of(spark)
    pipeline = Pipeline(url, checkpoint=checkpoint, spark=spark, imports=["table_events"])
    status = pipeline.run_available()
    found = table(spark, url, Sale, where=lambda sale: sale.number % 2 == 0)
    rows = found.select("_position", "_type", "number", "customer", "article.price").collect()
    print(
        json.dumps(
            {
                "executors": executors,
                "lag": status.lag,
                "tasks": found.rdd.getNumPartitions(),
                "rows": sorted(json.loads(json.dumps(list(row), default=str)) for row in rows),
            }
        )
    )
    spark.stop()


def executors_of(spark: SparkSession) -> int:
    """How many there are, once both are."""
    context, pause = spark.sparkContext._jsc.sc(), threading.Event()
    deadline = time.monotonic() + DEADLINE
    while (found := context.getExecutorMemoryStatus().size() - 1) < 2:
        if time.monotonic() > deadline:
            break
        pause.wait(0.05)
    return int(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
