"""In contexts, too, the pipeline brings every subscription what the direct engine brings it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from context_parties import american, federation, some_parcel, some_wish, to_dollars_anew
from test_engines_agree import Twins

import polycast as pc
from polycast.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTEXTS: list[str | None] = [None, "us", "uk"]


@pytest.mark.parametrize(
    ("seed", "imports"), [(1, ()), (2, ("context_parties",))], ids=["made", "imported"]
)
def test_both_engines_bring_the_same_to_every_context(
    seed: int, imports: tuple[str, ...], spark: SparkSession, url: str
) -> None:
    random = Random(seed)
    fed = federation()
    with pc.Bus(url, federation=fed) as bus:
        views = {each: bus.within(each or fed.root) for each in CONTEXTS}
        twins = {each: Twins(view) for each, view in views.items()}
        for step in range(4):
            for number in range(15):
                context = random.choice(CONTEXTS)
                what, where = some_wish(random, context)
                options = {"since": "beginning"} if random.random() < 0.2 else {}
                twins[context].subscribe(f"{context} {step}-{number}", what, where, **options)
            for _ in range(40):
                context = random.choice(CONTEXTS)
                views[context].publish(some_parcel(random, context))
            if step == 1:
                fed.replace(american(fed.root, to_dollars_anew))
            if step in (2, 3):
                Pipeline(url, spark=spark, imports=imports, batch=50).run_available()
                bus.flush()
        for value in twins.values():
            assert value.got["spark"] == value.got["direct"]
            assert sum(map(len, value.got["spark"].values())) > 30
        letters = [
            (dead_letter.subscription, dead_letter.position) for dead_letter in bus.dead_letters()
        ]
        assert sorted(letters) == sorted(set(letters))
        assert {name for name, _ in letters} == {"context us"}
