"""Events as DataFrames: a table, the same as it grows, or what a subscription would receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from polycast.errors import BadOptionError
from polycast.matching import selector_for
from polycast.pipeline.code_distribution import distribute
from polycast.pipeline.data_source import REQUEST, PolycastSource
from polycast.pipeline.read_request import MAX_ROWS, Bound, ReadRequest, request_for
from polycast.pipeline.row_reader import RowReader
from polycast.stores.sqlite.readonly_store import open_readonly
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from pyspark.sql import DataFrame, SparkSession

    from polycast.contexts import Context
    from polycast.pipeline.read_request import RecordSelection
    from polycast.stores import EventType


class TableOptions(TypedDict, total=False):
    """Which events a table has, and how they become rows."""

    where: Callable[[Any], object] | None
    since: Bound  # a position or time; by default the beginning of the log
    until: Bound  # which is excluded
    topic: str | None  # a pattern
    exact: bool  # exclude subclasses
    imports: Iterable[str]  # modules that define types and functions
    functions: Mapping[str, Callable[..., Any]] | None  # that filters and contexts may name
    misfits: str  # what becomes of an event without a row: "raise", or "skip" to leave it out
    context: Context | str | None  # whose view of events; by name as it was then, or a draft
    impure: str | None  # "per_batch": contexts may have functions marked as impure


def table(spark: SparkSession, url: str, what: Any, **options: Unpack[TableOptions]) -> DataFrame:
    """Return the events of a type and its subtypes, with their attributes as columns.

    `what` is what `subscribe` takes, or the wire name of a type. The table has the events that are
    in the log when a query over it is planned. The options are those of `TableOptions`.
    """
    request = _prepared(spark, url, what, options)
    return spark.read.format(PolycastSource.name()).option(REQUEST, request.encoded()).load()


def stream(
    spark: SparkSession,
    url: str,
    what: Any,
    *,
    max_rows: int = MAX_ROWS,
    **options: Unpack[TableOptions],
) -> DataFrame:
    """Return the same table as it grows: a streaming DataFrame.

    It begins with the oldest event kept, or with `since`; a query with a checkpoint continues from
    there. A micro-batch has at most `max_rows` events.
    """
    request = _prepared(spark, url, what, options, max_rows=max_rows)
    source = spark.readStream.format(PolycastSource.name())
    return source.option(REQUEST, request.encoded()).load()


def replay(spark: SparkSession, url: str, what: Any, **options: Unpack[TableOptions]) -> DataFrame:
    """Return what `subscribe(what, where=, topic=, exact=)` would have delivered, in log order."""
    return table(spark, url, what, **options).orderBy("_position")


def _prepared(
    spark: SparkSession, url: str, what: Any, options: TableOptions, *, max_rows: int = MAX_ROWS
) -> ReadRequest:
    """Make the request and check it here, so that errors are raised before a worker reads."""
    for option, value in options.items():
        if option not in TableOptions.__annotations__:
            raise BadOptionError.unknown(option, value, TableOptions.__annotations__)
    if what is None:
        raise BadOptionError("what", what, accepted="a type, or the wire name of a type")
    tasks = spark.sparkContext.defaultParallelism
    request = request_for(url, what, **options, max_rows=max_rows, partitions=tasks)
    reader = RowReader(request)
    with open_readonly(request.store) as store:
        reader.selection.refresh(store)
        is_plain = request.context is None and not request.bundle.modules
        if is_plain and not isinstance(what, str):
            check_verdicts(reader.selection, what, list(store.types().values()))
    reader.schema  # noqa: B018 - it may be refused
    distribute(spark, request.bundle.modules)
    spark.dataSource.register(PolycastSource)
    return request


def check_verdicts(selection: RecordSelection, what: Any, kinds: list[EventType]) -> None:
    """Refuse types for which the workers, without the classes, would decide differently.

    `ABC.register` and `__subclasshook__` are not in a description.
    """
    here = selector_for(what, exact=selection.request.exact)
    registry = Registry()
    for description in selection.registry.descriptions():
        registry.add(description)
    for kind in kinds:
        cls = registry.class_for(kind.name, kind.version, kind.hash)
        if here.covers_class(cls) != selection.covers(kind):
            raise BadOptionError(
                "imports",
                [],
                why=f"whether {kind.name} is a {here} only the classes can say",
                accepted="the modules that define them",
            )
