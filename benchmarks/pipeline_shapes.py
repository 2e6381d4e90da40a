"""What Spark's workers do in a benchmark of the pipeline: all of the work, or less of it.

It is imported by the workers. It does not import the class of the events: so they are of a class
made from its description, as in any pipeline that is told of no modules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from polycast.events.codec import codec_for
from polycast.pipeline.code_distribution import CodeBundle
from polycast.pipeline.route_stream import (
    RangeReport,
    RouteRange,
    RouteReader,
    RouteSource,
    Worker,
    batch_of,
)
from polycast.routing import encode_recipients

READ = "read"
DECODE = "decode"
STUB = "stub"
MATCH = "match"
STUB_ARROW = "stub in mapInArrow"

STUB_COST = 1e-6  # seconds for each event
STUB_TAKERS = 12


class StubMatcher:
    """Costs a microsecond of the processor's time for each event, and finds a dozen takers."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(numbers)
        self._last = max(1, len(self._numbers) - STUB_TAKERS)

    def covering(self, cls: type, *, topic: str | None = None) -> list[int]:
        """Everybody may want everything."""
        del cls, topic
        return self._numbers

    def match_batch(self, events: list[Any], *, topic: str | None = None) -> list[list[int]]:
        """Another dozen for each event, when the time is up."""
        del topic
        end = time.thread_time() + STUB_COST * len(events)
        numbers, last = self._numbers, self._last
        found = [numbers[at : at + STUB_TAKERS] for at in (n % last for n in range(len(events)))]
        while time.thread_time() < end:
            pass
        return found


class ReadOnly(Worker):
    """Reads, and says that nobody takes anything."""

    def routed(self, low: int, high: int) -> RangeReport:
        entries = self.store.read(low, limit=high - low, until=high).entries
        count = self._looked_at(entries)
        return RangeReport(
            low, high, len(entries), count, 0, encode_recipients(low, (), ()), b"", None
        )

    def _looked_at(self, entries: list[Any]) -> int:
        return 0


class Decoding(ReadOnly):
    """Decodes, too."""

    def _looked_at(self, entries: list[Any]) -> int:
        decode, registry = codec_for("msgpack").decode, self.plan.routes.registry
        return len([decode(each.record, registry=registry) for each in entries])


class Stubbed(Worker):
    """Does all that a worker does, but with a stub in place of the matcher."""

    def follow(self, piece: RouteRange) -> None:
        """Have the routes of a piece in effect; they are the same in all of a benchmark's log."""
        if not len(self.plan.routes):
            super().follow(piece)
            for index in self.plan.routes.indexes.values():
                matcher: Any = StubMatcher(list(index.matcher))
                index.matcher = matcher


WORKERS: dict[str, Callable[..., Worker]] = {
    READ: ReadOnly,
    DECODE: Decoding,
    STUB: Stubbed,
    STUB_ARROW: Stubbed,
    MATCH: Worker,
}

_workers: dict[tuple[str, str], Worker] = {}


def worker_for(shape: str, path: str) -> Worker:
    """The worker of this process; one at a time, as plans are large."""
    if (shape, path) not in _workers:
        for other in _workers.values():
            other.close()
        _workers.clear()
        _workers[shape, path] = WORKERS[shape](path, CodeBundle())
    return _workers[shape, path]


class ShapeSource(RouteSource):
    """The data source of a pipeline whose workers do what a shape says."""

    shape = MATCH

    def streamReader(self, schema: Any) -> ShapeReader:  # noqa: N802 - Spark's name
        """What plans batches, and reads them."""
        return ShapeReader(self.options, self.shape)


class ReadSource(ShapeSource):
    shape = READ


class DecodeSource(ShapeSource):
    shape = DECODE


class StubSource(ShapeSource):
    shape = STUB


class StubArrowSource(ShapeSource):
    shape = STUB_ARROW


SOURCES: dict[str, type[ShapeSource]] = {
    each.shape: each
    for each in (ShapeSource, ReadSource, DecodeSource, StubSource, StubArrowSource)
}


class ShapeReader(RouteReader):
    """Plans as a pipeline does."""

    def __init__(self, options: Any, shape: str) -> None:
        super().__init__(options)
        self.path, self.shape = options["store"], shape

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Do what the shape is about; or only tell what is to be done."""
        if self.shape == STUB_ARROW:
            for piece in partition.value:  # five numbers, as a row has
                yield batch_of(RangeReport(*piece, b"", b"", None))
            return
        for row in worker_for(self.shape, self.path).reports(partition.value):
            yield batch_of(row)


def in_arrow(shape: str, path: str) -> Callable[[Iterable[pa.RecordBatch]], Any]:
    """For `mapInArrow`: the same work, on rows that say what is to be done."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(place).to_pylist() for place in range(len(RouteRange._fields))]
            pieces = [RouteRange(*each) for each in zip(*columns, strict=True)]
            for row in worker_for(shape, path).reports(pieces):
                yield batch_of(row)

    return work
