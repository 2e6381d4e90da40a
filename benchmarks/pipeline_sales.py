"""What the pipeline is measured with: sales, and subscriptions to some of them.

An event has ten attributes. A subscription is a conjunction of 2 to 4 predicates; however many
subscriptions there are, about a dozen want an event.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from durable_setting import url_of
from ready10 import SYMBOLS, Equal, OneOf, Predicate, Range, Subscription, filters

import polycast as pc
from polycast.config import level_named
from polycast.matching import Interest, definition_of, selector_for
from polycast.stores import StoredSubscription, Transaction, open_store
from polycast.typesystem import Registry

TAKERS = 12  # subscriptions that want an event, in the mean
REGIONS = ("north", "east", "south", "west", "centre")
WHOLE = {"kind": 20, "store": 400, "customer": 10_000}  # attributes that are ints, and their values
DOUBLES = ("price", "weight", "discount")
SYMBOL_COUNT = len(SYMBOLS)


@dataclass(frozen=True, slots=True)
class Sale:
    """An event with ten attributes."""

    number: int
    symbol: str
    region: str
    kind: int
    store: int
    customer: int
    price: float
    weight: float
    discount: float
    express: bool


# -- events and subscriptions ----------------------------------------------------------------------


def events(count: int, *, seed: int = 1, first: int = 0) -> Iterator[Sale]:
    """So many events; the same ones for the same seed."""
    draw = random.Random(seed)
    for number in range(first, first + count):
        yield Sale(
            number,
            SYMBOLS[int(draw.random() * SYMBOL_COUNT)],
            REGIONS[int(draw.random() * 5)],
            *(int(draw.random() * size) for size in WHOLE.values()),
            *(draw.random() for _ in DOUBLES),
            draw.random() < 0.5,
        )


def subscriptions(count: int, *, seed: int = 2) -> list[Subscription]:
    """So many, each of which wants the same part of all events: a dozen want each event."""
    draw = random.Random(seed)
    return [_subscription(draw, TAKERS / count) for _ in range(count)]


def _subscription(draw: random.Random, part: float) -> Subscription:
    """Some predicates on texts and whole numbers, and a range that leaves the part wanted."""
    others = draw.randint(1, 3)
    names = draw.sample(("symbol", "region", "express", *WHOLE), others)
    found, left = [], part
    for name in names:
        predicate, share = _predicate(draw, name, max(left ** draw.uniform(0.2, 0.8), left))
        if share >= left:
            found.append(predicate)
            left /= share
    low = draw.random() * (1 - left)
    found.append(Range(draw.choice(DOUBLES), low, low + left))
    draw.shuffle(found)
    return tuple(found) if len(found) > 1 else (*found, Range("number", 0, None))


def _predicate(draw: random.Random, name: str, part: float) -> tuple[Predicate, float]:
    """A predicate that about such a part of all events passes, and which part that is."""
    if name == "express":
        return Equal(name, draw.random() < 0.5), 0.5
    if name in WHOLE:
        size = WHOLE[name]
        width = max(1, round(part * size))
        low = draw.randrange(size - width + 1)
        return (Equal(name, low) if width == 1 else Range(name, low, low + width)), width / size
    values: Sequence[str] = SYMBOLS if name == "symbol" else REGIONS
    width = min(8, max(1, round(part * len(values))))
    chosen = tuple(draw.sample(values, width))
    made: Predicate = Equal(name, chosen[0]) if width == 1 else OneOf(name, chosen)
    return made, width / len(values)


# -- stores ----------------------------------------------------------------------------------------


def make_store(path: Path, subscribed: int, published: int) -> None:
    """A store with so many subscriptions for the pipeline, and then so many events."""
    wanted = filters(subscriptions(subscribed))
    selector, level = selector_for(Sale), level_named("sorted_set")
    definitions = [
        definition_of(Interest(selector, each, level), engine="spark").encoded()  # type: ignore[arg-type]
        for each in wanted
    ]
    registry = Registry()
    registry.bind(Sale)

    def subscribe(tx: Transaction) -> None:
        for description in registry.descriptions():
            tx.describe(description)
        start = tx.newest() + 1
        for number, definition in enumerate(definitions):
            tx.save(StoredSubscription(f"s{number}", definition, start, start))
            tx.begin_route(f"s{number}", definition)

    store = open_store(str(path))
    try:
        store.write(subscribe).result()
    finally:
        store.close()
    with pc.Bus(url_of(path)) as bus:
        stream = events(published)
        while some := list(islice(stream, 10_000)):
            bus.publish_many(some)
