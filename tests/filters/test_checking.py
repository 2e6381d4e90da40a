"""Mistakes in a filter that are told before any event: which, where, and what would be right."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import pytest

import polycast as pc
from polycast.filters.checking import problems
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse


class Status(enum.Enum):
    OPEN = "open"
    PAID = "paid"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Grade(enum.Enum):
    A = 1
    B = 2

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other.value)


@dataclass
class Venue:
    name: str


@dataclass
class Hall(Venue):
    seats: int


@dataclass
class Talk:
    speaker: str
    title: str
    stars: int
    price: float
    cost: Decimal
    day: date
    at: datetime
    start: time
    length: timedelta
    key: UUID
    raw: bytes
    open: bool
    status: Status
    level: Level
    grade: Grade
    venue: Venue
    other: Venue | None
    pair: tuple[int, str]
    names: set[str]
    tags: list[str] = field(default_factory=list)
    venues: list[Venue] = field(default_factory=list)
    seats: dict[str, int] = field(default_factory=dict)
    room: str | None = None
    code: int | str = 0
    anything: Any = None

    def rank(self, one: int, two: int = 0) -> int:
        return one + two

    def where(self) -> Venue:
        return self.venue

    def named(self, *, name: str) -> str:
        return name

    @staticmethod
    def limit() -> int:
        return 3


@dataclass
class Keynote(Talk):
    sponsor: str = ""


@dataclass
class Panel:
    title: str
    guests: int


class Rated(Protocol):
    rating: int


def codes(where: Any, *types: type, every: bool = False) -> list[str]:
    tree = where if isinstance(where, nodes.Node) else pc.lift(where).tree
    return [problem.code for problem in problems(tree, types or (Talk,), every=every)]


def read(text: str, *types: type, every: bool = False) -> list[str]:
    return codes(parse(text), *types, every=every)


# -- what is compared, added, called ---------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "event.stars < 'a'",
        "event.stars >= None",
        "None < 3",
        "event.title < 3",
        "event.title < date('2020-01-01')",
        "event.at < date('2020-01-01')",
        "event.cost < '3'",
        "event.status < member('{module}.Status', 'PAID')",
        "event.status < 3",
        "event.tags < ('a',)",
        "event.seats < event.seats",
        "event.room < 3",
        "event.code < None",
        "event.length < 3",
        "event.key < 'a'",
        "event.start < event.at",
        "event.stars + 1 < 'a'",
        "len(event.tags) < 'a'",
        "event.title.lower() < 3",
        "event.at.date() < event.at",
        "event.day.year < 'a'",
        "event.at - event.at < 3",
        "event.rank(1) < 'a'",
        "event.limit() < 'a'",
        "event.tags[0] < 3",
        "event.seats['a'] < 'a'",
        "any(each1 < 3 for each1 in event.tags)",
        "max(event.stars, event.title) == 3",
        "min(event.stars, event.price, event.title) == 3",
        "1 < event.stars < 'a'",
    ],
)
def test_what_has_no_order_is_not_compared(text: str) -> None:
    assert read(text.format(module=__name__)) == ["never-comparable"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("3 in event.title", "no-container"),
        ("event.title in event.stars", "no-container"),
        ("event.anything in event.stars", "no-container"),
        ("event.tags in event.names", "no-container"),
        ("event.tags in {'a', 'b'}", "no-container"),
        ("3 not in event.status", "no-container"),
        ("event.title + 3 == 3", "bad-operand"),
        ("event.title - 1 == 3", "bad-operand"),
        ("event.tags + event.pair == 3", "bad-operand"),
        ("event.cost + event.price == 3", "ok"),  # a float may be an int
        ("event.cost + 1.5 == 3", "bad-operand"),
        ("event.at + event.at == 3", "bad-operand"),
        ("event.stars & event.price == 3", "ok"),
        ("-event.title == 3", "bad-operand"),
        ("~event.title == 3", "bad-operand"),
        ("abs(event.title) == 3", "bad-operand"),
        ("event.tags['a'] == 3", "bad-operand"),
        ("len(event.stars) == 3", "no-length"),
        ("event.stars[0] == 3", "no-subscript"),
        ("any(each1 for each1 in event.stars)", "not-iterable"),
        ("max(event.stars) == 3", "not-iterable"),
        ("event.stars() == 3", "not-callable"),
        ("event.day.year() == 3", "not-callable"),
        ("event.rank() == 3", "bad-arguments"),
        ("event.rank(1, 2, 3) == 3", "bad-arguments"),
        ("event.where(1) == 3", "bad-arguments"),
        ("event.named() == 3", "bad-arguments"),
        ("event.limit(1) == 3", "bad-arguments"),
        ("reach(event, 'rank') == 3", "bad-arguments"),
        ("event.stars.lower() == 3", "no-attribute"),
        ("event.title.loer() == 3", "no-attribute"),
        ("event.tags.lower() == 3", "no-attribute"),
        ("event.room.lowr() == 3", "no-attribute"),
        ("event.code.foo == 3", "no-attribute"),
        ("event.status.nope == 3", "no-attribute"),
        ("event.venue.seats == 3", "no-attribute"),
        ("event.where().seats == 3", "no-attribute"),
        ("event.other.seats == 3", "no-attribute"),
        ("event.venues[0].seats == 3", "no-attribute"),
        ("any(each1.seats > 3 for each1 in event.venues)", "no-attribute"),
        ("reach(reach(event, 'venue'), 'seats') == 3", "no-attribute"),
        ("reach(reach(event, 'where'), 'seats') == 3", "no-attribute"),
        ("event.seats.foo == 3", "no-attribute"),
        ("isinstance(event.absent, kind('builtins.int'))", "no-attribute"),
        ("not isinstance(event.absent, kind('builtins.int'))", "no-attribute"),
        ("not event.absent", "no-attribute"),
        ("event.absent", "no-attribute"),
    ],
)
def test_what_always_fails_is_told_by_its_code(text: str, code: str) -> None:
    assert read(text) == ([] if code == "ok" else [code])


@pytest.mark.parametrize(
    "text",
    [
        "event.stars == 'a'",
        "event.stars != None",
        "event.stars is event.title",
        "event.stars < 1.5 < event.cost",
        "event.open < 2",
        "event.level < 3",
        "event.level < 'a'",  # an enum with operators of its own
        "event.grade < event.grade",
        "event.price.bit_length() == 3",  # a float may be an int
        "event.code < 'a'",
        "event.code < 3",
        "event.room < 'a'",
        "event.anything < 3 < event.anything.foo",
        "event.venue < 3",  # a subclass may define it
        "event.venue in event.venues",
        "3 in event.venue",
        "event.title * 3 == 'a'",
        "event.title % 3 == 'a'",
        "event.title % event.pair == 'a'",
        "event.tags + event.tags == []",
        "event.tags * 2 == []",
        "event.at + event.length > event.at",
        "event.length * 1.5 > event.length",
        "event.cost * event.stars > event.cost",
        "event.pair[0] < 3",
        "event.pair[1] < 'a'",
        "event.seats['a'] < 3",
        "event.names | event.names == event.names",
        "'a' in event.room",
        "event.status.value < 3",
        "event.status.name == 'a'",
        "event.status in (1, 2)",
        "event.status == 'a'",
        "97 in event.raw",
        "event.raw[0] < 3",
        "event.rank(1) < 3",
        "event.rank(1, 2) < 3",
        "event.rank < 3",
        "reach(event, 'where') == 3",
        "reach(reach(event, 'where'), 'name') == 'a'",
        "event.key.hex == 'a'",
        "event.title.find('a') < 3",
        "event.at.date() < event.day",
        "max(event.stars, event.price) < event.cost",
        "any(each1 < 'a' for each1 in event.tags if each1)",
        "all(each1 == event.room for each1 in event.title)",
        "(event.stars, event.title) < (1, 'a')",
    ],
)
def test_what_may_succeed_is_accepted(text: str) -> None:
    assert read(text) == []


# -- what was asked before -------------------------------------------------------------------------


def opaque(talk: Any) -> bool:
    return True


DEBUG = False


@pytest.mark.parametrize(
    "where",
    [
        lambda t: isinstance(t, Keynote) and t.sponsor == "x",
        lambda t: isinstance(t, (Keynote, Panel)) and t.guests == 3,
        lambda t: t.stars > 3 and isinstance(t, Keynote) and (t.sponsor or t.sponsor == "x"),
        lambda t: not isinstance(t, Keynote) or t.sponsor == "x",
        lambda t: not (isinstance(t, Keynote) and t.sponsor == "x"),
        lambda t: not (not isinstance(t, Keynote) or t.stars > 3) and t.sponsor == "x",
        lambda t: (isinstance(t, Keynote) or t.open) and t.sponsor == "x",
        lambda t: (isinstance(t, Keynote) and t.stars > 3) or t.sponsor == "x",  # a bad Keynote
        lambda t: (isinstance(t, Keynote) and t.stars > 3) and t.sponsor == "x",
        lambda t: isinstance(t.venue, Hall) and t.venue.seats > 3,
        lambda t: t.other is not None and isinstance(t.other, Hall) and t.other.seats > 3,
        lambda t: any(isinstance(v, Hall) and v.seats > 3 for v in t.venues),
        lambda t: any(v.seats > 3 for v in t.venues if isinstance(v, Hall)),
        lambda t: any(isinstance(v, Hall) and any(v.seats == 3 for x in t.tags) for v in t.venues),
        lambda t: isinstance(t, Keynote) and any(t.sponsor == tag for tag in t.tags),
        lambda t: isinstance(t.where(), Hall) and t.where().seats > 3,
        lambda t: isinstance(t.code, int) and t.code < 3,
        lambda t: isinstance(t.code, str) and t.code < "a",
        lambda t: isinstance(t.code, str) or t.code < 3,
        lambda t: t.room is None or t.room < "a",
        lambda t: isinstance(t.stars, str) and t.stars < "a",  # who asks knows better
        lambda t: (isinstance(t, Keynote) == True) and t.sponsor == "x",  # noqa: E712
        lambda t: max(isinstance(t, Keynote), False) and t.sponsor == "x",
        lambda t: opaque(t) and t.sponsor == "x",
        lambda t: opaque(t) or t.sponsor == "x",
        lambda t: not opaque(t) or (t.stars > 3 and t.sponsor == "x"),
        lambda t: (t.stars > 3 or opaque(t)) and t.sponsor == "x",
        lambda t: hasattr(t, "sponsor") and t.sponsor == "x",
        lambda t: t.__class__.__name__ == "Keynote" and t.sponsor == "x",
        lambda t: "sponsor" in t.__dict__ and t.sponsor == "x",
        lambda t: "sponsor" in t and t.sponsor == "x",
        lambda t: DEBUG and t.sponsor == "x",
        lambda t: t.stars**-1 < 3,
    ],
)
def test_what_was_asked_before_is_taken_into_account(where: Any) -> None:
    assert codes(where) == []


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (lambda t: isinstance(t, Keynote) or t.sponsor == "x", "no-attribute"),
        (lambda t: max(isinstance(t, Keynote) and t.stars, t.sponsor), "no-attribute"),
        (lambda t: t.sponsor == "x" and isinstance(t, Keynote), "no-attribute"),
        (lambda t: t.sponsor == "x" and opaque(t), "no-attribute"),
        (lambda t: isinstance(t, Keynote) and t.sponser == "x", "no-attribute"),
        (lambda t: isinstance(t.venue, Hall) and t.other.seats, "no-attribute"),
        (lambda t: isinstance(t.code, int) and t.code < "a", "never-comparable"),
        (lambda t: not isinstance(t.code, int) and t.code < 3, "never-comparable"),
        (lambda t: t.room is None and t.room < "a", "never-comparable"),
        (lambda t: t.room is not None or t.room.lower() == "a", "no-attribute"),
        (lambda t: t.room is not None and t.room < 3, "never-comparable"),
        (lambda t: t.stars > 3 or t.sponsor, "no-attribute"),
        (lambda t: t.stars << 1.5 == 3, "bad-operand"),
    ],
)
def test_what_was_asked_ends_with_its_branch(where: Any, code: str) -> None:
    assert codes(where) == [code]


def test_conditions_deeper_than_can_be_followed_are_not_checked() -> None:
    tree: nodes.Node = parse("event.stars > 3")
    for _ in range(40):
        tree = nodes.Or((nodes.And((tree, parse("event.stars > 4"))), parse("event.open")))
    assert codes(nodes.And((tree, parse("event.absent")))) == []


# -- unions and conjunctions -----------------------------------------------------------------------


def test_for_a_union_one_alternative_that_has_it_is_enough() -> None:
    assert read("event.guests > 3", Talk, Panel) == []
    assert read("event.title == 'a'", Talk, Panel) == []
    assert read("event.absent > 3", Talk, Panel) == ["no-attribute"]
    assert read("event.guests > 'a'", Talk, Panel) == ["never-comparable"]
    assert read("event.absent > 3", Talk, object) == []


def test_what_conforms_to_all_types_has_what_any_of_them_has() -> None:
    assert read("event.guests > 3 and event.rating > 3", Panel, Rated, every=True) == []
    assert read("event.absent", Panel, Rated, every=True) == []  # an interface is the least
    assert read("event.absent", Panel, Talk, every=True) == ["no-attribute"]
    assert read("event.absent", Panel, object, every=True) == ["no-attribute"]
    assert read("event.absent", Panel, Exception, every=True) == []


def test_built_in_types_are_known() -> None:
    assert read("event > 3", int) == []
    assert read("event > 'a'", int) == ["never-comparable"]
    assert read("event.foo", str) == ["no-attribute"]
    assert read("event['a'] > 3", dict) == []


def test_for_any_object_what_was_asked_is_known() -> None:
    assert read("event.absent", object) == []
    assert codes(lambda t: isinstance(t, Panel) and t.absent, object) == ["no-attribute"]
    assert codes(lambda t: isinstance(t, Panel) and t.guests > 3, object) == []
