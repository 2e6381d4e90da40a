"""The streaming job: reads the log, matches it against the plan, and stores the recipients."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import ExitStack, closing, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from polycast.config import SystemClock
from polycast.errors import BadOptionError, PipelineError, PipelineFailedError
from polycast.pipeline.checkpoint import prepare_checkpoint
from polycast.pipeline.code_distribution import bundle_of, distribute
from polycast.pipeline.route_stream import BatchResult, RouteSource, Sink
from polycast.pipeline.spark_session import LEAN, active_session, session, tuned
from polycast.plain_text import log_of
from polycast.stores import Store, open_store
from polycast.stores.liveness import here
from polycast.stores.pipeline_status import Status, file_of, keep_status, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


RECENT = 10.0  # seconds over which the rate is measured
REPORTED = 1.0  # seconds after which the status in the store is written again
_GONE = (Py4JError, OSError)  # raised by calls into a JVM that has died
_log = log_of("polycast")


class Pipeline:
    """Routes the events of a store for all subscriptions made with `engine="spark"`.

    `imports` are the modules that define types and functions. No others are imported; without them
    the pipeline works with the type descriptions in the store. It calls a function that a
    subscriber names only if one of these modules defines it, or `functions` has it by that name.
    `checkpoint` is a folder from which Spark continues. It can be thrown away, because the store
    knows what is routed; without it Spark uses a temporary one.
    """

    sink = Sink
    source: type[RouteSource] = RouteSource

    def __init__(
        self,
        url: str,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        imports: Iterable[str] = (),
        functions: Mapping[str, Callable[..., Any]] | None = None,
        spark: SparkSession | None = None,
        master: str = "local[*]",
        batch: int = 50_000,
        log: str | os.PathLike[str] | None = None,
        on_batch: Callable[[Status], object] | None = None,
    ) -> None:
        self.url, self._path = url, file_of(url)
        self._bundle = bundle_of(imports, functions)
        if type(batch) is not int or batch < 1:
            raise BadOptionError("batch", batch, accepted="how many events a batch has at most")
        self._checkpoint, self._most, self._master, self._log = checkpoint, batch, master, log
        self._given, self._on_batch = spark, on_batch
        self._clock = SystemClock()
        self._lock = threading.RLock()
        self._store: Store | None = None
        self._query: StreamingQuery | None = None
        self._sink: Sink | None = None
        self._opened = ExitStack()  # what stop() closes
        self._batches: deque[BatchResult] = deque(maxlen=1_000)
        self._totals = [0, 0]
        self._reported = 0.0
        self._state, self._failure = "stopped", ""

    # -- starting and stopping ---------------------------------------------------------------------

    def start(self, *, once: bool = False) -> Pipeline:
        """Route until `stop()`, or `once` what is in the log now; in the background."""
        with self._lock:
            if self._query is not None:
                raise PipelineError("the pipeline is running already; stop() it first")
            try:
                self._begin(available=once)
            except BaseException:
                self._release()
                raise
        return self

    def run_available(self) -> Status:
        """Route what is in the log now, and stop."""
        self.start(once=True)
        try:
            self.wait()
            return self.status()
        finally:
            self.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, or for a time; whether it has ended. Its failure is raised."""
        query = self._query
        if query is None:
            return True
        try:
            return _forever(query) if timeout is None else _within(query, timeout)
        except (StreamingQueryException, *_GONE) as error:
            raise self._failed(error) from None

    def stop(self) -> None:
        """Stop, and release its resources; a batch under way is repeated by the next start."""
        with self._lock:
            query, self._query = self._query, None
            try:
                if query is not None:
                    self._settle(query)
            finally:
                self._release()

    def _settle(self, query: StreamingQuery) -> None:
        error = _failure_of(query)
        try:
            if error is None:
                query.stop()
        except _GONE as gone:
            error = gone
        if error is not None:
            self._failed(error)
        self._state = "failed" if self._failure else "stopped"
        self._report()

    def __enter__(self) -> Pipeline:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _begin(self, *, available: bool) -> None:
        store = self._opened.enter_context(closing(open_store(self._path, create=False)))
        self._store = store
        with store.view() as view:
            identity, high, end = view.identity(), view.routed().high, view.newest() + 1
        folder = self._folder()
        prepare_checkpoint(folder, identity=identity, high=high, end=end)
        spark = self._session()
        distribute(spark, self._bundle.modules)
        routed = store.write(lambda tx: tx.take_routing()).result()
        self._sink = self.sink(store, routed.token, self._clock, self._done)
        self._state, self._failure, self._totals = "running", "", [0, 0]
        self._batches.clear()
        ours = tuned(spark)
        ours.dataSource.register(self.source)
        options = self._options(identity, spark)
        events = ours.readStream.format(self.source.name()).options(**options).load()
        writer = events.writeStream.foreachBatch(self._sink).option("checkpointLocation", folder)
        self._query = (writer.trigger(availableNow=True) if available else writer).start()
        self._report()

    def _options(self, identity: str, spark: SparkSession) -> dict[str, str]:
        return {
            "store": self._path,
            "identity": identity,
            "bundle": self._bundle.encoded(),
            "events": str(self._most),
            "tasks": str(spark.sparkContext.defaultParallelism),
        }

    def _folder(self) -> str:
        if self._checkpoint is not None:
            return os.path.abspath(self._checkpoint)
        scratch = TemporaryDirectory(prefix="polycast-pipeline-", ignore_cleanup_errors=True)
        return self._opened.enter_context(scratch)

    def _session(self) -> SparkSession:
        if self._given is not None:
            return self._given
        active = active_session()
        if active is None:
            active = session(self._master, log=self._log, settings=LEAN)
            self._opened.enter_context(suppress(*_GONE))
            self._opened.callback(active.stop)
        return active

    def _release(self) -> None:
        self._store = None
        self._opened.close()

    def _failed(self, error: Exception) -> PipelineError:
        """The error that ended it, if possible the original one that Spark turned into text."""
        known = None if self._sink is None else self._sink.failure
        if not isinstance(known, PipelineError):
            text = str(known) if known is not None else _in_words(error)
            known = PipelineFailedError(f"position {self._position()}", why=text)
        self._failure = str(known)
        return known

    # -- status ------------------------------------------------------------------------------------

    def _done(self, batch: BatchResult) -> None:
        """Count a stored batch; called by Spark's thread."""
        self._batches.append(batch)
        self._totals = [self._totals[0] + batch.events, self._totals[1] + batch.pairs]
        if self._on_batch is not None:
            try:
                self._on_batch(self.status())
            except Exception:
                _log.exception("on_batch failed")
        if self._clock.monotonic() - self._reported > REPORTED:
            self._report()

    def _report(self) -> None:
        """Write the status into the store, for other processes."""
        store = self._store
        if store is None or store.failure is not None:
            return
        self._reported = self._clock.monotonic()
        status = self.status()
        store.write(lambda tx: keep_status(tx, status))

    def status(self) -> Status:
        """State, position, lag, rate and failure."""
        last = self._batches[-1] if self._batches else None
        there = status_of(self.url, store=self._store)
        query = self._query
        failed = self._failure or (query is not None and _failure_of(query) is not None)
        state = "failed" if failed else self._state
        if query is not None and not failed and not query.isActive:
            state = "stopped"
        return msgspec.structs.replace(
            there,
            state=state,
            batch=None if last is None else last.number,
            events=self._totals[0],
            pairs=self._totals[1],
            rate=self._rate(),
            failure=self._failure or None,
            process=os.getpid(),
            place=here(),
            time=self._clock.time(),
        )

    def progress(self) -> list[Any]:
        """Spark's report on the latest batches, as `StreamingQuery.recentProgress`."""
        query = self._query
        return [] if query is None else list(query.recentProgress)

    def _rate(self) -> float:
        now = self._clock.monotonic()
        recent = [batch for batch in list(self._batches) if now - batch.ended < RECENT]
        if len(recent) < 2:
            return 0.0
        took = recent[-1].ended - recent[0].ended
        return sum(batch.events for batch in recent[1:]) / took if took else 0.0

    def _position(self) -> int:
        if self._store is None:
            return 0
        with self._store.view() as view:
            return view.routed().high


def _forever(query: StreamingQuery) -> bool:
    """Wait in short steps, so that Ctrl-C is noticed."""
    while not _within(query, 0.5):
        pass
    return True


def _within(query: StreamingQuery, timeout: float) -> bool:
    return bool(query.awaitTermination(max(timeout, 0.001)))  # type: ignore[arg-type]


def _failure_of(query: StreamingQuery) -> Exception | None:
    """The error that ended a query, if one did."""
    try:
        return query.exception()
    except _GONE as error:
        return error


def _in_words(error: Exception) -> str:
    if isinstance(error, _GONE):
        return f"Spark's JVM has died ({type(error).__name__}). Start again: nothing is lost"
    return str(error)
