"""A stretch of history looked at by Spark's workers, each part of it by one of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polycast.errors import PipelineError, PolycastError
from polycast.pipeline.code_distribution import distribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    Look = Callable[[int, int], str]  # what is between two positions, as text

LEAST, LARGEST = 2_000, 50_000  # positions that one task looks at in one go
_COLUMNS = "number bigint, found string, error string"


def search(
    spark: SparkSession,
    task: Callable[[], Iterator[Look]],
    low: int,
    high: int,
    *,
    imports: tuple[str, ...] = (),
) -> list[str]:
    """What the parts of a stretch say, in the order of the log.

    `task` is called once in each worker, and gives what looks at a part.
    """
    if low >= high:
        return []
    tasks = spark.sparkContext.defaultParallelism
    size = min(LARGEST, max(LEAST, -(-(high - low) // (4 * tasks))))
    parts = -(-(high - low) // size)
    distribute(spark, imports)
    work = _Work(task, low, high, size)
    numbers = spark.range(0, parts, 1, min(parts, tasks))
    rows = numbers.mapInArrow(work, _COLUMNS).orderBy("number").toArrow().to_pylist()
    for row in rows:
        if row["error"] is not None:
            raise PipelineError(f"the search through history failed: {row['error']}")
    return [row["found"] for row in rows]


class _Work:
    """What a worker does: it looks at parts of the log, by their numbers."""

    def __init__(self, task: Callable[[], Iterator[Look]], low: int, high: int, size: int) -> None:
        self._task = task
        self._low, self._high, self._size = low, high, size

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        types = [pa.int64(), pa.string(), pa.string()]
        names = ["number", "found", "error"]
        for row in self._rows(
            number for batch in batches for number in batch.column(0).to_pylist()
        ):
            arrays: list[Any] = [
                pa.array([value], kind) for value, kind in zip(row, types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _rows(self, numbers: Iterator[int]) -> Iterator[tuple[int, str | None, str | None]]:
        """What goes wrong is told, not raised: Spark would try it three times more."""
        try:
            with contextmanager(self._task)() as look:
                for number in numbers:
                    low = self._low + number * self._size
                    yield number, look(low, min(low + self._size, self._high)), None
        except (PolycastError, ImportError) as error:
            yield -1, None, f"{type(error).__name__}: {error}"
