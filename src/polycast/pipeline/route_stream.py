"""The stream that a pipeline runs on: it plans ranges of the log, matches them, and stores reports.

Events stay out of the JVM: one report for each range has the recipients. Reading has no side
effects, so Spark may repeat it at any time. Storing is fenced: by log position, so a batch that
Spark repeats, with or without its checkpoint, adds nothing; and by a token, so a pipeline that was
taken over adds nothing either.
"""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from polycast.errors import PipelineFailedError, PipelineTakenOverError, PolycastError
from polycast.events import decode_record, encode_record
from polycast.pipeline.code_distribution import CodeBundle
from polycast.routing import MatchResult, Plan, encode_recipients
from polycast.routing.translation import context_of_letter
from polycast.stores import Effect, Letter, Store, Stretch, Transaction, View, tidy_routing
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from polycast.config import Clock

SLICE = 10_000  # records that become one stretch


class RouteRange(NamedTuple):
    """Positions between which the routes and contexts in effect are the same.

    The numbers of an `Effect` say which these are.
    """

    low: int
    high: int
    routes: int
    highest: int
    contexts: int = 0

    @property
    def effect(self) -> Effect:
        """The routes and contexts in effect."""
        return Effect(*self[2:])


class FailedMatch(msgspec.Struct, frozen=True, array_like=True):
    """An event for which the filter of a subscription could not be evaluated."""

    name: str
    position: int
    record: bytes
    reason: str


class RangeReport(NamedTuple):
    """A worker's report to the driver on one range."""

    low: int
    high: int
    events: int  # that were read
    decoded: int
    pairs: int  # of event and subscription
    recipients: bytes
    failures: bytes
    error: str | None  # why this stretch could not be routed at all


COLUMNS = (
    "low bigint, high bigint, events bigint, decoded bigint, pairs bigint, recipients binary, "
    "failures binary, error string"
)
_encode = msgspec.msgpack.Encoder().encode


class Worker:
    """The plan of one worker process; it outlives a batch, and follows changes of routes."""

    def __init__(self, path: str, bundle: CodeBundle) -> None:
        names = bundle.names()
        self._open = ExitStack()
        self.store: ReadOnlyStore = self._open.enter_context(open_readonly(path))
        self.plan = Plan(Registry(classes=names.classes), names.get)
        self._set = Effect(0, 0, 0)

    def close(self) -> None:
        """Release the file."""
        self._open.close()

    def reports(self, ranges: list[RouteRange]) -> Iterator[RangeReport]:
        """Report on some ranges of the log, a slice at a time."""
        for span in ranges:
            if span.routes == 0:
                nobody = encode_recipients(span.low, (), ())
                yield RangeReport(span.low, span.high, 0, 0, 0, nobody, b"", None)
                continue
            self.follow(span)
            low = span.low
            while low < span.high:
                report = self.routed(low, min(low + SLICE, span.high))
                yield report
                low = report.high

    def follow(self, span: RouteRange) -> None:
        """Put the routes of a range into effect."""
        wanted = span.effect
        if self._set != wanted:
            with self.store.view() as view:
                self.plan.routes.move_to(view.routes(at=span.low), view)
            if not self._set.routes:
                gc.collect()
                gc.freeze()  # the plan stays: nobody need look at it for garbage again
            self._set = wanted

    def routed(self, low: int, high: int) -> RangeReport:
        """Match the records between two positions against the routes in effect."""
        batch = self.store.read(low, limit=high - low, until=high)
        entries, high = batch.entries, batch.upto  # less, if there is damage behind it
        with self.store.view() as view:  # what attributes hold may be described later than events
            self.plan.routes.learn(view)
        match = self.plan.match(entries)
        pairs = sum(map(len, match.recipients))
        unsure = self.plan.routes.unsure | match.unsure
        recipients = encode_recipients(low, match.positions, match.recipients, unsure)
        counts = (len(entries), match.decoded, pairs)
        return RangeReport(low, high, *counts, recipients, _failures(match), None)


def _failures(match: MatchResult) -> bytes:
    if not match.failures:
        return b""
    return _encode(
        [
            FailedMatch(
                failure.name, failure.position, encode_record(failure.record), failure.reason
            )
            for failure in match.failures
        ]
    )


# A worker process serves one batch after the other, of one pipeline or of several.
_workers: dict[tuple[str, CodeBundle, str], Worker] = {}


