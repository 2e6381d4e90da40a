"""History given to a subscription once more; it is searched by Spark's workers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.delivery.replaying import Replayed, check_count, check_limit, replay_to, told
from polycast.errors import PipelineError, PolycastError
from polycast.pipeline.session import active_session, session
from polycast.pipeline.shipping import Functions, check_imports, import_all, ship
from polycast.routing.history import Findings, History, Search, search_for
from polycast.routing.status import file_of
from polycast.stores import open_store
from polycast.stores.bounds import end_of, start_of
from polycast.stores.doctor.looking import looking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from polycast.pipeline.questions import Bound

__all__ = ["Replayed", "deliver", "find", "some_session"]

LEAST, LARGEST = 2_000, 50_000  # positions that one task looks at in one go
_COLUMNS = "number bigint, found string, error string"
_decode = msgspec.json.Decoder(Findings).decode


def deliver(
    spark: SparkSession,
    url: str,
    what: Any = None,
    *,
    to: str,
    where: Callable[[Any], object] | None = None,
    since: Bound = None,
    until: Bound = None,
    topic: str | None = None,
    exact: bool = False,
    imports: Iterable[str] = (),
    limit: int | None = None,
    dry_run: bool = False,
) -> Replayed:
    """Give a durable subscription once more what it has handled in a stretch of the log.

    Without `what` and `where` that is all it wants, else what it wants of that. With `dry_run`
    nothing is changed.
    """
    path, modules = file_of(url), check_imports(imports)
    import_all(modules)
    with looking(path) as store:
        with store.view() as view:
            about = {"where": where, "topic": topic, "exact": exact}
            search = search_for(view, what, **about, to=to, most=check_limit(limit))  # type: ignore[arg-type]
        low, high = start_of(store, since) or store.oldest(), end_of(store, until)
        is_sure = History(search, store, Functions(modules).get).is_sure
    found = find(spark, path, search, low, high, imports=modules)
    check_count(found, to=to, limit=limit)
    count = len(found.listed)
    if not dry_run:
        writable = open_store(path, create=False)
        try:
            count = replay_to(writable, to, found.listed)
        finally:
            writable.close()
    return told(found, to=to, count=count, is_sure=is_sure)


def find(
    spark: SparkSession,
    path: str,
    search: Search,
    low: int,
    high: int,
    *,
    imports: tuple[str, ...] = (),
) -> Findings:
    """What a search finds between two positions; the workers look at parts of it at once."""
    found = Findings()
    if low >= high:
        return found
    tasks = spark.sparkContext.defaultParallelism
    size = min(LARGEST, max(LEAST, -(-(high - low) // (4 * tasks))))
    parts = -(-(high - low) // size)
    ship(spark, imports)
    look = _Look(path, search.encoded(), imports, low, high, size)
    numbers = spark.range(0, parts, 1, min(parts, tasks))
    rows = numbers.mapInArrow(look, _COLUMNS).orderBy("number").toArrow().to_pylist()
    for row in rows:
        if row["error"] is not None:
            raise PipelineError(f"the search through history failed: {row['error']}")
        found.extend(_decode(row["found"]), search.most)
    return found


class _Look:
    """What a worker does: it looks at parts of the log, by their numbers."""

    def __init__(
        self, path: str, search: str, imports: tuple[str, ...], low: int, high: int, size: int
    ) -> None:
        self._path, self._search, self._imports = path, search, imports
        self._low, self._high, self._size = low, high, size

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        types = [pa.int64(), pa.string(), pa.string()]
        names = ["number", "found", "error"]
        for row in self._rows(number for each in batches for number in each.column(0).to_pylist()):
            arrays = [pa.array([value], kind) for value, kind in zip(row, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _rows(self, numbers: Iterator[int]) -> Iterator[tuple[int, str | None, str | None]]:
        """What goes wrong is told, not raised: Spark would try it three times more."""
        try:
            import_all(self._imports)
            with looking(self._path) as store:
                function = Functions(self._imports).get
                history = History(Search.decoded(self._search), store, function)
                for number in numbers:
                    low = self._low + number * self._size
                    found = history.findings(low, min(low + self._size, self._high))
                    yield number, msgspec.json.encode(found).decode(), None
        except (PolycastError, ImportError) as error:
            yield -1, None, f"{type(error).__name__}: {error}"


@contextmanager
def some_session(master: str = "local[*]") -> Iterator[SparkSession]:
    """The session of this process, or one that lasts as long as it is needed."""
    active = active_session()
    spark = active if active is not None else session(master)
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()
