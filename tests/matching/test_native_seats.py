"""Values that the kernel looks up by itself: it finds what calling the term would find."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

import polycast as pc
from polycast.filters.backends.python import generate
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import folded
from polycast.filters.tree.projection import slot_of
from polycast.matching.native import available

pytestmark = pytest.mark.skipif(available() is None, reason="the kernel is not built here")

# -- events ----------------------------------------------------------------------------------------


class Named(str):
    """A text that is not equal to what it looks like."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


class Broken(Named):
    """One that cannot be compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = str.__hash__


@dataclass
class Quote:
    price: Any = 0
    name: Any = ""


@dataclass(slots=True)
class Slotted:
    price: Any = 0
    name: Any = ""
    type_name: Any = "Slotted"


class Struct(msgspec.Struct):
    price: Any = UNSET
    name: Any = UNSET


class Raising:
    """Declares attributes, and does not have them."""

    price: int
    name: str

    @property
    def type_name(self) -> str:
        raise LookupError("nothing")


class Lazy:
    price: int

    def __getattr__(self, name: str) -> Any:
        if name == "name":
            return "x"
        raise AttributeError(name)


class Dictionary(dict[str, Any]):
    def get(self, name: str, default: Any = None) -> Any:
        return 3


class Missing(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return 2


class Pair(NamedTuple):
    price: Any
    name: Any


class Colour(enum.Enum):
    """Whose members have a name, which is no member in ETCL."""

    RED = 2


class Trouble(Exception):
    price: int = 2


class Word(str):
    price = 2


class Event(pc.StructuredEvent):
    """One more kind of structured events."""


VALUES = st.sampled_from(
    [
        0,
        1,
        2,
        3,
        2.5,
        float("nan"),
        2**70,
        True,
        False,
        None,
        "",
        "x",
        "yes",
        UNSET,
        [1],
        Named("x"),
    ]
)
NAMES = ("price", "name", "type_name", "filterable_data")
PAIRS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
WORDS = st.sampled_from(["", "x", "yes"])


@st.composite
def odd_pairs(draw: st.DrawFn) -> dict[str, Any]:
    """Dictionaries that are more than that, or that are asked in odd ways."""
    kind = draw(st.sampled_from(["default", "own", "named", "broken"]))
    pairs = draw(PAIRS)
    if kind == "default":
        return Missing(pairs)
    if kind == "own":
        return Dictionary(pairs)
    pairs.pop("price", None)
    return {**pairs, (Named if kind == "named" else Broken)("price"): 1}


@st.composite
def slotted(draw: st.DrawFn) -> Slotted:
    found = Slotted(draw(VALUES), draw(VALUES), draw(VALUES))
    if draw(st.booleans()):
        del found.price
    return found


DICTIONARIES = PAIRS | odd_pairs()
EVENTS = st.one_of(
    st.builds(pc.StructuredEvent, WORDS, WORDS, WORDS, DICTIONARIES, DICTIONARIES),
    st.builds(Event, WORDS, WORDS, WORDS, PAIRS, PAIRS),
    DICTIONARIES,
    st.builds(Quote, VALUES, VALUES),
    st.builds(Struct, VALUES, VALUES),
    slotted(),
    st.builds(Raising),
    st.builds(Lazy),
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=2),
    st.builds(Pair, VALUES, VALUES),
    st.sampled_from([0, "x", None, Colour.RED, Trouble("x"), Word("x"), Quote, len]),
)

# -- filters ---------------------------------------------------------------------------------------

COMPONENTS = (
    *("$.price", "$price", "$(price)", "$.name", "$name", "$.0", "$.type_name", "$type_name"),
    *("$.filterable_data(price)", "$filterable_data(name)", "$.header.variable_header(price)"),
    *("$variable_header(price)", "$header.variable_header(name)", "$event_name", "$domain_name"),
    *("$.header.fixed_header.event_type.type_name", "$event_type.domain_name", "$.domain_name"),
    *("$header.fixed_header.event_name", "$fixed_header.event_type.type_name", "$filterable_data"),
)
TESTS = ("{} > 1", "{} == 2", "{} != 1", "{} == 'yes'", "{} != 'yes'", "{}", "not {}", "{} < 'y'")
WRITTEN: tuple[Any, ...] = (
    *(lambda e: e["price"] > 1, lambda e: e["price"] == 2, lambda e: e["price"] != 1),
    *(lambda e: e["price"] < 3, lambda e: e["name"] == "x", lambda e: e["name"] != "x"),
    *(lambda e: e["name"] in ("x", "yes"), lambda e: e["name"] is None, lambda e: e["price"]),
    *(lambda e: e.filterable_data["price"] > 1, lambda e: e.filterable_data["price"] == 2),
    *(lambda e: e.filterable_data["price"] != 1, lambda e: e.filterable_data["price"] < 3),
    lambda e: e.filterable_data["price"] is not None,
)


def filters_over(components: list[str]) -> list[pc.Filter[Any]]:
    texts = [test.format(component) for component in components for test in TESTS]
    return [pc.parse_filter(text, "etcl") for text in texts] + [pc.Filter(each) for each in WRITTEN]


def matcher_of(filters: list[pc.Filter[Any]]) -> pc.Matcher[int]:
    found: pc.Matcher[int] = pc.Matcher(native=True)
    for number, each in enumerate(filters):
        found.add(number, object, each)
    return found


@given(
    st.lists(st.sampled_from(COMPONENTS), min_size=1, max_size=8, unique=True),
    st.lists(EVENTS, min_size=1, max_size=12),
)
@example(["$.price"], [Struct(1, 2), Struct(UNSET, 2), Raising(), Lazy(), {}, Slotted(2), Quote(2)])
@example(["$price"], [pc.StructuredEvent(variable_header={"price": UNSET}), Missing()])
def test_the_kernel_finds_what_the_filters_find(components: list[str], events: list[Any]) -> None:
    filters = filters_over(components)
    matcher = matcher_of(filters)
    for event in [*events, *events]:  # once more when it knows the classes
        expected = [number for number, each in enumerate(filters) if each.matches(event)]
        assert sorted(matcher.match(event)) == expected
    found = matcher.match_batch(events)
    assert [sorted(each) for each in found] == [sorted(matcher.match(event)) for event in events]


@given(st.lists(st.sampled_from(COMPONENTS), min_size=1, max_size=3, unique=True), EVENTS)
@example(["$price"], pc.StructuredEvent(filterable_data=Missing()))
@example(["$.price"], Missing())
def test_so_does_code_for_the_class(components: list[str], event: Any) -> None:
    cls = type(event)
    for each in filters_over(components):
        code = generate(folded(each.tree, cls), cls=cls).function
        try:
            found = bool(code(event))
        except Exception:
            found = False
        assert found == each.matches(event), each.to_python(cls)


# -- where things stand ----------------------------------------------------------------------------


def component(text: str) -> nodes.Node:
    return nodes.Applied("etcl", "component", (nodes.Event(), nodes.Constant(text)))


@pytest.mark.parametrize(
    ("text", "cls", "seat"),
    [
        ("$.price", Quote, "price"),
        ("$price", Quote, "price"),
        ("$(price)", Quote, None),
        ("$.other", Quote, None),
        ("$type_name", Slotted, None),  # an event that has none is of the type %ANY
        ("$.type_name", Slotted, "type_name"),
        ("$.price", dict, ("price",)),
        ("$price", dict, ("price",)),
        ("$(price)", dict, ("price",)),
        ("$.price", Dictionary, None),
        ("$.price.more", Quote, None),
        ("$.price", list, None),
        ("$.tag", pc.TaggedUnion, None),
        ("$", Quote, None),
        ("$curtime", pc.StructuredEvent, None),
        ("$price", pc.StructuredEvent, ("price", "variable_header", "filterable_data")),
        ("$.price", pc.StructuredEvent, None),
        ("$.filterable_data(price)", Event, ("price", "filterable_data")),
        ("$header.variable_header(price)", Event, ("price", "variable_header")),
        ("$.filterable_data", pc.StructuredEvent, None),
        ("$type_name", pc.StructuredEvent, "type_name"),
        ("$.header.fixed_header.event_type.type_name", pc.StructuredEvent, "type_name"),
        ("$.header.fixed_header.event_name", pc.StructuredEvent, "event_name"),
    ],
)
def test_a_component_that_is_just_looked_up_says_where(text: str, cls: type, seat: object) -> None:
    assert slot_of(component(text), cls) == seat


def test_items_of_dictionaries_stand_there_and_other_terms_nowhere() -> None:
    def seat(function: Any, cls: type = dict) -> object:
        tree = pc.lift(function).tree
        assert isinstance(tree, nodes.Compare)
        return slot_of(tree.first, cls)

    assert seat(lambda e: e["price"] > 1) == ("price",)
    assert seat(lambda e: e["price"] > 1, Dictionary) is None
    assert seat(lambda e: e.data["price"] > 1, Quote) == ("price", "data")
    assert seat(lambda e: e.price > 1, Quote) == "price"
    assert seat(lambda e: e[0] > 1) is None
    assert seat(lambda e: e["a"]["b"] > 1) is None
    assert seat(lambda e: len(e) > 1) is None


def calls_of(matcher: pc.Matcher[int], event: object) -> int:
    """How many functions of Python it calls to match an event."""
    names: list[str] = []

    def watch(frame: FrameType, what: str, _: object) -> None:
        if what == "call":
            names.append(frame.f_code.co_name)

    match = matcher.match
    sys.setprofile(watch)
    try:
        match(event)
    finally:
        sys.setprofile(None)
    return len(names)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("$.price", Quote(2, "x")),
        ("$.price", Slotted(2, "x")),
        ("$price", pc.StructuredEvent(filterable_data={"price": 2})),
        ("$price", {"price": 2}),
        ("$type_name", pc.StructuredEvent("a", "b")),
    ],
)
def test_nothing_is_called_for_what_is_just_looked_up(text: str, event: object) -> None:
    matcher = matcher_of([pc.parse_filter(f"{text} > {number}", "etcl") for number in range(100)])
    for _ in range(3):
        matcher.match(event)
    assert calls_of(matcher, event) == 0


def test_a_class_that_changes_is_looked_at_anew() -> None:
    @dataclass
    class Changing:
        price: Any = 0

    matcher = matcher_of([pc.parse_filter(f"$.price > {number}", "etcl") for number in range(10)])
    event = Changing(3)
    assert [len(matcher.match(event)) for _ in range(3)] == [3, 3, 3]
    Changing.price = property(lambda self: 7)
    assert [len(matcher.match(event)) for _ in range(3)] == [7, 7, 7]


def test_many_classes_and_names_at_once() -> None:
    """More than the kernel keeps in mind: it looks again, or calls what it cannot look up."""
    names = [f"a{number}" for number in range(40)]
    filters = [
        pc.parse_filter(f"{way}{name} > {least}", "etcl")
        for name in names
        for way in ("$.", "$")
        for least in range(4)
    ]
    matcher = matcher_of(filters)
    classes = [
        type(f"C{n}", (dict,) if n % 3 == 0 else (), {"__annotations__": dict.fromkeys(names, int)})
        for n in range(20)
    ]
    for number, cls in enumerate(classes * 2):
        event = cls()
        if isinstance(event, dict):
            event.update(dict.fromkeys(names, number % 5))
        else:
            vars(event).update(dict.fromkeys(names, number % 5))
        expected = [at for at, each in enumerate(filters) if each.matches(event)]
        assert sorted(matcher.match(event)) == expected
