"""The session of the test run, and stores with something in them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_home import use_quick_home

import polycast as pc
from spark_session import shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from table_orders import Orders

# The events and filters by chance of the filters' tests.
sys.path.append(str(Path(__file__).parents[1] / "filters" / "spark"))

# pytest reads this before any test of any folder runs, so this is for the whole run.
use_quick_home()

if find_spec("pyspark") is None:  # the extra `spark` is not installed
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests."""
    session = shared_session()
    yield session
    session.stop()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a store that is not there yet."""
    return f"sqlite:///{tmp_path / 'events.db'}"


@pytest.fixture
def publish(url: str) -> Callable[..., None]:
    """Publish some events in the store, and close it."""

    def publish(*events: Any, topic: str | None = None) -> None:
        with pc.Bus(url) as bus:
            for event in events:
                bus.publish(event, topic=topic)

    return publish


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """A store with orders of anything that may be hard, for all tests of a module."""
    from table_orders import Orders

    return Orders(f"sqlite:///{tmp_path_factory.mktemp('orders') / 'events.db'}", 80)
