"""The data source `polycast`: the events of a store as rows, in a batch or as a stream.

Spark creates its objects in other processes, so they get nothing but the options from the user's
program. Filters are options, too: with `pushFilters` of PySpark 4.3, filters of one query leak into
other queries over the same DataFrame.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from polycast.errors import BadOptionError, HistoryGoneError
from polycast.pipeline.read_request import MAX_ROWS, Bound, ReadRequest, request_for
from polycast.pipeline.row_reader import reader_for
from polycast.stores.sqlite.event_log import count_records, skip_records
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType


REQUEST = "request"  # the one option that `table` and `stream` set
OPTIONS = (
    *("store", "type", "where", "since", "until", "topic", "exact", "imports"),
    *("maxRows", "partitions", "misfits", "context", "impure"),
)
_LEAST = 2_000  # records that are worth a task of their own


class PolycastSource(DataSource):
    """`spark.read.format("polycast")`, `spark.readStream.format("polycast")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "polycast"

    def schema(self) -> StructType:
        """The columns: see docs/tables.md."""
        return _schema_of(self._request())

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query."""
        return BatchReader(self._checked(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return StreamReader(self._checked(schema))

    def _request(self) -> ReadRequest:
        text = self.options.get(REQUEST)
        return request_of(self.options) if text is None else ReadRequest.decoded(text)

    def _checked(self, schema: StructType) -> ReadRequest:
        request = self._request()
        if schema != _schema_of(request):
            accepted = "none: the type of the events says which columns there are"
            raise BadOptionError("schema", schema.simpleString(), accepted=accepted)
        return request


def _schema_of(request: ReadRequest) -> StructType:
    with open_readonly(request.store) as store:
        reader = reader_for(request, store)
        return reader.schema


# -- options ---------------------------------------------------------------------------------------


def request_of(options: Mapping[str, str]) -> ReadRequest:
    """Make the request of a user's options."""
    given = {key.lower(): value for key, value in options.items()}
    for key in given.keys() - {name.lower() for name in OPTIONS}:
        raise BadOptionError.unknown(key, given[key], OPTIONS)
    if "store" not in given:
        raise BadOptionError("store", None, accepted="'sqlite:///' and the path of a file")
    where = given.get("where")
    request = request_for(
        given["store"],
        given.get("type"),
        since=_bound("since", given.get("since")),
        until=_bound("until", given.get("until")),
        topic=given.get("topic"),
        exact=_flag("exact", given.get("exact", "false")),
        imports=[name.strip() for name in given.get("imports", "").split(",") if name.strip()],
        misfits=given.get("misfits", "raise"),
        max_rows=_number("maxRows", given.get("maxrows")) or MAX_ROWS,
        partitions=_number("partitions", given.get("partitions")),
        context=given.get("context"),
        impure=given.get("impure"),
    )
    return replace(request, where=where) if where is not None else request


def _bound(option: str, text: str | None) -> Bound:
    if text is None or text == "beginning":
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        accepted = "a position, or a time with a zone, as in 2030-12-31T08:00+01:00"
        raise BadOptionError(option, text, accepted=accepted) from None


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadOptionError.choice(option, text, ("true", "false"))
    return text.lower() == "true"


def _number(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise BadOptionError(option, text, accepted="a whole number from 1 on")
    return int(text)


# -- readers --------------------------------------------------------------------------------------


class BatchReader(DataSourceReader):
    """Reads what is in the log when the query is planned."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the log into partitions."""
        request = self._request
        with open_readonly(request.store) as store:
            return partitions_of(request, store, request.start(store), request.end(store))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition."""
        return rows_of(self._request, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new events, a number of rows at a time."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._end: int | None = None  # where to stop, if what is there is all that is wanted

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint starts."""
        with open_readonly(self._request.store) as store:
            return {"position": self._request.start(store)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How many rows a micro-batch has at most."""
        return ReadMaxRows(self._request.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End with what is in the log now."""
        with open_readonly(self._request.store) as store:
            self._end = self._request.end(store)

    def latestOffset(self, start: Any, limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next micro-batch ends."""
        low = _position(start) or self.initialOffset()["position"]
        request = self._request
        with open_readonly(request.store) as store:
            high = request.end(store) if self._end is None else self._end
            if high <= low or isinstance(limit, ReadAllAvailable):
                return {"position": max(low, high)}
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else request.max_rows
            reader = reader_for(request, store)
            with store.snapshot() as connection:
                end = skip_records(connection, reader.selection.numbers, low, high, most)
                return {"position": end}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """Divide a micro-batch into partitions."""
        request = self._request
        with open_readonly(request.store) as store:
            low, high = _position(start) or request.start(store), _position(end) or 0
            oldest = store.oldest()
            if low < min(oldest, high):
                raise HistoryGoneError(low, oldest=oldest)
            return partitions_of(request, store, low, high)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition."""
        return rows_of(self._request, partition)


def _position(offset: Any) -> int | None:
    """Spark passes "null" for an offset that it does not have."""
    return int(offset["position"]) if isinstance(offset, dict) else None


def partitions_of(
    request: ReadRequest, store: ReadOnlyStore, low: int, high: int
) -> list[InputPartition]:
    """Divide a range of the log into tasks with about the same number of selected records."""
    reader = reader_for(request, store)
    with store.snapshot() as connection:
        total = count_records(connection, reader.selection.numbers, low, high)
        share = max(-(-total // request.partitions), _LEAST)
        partitions: list[InputPartition] = []
        while low < high and total > 0:
            cut = skip_records(connection, reader.selection.numbers, low, high, share)
            partitions.append(InputPartition((low, cut)))
            low = cut
    return partitions


def rows_of(request: ReadRequest, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read the rows of a partition, in a worker."""
    if partition.value is None:  # Spark plans a task even if there is nothing to do
        return
    with open_readonly(request.store) as store:
        yield from reader_for(request, store).batches(store, *partition.value)
