"""The streaming job: reads the log, asks the plan, keeps who takes what."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from polycast.config import SystemClock
from polycast.errors import BadOptionError, PipelineError, PipelineFailedError
from polycast.pipeline.checkpoint import prepare_checkpoint
from polycast.pipeline.code_distribution import ship, shipment_of
from polycast.pipeline.route_source import RouteSource
from polycast.pipeline.sink import Sink
from polycast.pipeline.spark_session import LEAN, active_session, session, tuned
from polycast.plain_text import log_of
from polycast.routing.status import Status, file_of, keep_status, status_of
from polycast.stores import open_store
from polycast.stores.processes import here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from polycast.pipeline.sink import Batch
    from polycast.stores import Store

__all__ = ["Pipeline", "Status", "status_of"]

RECENT = 10.0  # seconds over which a rate is told
TOLD = 1.0  # seconds after which the store is told again how it goes
_GONE = (Py4JError, OSError)  # what is raised when the JVM is asked, and has died
_log = log_of("polycast")


class Pipeline:
    """Routes the events of a store for all subscriptions made with `engine="spark"`.

    `imports` are the modules that define types and functions; no others are imported, and without
    them it works on what the store knows of the types. Of what subscribers name, the functions that
    these modules define are run, and those that `functions` has by name: no others. `checkpoint` is
    a folder that Spark goes on from; it is of no consequence, and without one Spark uses its own.
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
        self._shipment = shipment_of(imports, functions)
        if type(batch) is not int or batch < 1:
            raise BadOptionError("batch", batch, accepted="how many events a batch has at most")
        self._checkpoint, self._most, self._master, self._log = checkpoint, batch, master, log
        self._given, self._on_batch = spark, on_batch
        self._clock = SystemClock()
        self._lock = threading.RLock()
        self._own: SparkSession | None = None
        self._store: Store | None = None
        self._query: StreamingQuery | None = None
        self._sink: Sink | None = None
        self._scratch: str | None = None
        self._batches: deque[Batch] = deque(maxlen=1_000)
        self._totals = [0, 0]
        self._told = 0.0
        self._state, self._failure = "stopped", ""

    # -- its life ----------------------------------------------------------------------------------

    def start(self, *, once: bool = False) -> Pipeline:
        """Begin to route, and go on until `stop()`; or `once`, with what is in the log now."""
        self._start(available=once)
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
        """Return when it has ended, or after a while; whether it has ended. Raises its failure."""
        query = self._query
        if query is None:
            return True
        try:
            ended = _forever(query) if timeout is None else _within(query, timeout)
        except (StreamingQueryException, *_GONE) as error:
            raise self._failed(error) from None
        return ended

    def stop(self) -> None:
        """End, and let go of all that was made for it; what is under way is done next time."""
        with self._lock:
            query, self._query = self._query, None
            try:
                if query is not None:
                    self._settle(query)
            finally:
                self._let_go()

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
        self._tell()

    def __enter__(self) -> Pipeline:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self, *, available: bool) -> None:
        with self._lock:
            if self._query is not None:
                raise PipelineError("the pipeline is running already; stop() it first")
            try:
                self._begin(available=available)
            except BaseException:
                self._let_go()
                raise

    def _begin(self, *, available: bool) -> None:
        store = self._store = open_store(self._path, create=False)
        with store.view() as view:
            identity, high, end = view.identity(), view.routed().high, view.newest() + 1
        folder = self._folder()
        prepare_checkpoint(folder, identity=identity, high=high, end=end)
        spark = self._session()
        ship(spark, self._shipment.modules)
        routed = store.write(lambda tx: tx.take_routing()).result()
        self._sink = self.sink(store, routed.token, self._clock, self._done)
        self._state, self._failure, self._totals = "running", "", [0, 0]
        self._batches.clear()
        ours = tuned(spark)
        ours.dataSource.register(self.source)
        reading = ours.readStream.format(self.source.name())
        for name, value in self._options(identity, spark).items():
            reading = reading.option(name, value)
        writing = reading.load().writeStream.foreachBatch(self._sink)
        writing = writing.option("checkpointLocation", folder)
        writing = writing.trigger(availableNow=True) if available else writing
        self._query = writing.start()
        self._tell()

    def _options(self, identity: str, spark: SparkSession) -> dict[str, str]:
        return {
            "store": self._path,
            "identity": identity,
            "shipment": self._shipment.encoded(),
            "events": str(self._most),
            "tasks": str(spark.sparkContext.defaultParallelism),
        }

    def _folder(self) -> str:
        if self._checkpoint is not None:
            return os.path.abspath(self._checkpoint)
        self._scratch = tempfile.mkdtemp(prefix="polycast-pipeline-")
        return self._scratch

    def _session(self) -> SparkSession:
        if self._given is not None:
            return self._given
        active = active_session()
        if active is None:
            active = self._own = session(self._master, log=self._log, settings=LEAN)
        return active

    def _let_go(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
        own, self._own = self._own, None
        if own is not None:
            with suppress(*_GONE):
                own.stop()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)

    def _failed(self, error: Exception) -> PipelineError:
        """What has ended it, as far as possible as it was before Spark made a text of it."""
        known = None if self._sink is None else self._sink.failure
        if not isinstance(known, PipelineError):
            text = str(known) if known is not None else _in_words(error)
            known = PipelineFailedError(f"position {self._position()}", why=text)
        self._failure = str(known)
        return known

    # -- how it is getting on ----------------------------------------------------------------------

    def _done(self, batch: Batch) -> None:
        """A batch is kept; called by Spark's thread."""
        self._batches.append(batch)
        self._totals = [self._totals[0] + batch.events, self._totals[1] + batch.pairs]
        if self._on_batch is not None:
            try:
                self._on_batch(self.status())
            except Exception:
                _log.exception("on_batch failed")
        if self._clock.monotonic() - self._told > TOLD:
            self._tell()

    def _tell(self) -> None:
        """Let others who look at the store know."""
        store = self._store
        if store is None or store.failure is not None:
            return
        self._told = self._clock.monotonic()
        status = self.status()
        store.write(lambda tx: keep_status(tx, status))

    def status(self) -> Status:
        """How it is getting on."""
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
        """What Spark tells of the latest batches, as `StreamingQuery.recentProgress`."""
        query = self._query
        return [] if query is None else list(query.recentProgress)

    def _rate(self) -> float:
        now = self._clock.monotonic()
        recent = [each for each in list(self._batches) if now - each.ended < RECENT]
        if len(recent) < 2:
            return 0.0
        took = recent[-1].ended - recent[0].ended
        return sum(each.events for each in recent[1:]) / took if took else 0.0

    def _position(self) -> int:
        if self._store is None:
            return 0
        with self._store.view() as view:
            return view.routed().high


def _forever(query: StreamingQuery) -> bool:
    """Wait so that Ctrl-C is heard."""
    while not _within(query, 0.5):
        pass
    return True


def _within(query: StreamingQuery, timeout: float) -> bool:
    return bool(query.awaitTermination(max(timeout, 0.001)))  # type: ignore[arg-type]


def _failure_of(query: StreamingQuery) -> Exception | None:
    """Why a query has ended, if not by itself."""
    try:
        return query.exception()
    except _GONE as error:
        return error


def _in_words(error: Exception) -> str:
    if isinstance(error, _GONE):
        return f"Spark's JVM has died ({type(error).__name__}). Start again: nothing is lost"
    return str(error)
