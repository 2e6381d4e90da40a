"""History given to a subscription once more; it is searched by Spark's workers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.delivery.replay import Replayed, check_count, check_limit, replay_to, told
from polycast.pipeline.code_distribution import CodeBundle, bundle_of
from polycast.pipeline.distributed_search import search as look_through
from polycast.pipeline.spark_session import active_session, session
from polycast.routing.search import Findings, History, Search, search_for
from polycast.routing.status import file_of
from polycast.stores import open_store
from polycast.stores.doctor.readonly_store import open_readonly
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from polycast.pipeline.read_request import Bound

_decode = msgspec.json.Decoder(Findings).decode


def deliver(
    spark: SparkSession,
    url: str,
    what: Any = None,
    *,
    to: str,
    where: Callable[[Any], object] | None = None,
    since: Bound = None,
    until: Bound = None,
    topic: str | None = None,
    exact: bool = False,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    limit: int | None = None,
    dry_run: bool = False,
) -> Replayed:
    """Give a durable subscription once more what it has handled in a stretch of the log.

    Without `what` and `where` that is all it wants, else what it wants of that. With `dry_run`
    nothing is changed.
    """
    path, bundle = file_of(url), bundle_of(imports, functions)
    names = bundle.names()
    with open_readonly(path) as store:
        with store.view() as view:
            about = {"where": where, "topic": topic, "exact": exact}
            search = search_for(view, what, **about, to=to, most=check_limit(limit))  # type: ignore[arg-type]
        low, high = start_of(store, since) or store.oldest(), end_of(store, until)
        is_sure = History(search, store, names).is_sure
    found = find(spark, path, search, low, high, bundle=bundle)
    check_count(found, to=to, limit=limit)
    count = len(found.listed)
    if not dry_run:
        writable = open_store(path, create=False)
        try:
            count = replay_to(writable, to, found.listed)
        finally:
            writable.close()
    return told(found, to=to, count=count, is_sure=is_sure)


def find(
    spark: SparkSession,
    path: str,
    search: Search,
    low: int,
    high: int,
    *,
    bundle: CodeBundle | None = None,
) -> Findings:
    """What a search finds between two positions; the workers look at parts of it at once."""
    found = Findings()
    bundle = bundle or CodeBundle()
    task = _Task(path, search.encoded(), bundle)
    for part in look_through(spark, task, low, high, imports=bundle.modules):
        found.extend(_decode(part), search.most)
    return found


class _Task:
    """What a worker does with a part of the log."""

    def __init__(self, path: str, search: str, bundle: CodeBundle) -> None:
        self._path, self._search, self._bundle = path, search, bundle

    def __call__(self) -> Iterator[Callable[[int, int], str]]:
        names = self._bundle.names()
        with open_readonly(self._path) as store:
            history = History(Search.decoded(self._search), store, names)
            yield lambda low, high: msgspec.json.encode(history.findings(low, high)).decode()


@contextmanager
def some_session(master: str = "local[*]") -> Iterator[SparkSession]:
    """The session of this process, or one that lasts as long as it is needed."""
    active = active_session()
    spark = active if active is not None else session(master)
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()
