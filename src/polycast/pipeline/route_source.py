"""The stream that a pipeline runs on: ranges of the log, which are routed as they are read.

Events stay out of the JVM: one report for each range has the recipients. Reading has no side
effects, so Spark may repeat it at any time.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from polycast.pipeline.code_distribution import CodeBundle
from polycast.pipeline.route_worker import COLUMNS, RangeReport, RouteRange, reports_of
from polycast.stores.sqlite.readonly_store import open_readonly

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from polycast.stores import View
    from polycast.stores.sqlite.readonly_store import ReadOnlyStore

WAIT = 0.1  # seconds for which a request for something new may take
PAUSE = 0.001
LEAST = 2_000  # events that are worth a task of their own


class RoutePartition(InputPartition):
    """The ranges of the log that one task routes."""

    def __init__(self, route_ranges: list[RouteRange]) -> None:
        super().__init__(route_ranges)


class RouteSource(DataSource):
    """The data source of a pipeline; `polycast` is the one for users."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "polycast-route"

    def schema(self) -> str:
        """The columns of a report."""
        return COLUMNS

    def streamReader(self, schema: StructType) -> RouteReader:  # noqa: N802 - Spark's name
        """Return what plans and reads batches."""
        return RouteReader(self.options)


class RouteReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in a process of its own, and reads them in workers. It is pickled once."""

    def __init__(self, options: Any) -> None:
        self._path = options["store"]
        self._identity = options["identity"]
        self._bundle = CodeBundle.decoded(options["bundle"])
        self._most = int(options["events"])
        self._tasks = int(options["tasks"])
        self._end: int | None = None

    # -- where batches are planned -----------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The store knows how far the pipeline has come, whatever happened to the checkpoint."""
        with _look(self._path).view() as view:
            return {"position": view.routed().high}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How many events a batch has at most."""
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End with what is in the log now."""
        self._end = _look(self._path).newest() + 1

    def latestOffset(self, start: Any, limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next batch ends; wait a little if there is nothing new."""
        low = _position(start)
        store = _look(self._path)
        newest = self._end if self._end is not None else _newest(store, low)
        if newest <= low or isinstance(limit, ReadAllAvailable):
            return {"position": max(low, newest)}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._most
        with store.view() as view:
            return {"position": min(newest, _first_wanted(view, low, newest) + most)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The end of the log."""
        return {"position": _look(self._path).newest() + 1}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """Divide a batch into tasks, without what the store says was routed before."""
        with _look(self._path).view() as view:
            low, high = max(_position(start), view.routed().high), _position(end)
            return [
                RoutePartition(ranges) for ranges in cut(route_ranges(view, low, high), self._tasks)
            ]

    # -- in the workers ----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Route some ranges of the log."""
        for report in reports_of(self._path, self._identity, self._bundle, partition.value):
            yield batch_of(report)


def _position(offset: Any) -> int:
    """Spark passes "null" for an offset that it does not have."""
    return int(offset["position"]) if isinstance(offset, dict) else 1


def _newest(store: ReadOnlyStore, low: int) -> int:
    """The end of the log, once it is after a position, or after a while."""
    deadline = time.monotonic() + WAIT
    end, seen = store.newest() + 1, store.changes()
    while end <= low and time.monotonic() < deadline:
        time.sleep(PAUSE)
        now = store.changes()
        if now != seen:
            end, seen = store.newest() + 1, now
    return end


def _first_wanted(view: View, low: int, end: int) -> int:
    """The first position with a route in effect; what is before it costs nothing."""
    if view.in_effect(low).routes:
        return low
    turns = view.turns(low, end)
    return next((turn for turn in turns if view.in_effect(turn).routes), end)


def route_ranges(view: View, low: int, high: int) -> list[RouteRange]:
    """Divide a range where the routes or contexts in effect change."""
    if low >= high:
        return []
    turns = [low, *view.turns(low, high), high]
    return [RouteRange(begin, end, *view.in_effect(begin)) for begin, end in pairwise(turns)]


def cut(whole: list[RouteRange], tasks: int) -> list[list[RouteRange]]:
    """Share ranges out to some tasks evenly; to fewer tasks if there is little to do."""
    size = sum(span.high - span.low for span in whole if span.routes)
    share = max(LEAST, -(-size // max(tasks, 1)))
    found: list[list[RouteRange]] = [[]]
    room = share
    for span in whole:
        while span.routes and span.high - span.low > room:
            at = span.low + room
            found[-1].append(span._replace(high=at))
            span, room = span._replace(low=at), share
            found.append([])
        found[-1].append(span)
        if span.routes:
            room -= span.high - span.low
        if room == 0:
            found.append([])
            room = share
    return [ranges for ranges in found if ranges]


def batch_of(report: RangeReport) -> pa.RecordBatch:
    """A report as Spark takes it."""
    import pyarrow as pa

    binary, number = pa.binary(), pa.int64()
    types = [number, number, number, number, number, binary, binary, pa.string()]
    arrays = [pa.array([value], kind) for value, kind in zip(report, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(RangeReport._fields))


# The process that plans batches keeps its connection.
_looks: dict[str, ReadOnlyStore] = {}
_open = ExitStack()


def _look(path: str) -> ReadOnlyStore:
    store = _looks.get(path)
    if store is None:
        store = _looks[path] = _open.enter_context(open_readonly(path))
    return store
