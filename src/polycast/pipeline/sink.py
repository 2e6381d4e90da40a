"""Stores the workers' reports: all ranges of a batch in one transaction.

It is fenced by log position, so a batch that Spark repeats, with or without its checkpoint, adds
nothing. It is also fenced by a token, so a pipeline that was taken over adds nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import PipelineFailedError, PipelineTakenOverError
from polycast.events import decode_record
from polycast.pipeline.route_worker import FailedMatch, RangeReport
from polycast.routing.translation import context_of_letter
from polycast.stores import Letter, Stretch, tidy_routing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from polycast.config import Clock
    from polycast.stores import Store, Transaction

TIDY = 5.0  # seconds after which what nobody needs any more is dropped again
_failures = msgspec.msgpack.Decoder(list[FailedMatch]).decode


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
            for failure in _failures(report.failures)
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
    return BatchResult(
        number, reports[0].low, reports[-1].high, events, decoded, pairs, letters, ended
    )


def reports_in(batch: DataFrame) -> list[RangeReport]:
    """The reports in a batch, in the order of the log."""
    table: Any = batch.toArrow()
    columns = [table.column(name).to_pylist() for name in RangeReport._fields]
    return sorted(map(RangeReport._make, zip(*columns, strict=True)))
