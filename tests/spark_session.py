"""The one Spark session of a test run, whoever asks for it first."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.log.level": "OFF",
    # Many small queries that run once: time goes into compiling.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
}


def shared_session() -> SparkSession:
    """The active session, or a new one on two cores, without its pages and its words."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what pyspark itself warns of
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
