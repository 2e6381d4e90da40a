"""One small Spark session for all tests of a process."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if find_spec("pyspark") is None:  # the extra `spark` is not installed
    collect_ignore_glob = ["test_*.py"]

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


# What tests change; it is put back when they end.
CHANGED = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
)


@pytest.fixture(scope="session")
def _session() -> Iterator[SparkSession]:
    """A session on one core, without its pages and its words."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what pyspark itself warns of
        builder = SparkSession.builder.master("local[1]").appName("filters")
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def spark(_session: SparkSession) -> Iterator[SparkSession]:
    """The session, with the settings that it started with."""
    before = {key: _session.conf.get(key) for key in CHANGED}
    yield _session
    for key, value in before.items():
        _session.conf.set(key, value)