def reports_of(
    path: str, identity: str, bundle: CodeBundle, ranges: list[RouteRange]
) -> Iterator[RangeReport]:
    """Report on some ranges of the log; errors are reported, not raised.

    So the driver can raise them as they were, and Spark does not try three times more.
    """
    try:
        worker = _workers.get((path, bundle, identity))
        if worker is None:
            for other in _workers.values():
                other.close()
            _workers.clear()  # a store that was replaced is another one
            worker = _workers[path, bundle, identity] = Worker(path, bundle)
        yield from worker.reports(ranges)
    except (PolycastError, ImportError) as error:
        why = f"{type(error).__name__}: {error}"
        low, high = ranges[0].low, ranges[-1].high
        yield RangeReport(low, high, 0, 0, 0, b"", b"", why)


# -- planning and reading --------------------------------------------------------------------------

WAIT = 0.1  # seconds for which a request for something new may take
PAUSE = 0.001
LEAST = 2_000  # events that are worth a task of their own


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
            return list(map(InputPartition, cut(route_ranges(view, low, high), self._tasks)))

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
    shares: list[list[RouteRange]] = [[]]
    room = share
    for span in whole:
        while span.routes and span.high - span.low > room:
            at = span.low + room
            shares[-1].append(span._replace(high=at))
            span, room = span._replace(low=at), share
            shares.append([])
        shares[-1].append(span)
        if span.routes:
            room -= span.high - span.low
        if room == 0:
            shares.append([])
            room = share
    return [ranges for ranges in shares if ranges]


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


# -- storing ---------------------------------------------------------------------------------------

TIDY = 5.0  # seconds after which what nobody needs any more is dropped again
_decode_failures = msgspec.msgpack.Decoder(list[FailedMatch]).decode


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one batch."""

    number: int
    low: int
    high: int
    events: int
    decoded: int
    pairs: int
    letters: int
    ended: float  # by the monotonic clock


class Sink:
    """Called by Spark with each batch, in the process that runs the pipeline."""

    def __init__(
        self, store: Store, token: int, clock: Clock, done: Callable[[BatchResult], None]
    ) -> None:
        self._store, self._token, self._clock, self._done = store, token, clock, done
        self._tidied = clock.monotonic()
        self.failure: Exception | None = None  # as it was before Spark made a text of it

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Store a batch."""
        try:
            self.keep(number, reports_in(batch))
        except Exception as error:
            self.failure = error
            raise

    def keep(self, number: int, reports: list[RangeReport]) -> None:
        """Store some reports."""
        broken = next((report for report in reports if report.error is not None), None)
        if broken is not None:
            raise PipelineFailedError(f"position {broken.low} and after", why=broken.error or "")
        stretches = [Stretch(report.low, report.high, report.recipients) for report in reports]
        letters = [
            Letter(
                0,
                failure.name,
                failure.position,
                decode_record(failure.record),
                failure.reason,
                1,
                0.0,
            )
            for report in reports
            if report.failures
            for failure in _decode_failures(report.failures)
        ]
        now = self._clock.monotonic()
        tidy = now - self._tidied > TIDY

        def write(tx: Transaction) -> None:
            before = tx.routed().high
            if not tx.advance(stretches, token=self._token):
                raise PipelineTakenOverError()
            new = [
                letter
                for letter in letters
                if letter.position >= before and not _is_known(tx, letter)
            ]
            if new:
                time = self._clock.time()
                tx.bury([msgspec.structs.replace(letter, time=time) for letter in new])
            if tidy:
                tidy_routing(tx)

        self._store.write(write).result()
        self._tidied = now if tidy else self._tidied
        if reports:
            self._done(_summed(number, reports, len(letters), self._clock.monotonic()))


def _is_known(tx: Transaction, letter: Letter) -> bool:
    """Whether a bus has already recorded that an event cannot reach a context."""
    if context_of_letter(letter.subscription) is None:
        return False
    return tx.count_letters(subscription=letter.subscription, at=letter.position) > 0


def _summed(number: int, reports: list[RangeReport], letters: int, ended: float) -> BatchResult:
    events, decoded, pairs = (
        sum(getattr(report, what) for report in reports) for what in ("events", "decoded", "pairs")
    )
    low, high = reports[0].low, reports[-1].high
    return BatchResult(number, low, high, events, decoded, pairs, letters, ended)


def reports_in(batch: DataFrame) -> list[RangeReport]:
    """The reports in a batch, in the order of the log."""
    table: Any = batch.toArrow()
    columns = [table.column(name).to_pylist() for name in RangeReport._fields]
    return sorted(map(RangeReport._make, zip(*columns, strict=True)))
