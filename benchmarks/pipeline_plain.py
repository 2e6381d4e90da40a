"""The plain way in PySpark: one `filter` for each subscription, the union written once a batch.

The events come from Parquet files, one for each batch, which is the fastest source that Spark has;
or from polycast's own source of typed columns. A second form asks all conditions in one pass: that
is no longer what comes to mind first, and shown for comparison.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

from durable_setting import url_of
from pipeline_setting import Plan, store_of
from ready10 import Equal, OneOf, Predicate, Range, Subscription
from tables import Table

FILTERS = "a filter each, union, from Parquet"
FROM_LOG = "a filter each, union, from polycast's source"
ONE_PASS = "all conditions in one pass, from Parquet"
TASKS = 2  # or each filter would be a task and a file of its own


@dataclass(slots=True)
class Peer:
    """What one form of the plain way reached."""

    is_plain: bool
    batch: int
    ended: list[float] = field(default_factory=list)
    pairs: int = 0

    @property
    def events(self) -> int:
        return self.batch * len(self.ended)

    @property
    def rate(self) -> float:
        """Events a second after the first batch."""
        return self.batch * (len(self.ended) - 1) / (self.ended[-1] - self.ended[0])


Results = dict[str, Peer]


def prepare(plan: Plan, folder: Path) -> None:
    """The events of the first batches as Parquet files, in the order in which they are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pipeline_sales import events  # here: see pipeline_setting

    files = folder / "parquet"
    files.mkdir()
    count = 1 + plan.plain_batches
    stream = events(count * plan.batch)
    for number in range(count):
        rows = list(islice(stream, plan.batch))
        names = rows[0].__slots__
        columns = {name: [getattr(row, name) for row in rows] for name in names}
        path = files / f"{number:03}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (number + 1, number + 1))  # older files come first


def measure(spark: Any, plan: Plan, folder: Path) -> Results:
    """All forms, one after the other."""
    from pipeline_sales import subscriptions  # here: see pipeline_setting

    conditions = [_column(each) for each in subscriptions(min(plan.sizes))]
    schema = spark.read.parquet(str(folder / "parquet")).schema
    reading = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    files = reading.parquet(str(folder / "parquet"))
    end = 1 + plan.batch * (1 + plan.plain_batches)
    spark.dataSource.register(_source())
    log = (
        spark.readStream.format("polycast")
        .option("store", url_of(store_of(folder, min(plan.sizes))))
        .option("type", "pipeline_sales.Sale")
        .option("until", str(end))
        .option("maxRows", str(plan.batch))
        .load()
    )
    return {
        FILTERS: _run(files, conditions, _union, plan, folder, is_plain=True),
        FROM_LOG: _run(log, conditions, _union, plan, folder, is_plain=True),
        ONE_PASS: _run(files, conditions, _one_pass, plan, folder, is_plain=False),
    }


def _source() -> Any:
    from polycast.pipeline.data_source import PolycastSource

    return PolycastSource


def _column(subscription: Subscription) -> Any:
    return reduce(lambda one, other: one & other, map(_condition, subscription))


def _condition(predicate: Predicate) -> Any:
    from pyspark.sql import functions as sql

    column = sql.col(predicate.name)
    match predicate:
        case Equal(_, value):
            return column == value
        case OneOf(_, values):
            return column.isin(*values)
        case Range(_, low, None):
            return column >= low
        case Range(_, None, high):
            return column < high
        case Range(_, low, high):
            return (column >= low) & (column < high)
    raise AssertionError(f"{predicate} is not used here")


def _union(batch: Any, conditions: list[Any]) -> Any:
    from pyspark.sql import functions as sql

    parts = [
        batch.filter(each).select("number", sql.lit(n).alias("subscription"))
        for n, each in enumerate(conditions)
    ]
    return reduce(lambda one, other: one.unionAll(other), parts)


def _one_pass(batch: Any, conditions: list[Any]) -> Any:
    from pyspark.sql import functions as sql

    found = sql.array(*(sql.when(each, n) for n, each in enumerate(conditions)))
    pairs = batch.select("number", sql.explode(found).alias("subscription"))
    return pairs.where(sql.col("subscription").isNotNull())


def _run(
    stream: Any,
    conditions: list[Any],
    form: Callable[[Any, list[Any]], Any],
    plan: Plan,
    folder: Path,
    *,
    is_plain: bool,
) -> Peer:
    peer, out = Peer(is_plain, plan.batch), tempfile.mkdtemp(dir=folder, prefix="plain-")

    def keep(batch: Any, number: int) -> None:
        batch.persist()  # or it would be read once for each filter
        try:
            form(batch, conditions).coalesce(TASKS).write.mode("append").parquet(f"{out}/pairs")
        finally:
            batch.unpersist()
        peer.ended.append(time.monotonic())

    try:
        query = (
            stream.writeStream.foreachBatch(keep)
            .option("checkpointLocation", f"{out}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        peer.pairs = stream.sparkSession.read.parquet(f"{out}/pairs").count()
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return peer


def table(found: Results, ours: float) -> Table:
    """Against polycast with its Python matcher."""
    rows = [
        (name, f"{peer.rate:,.0f}", f"{peer.pairs / peer.events:.2f}", f"{ours / peer.rate:.1f}")
        for name, peer in found.items()
    ]
    columns = (
        "the plain way, 100 subscriptions",
        "events/s",
        "takers of an event",
        "polycast over it",
    )
    note = "On two cores, same events, same pairs; polycast with its Python matcher, exactly once."
    return Table("The plain way in PySpark", columns, rows, note=note)


def plain(found: Results) -> dict[str, object]:
    """For the file of results."""
    return {
        name: {"rate": peer.rate, "events": peer.events, "pairs": peer.pairs}
        for name, peer in found.items()
    }
