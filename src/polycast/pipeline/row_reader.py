"""Reads records of a log as rows of a table; the same in every process that reads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import HistoryGoneError, NoRowError, NotDecodableError
from polycast.errors.failures import failures_here
from polycast.pipeline.event_rows import EventRows, EventTexts, Misfit, arrays_of
from polycast.pipeline.read_request import ReadRequest, RecordSelection
from polycast.pipeline.table_schema import PAYLOAD, Field, fields_of, schema_of, shared_fields
from polycast.plain_text import log_of
from polycast.stores import Stored
from polycast.typesystem import wire_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from polycast.filters import Filter
    from polycast.stores.sqlite.readonly_store import ReadOnlyStore

_CHUNK = 10_000  # records read at once
_FEW = 200  # records converted one by one once one of them does not fit
_CONVERSION_ERRORS = (ValueError, TypeError, ArithmeticError, msgspec.MsgspecError)
_log = log_of("polycast.pipeline")


class RowReader:
    """Reads the rows of one request, in this process."""

    def __init__(self, request: ReadRequest) -> None:
        self.request = request
        self.selection = RecordSelection(request)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The attributes that are columns."""
        selection = self.selection
        fields = [fields_of(target, selection.registry) for target in selection.targets]
        return shared_fields(fields, all_of=self.request.every)

    @cached_property
    def schema(self) -> StructType:
        """The columns."""
        return schema_of(self.fields, str(self.request)) if self.request.types else PAYLOAD

    @cached_property
    def _rows(self) -> EventRows | EventTexts:
        registry = self.selection.registry
        return EventRows(self.fields, registry) if self.request.types else EventTexts(registry)

    @cached_property
    def _arrow(self) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self.schema, timezone="UTC")

    # -- records -----------------------------------------------------------------------------------

    def batches(self, store: ReadOnlyStore, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """Read a range of the log, in its order."""
        selection, misfits = self.selection, _Misfits(self.request)
        while low < high and selection.numbers != []:
            with store.snapshot():
                oldest = store.oldest()
                if low < oldest:
                    raise HistoryGoneError(low, oldest=oldest)
                chunk = store.read(low, limit=_CHUNK, until=high, types=selection.numbers)
            low = chunk.upto if chunk.entries else high
            local, foreign = self._by_context(chunk.entries)
            yield from self._converted(self._selected(local, misfits), misfits)
            if foreign:
                yield from self._translated(foreign, misfits)
        misfits.log()

    def _by_context(self, entries: list[Stored]) -> tuple[list[Stored], list[Stored]]:
        """Separate records in their form of this context from those to be translated.

        A record published in another context is read in its root form.
        """
        context, view = self.request.context, self.selection.view
        if all(stored.record.context == context for stored in entries):
            return entries, []
        local: list[Stored] = []
        foreign: list[Stored] = []
        for stored in entries:
            record = view.record(stored.record)
            if record is not None:
                if view.needs_translation(stored.record):
                    foreign.append(Stored(stored.position, record))
                elif record is stored.record or self.selection.covers_record(record):
                    local.append(Stored(stored.position, record))
        return local, foreign

    def _selected(self, entries: list[Stored], misfits: _Misfits) -> list[Stored]:
        selection, where = self.selection, self.selection.where
        if self.request.topic is not None:
            entries = [stored for stored in entries if selection.is_on_topic(stored.record.topic)]
        if where is None:
            return entries
        return [stored for stored in entries if self._matches(stored, where, misfits)]

    def _matches(self, stored: Stored, where: Filter[Any], misfits: _Misfits) -> bool:
        try:
            event = self._rows.decoded(stored.record)
        except NotDecodableError as error:
            misfits.add(stored, error)
            return False
        return where.matches(event)

    # -- translated events -------------------------------------------------------------------------

    def _translated(self, entries: list[Stored], misfits: _Misfits) -> Iterator[pa.RecordBatch]:
        """Convert records that have to be translated, in the order of the log."""
        kept: list[Stored] = []
        rows: list[Any] = []
        for stored in entries:
            if not self.selection.is_on_topic(stored.record.topic):
                continue
            named_row = self._translated_row(stored, misfits)
            if named_row is not None:
                name, row = named_row
                record = msgspec.structs.replace(stored.record, name=name)
                kept.append(Stored(stored.position, record))
                rows.append(row)
        if rows:
            yield self._batch(kept, rows)

    def _translated_row(self, stored: Stored, misfits: _Misfits) -> tuple[str, Any] | None:
        """Return the type of a translated event and its row, if it is selected."""
        selection, where = self.selection, self.selection.where
        try:
            event = selection.view.translator(stored.position)(self._rows.decoded(stored.record))
            if event is None or not selection.covers_class(type(event)):
                return None
            if where is not None and not where.matches(event):
                return None
            return wire_name(type(event)), self._rows.row_of(event)
        except Misfit as misfit:
            misfits.add(stored, misfit)
        except failures_here() as error:  # a function of the context may raise anything
            why = f"in context {self.request.context!r} it raised {type(error).__name__}: {error}"
            misfits.add(stored, why)
        return None

    # -- rows --------------------------------------------------------------------------------------

    def _converted(self, entries: Sequence[Stored], misfits: _Misfits) -> Iterator[pa.RecordBatch]:
        """Convert records: all at once, or if that fails in ever smaller parts."""
        if not entries:
            return
        batch = self._at_once(entries)
        if batch is None and len(entries) > _FEW:
            half = len(entries) // 2
            yield from self._converted(entries[:half], misfits)
            yield from self._converted(entries[half:], misfits)
            return
        if batch is None:
            batch = self._batch(*self._one_by_one(entries, misfits))
        if batch.num_rows:
            yield batch

    def _at_once(self, entries: Sequence[Stored]) -> pa.RecordBatch | None:
        try:
            return self._batch(entries, self._rows.read([stored.record for stored in entries]))
        except _CONVERSION_ERRORS:
            return None

    def _one_by_one(
        self, entries: Sequence[Stored], misfits: _Misfits
    ) -> tuple[list[Stored], list[Any]]:
        kept, rows = [], []
        for stored in entries:
            try:
                rows.append(self._rows.row(stored.record))
                kept.append(stored)
            except (NotDecodableError, Misfit) as error:
                misfits.add(stored, error)
        return kept, rows

    def _batch(self, entries: Sequence[Stored], rows: Sequence[Any]) -> pa.RecordBatch:
        import pyarrow as pa

        kinds = [field.type for field in self._arrow]
        columns = _event_columns(entries, kinds)
        if self.request.types:
            columns += arrays_of(self.fields, rows, kinds[len(columns) :])
        else:
            columns.append(pa.array(rows, kinds[-1]))
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)


