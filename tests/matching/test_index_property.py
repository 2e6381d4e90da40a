"""The index says what asking every filter says, whatever the filters and the events are."""

from __future__ import annotations

import datetime
import enum
import math
import operator
import os
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.backends import interpreter
from polycast.filters.tree import nodes
from polycast.matching.index import Index, lanes, layout
from polycast.matching.index import filter_index as filters
from polycast.matching.native import available, use
from polycast.matching.native.native_index import KernelLimits, NativeIndex

LONG = os.environ.get("POLYCAST_STRESS") == "long"
Settings = settings(
    max_examples=400 if LONG else 40,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(enum.StrEnum):
    ADA = "ab"


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Odd(enum.Enum):
    """Equal to a number, against all custom."""

    ONE = 1

    def __eq__(self, other: object) -> bool:
        return other == 1 or self is other

    def __hash__(self) -> int:
        return 1


class Whole(int):
    """An int that compares as ints do."""


class Contrary(int):
    """An int that does not."""

    def __lt__(self, other: object) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Broken:
    """Raises whenever it is asked anything."""

    def __eq__(self, other: object) -> bool:
        raise OSError("broken")

    def __bool__(self) -> bool:
        raise OSError("broken")

    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __hash__ = __eq__  # type: ignore[assignment]


class Answers:
    """Its comparisons say things that are no bools."""

    def __lt__(self, other: object) -> Any:
        return [1]

    def __ge__(self, other: object) -> Any:
        return []

    def __eq__(self, other: object) -> Any:
        return "yes" if other == "ab" else ""

    def __hash__(self) -> int:
        return hash("ab")


class Text(str):
    """A string that never starts with anything."""

    def startswith(self, *arguments: Any) -> bool:
        return False


DAY = datetime.date(2020, 1, 2)
NOON = datetime.datetime(2020, 1, 2, 12)
ZONED = NOON.replace(tzinfo=datetime.UTC)
ID = uuid.UUID(int=7)
CONSTANTS: list[Any] = [
    None, True, False, 0, 1, 2, -1, 2**53, 2**53 + 1, 10**400, 0.0, -0.0, 1.0, 1.5,
    float(2**53), math.inf, -math.inf, math.nan, "", "a", "ab", "abc", "b", "a\U0010ffff",
    b"a", b"", DAY, NOON, ZONED, datetime.timedelta(1), ID, Decimal("1"), Decimal("1.5"),
    Decimal("NaN"), Decimal("sNaN"), Level.LOW, Level.HIGH, Name.ADA, Colour.RED, Colour.BLUE,
    Odd.ONE,
]  # fmt: skip
VALUES: list[Any] = [
    *CONSTANTS, Fraction(3, 2), 1j, 1 + 0j, [], [1], (), (1,), {1: 2}, {1}, frozenset(),
    Whole(1), Whole(2), Contrary(3), Broken(), Answers(), Text("ab"), object(), bytearray(b"a"),
    datetime.time(3), ZONED + datetime.timedelta(1), DAY + datetime.timedelta(1), float("nan"),
]  # fmt: skip
constants = st.sampled_from(CONSTANTS)
values = st.sampled_from(VALUES)


class Item:
    """An event; an attribute may be missing."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)

    @property
    def broken(self) -> int:
        raise OSError("broken")

    def get_a(self) -> Any:
        return self.a  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"Item({self.__dict__})"


inner = st.dictionaries(st.sampled_from("ab"), values).map(lambda found: SimpleNamespace(**found))
items = st.dictionaries(st.sampled_from("abc"), values).flatmap(
    lambda found: st.one_of(inner, values).map(lambda part: Item({**found, "part": part}))
)
EVENT = nodes.Event()
A, B, C = (nodes.Attribute(EVENT, name) for name in "abc")
PART = nodes.Attribute(EVENT, "part")
TERMS = [
    A, A, A, B, B, C, nodes.Attribute(PART, "a"), nodes.Attribute(EVENT, "broken"),
    nodes.Call(EVENT, "get_a"), nodes.Reach(EVENT, "get_a"), nodes.Function("len", (A,)),
    nodes.Arithmetic("+", A, B), nodes.Sign("-", A), PART,
    nodes.Opaque(operator.attrgetter("a"), "opaque"),
]  # fmt: skip
terms = st.sampled_from(TERMS)
SIGNS = ["==", "!=", "<", "<=", ">", ">=", "is", "is not"]
containers = st.tuples(st.sampled_from([tuple, list, frozenset, set]), st.lists(constants)).map(
    lambda found: _container(*found)
)


def _container(kind: type, of: list[Any]) -> Any:
    try:
        return kind(of)
    except Exception:  # a signalling NaN has no hash
        return ()


def _compare(found: tuple[nodes.Node, str, Any]) -> nodes.Node:
    term, sign, value = found
    return nodes.Compare(term, ((sign, nodes.Constant(value)),))


comparisons = st.tuples(terms, st.sampled_from(SIGNS), constants).map(_compare)
mirrored = st.tuples(constants, st.sampled_from(SIGNS), terms).map(
    lambda found: nodes.Compare(nodes.Constant(found[0]), ((found[1], found[2]),))
)
members = st.tuples(terms, st.sampled_from(["in", "not in"]), containers).map(_compare)
chains = st.tuples(
    constants, st.sampled_from(SIGNS), terms, st.sampled_from(SIGNS), st.one_of(constants)
).map(lambda f: nodes.Compare(nodes.Constant(f[0]), ((f[1], f[2]), (f[3], nodes.Constant(f[4])))))
prefixes = st.tuples(terms, st.sampled_from(["", "a", "ab", "b", "a\U0010ffff", 1])).map(
    lambda found: nodes.Call(found[0], "startswith", (nodes.Constant(found[1]),))
)
across = st.tuples(terms, st.sampled_from(SIGNS), terms).map(
    lambda found: nodes.Compare(found[0], ((found[1], found[2]),))
)
leaves = st.one_of(
    comparisons, comparisons, mirrored, members, chains, prefixes, across, terms,
    constants.map(nodes.Constant),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.lists(part, min_size=2, max_size=3).map(lambda found: nodes.And(tuple(found))),
        st.lists(part, min_size=2, max_size=3).map(lambda found: nodes.And(tuple(found))),
        st.lists(part, min_size=2, max_size=3).map(lambda found: nodes.Or(tuple(found))),
        part.map(nodes.Not),
    ),
    max_leaves=6,
)


WAYS = ["anchored", "as it is", "native, scalar", "native, avx2", "native, avx2, anchored"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Also with limits so small that a few filters are already many; and in C."""
    name: str = request.param
    if name.startswith("native"):
        if available() is None:
            pytest.skip("the kernel is not built")
        try:
            use(name.split(", ")[1])
        except pc.BadOptionError:
            pytest.skip("this processor has no such instructions")
    if name == "anchored":
        monkeypatch.setattr(layout, "FEW", 0)
        monkeypatch.setattr(filters, "WAITING", 0)
        monkeypatch.setattr(filters, "SAMPLE", 3)
        monkeypatch.setattr(filters, "WORTH", 0.0)
        monkeypatch.setattr(filters, "SMALL_BATCH", 0)
        monkeypatch.setattr(lanes, "COARSE", 2)
        monkeypatch.setattr(lanes, "WIDE", 1)
        monkeypatch.setattr(filters, "SMALL", 0)
    yield name
    if name.startswith("native"):
        use("best")


def made(way: str) -> Index | NativeIndex:
    if not way.startswith("native"):
        return Index()
    kernel = available()
    assert kernel is not None
    limits = KernelLimits(few=0, cuts=6, codes=3) if way.endswith("anchored") else None
    return NativeIndex(threading.RLock(), kernel, limits=limits)


def expected(wanted: dict[int, nodes.Node], event: Any) -> list[int]:
    return sorted(key for key, tree in wanted.items() if interpreter.matches(tree, event))


@Settings
@given(found=st.lists(trees, max_size=20), events=st.lists(items, max_size=6))
def test_the_index_says_what_asking_every_filter_says(
    way: str, found: list[Any], events: list[Any]
) -> None:
    index, wanted = made(way), dict(enumerate(found))
    for key, tree in wanted.items():
        index.add(tree, key)
    for event in events:
        assert sorted(index.match(event)) == expected(wanted, event)


@Settings
@given(data=st.data())
def test_also_while_filters_come_and_go(way: str, data: st.DataObject) -> None:
    index = made(way)
    wanted: dict[int, nodes.Node] = {}
    pool = data.draw(st.lists(trees, min_size=1, max_size=8))
    for key in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["add", "add", "add", "remove", "match"])):
            case "add":
                wanted[key] = data.draw(st.sampled_from(pool))
                index.add(wanted[key], key)
            case "remove" if wanted:
                gone = data.draw(st.sampled_from(sorted(wanted)))
                index.remove(wanted.pop(gone), gone)
            case _:
                event = data.draw(items)
                assert sorted(index.match(event)) == expected(wanted, event)
    event = data.draw(items)
    assert sorted(index.match(event)) == expected(wanted, event)
    assert len(index) == len(set(wanted.values()))


@Settings
@given(found=st.lists(trees, max_size=12), events=st.lists(items, max_size=6))
def test_a_batch_says_what_one_by_one_says(way: str, found: list[Any], events: list[Any]) -> None:
    matcher: pc.Matcher[int] = pc.Matcher(native=way.startswith("native"))
    for key, tree in enumerate(found):
        matcher.add(key, Item, pc.Filter(tree))
    one_by_one = [sorted(matcher.match(event)) for event in events]
    assert [sorted(each) for each in matcher.match_batch(events)] == one_by_one
