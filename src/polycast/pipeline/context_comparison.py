"""A context tried out on history, by Spark's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.errors import BadOptionError
from polycast.pipeline.code_distribution import bundle_of
from polycast.pipeline.distributed_search import search
from polycast.routing.context_view import Comparing, Comparison, DraftContext, draft_of
from polycast.routing.status import file_of
from polycast.stores.doctor.readonly_store import open_readonly
from polycast.stores.log_bounds import end_of, start_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from polycast.contexts import Context
    from polycast.pipeline.code_distribution import CodeBundle
    from polycast.pipeline.read_request import Bound

_decode = msgspec.json.Decoder(Comparison).decode


def compare(
    spark: SparkSession,
    url: str,
    old: Context | str | None,
    new: Context | str | None,
    *,
    since: Bound = None,
    until: Bound = None,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    samples: int = 10,
    impure: str | None = None,
) -> Comparison:
    """Which events of history a context would show otherwise than another, before it is used.

    A name is a context as the store has it at each position; None is the root.
    """
    path, bundle = file_of(url), bundle_of(imports, functions)
    names = bundle.names()
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
        raise BadOptionError("samples", samples, accepted="a whole number from 0 on")
    sides = (draft_of(old), draft_of(new))
    with open_readonly(path) as store:
        low, high = start_of(store, since) or store.oldest(), end_of(store, until)
        comparing = Comparing(store, sides, names.get, samples)
        for view in comparing.outlooks:
            view.check(store.newest(), impure, bundle.imports)
    task = _Task(path, sides, bundle, samples)
    total = comparing.nothing()
    for found in search(spark, task, low, high, imports=bundle.modules):
        total.extend(_decode(found), samples)
    return total


class _Task:
    """What a worker does with a part of the log."""

    def __init__(
        self,
        path: str,
        sides: tuple[tuple[str | None, DraftContext], ...],
        bundle: CodeBundle,
        samples: int,
    ) -> None:
        self._path, self._sides = path, sides
        self._bundle, self._samples = bundle, samples

    def __call__(self) -> Iterator[Callable[[int, int], str]]:
        names = self._bundle.names()
        with open_readonly(self._path) as store:
            comparing = Comparing(store, self._sides, names.get, self._samples)
            yield lambda low, high: msgspec.json.encode(comparing.part(low, high)).decode()
