"""Events as DataFrames: what is there, what comes, what a subscription would have been given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors import BadOptionError
from polycast.matching import selector_for
from polycast.pipeline.code_distribution import ship
from polycast.pipeline.data_source import QUESTION, PolycastSource
from polycast.pipeline.read_request import MAX_ROWS, ask
from polycast.pipeline.row_reader import Reading
from polycast.stores.doctor.readonly_store import open_readonly
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from polycast.contexts import Context
    from polycast.pipeline.read_request import Bound, Question
    from polycast.stores import EventType

__all__ = ["replay", "stream", "table"]


class _Options(NamedTuple):
    """What all of them may be asked with."""

    where: Callable[[Any], object] | None
    since: Bound
    until: Bound
    topic: str | None
    exact: bool
    imports: Iterable[str]
    functions: Mapping[str, Callable[..., Any]] | None
    misfits: str
    context: Context | str | None
    impure: str | None


def table(
    spark: SparkSession,
    url: str,
    what: Any,
    *,
    where: Callable[[Any], object] | None = None,
    since: Bound = None,
    until: Bound = None,
    topic: str | None = None,
    exact: bool = False,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    misfits: str = "raise",
    context: Context | str | None = None,
    impure: str | None = None,
) -> DataFrame:
    """The events of a type, and of all that conforms to it, with its attributes as columns.

    `what` is what `subscribe` takes, or the wire name of a type. It has what is there when a query
    over it is planned. With a `context`, events are what that sees: as it was at each position, by
    its name, or a `pc.Context` that is tried out.
    """
    names = (imports, functions)
    options = _Options(where, since, until, topic, exact, *names, misfits, context, impure)
    return _table(spark, url, what, options)


def stream(
    spark: SparkSession,
    url: str,
    what: Any,
    *,
    where: Callable[[Any], object] | None = None,
    since: Bound = None,
    until: Bound = None,
    topic: str | None = None,
    exact: bool = False,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    misfits: str = "raise",
    context: Context | str | None = None,
    impure: str | None = None,
    max_rows: int = MAX_ROWS,
) -> DataFrame:
    """The same table as it grows: a streaming DataFrame.

    It begins with the oldest event kept, or with `since`; a query that has a checkpoint goes on
    from there. A micro-batch has at most `max_rows` events.
    """
    names = (imports, functions)
    options = _Options(where, since, until, topic, exact, *names, misfits, context, impure)
    question = _asked(spark, url, what, options, max_rows=max_rows)
    reader = spark.readStream.format(PolycastSource.name())
    return reader.option(QUESTION, question.encoded()).load()


def replay(
    spark: SparkSession,
    url: str,
    what: Any,
    *,
    where: Callable[[Any], object] | None = None,
    since: Bound = None,
    until: Bound = None,
    topic: str | None = None,
    exact: bool = False,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    misfits: str = "raise",
    context: Context | str | None = None,
    impure: str | None = None,
) -> DataFrame:
    """What `subscribe(what, where=, topic=, exact=)` would have been given, in log order."""
    names = (imports, functions)
    options = _Options(where, since, until, topic, exact, *names, misfits, context, impure)
    return _table(spark, url, what, options).orderBy("_position")


def _table(spark: SparkSession, url: str, what: Any, options: _Options) -> DataFrame:
    question = _asked(spark, url, what, options)
    return spark.read.format(PolycastSource.name()).option(QUESTION, question.encoded()).load()


def _asked(
    spark: SparkSession, url: str, what: Any, options: _Options, *, max_rows: int = MAX_ROWS
) -> Question:
    """The question; what is wrong with it is told here, and not by a worker."""
    if what is None:
        raise BadOptionError("what", what, accepted="a type, or the wire name of a type")
    tasks = spark.sparkContext.defaultParallelism
    question = ask(url, what, **options._asdict(), max_rows=max_rows, partitions=tasks)
    reading = Reading(question)
    with open_readonly(question.store) as store:
        reading.look(store)
        is_plain = question.context is None and not question.shipment.modules
        if is_plain and not isinstance(what, str):
            _check_verdicts(reading, what, list(store.types().values()))
    reading.schema  # noqa: B018 - it may be refused
    ship(spark, question.shipment.modules)
    spark.dataSource.register(PolycastSource)
    return question


def _check_verdicts(reading: Reading, what: Any, kinds: list[EventType]) -> None:
    """Refuse what the workers would decide otherwise, because classes say more than they declare.

    `ABC.register` and `__subclasshook__` are not in a description.
    """
    selector = selector_for(what, exact=reading.question.exact)
    registry = Registry()
    for each in reading.registry.descriptions():
        registry.add(each)
    for kind in kinds:
        cls = registry.class_for(kind.name, kind.version, kind.hash)
        if selector.covers_class(cls) != reading.covers(kind):
            raise BadOptionError(
                "imports",
                [],
                why=f"whether {kind.name} is a {selector} only the classes can say",
                accepted="the modules that define them",
            )
