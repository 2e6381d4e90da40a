"""Random subscriptions and events, and what plain Python says about them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from route_types import (
    Base,
    Colour,
    Grade,
    Line,
    Located,
    Money,
    Note,
    Order,
    Parcel,
    Priced,
    Reading,
    Rush,
    is_odd,
    is_short,
)

import polycast as pc
from polycast.filters import Filter
from polycast.matching import selector_for

TOPICS = [None, None, None, "/a", "/a/b", "/c"]
WORDS = ["", "a", "ab", "zebra", "b", "Ab"]


def some_money(random: Random) -> Money:
    return Money(Decimal(random.randrange(-2, 6)) / 2, random.choice(["EUR", "USD"]))


def some_lines(random: Random) -> list[Line]:
    return [Line(random.randrange(5), random.choice(WORDS)) for _ in range(random.randrange(3))]


def some_event(random: Random) -> Any:
    number, text = random.randrange(-3, 12), random.choice(WORDS)
    kind = random.choice([Base, Order, Order, Rush, Rush, Reading, Parcel, Note])
    if kind is Base:
        return Base(number, text)
    if issubclass(kind, Order):
        day = random.choice([None, datetime.date(2024, 1, random.randrange(1, 6))])
        given = (number, text, some_money(random), some_money(random))
        rest = (random.choice(list(Colour)), tuple(some_lines(random)), day)
        if kind is Order:
            return Order(*given, *rest)
        return Rush(*given, *rest, random.choice(list(Grade)), random.random() * 4)
    if kind is Reading:
        data = random.choice([None, 3, "a", [1, 2], {"k": number}, some_money(random)])
        table = {word: random.randrange(4) for word in random.sample(WORDS, 2)}
        return Reading(number, text, random.random(), random.sample(WORDS, 2), data, table)
    if kind is Parcel:
        when = datetime.datetime(2024, 1, random.randrange(1, 4), tzinfo=datetime.UTC)
        return Parcel(number, text, random.random() * 3, some_lines(random), when)
    return Note(number, text, {"k": number, "c": random.choice(list(Colour))})


def some_condition(random: Random) -> Callable[[Any], object]:
    k, w = random.randrange(-2, 10), random.choice(WORDS)
    colour, grade = random.choice(list(Colour)), random.choice(list(Grade))
    limit, day = Decimal(k) / 2, datetime.date(2024, 1, random.randrange(1, 6))
    when = datetime.datetime(2024, 1, random.randrange(1, 4), tzinfo=datetime.UTC)
    ways: list[Callable[[Any], object]] = [
        lambda e: e.number > k,
        lambda e: e.number == k,
        lambda e: e.number in (k, k + 1, 2 * k),
        lambda e: k <= e.number < k + 4,
        lambda e: e.number % 3 == 1,
        lambda e: e.text == w,
        lambda e: e.text.startswith(w),
        lambda e: w in e.text,
        lambda e: e.text.lower() == w,
        lambda e: len(e.text) > 1,
        lambda e: e.ratio > k / 4,
        lambda e: e.colour == colour,
        lambda e: e.colour is colour,
        lambda e: e.colour.name == "RED",
        lambda e: e.colour.value > 1,
        lambda e: e.colour in (Colour.RED, colour),
        lambda e: e.grade >= grade,
        lambda e: e.grade == 5,
        lambda e: e.price.amount > limit,
        lambda e: e.price > e.paid,
        lambda e: e.price == e.paid,
        lambda e: bool(e.price),
        lambda e: e.price and e.number > 0,
        lambda e: e.price.currency == "EUR",
        lambda e: e.total() > k / 3,
        lambda e: e.half > k,
        lambda e: e.place() == w,
        lambda e: any(line.quantity > k / 3 for line in e.lines),
        lambda e: all(line.product != w for line in e.lines),
        lambda e: any(line.product == w for line in e.parts),
        lambda e: len(e.lines) == 1,
        lambda e: e.lines[0].quantity > 1,
        lambda e: e.day is None,
        lambda e: e.day is not None and e.day > day,
        lambda e: e.when >= when,
        lambda e: w in e.tags,
        lambda e: e.data == k,
        lambda e: e.data["k"] > k,
        lambda e: e.table.get(w, 0) > 1,
        lambda e: e.table[w] > 1,
        lambda e: e.extra["k"] == k,
        lambda e: e.extra["c"] == colour,
        lambda e: isinstance(e, Rush),
        lambda e: isinstance(e, Order) and e.number > k,
        lambda e: e.weight * 2 > k,
        lambda e: e.number + e.ratio > k,
        is_odd,
        is_short,
        lambda e: is_odd(e) and e.number > k,
        lambda e: e.number > k or is_short(e),
        lambda e: e.number > 0 and not is_odd(e),
    ]
    return random.choice(ways)


def some_filter(random: Random) -> Filter[Any] | None:
    if random.random() < 0.1:
        return None
    found: Filter[Any] = pc.lift(some_condition(random))
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        other: Filter[Any] = pc.lift(some_condition(random))
        other = ~other if random.random() < 0.2 else other
        found = found & other if random.random() < 0.6 else found | other
    return ~found if random.random() < 0.1 else found


def some_selector(random: Random) -> Any:
    what = random.choice(
        [
            *(Base, Order, Order, Rush, Reading, Parcel, Note, Priced, Located),
            Base | Reading,
            Rush | Note | Parcel,
            pc.all_of(Base, Priced),
            pc.all_of(Order, Located),
            object,
            "/a/**",
            "/**",
        ]
    )
    exact = random.random() < 0.15
    topic = None
    if not isinstance(what, str) and random.random() < 0.15:
        topic = random.choice(["/a/**", "/a", "/c"])
    return selector_for(what, topic=topic, exact=exact)
