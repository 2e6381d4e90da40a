"""How records of a log become the rows of a table; the same in every process that is asked."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import BadOptionError, HistoryGoneError, NoRowError, NotDecodableError
from polycast.errors.failures import FAILURES
from polycast.filters import Filter
from polycast.matching import TopicPattern
from polycast.pipeline.arrays import arrays_of
from polycast.pipeline.event_rows import NoColumn, Rows, Texts
from polycast.pipeline.table_schema import PAYLOAD, common, fields_of, schema_of
from polycast.plain_text import log_of
from polycast.routing.context_view import ContextView
from polycast.routing.evaluable import runnable_by
from polycast.routing.stored_plan import DescribedSelector, class_named
from polycast.stores import EventType, Stored
from polycast.typesystem import Registry, wire_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from polycast.events import Record
    from polycast.pipeline.read_request import Question
    from polycast.pipeline.table_schema import Field
    from polycast.stores.doctor.readonly_store import ReadOnlyStore
    from polycast.typesystem import Description, TypeExpression

__all__ = ["Reading", "reading_of"]

_CHUNK = 10_000  # records that are read at once
_FEW = 200  # records that are looked at one by one if something is wrong with one of them
_TROUBLE = (ValueError, TypeError, ArithmeticError, msgspec.MsgspecError)
_log = log_of("polycast.pipeline")


class Reading:
    """Answers one question. It learns from the store what it does not know yet."""

    def __init__(self, question: Question) -> None:
        self.question, self._names = question, question.shipment.names()
        # What else this process has imported must not matter.
        self.registry = Registry(classes=self._names.classes)
        for each in question.descriptions:
            self.registry.add(each)
        get = self._names.get
        self._outlook = ContextView(self.registry, get, question.context, question.draft_of)
        self.numbers: list[int] | None = []
        """The types whose records are wanted; None if all are."""
        self._revision = -1
        self._verdicts: dict[EventType, bool] = {}
        self._topics: dict[str | None, bool] = {}
        self._checked: set[EventType] = set()

    # -- which records -----------------------------------------------------------------------------

    def look(self, store: ReadOnlyStore) -> None:
        """See which types there are now."""
        with store.view() as view:
            if view.revision() != self._revision:
                for each in view.descriptions():
                    self.registry.add(each)
                self._revision = view.revision()
                self._outlook.look(view)
                about = (self.question.impure, self.question.imports)
                self._outlook.check(view.newest(), *about)
        kinds = store.types()
        self.numbers = None
        if self.question.types:
            kinds = {number: kind for number, kind in kinds.items() if self.covers(kind)}
            self.numbers = list(kinds)
        is_free = self.question.function is None and self.question.context is None
        if self.where is not None and is_free:
            self._check_filter(self.where, set(kinds.values()))

    def covers(self, kind: EventType) -> bool:
        """Whether events of a type are wanted."""
        found = self._verdicts.get(kind)
        if found is None:
            found = self._verdicts[kind] = self._decided(kind)
        return found

    def _decided(self, kind: EventType) -> bool:
        cls = self.registry.class_for(kind.name, kind.version, kind.hash)
        if self._selector.covers_class(cls):
            return True
        if self.question.context is None:
            return False
        return any(map(self._selector.covers_class, self._outlook.classes_here(cls)))

    @cached_property
    def _selector(self) -> DescribedSelector:
        types = tuple(
            self.registry.class_for(each.name, each.version, each.hash)
            for each in self.question.types
        )
        question = self.question
        return DescribedSelector(types, question.every, question.exact, registry=self.registry)

    @cached_property
    def targets(self) -> list[Description]:
        """The types that are asked for."""
        found = [self.registry.described(each.hash) for each in self.question.types]
        return [each for each in found if each is not None]

    # -- which events ------------------------------------------------------------------------------

    @cached_property
    def where(self) -> Filter[Any] | None:
        """The filter."""
        question = self.question
        if question.function is not None:
            function = self._names.get(question.function)
            if function is None:
                why = self._names.why_not(question.function)
                accepted = "a function that is registered"
                raise BadOptionError("where", question.function, why=why, accepted=accepted)
            return Filter(function)
        if question.where is None:
            return None
        data = {"format": 1, "filter": question.where}
        return Filter.from_json(data, class_named=partial(class_named, self.registry))

    def _check_filter(self, where: Filter[Any], kinds: set[EventType]) -> None:
        """Refuse a filter that needs more of a class than its fields, where the class is not."""
        if kinds <= self._checked:
            return
        here = [self.registry.described(kind.hash) for kind in kinds]
        seen = self._reached([*self.targets, *(each for each in here if each is not None)])
        if not runnable_by(seen)(where.tree):
            raise BadOptionError(
                "where",
                str(where),
                why="it asks for methods, properties or comparisons that only the classes have",
                accepted="a filter of attributes, or imports= with the modules of the classes",
            )
        self._checked = kinds

    def _reached(self, waiting: list[Description]) -> Registry:
        """Some types, and all that they mention."""
        seen = Registry(classes=self._names.classes)
        while waiting:
            each = waiting.pop()
            if seen.described(each.hash) is None:
                seen.add(each)
                names = {name for part in each.attributes for name in _names(part.type)}
                found = map(self.registry.describe, names.union(each.supertypes))
                waiting += [other for other in found if other is not None]
        return seen

    def _wanted(self, entries: list[Stored], missed: _Missed) -> list[Stored]:
        if self.question.topic is not None:
            entries = [each for each in entries if self._is_on_topic(each.record.topic)]
        if self.where is None:
            return entries
        return [each for each in entries if self._passes(each, self.where, missed)]

    def _is_on_topic(self, topic: str | None) -> bool:
        if self.question.topic is None:
            return True
        if topic not in self._topics:
            pattern = TopicPattern(self.question.topic or "**")
            self._topics[topic] = topic is not None and pattern.matches(topic)
        return self._topics[topic]

    def _passes(self, stored: Stored, where: Filter[Any], missed: _Missed) -> bool:
        try:
            event = self._rows.decoded(stored.record)
        except NotDecodableError as error:
            missed.add(NoRowError(stored.position, stored.record.name, why=str(error)))
            return False
        return where.matches(event)

    # -- rows --------------------------------------------------------------------------------------

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The attributes that are columns."""
        every = [fields_of(each, self.registry) for each in self.targets]
        return common(every, all_of=self.question.every)

    @cached_property
    def schema(self) -> StructType:
        """The columns."""
        return schema_of(self.fields, str(self.question)) if self.question.types else PAYLOAD

    @cached_property
    def _rows(self) -> Rows | Texts:
        return Rows(self.fields, self.registry) if self.question.types else Texts(self.registry)

    @cached_property
    def _arrow(self) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self.schema, timezone="UTC")

    def batches(self, store: ReadOnlyStore, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch of the log, in its order."""
        self.look(store)
        missed = _Missed(self.question)
        while low < high and self.numbers != []:
            with store.snapshot():
                oldest = store.oldest()
                if low < oldest:
                    raise HistoryGoneError(low, oldest=oldest)
                found = store.read(low, limit=_CHUNK, until=high, types=self.numbers)
            low = found.upto if found.entries else high
            ready, foreign = self._parted(found.entries)
            yield from self._made(self._wanted(ready, missed), missed)
            if foreign:
                yield from self._translated(foreign, missed)
        missed.tell()

    def _parted(self, entries: list[Stored]) -> tuple[list[Stored], list[Stored]]:
        """Records that are what they are in this context, and those to be translated.

        One that was published in another context is looked at as it is in the root.
        """
        here = self.question.context
        if all(each.record.context == here for each in entries):
            return entries, []
        ready: list[Stored] = []
        foreign: list[Stored] = []
        for each in entries:
            record = self._outlook.record(each.record)
            if record is not None:
                mine = Stored(each.position, record)
                if self._outlook.needs_translation(each.record):
                    foreign.append(mine)
                elif record is each.record or self._is_covered(record):
                    ready.append(mine)
        return ready, foreign

    def _is_covered(self, record: Record) -> bool:
        """Whether a root form is wanted; its event may have been read for its own class."""
        kind = EventType(record.name, record.version, record.hash)
        return not self.question.types or self.covers(kind)

    def _translated(self, entries: list[Stored], missed: _Missed) -> Iterator[pa.RecordBatch]:
        """The rows of records that have to be translated; in the order of the log."""
        kept: list[Stored] = []
        rows: list[Any] = []
        for each in entries:
            row = self._seen(each, missed) if self._is_on_topic(each.record.topic) else None
            if row is not None:
                name, cells = row
                record = msgspec.structs.replace(each.record, name=name)
                kept.append(Stored(each.position, record))
                rows.append(cells)
        if rows:
            yield self._batch(kept, rows)

    def _seen(self, stored: Stored, missed: _Missed) -> tuple[str, Any] | None:
        """The name of the type of an event here, and its row, if it is wanted."""
        record = stored.record
        try:
            event = self._outlook.translator(stored.position)(self._rows.decoded(record))
            if event is None or not self._covers_class(type(event)):
                return None
            if self.where is not None and not self.where.matches(event):
                return None
            return wire_name(type(event)), self._rows.row_of(event)
        except NoColumn as error:
            why, about = str(error), (error.path, error.value)
            missed.add(NoRowError(stored.position, record.name, why=why, about=about))
        except FAILURES as error:  # a function of the context may raise anything
            why = f"in context {self.question.context!r} it raised {type(error).__name__}: {error}"
            missed.add(NoRowError(stored.position, record.name, why=why))
        return None

    def _covers_class(self, cls: type) -> bool:
        return not self.question.types or self._selector.covers_class(cls)

    def _made(self, entries: Sequence[Stored], missed: _Missed) -> Iterator[pa.RecordBatch]:
        """The rows of some records: all at once, or if that fails in ever smaller parts."""
        if not entries:
            return
        made = self._quickly(entries)
        if made is None and len(entries) > _FEW:
            half = len(entries) // 2
            yield from self._made(entries[:half], missed)
            yield from self._made(entries[half:], missed)
            return
        if made is None:
            made = self._batch(*self._one_by_one(entries, missed))
        if made.num_rows:
            yield made

    def _quickly(self, entries: Sequence[Stored]) -> pa.RecordBatch | None:
        try:
            return self._batch(entries, self._rows.read([each.record for each in entries]))
        except _TROUBLE:
            return None

    def _one_by_one(
        self, entries: Sequence[Stored], missed: _Missed
    ) -> tuple[list[Stored], list[Any]]:
        kept, rows = [], []
        for each in entries:
            try:
                rows.append(self._rows.row(each.record))
                kept.append(each)
            except NotDecodableError as error:
                missed.add(NoRowError(each.position, each.record.name, why=str(error)))
            except NoColumn as error:
                why, about = str(error), (error.path, error.value)
                missed.add(NoRowError(each.position, each.record.name, why=why, about=about))
        return kept, rows

    def _batch(self, entries: Sequence[Stored], rows: Sequence[Any]) -> pa.RecordBatch:
        import pyarrow as pa

        kinds = [field.type for field in self._arrow]
        about = _about(entries, kinds)
        if self.question.types:
            return pa.RecordBatch.from_arrays(
                [*about, *arrays_of(self.fields, rows, kinds[len(about) :])], schema=self._arrow
            )
        return pa.RecordBatch.from_arrays([*about, pa.array(rows, kinds[-1])], schema=self._arrow)


def _about(entries: Sequence[Stored], kinds: list[pa.DataType]) -> list[pa.Array]:
    import numpy as np
    import pyarrow as pa

    records = [each.record for each in entries]
    times = np.rint(np.array([each.time for each in records]) * 1_000_000).astype(np.int64)
    columns: list[Any] = [
        [each.position for each in entries],
        [each.name for each in records],
        times,
        [each.topic for each in records],
        [each.identity.publisher for each in records],
    ]
    return [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=False)]


def _names(expression: TypeExpression) -> Iterator[str]:
    yield expression.name
    for each in expression.arguments:
        yield from _names(each)


class _Missed:
    """The events that have no row: an error, or left out and counted."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._count = 0
        self._first: NoRowError | None = None

    def add(self, error: NoRowError) -> None:
        if self._question.misfits == "raise":
            raise error
        self._count += 1
        self._first = self._first or error

    def tell(self) -> None:
        if self._first is not None:
            _log.warning(
                "%d events of %s have no row and were left out. The first: %s",
                self._count,
                self._question,
                self._first,
            )


# A worker process serves one task after the other.
_readings: dict[tuple[str, str], Reading] = {}
_MOST = 16


def reading_of(question: Question, store: ReadOnlyStore) -> Reading:
    """What answers a question in this process, with what it has learnt before."""
    with store.view() as view:
        key = (question.encoded(), view.identity())  # a file may be replaced by another
    found = _readings.get(key)
    if found is None:
        if len(_readings) >= _MOST:
            _readings.clear()
        found = _readings[key] = Reading(question)
    return found
