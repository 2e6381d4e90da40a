"""The work of a worker: it matches a range of the log against the plan, and reports recipients."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from polycast.errors import PolycastError
from polycast.events import encode_record
from polycast.routing import Plan, encode_recipients
from polycast.stores import Effect
from polycast.stores.sqlite.readonly_store import open_readonly
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.pipeline.code_distribution import CodeBundle
    from polycast.routing import MatchResult
    from polycast.stores.sqlite.readonly_store import ReadOnlyStore

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
        self._store: ReadOnlyStore = self._open.enter_context(open_readonly(path))
        self._plan = Plan(Registry(classes=names.classes), names.get)
        self._set = Effect(0, 0, 0)

    @property
    def store(self) -> ReadOnlyStore:
        """The store that it reads."""
        return self._store

    @property
    def plan(self) -> Plan:
        """The plan that it matches against."""
        return self._plan

    def close(self) -> None:
        """Release the file."""
        self._open.close()

    def reports(self, ranges: list[RouteRange]) -> Iterator[RangeReport]:
        """Report on some ranges of the log, a slice at a time."""
        for span in ranges:
            if span.routes == 0:
                yield RangeReport(
                    span.low, span.high, 0, 0, 0, encode_recipients(span.low, (), ()), b"", None
                )
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
            with self._store.view() as view:
                self._plan.routes.move_to(view.routes(at=span.low), view)
            if not self._set.routes:
                gc.collect()
                gc.freeze()  # the plan stays: nobody need look at it for garbage again
            self._set = wanted

    def routed(self, low: int, high: int) -> RangeReport:
        """Match the records between two positions against the routes in effect."""
        batch = self._store.read(low, limit=high - low, until=high)
        entries, high = batch.entries, batch.upto  # less, if there is damage behind it
        with self._store.view() as view:  # what attributes hold may be described later than events
            self._plan.routes.learn(view)
        found = self._plan.match(entries)
        pairs = sum(map(len, found.takers))
        unsure = self._plan.routes.unsure | found.unsure
        recipients = encode_recipients(low, found.positions, found.takers, unsure)
        return RangeReport(
            low, high, len(entries), found.decoded, pairs, recipients, _failures(found), None
        )


def _failures(found: MatchResult) -> bytes:
    if not found.failures:
        return b""
    return _encode(
        [
            FailedMatch(
                failure.name, failure.position, encode_record(failure.record), failure.reason
            )
            for failure in found.failures
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
