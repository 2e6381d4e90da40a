"""A context tried out on history, by Spark's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from polycast.errors import BadOption
from polycast.pipeline.searching import search
from polycast.pipeline.shipping import Functions, check_imports, import_all
from polycast.routing.borders.comparing import Comparing, Comparison
from polycast.routing.borders.outlook import Tried, tried
from polycast.routing.status import file_of
from polycast.stores.bounds import end_of, start_of
from polycast.stores.doctor.looking import looking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from polycast.contexts import Context
    from polycast.pipeline.questions import Bound

__all__ = ["Comparison", "compare"]

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
    samples: int = 10,
    impure: str | None = None,
) -> Comparison:
    """Which events of history a context would show otherwise than another, before it is used.

    A name is a context as the store has it at each position; None is the root.
    """
    path, modules = file_of(url), check_imports(imports)
    import_all(modules)
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
        raise BadOption("samples", samples, accepted="a whole number from 0 on")
    sides = (tried(old), tried(new))
    with looking(path) as store:
        low, high = start_of(store, since) or store.oldest(), end_of(store, until)
        comparing = Comparing(store, sides, Functions(modules).get, samples)
        for each in comparing.outlooks:
            each.check(store.newest(), impure, modules)
    task = _Task(path, sides, modules, samples)
    total = comparing.nothing()
    for found in search(spark, task, low, high, imports=modules):
        total.extend(_decode(found), samples)
    return total


class _Task:
    """What a worker does with a part of the log."""

    def __init__(
        self,
        path: str,
        sides: tuple[tuple[str | None, Tried], ...],
        imports: tuple[str, ...],
        samples: int,
    ) -> None:
        self._path, self._sides = path, sides
        self._imports, self._samples = imports, samples

    def __call__(self) -> Iterator[Callable[[int, int], str]]:
        import_all(self._imports)
        with looking(self._path) as store:
            function = Functions(self._imports).get
            comparing = Comparing(store, self._sides, function, self._samples)
            yield lambda low, high: msgspec.json.encode(comparing.part(low, high)).decode()
