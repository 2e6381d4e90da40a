"""Keeps what the workers found out: all stretches of a batch in one transaction of the store.

It is fenced by log position, so a batch that Spark runs again, with or without its checkpoint, adds
nothing; and by a token, so that a pipeline that was taken over adds nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import PipelineFailedError, PipelineTakenOverError
from polycast.events import decode_record
from polycast.pipeline.route_worker import Row, Trouble
from polycast.routing.translation import context_of_letter
from polycast.stores import Letter, Stretch, tidy_routing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from polycast.config import Clock
    from polycast.stores import Store, Transaction

__all__ = ["Batch", "Sink", "rows_in"]

TIDY = 5.0  # seconds after which what nobody needs any more is dropped again
_troubles = msgspec.msgpack.Decoder(list[Trouble]).decode


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of one batch."""

    number: int
    low: int
    high: int
    events: int
    decoded: int
    pairs: int
    letters: int
    ended: float  # by the monotonic clock


class Sink:
    """What Spark calls with each batch, in the process that runs the pipeline."""

    def __init__(
        self, store: Store, token: int, clock: Clock, done: Callable[[Batch], None]
    ) -> None:
        self._store, self._token, self._clock, self._done = store, token, clock, done
        self._tidied = clock.monotonic()
        self.failure: Exception | None = None  # as it was before Spark made a text of it

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Keep a batch."""
        try:
            self.keep(number, rows_in(batch))
        except Exception as error:
            self.failure = error
            raise

    def keep(self, number: int, rows: list[Row]) -> None:
        """Keep what some rows say."""
        broken = next((row for row in rows if row.error is not None), None)
        if broken is not None:
            raise PipelineFailedError(f"position {broken.low} and after", why=broken.error or "")
        stretches = [Stretch(row.low, row.high, row.takers) for row in rows]
        letters = [
            Letter(0, each.name, each.position, decode_record(each.record), each.reason, 1, 0.0)
            for row in rows
            if row.troubles
            for each in _troubles(row.troubles)
        ]
        now = self._clock.monotonic()
        tidy = now - self._tidied > TIDY

        def write(tx: Transaction) -> None:
            before = tx.routed().high
            if not tx.advance(stretches, token=self._token):
                raise PipelineTakenOverError()
            new = [each for each in letters if each.position >= before and not _is_known(tx, each)]
            if new:
                time = self._clock.time()
                tx.bury([msgspec.structs.replace(each, time=time) for each in new])
            if tidy:
                tidy_routing(tx)

        self._store.write(write).result()
        self._tidied = now if tidy else self._tidied
        if rows:
            self._done(_summed(number, rows, len(letters), self._clock.monotonic()))


def _is_known(tx: Transaction, letter: Letter) -> bool:
    """Whether a bus has found out before that an event does not get to a context."""
    if context_of_letter(letter.subscription) is None:
        return False
    return tx.count_letters(subscription=letter.subscription, at=letter.position) > 0


def _summed(number: int, rows: list[Row], letters: int, ended: float) -> Batch:
    events, decoded, pairs = (
        sum(getattr(row, what) for row in rows) for what in ("events", "decoded", "pairs")
    )
    return Batch(number, rows[0].low, rows[-1].high, events, decoded, pairs, letters, ended)


def rows_in(batch: DataFrame) -> list[Row]:
    """What the workers have told, in the order of the log."""
    table: Any = batch.toArrow()
    columns = [table.column(name).to_pylist() for name in Row._fields]
    return sorted(map(Row._make, zip(*columns, strict=True)))