def _event_columns(entries: Sequence[Stored], kinds: list[pa.DataType]) -> list[pa.Array]:
    import numpy as np
    import pyarrow as pa

    records = [stored.record for stored in entries]
    times = np.rint(np.array([record.time for record in records]) * 1_000_000).astype(np.int64)
    columns: list[Any] = [
        [stored.position for stored in entries],
        [record.name for record in records],
        times,
        [record.topic for record in records],
        [record.identity.publisher for record in records],
    ]
    return [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=False)]


class _Misfits:
    """The events that have no row: each raises an error, or is left out and counted."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._count = 0
        self._first: NoRowError | None = None

    def add(self, stored: Stored, why: Exception | str) -> None:
        about = (why.path, why.value) if isinstance(why, Misfit) else None
        error = NoRowError(stored.position, stored.record.name, why=str(why), about=about)
        if self._request.misfits == "raise":
            raise error
        self._count += 1
        self._first = self._first or error

    def log(self) -> None:
        if self._first is not None:
            _log.warning(
                "%d events of %s have no row and were left out. The first: %s",
                self._count,
                self._request,
                self._first,
            )


# A worker process serves one task after the other.
_readers: dict[tuple[str, str], RowReader] = {}
_MOST = 16


def reader_for(request: ReadRequest, store: ReadOnlyStore) -> RowReader:
    """Return this process's reader of a request, which knows the types that the store has now."""
    with store.view() as view:
        key = (request.encoded(), view.identity())  # a file may be replaced by another
    reader = _readers.get(key)
    if reader is None:
        if len(_readers) >= _MOST:
            _readers.clear()
        reader = _readers[key] = RowReader(request)
    reader.selection.refresh(store)
    return reader
