"""The data source `polycast`: the events of a store as rows, at once or as a stream.

Spark makes its objects in processes of its own, so nothing but the options comes from the program
of the user. Filters are options, too: `pushFilters` of PySpark 4.3 lets those of one query leak
into others of the same DataFrame.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from polycast.errors import BadOptionError, HistoryGoneError
from polycast.pipeline.read_request import MAX_ROWS, Question, ask
from polycast.pipeline.row_reader import reading_of
from polycast.stores.doctor.readonly_store import open_readonly
from polycast.stores.sqlite.type_counts import count_records, skip_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from polycast.pipeline.read_request import Bound
    from polycast.stores.doctor.readonly_store import ReadOnlyStore

__all__ = ["QUESTION", "PolycastSource"]

QUESTION = "question"  # the option by which `table` and `stream` ask, instead of the others
OPTIONS = (
    *("store", "type", "where", "since", "until", "topic", "exact", "imports"),
    *("maxRows", "partitions", "misfits", "context", "impure"),
)
_LEAST = 2_000  # records that are worth a task of their own


class PolycastSource(DataSource):
    """`spark.read.format("polycast")`, `spark.readStream.format("polycast")`."""

    @classmethod
    def name(cls) -> str:
        """By which Spark knows it."""
        return "polycast"

    def schema(self) -> StructType:
        """The columns: see docs/tables.md."""
        return _schema_of(self._question())

    def reader(self, schema: StructType) -> BatchReader:
        """What reads once."""
        return BatchReader(self._checked(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """What reads on and on."""
        return StreamReader(self._checked(schema))

    def _question(self) -> Question:
        text = self.options.get(QUESTION)
        return question_of(self.options) if text is None else Question.decoded(text)

    def _checked(self, schema: StructType) -> Question:
        question = self._question()
        if schema != _schema_of(question):
            accepted = "none: the type of the events says which columns there are"
            raise BadOptionError("schema", schema.simpleString(), accepted=accepted)
        return question


def _schema_of(question: Question) -> StructType:
    with open_readonly(question.store) as store:
        reading = reading_of(question, store)
        reading.look(store)
        return reading.schema


# -- options ---------------------------------------------------------------------------------------


def question_of(options: Mapping[str, str]) -> Question:
    """The question that a user's options ask."""
    given = {key.lower(): value for key, value in options.items()}
    for key in given.keys() - {name.lower() for name in OPTIONS}:
        raise BadOptionError.unknown(key, given[key], OPTIONS)
    if "store" not in given:
        raise BadOptionError("store", None, accepted="'sqlite:///' and the path of a file")
    where = given.get("where")
    question = ask(
        given["store"],
        given.get("type"),
        since=_bound("since", given.get("since")),
        until=_bound("until", given.get("until")),
        topic=given.get("topic"),
        exact=_flag("exact", given.get("exact", "false")),
        imports=[name.strip() for name in given.get("imports", "").split(",") if name.strip()],
        misfits=given.get("misfits", "raise"),
        max_rows=_number("maxRows", given.get("maxrows")) or MAX_ROWS,
        partitions=_number("partitions", given.get("partitions")),
        context=given.get("context"),
        impure=given.get("impure"),
    )
    return replace(question, where=where) if where is not None else question


def _bound(option: str, text: str | None) -> Bound:
    if text is None or text == "beginning":
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        accepted = "a position, or a time with a zone, as in 2030-12-31T08:00+01:00"
        raise BadOptionError(option, text, accepted=accepted) from None


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadOptionError.choice(option, text, ("true", "false"))
    return text.lower() == "true"


def _number(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise BadOptionError(option, text, accepted="a whole number from 1 on")
    return int(text)


# -- reading ---------------------------------------------------------------------------------------


class Span(InputPartition):
    """The work of one task: a stretch of the log."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__((low, high))


class BatchReader(DataSourceReader):
    """Reads what is there when the query is planned."""

    def __init__(self, question: Question) -> None:
        self._question = question.encoded()

    def partitions(self) -> Sequence[InputPartition]:
        """Stretches of the log."""
        question = Question.decoded(self._question)
        with open_readonly(question.store) as store:
            return spans(question, store, question.start(store), question.end(store))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch."""
        return rows_of(self._question, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes, some rows at a time."""

    def __init__(self, question: Question) -> None:
        self._question = question.encoded()
        self._end: int | None = None  # where to stop, if what is there is all that is wanted

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a query begins that has no checkpoint."""
        question = Question.decoded(self._question)
        with open_readonly(question.store) as store:
            return {"position": question.start(store)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How many rows a micro-batch has at most."""
        return ReadMaxRows(Question.decoded(self._question).max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that is wanted."""
        question = Question.decoded(self._question)
        with open_readonly(question.store) as store:
            self._end = question.end(store)

    def latestOffset(self, start: Any, limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next micro-batch ends."""
        low = _position(start) or self.initialOffset()["position"]
        question = Question.decoded(self._question)
        with open_readonly(question.store) as store:
            high = question.end(store) if self._end is None else self._end
            if high <= low or isinstance(limit, ReadAllAvailable):
                return {"position": max(low, high)}
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else question.max_rows
            reading = reading_of(question, store)
            reading.look(store)
            with store.snapshot() as connection:
                return {"position": skip_records(connection, reading.numbers, low, high, most)}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """The stretches of a micro-batch."""
        question = Question.decoded(self._question)
        with open_readonly(question.store) as store:
            low, high = _position(start) or question.start(store), _position(end) or 0
            oldest = store.oldest()
            if low < min(oldest, high):
                raise HistoryGoneError(low, oldest=oldest)
            return spans(question, store, low, high)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a stretch."""
        return rows_of(self._question, partition)


def _position(offset: Any) -> int | None:
    """Spark gives "null" for an offset that it does not have."""
    return int(offset["position"]) if isinstance(offset, dict) else None


def spans(question: Question, store: ReadOnlyStore, low: int, high: int) -> list[InputPartition]:
    """A stretch of the log for some tasks: each has about as many wanted records as the others."""
    reading = reading_of(question, store)
    reading.look(store)
    with store.snapshot() as connection:
        total = count_records(connection, reading.numbers, low, high)
        share = max(-(-total // question.partitions), _LEAST)
        found: list[InputPartition] = []
        while low < high and total > 0:
            cut = skip_records(connection, reading.numbers, low, high, share)
            found.append(Span(low, cut))
            low = cut
    return found


def rows_of(text: str, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a stretch of the log, in a worker."""
    if partition.value is None:  # Spark plans a task even if there is nothing to do
        return
    question = Question.decoded(text)
    with open_readonly(question.store) as store:
        yield from reading_of(question, store).batches(store, *partition.value)
