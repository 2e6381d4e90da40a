"""One small Spark session for all tests of a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_session import shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.append(str(Path(__file__).parents[3] / "docs"))  # the table of what is supported

if find_spec("pyspark") is None:  # the extra `spark` is not installed
    collect_ignore_glob = ["test_*.py"]

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
    """The session of all tests."""
    session = shared_session()
    yield session
    session.stop()


@pytest.fixture
def spark(_session: SparkSession) -> Iterator[SparkSession]:
    """The session, with the settings that it started with."""
    before = {key: _session.conf.get(key) for key in CHANGED}
    yield _session
    for key, value in before.items():
        _session.conf.set(key, value)
