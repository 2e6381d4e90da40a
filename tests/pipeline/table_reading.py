"""Tables without a JVM: what Spark calls in its Python processes, called here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from polycast.pipeline.data_source import BatchReader, PolycastSource
from polycast.pipeline.read_request import ReadRequest, request_for
from polycast.pipeline.row_reader import RowReader
from polycast.stores.sqlite.readonly_store import open_readonly


def reader_of(request: ReadRequest) -> RowReader:
    """A new reader, which knows the types of its store."""
    reader = RowReader(request)
    with open_readonly(request.store) as store:
        reader.selection.refresh(store)
    return reader


def rows_for(request: ReadRequest) -> list[dict[str, Any]]:
    """The rows, read as Spark does."""
    reader = BatchReader(request)
    batches = [each for span in reader.partitions() for each in reader.read(span)]
    schema = to_arrow_schema(reader_of(request).schema, timezone="UTC")
    assert all(each.schema == schema for each in batches)
    for batch in batches:
        batch.validate(full=True)
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches, schema).to_pylist()
    return rows


def rows(url: str, what: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows of a table."""
    return rows_for(request_for(url, what, **options))


def rows_of_options(**options: str) -> list[dict[str, Any]]:
    """The rows that a user of the data source gets."""
    return rows_for(PolycastSource(options)._request())


def numbers(url: str, what: Any, **options: Any) -> list[int]:
    """The numbers of the events of a table."""
    return [row["number"] for row in rows(url, what, **options)]
