"""The pipeline brings every subscription what the direct engine brings it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from route_world import TOPICS, some_event, some_filter, some_selector

import polycast as pc
from polycast.errors import FilterError
from polycast.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Twins:
    """Each subscription twice, one for each engine; what they got, by position."""

    def __init__(self, bus: pc.Bus) -> None:
        self._bus = bus
        self._live: dict[str, list[pc.Subscription[Any]]] = {}
        self.got: dict[str, dict[str, list[tuple[int, Any]]]] = {"direct": {}, "spark": {}}

    def subscribe(self, name: str, what: Any, where: Any, **options: Any) -> None:
        got = {engine: self.got[engine].get(name, []) for engine in self.got}
        try:
            twins = [
                self._bus.subscribe(
                    what,
                    self._taking(got[engine]),
                    where=where,
                    durable=f"{name} {engine}",
                    engine=engine,
                    **options,
                )
                for engine in ("spark", "direct")
            ]
        except FilterError:  # it cannot be right, or cannot be routed
            return
        self._live[name] = twins
        for engine, events in got.items():
            self.got[engine][name] = events

    def _taking(self, into: list[tuple[int, Any]]) -> Callable[..., None]:
        def take(event: Any, delivery: pc.Delivery[Any]) -> None:
            into.append((delivery.position, event))

        return take

    def cancel(self, name: str) -> None:
        for twin in self._live.pop(name):
            twin.cancel()

    @property
    def names(self) -> list[str]:
        return list(self._live)


@pytest.mark.parametrize("imports", [(), ("route_types",)], ids=["made", "imported"])
@pytest.mark.parametrize("seed", range(2))
def test_both_engines_bring_the_same(
    seed: int, imports: tuple[str, ...], spark: SparkSession, url: str
) -> None:
    random = Random(seed)
    with pc.Bus(url) as bus:
        twins = Twins(bus)
        for step in range(6):
            for number in range(random.randrange(9, 20)):
                options = {"since": "beginning"} if random.random() < 0.2 else {}
                what, where = some_selector(random), some_filter(random)
                twins.subscribe(f"{step}-{number}", what, where, **options)
            for _ in range(random.randrange(5, 40)):
                bus.publish(some_event(random), topic=random.choice(TOPICS))
            if step in (2, 5):
                Pipeline(url, spark=spark, imports=imports, batch=50).run_available()
                bus.flush()
                # Both have come equally far, so both have the new definition from there on.
                twins.cancel(random.choice(twins.names))
                for name in random.sample(twins.names, 3):
                    twins.subscribe(name, some_selector(random), some_filter(random), replace=True)
        assert twins.got["spark"] == twins.got["direct"]
        assert sum(map(len, twins.got["spark"].values())) > 50
        assert [letter.subscription for letter in bus.dead_letters()] == []
