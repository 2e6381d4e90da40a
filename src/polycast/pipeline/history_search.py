"""A search through the log by Spark's workers: to replay events, or to compare two contexts."""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.delivery.replay import Replayed, check_count, check_limit, replay_to, told
from polycast.errors import BadOptionError, PipelineError, PolycastError
from polycast.pipeline.code_distribution import CodeBundle, bundle_of, distribute
from polycast.pipeline.spark_session import active_session, session
from polycast.routing.context_view import Comparison, ContextComparison, DraftContext, draft_of
from polycast.routing.search import History, Search, SearchResult, search_for
from polycast.stores import open_store
from polycast.stores.log_bounds import end_of, start_of
from polycast.stores.pipeline_status import file_of
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from polycast.contexts import Context
    from polycast.pipeline.read_request import Bound

    Look = Callable[[int, int], object]  # at the events between two positions

LEAST, LARGEST = 2_000, 50_000  # positions that one task searches at a time
_findings = msgspec.json.Decoder(SearchResult).decode
_comparison = msgspec.json.Decoder(Comparison).decode
_COLUMNS = "number bigint, result string, error string"


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
    functions: Mapping[str, Callable[..., Any]] | None = None,
    limit: int | None = None,
    dry_run: bool = False,
) -> Replayed:
    """Deliver events of the past to a durable subscription again.

    Without `what` and `where` these are all that it wants, otherwise those of them that match. With
    `dry_run` nothing is changed.
    """
    path, bundle = file_of(url), bundle_of(imports, functions)
    with open_readonly(path) as store:
        with store.view() as view:
            about = {"where": where, "topic": topic, "exact": exact}
            search = search_for(view, what, **about, to=to, most=check_limit(limit))  # type: ignore[arg-type]
        low, high = start_of(store, since) or store.oldest(), end_of(store, until)
        is_sure = History(search, store, bundle.names()).is_sure
    findings = find(spark, path, search, low, high, bundle=bundle)
    check_count(findings, to=to, limit=limit)
    count = len(findings.listed)
    if not dry_run:
        with closing(open_store(path, create=False)) as writable:
            count = replay_to(writable, to, findings.listed)
    return told(findings, to=to, count=count, is_sure=is_sure)


def find(
    spark: SparkSession,
    path: str,
    search: Search,
    low: int,
    high: int,
    *,
    bundle: CodeBundle | None = None,
) -> SearchResult:
    """Return what a search finds between two positions."""
    look, findings = partial(_find, search=search.encoded()), SearchResult()
    for part in _Workers(path, bundle or CodeBundle(), look).look(spark, low, high):
        findings.extend(_findings(part), search.most)
    return findings


def _find(store: ReadOnlyStore, bundle: CodeBundle, *, search: str) -> Look:
    return History(Search.decoded(search), store, bundle.names()).findings


def compare(
    spark: SparkSession,
    url: str,
    old: Context | str | None,
    new: Context | str | None,
    *,
    since: Bound = None,
    until: Bound = None,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    samples: int = 10,
    impure: str | None = None,
) -> Comparison:
    """Return which events of the past one context shows differently from another, before its use.

    A name is a context as the store has it at each position; None is the root.
    """
    path, bundle = file_of(url), bundle_of(imports, functions)
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
        raise BadOptionError("samples", samples, accepted="a whole number from 0 on")
    sides = draft_of(old), draft_of(new)
    look = partial(_compare, sides=sides, samples=samples)
    with open_readonly(path) as store:
        low, high = start_of(store, since) or store.oldest(), end_of(store, until)
        comparing = ContextComparison(store, sides, bundle.names().get, samples)
        for view in comparing.views:
            view.check(store.newest(), impure, bundle.imports)
    comparison = comparing.nothing()
    for part in _Workers(path, bundle, look).look(spark, low, high):
        comparison.extend(_comparison(part), samples)
    return comparison


def _compare(
    store: ReadOnlyStore,
    bundle: CodeBundle,
    *,
    sides: tuple[tuple[str | None, DraftContext], ...],
    samples: int,
) -> Look:
    return ContextComparison(store, sides, bundle.names().get, samples).part


class _Workers:
    """Searches numbered parts of the log; each worker makes its `look` once."""

    def __init__(
        self, path: str, bundle: CodeBundle, look: Callable[[ReadOnlyStore, CodeBundle], Look]
    ) -> None:
        self._path, self._bundle, self._make_look = path, bundle, look
        self._low = self._high = self._size = 0

    def look(self, spark: SparkSession, low: int, high: int) -> list[str]:
        """Return the results of all parts as JSON, in the order of the log."""
        if low >= high:
            return []
        tasks = spark.sparkContext.defaultParallelism
        self._low, self._high = low, high
        self._size = min(LARGEST, max(LEAST, -(-(high - low) // (4 * tasks))))
        parts = -(-(high - low) // self._size)
        distribute(spark, self._bundle.modules)
        numbers = spark.range(0, parts, 1, min(parts, tasks))
        rows = numbers.mapInArrow(self, _COLUMNS).orderBy("number").toArrow().to_pylist()
        for row in rows:
            if row["error"] is not None:
                raise PipelineError(f"the search through history failed: {row['error']}")
        return [row["result"] for row in rows]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Search the parts that a worker is given."""
        import pyarrow as pa

        types = [pa.int64(), pa.string(), pa.string()]
        names = ["number", "result", "error"]
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        for row in self._rows(numbers):
            arrays: list[Any] = [
                pa.array([value], kind) for value, kind in zip(row, types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _rows(self, numbers: Iterator[int]) -> Iterator[tuple[int, str | None, str | None]]:
        """Errors are returned, not raised: Spark would try three times more."""
        try:
            with open_readonly(self._path) as store:
                look = self._make_look(store, self._bundle)
                for number in numbers:
                    low = self._low + number * self._size
                    part = look(low, min(low + self._size, self._high))
                    yield number, msgspec.json.encode(part).decode(), None
        except (PolycastError, ImportError) as error:
            yield -1, None, f"{type(error).__name__}: {error}"


@contextmanager
def some_session() -> Iterator[SparkSession]:
    """Use the session of this process, or one that ends with the block."""
    active = active_session()
    spark = active if active is not None else session()
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()
