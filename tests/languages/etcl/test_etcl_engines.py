"""What the index, the generated code, brokers and Spark make of an ETCL filter."""

from __future__ import annotations

import decimal
import enum
import gc
import weakref
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.errors import NoSparkFormError
from polycast.filters.backends.python import generate
from polycast.filters.normal_form.disjunction import conjunctions
from polycast.filters.normal_form.ordered_domains import Interval, Others, Points
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import folded
from polycast.filters.tree.canonical_text import parse
from polycast.filters.tree.projection import attributes_read
from polycast.filters.tree.relaxation import relaxed
from polycast.languages.etcl.grammar import etcl_text
from polycast.matching.native import available
from polycast.matching.native.native_index import NativeIndex


@dataclass
class Quote:
    price: Any = 0
    symbol: str = ""
    type_name: str = ""


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def etcl(text: str) -> pc.Filter[Any]:
    return pc.parse_filter(text, "etcl")


def forms(text: str) -> list[Any]:
    """What is asked of terms, conjunction by conjunction."""
    found = conjunctions(etcl(text).tree)
    return [
        None if predicate.form is None else predicate.form[1:] for row in found for predicate in row
    ]


# -- the index -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "form"),
    [
        ("$.a == 5", Points, ((5,),)),
        ("5 == $.a", Points, ((5,),)),
        ("$.a != 5", Others, ((5,),)),
        ("not ($.a == 5)", Others, ((5,),)),
        ("not ($.a != 5)", Points, ((5,),)),
        ("$.a < 5", Interval, (None, 5, True, False, False)),
        ("5 <= $.a", Interval, (5, None, True, True, False)),
        ("not ($.a < 5)", Interval, (5, None, True, True, True)),
        ("not ($.a < 'abc')", Interval, ("abc", None, True, True, False)),
        ("$.a == 'abc'", Points, (("abc",),)),
        ("$.a == 'x'", Points, (("x",),)),
        ("$.a == RED", Points, (("RED",),)),
        ("$.a", Points, ((True,),)),
        ("not $.a", Points, ((False,),)),
        ("$.a == 1 or $.a == 2 or $.a == 2", Points, ((1, 2),)),
        ("not ($.a == 1 or $.a == 2)", Others, ((1, 2),)),
        ("$.a > 1 and $.a < 5", Interval, (1, 5, False, False, False)),
        ("$.a + 1 > 5", Interval, (5, None, False, True, False)),
    ],
)
def test_a_strict_comparison_with_a_constant_is_looked_up(text: str, kind: type, form: Any) -> None:
    [[predicate]] = conjunctions(etcl(text).tree)
    assert isinstance(predicate.form, kind)
    assert predicate.form[1:] == form


@pytest.mark.parametrize(
    "text",
    ["$.a < 'x'", "$.a == $.b", "1 in $.a", "'abc' ~ $.a", "exist $.a", "1 < 2", "'a' == 97"],
)
def test_what_has_no_exact_form_is_evaluated(text: str) -> None:
    assert forms(text) == [None]


def test_equalities_of_other_kinds_are_not_one_choice() -> None:
    assert len(conjunctions(etcl("$.a == 1 or $.a == 'abc'").tree)) == 2
    matcher: pc.Matcher[int] = pc.Matcher()
    matcher.add(1, object, etcl("$.a == 1 or $.a == 'abc'"))
    assert matcher.match({"a": 1}) == [1]
    assert matcher.match({"a": "abc"}) == []  # the first comparison fails


ODD = [
    *(5, 5.0, True, "abc", "R", None, Color.RED, Color.BLUE, [5], {"x": 5}, float("nan")),
    *(decimal.Decimal(5), decimal.Decimal("NaN"), 82, 2**70, Quote()),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: f"{type(value).__name__}-{value}")
def test_many_filters_on_one_value_are_what_each_is(value: Any) -> None:
    constants = ["5", "5.5", "TRUE", "'abc'", "'R'", "RED", "BLUE", "82", str(2**70), "''"]
    texts = [f"$.a {sign} {constant}" for constant in constants for sign in ("==", "!=")]
    texts += [f"$.a {sign} {n}" for n in range(70, 90) for sign in ("<", ">=")]
    texts += [f"not ({text})" for text in texts]
    filters = [etcl(text) for text in texts]
    matcher: pc.Matcher[int] = pc.Matcher()
    for number, where in enumerate(filters):
        matcher.add(number, object, where)
    event = {"a": value}
    wanted = [number for number, where in enumerate(filters) if where.interpret(event)]
    assert sorted(matcher.match(event)) == wanted
    assert list(map(sorted, matcher.match_batch([event] * 70))) == [wanted] * 70


def test_columns_of_arrow_are_matched_as_objects_are() -> None:
    pa = pytest.importorskip("pyarrow")
    matcher: pc.Matcher[int] = pc.Matcher()
    for number in range(60):
        matcher.add(number, Quote, etcl(f"$.price == {number} or $.symbol == 'x{number}'"))
    batch = pa.record_batch({"price": [3, 59, 77], "symbol": ["", "x7", "x8"]})
    offsets, keys = matcher.match_batch(batch, of=Quote)
    ends, found = offsets.tolist(), keys.tolist()
    assert [sorted(found[a:b]) for a, b in pairwise(ends)] == [[3], [7, 59], [8]]


def test_a_filter_tells_what_is_looked_up() -> None:
    told = etcl("$.price > 5 and $.symbol != 'abc' and 'b' ~ $.symbol").explain()
    assert told.indexed == ("etcl.greater(etcl.component(event, '$.price'), 5): by range",)
    assert len(told.read) == len(told.residual) == 1
    assert etcl("$.price > 5").is_indexed


# -- generated code --------------------------------------------------------------------------------


def test_a_field_of_a_known_class_is_an_attribute() -> None:
    tree = folded(etcl("$.price > 5 and $symbol == 'abc' and $.symbol.x == 1").tree, Quote)
    read = [part.name for part in nodes.walk(tree) if isinstance(part, nodes.Attribute)]
    assert read == ["price", "symbol", "symbol"]
    source = etcl("$.price > 5").to_python(Quote)
    assert "event.price > (5)" in source
    assert "value_0 = $.price.x" in etcl("$.price.x > 5").explain().values


@dataclass
class Trade:
    quote: Quote
    also: Any = None


def test_a_field_of_a_field_is_read_directly_if_it_holds_what_it_is_declared_to_hold() -> None:
    where = etcl("$.quote.symbol == 'abc' and not ($.also.symbol == 'x')")
    source = where.to_python(Trade)
    assert ".symbol == value_" in source
    assert "event.also.symbol" not in source
    code = generate(folded(where.tree, Trade), cls=Trade).function
    for quote in (Quote(symbol="abc"), {"symbol": "abc"}, pc.TaggedUnion(1, "symbol", "abc")):
        assert code(Trade(quote, {"symbol": "abc"}))  # type: ignore[arg-type]
    for odd in (None, 5, "abc", Quote(symbol=5), {}):  # type: ignore[arg-type]
        with pytest.raises((LookupError, TypeError)):
            code(Trade(odd, {"symbol": "abc"}))  # type: ignore[arg-type]


def test_a_bus_reads_a_field_of_a_field() -> None:
    with pc.Bus() as bus:
        found: list[Trade] = []
        for text in ("$.quote.price > 5", "$.quote.price < 9 and $.also.x == 1"):
            bus.subscribe(Trade, found.append, where=etcl(text), dispatch="inline")
        for price, also in ((6, {"x": 1}), (6, None), ("6", {"x": 1}), (4, {"x": 1})):
            bus.publish(Trade(Quote(price), also))
    assert [item.quote.price for item in found] == [6, 6, 6, 4]


def test_code_under_a_quantifier_keeps_to_what_python_allows() -> None:
    text = "any(etcl.equal(etcl.component(event, '$.also.x'), 1) for each in "
    over = "[etcl.equal(etcl.component(event, '$.quote.symbol'), 'abc')])"
    where: pc.Filter[Any] = pc.Filter(parse(f"{text}{over}"))
    code = generate(folded(where.tree, Trade), cls=Trade).function
    assert code(Trade(Quote(symbol="abc"), {"x": 1}))
    assert not code(Trade(Quote(symbol="abc"), {"x": 2}))


@pytest.mark.parametrize(
    "text", ["$.missing == 1", "$type_name == 'x'", "$.0 == 1", "$._type_id == 'x'"]
)
def test_what_may_be_something_else_stays_a_component(text: str) -> None:
    assert folded(etcl(text).tree, Quote) == etcl(text).tree


def test_a_structured_event_is_never_taken_for_an_object() -> None:
    where = etcl("$.domain_name == 'abc'")
    assert folded(where.tree, pc.StructuredEvent) == where.tree
    assert not where.matches(pc.StructuredEvent("abc"))


# -- brokers and stores ----------------------------------------------------------------------------

SAME = {"variable_header", "filterable_data"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$.price > 5 and exist $.symbol.x", {"price", "symbol"}),
        ("$price > 5", {"price", *SAME}),
        ("$domain_name == 'x'", {"domain_name", *SAME}),
        ("$.header.fixed_header.event_name == 'x'", None),
        ("$._type_id == 'Quote' and $curtime.time > 5", set()),
        ("TRUE", set()),
    ],
)
def test_a_filter_looks_at_these_attributes(text: str, names: set[str] | None) -> None:
    header = {"header", "domain_name", "type_name", "event_name", "variable_header"}
    assert attributes_read(etcl(text).tree) == (header if names is None else names)


@pytest.mark.parametrize(
    "text", ["$ == 1", "$.0 == 1", "$(a) == 1", "$[0] == 1", "1 in $", "$._d == 1"]
)
def test_a_filter_may_look_at_all_of_an_event(text: str) -> None:
    assert attributes_read(etcl(text).tree) is None


def test_a_part_that_cannot_be_asked_is_left_out() -> None:
    where = etcl("$.a == 1 and $.b == 2")
    less = relaxed(where.tree, lambda node: "$.b" not in str(pc.Filter(node)))
    assert pc.Filter(less) == etcl("$.a == 1")


@pytest.mark.parametrize(
    "text",
    [
        "etcl.component(event, '$.__class__')",
        "etcl.exists(event, '$.a.gi_frame')",
        "etcl.component(event, 'a')",
        "etcl.component(event, '$ .a')",
        "etcl.component(event, 5)",
        "etcl.component(event, event.a)",
        "etcl.label(5)",
        "etcl.character('ab')",
        "etcl.nothing(event)",
        "etcl.equal(event)",
    ],
)
def test_a_filter_from_outside_may_not_say_this(text: str) -> None:
    with pytest.raises(pc.FilterError):
        pc.Filter.from_json({"format": 1, "filter": text})


def test_no_product_is_huge() -> None:
    text = " * ".join(["$.a"] * 40)
    where = pc.Filter.from_json(etcl(f"{text} > 0").to_json())
    assert where.matches({"a": 2**60})
    assert not where.matches({"a": 2**5_000})
    assert not where.matches({"a": 2**100_000})


@pytest.mark.parametrize(
    ("first", "more", "last"), [("$.a > 0", " + 1", " > 0"), ("TRUE", " and not (TRUE", ")")]
)
def test_the_deepest_filter_is_read_again(first: str, more: str, last: str) -> None:
    found = None
    for count in range(60):
        text = f"0{more * count} < 9" if last == " > 0" else f"{first}{more * count}{last * count}"
        try:
            found = etcl(text)
        except pc.FilterSyntaxError:
            break
    assert count > 20
    assert found is not None
    assert pc.Filter.from_json(found.to_json()) == found
    assert found.matches(None) is found.interpret(None)


def test_spark_refuses() -> None:
    with pytest.raises(NoSparkFormError, match=r"etcl\.greater"):
        etcl("$.price > 5").to_spark(Quote)


def test_only_what_etcl_can_say_is_written_in_it() -> None:
    assert etcl("not ($.a==1 OR\t$.b)").to_etcl() == "not ($.a == 1 or $.b)"
    for where in (
        pc.lift(lambda e: e.price > 5),
        pc.Filter(parse("etcl.component(event.a, '$.b')")),
    ):
        with pytest.raises(pc.FilterError, match="cannot be said in ETCL"):
            where.to_etcl()
    with pytest.raises(pc.BadOptionError):
        etcl_text("$.a == 1")  # type: ignore[arg-type]


def test_filters_of_two_languages_are_joined() -> None:
    both = etcl("$.price > 5") & pc.lift(lambda e: e.symbol == "x")
    assert both.matches(Quote(6, "x"))
    assert not both.matches(Quote("6", "x"))
    assert not (~both).matches(Quote("6", "x"))


def test_a_class_whose_events_were_asked_may_go() -> None:
    cls = type("Passing", (), {})
    event = cls()
    event.a = 1
    assert etcl("$.a == 1").matches(event)
    gone = weakref.ref(cls)
    del cls, event
    gc.collect()
    assert gone() is None


@dataclass
class Tick:
    price: float | None = None
    size: int | None = None
    symbol: str | None = None
    open: bool | None = None


@pytest.mark.parametrize("native", [True, False])
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_columns_of_arrow_are_what_components_read(native: bool, data: st.DataObject) -> None:
    if native and available() is None:
        pytest.skip("the kernel is not built")
    texts = data.draw(st.lists(TERMS, min_size=1, max_size=60))
    ticks = data.draw(st.lists(TICKS, min_size=1, max_size=20))
    matcher: pc.Matcher[int] = pc.Matcher(native=native)
    for number, text in enumerate(texts):
        matcher.add(number, Tick, etcl(text))
    wanted = [[n for n, text in enumerate(texts) if etcl(text).matches(tick)] for tick in ticks]
    assert [sorted(matcher.match(tick)) for tick in ticks] == wanted
    assert [sorted(matched) for matched in matcher.match_batch(ticks)] == wanted
    offsets, keys = matcher.match_batch(rows_of(ticks), of=Tick)
    assert [sorted(keys[a:b]) for a, b in pairwise(offsets)] == wanted


NUMBERS = ["0", "1", "-1", "2.5", "1.0e2", "9007199254740993", "TRUE"]
TERMS = st.one_of(
    st.builds(
        "{}.{} {} {}".format,
        st.just("$"),
        st.sampled_from(["price", "size", "open", "symbol"]),
        st.sampled_from(["==", "!=", "<", ">="]),
        st.sampled_from(NUMBERS),
    ),
    st.builds(
        "$.symbol {} {}".format,
        st.sampled_from(["==", "!=", "<", ">="]),
        st.sampled_from(["'ab'", "'abc'", "'b'", "''"]),
    ),
    st.sampled_from(
        [
            "$.open",
            "not $.open",
            "$open and $.size != 1",
            "$.symbol != 'ab' and $.price != 2.5",
            "not ($.size == 1 or $.size == 2)",
            "not ($.price < 1)",
        ]
    ),
)
TICKS = st.builds(
    Tick,
    st.sampled_from([None, 0.0, -0.0, 1.0, 2.5, 100.0, float("nan"), float("inf")]),
    st.sampled_from([None, 0, 1, 2, -1, 2**53 + 1, 2**63 - 1]),
    st.sampled_from([None, "", "a", "ab", "abc", "b", "\u00e9"]),
    st.sampled_from([None, True, False]),
)


def rows_of(ticks: list[Tick]) -> Any:
    import pyarrow as pa

    schema = {"price": pa.float64(), "size": pa.int64(), "symbol": pa.string(), "open": pa.bool_()}
    return pa.record_batch(
        {name: pa.array([getattr(t, name) for t in ticks], of) for name, of in schema.items()}
    )


def test_what_has_to_differ_and_booleans_are_matched_by_the_kernel() -> None:
    if available() is None:
        pytest.skip("the kernel is not built")
    matcher: pc.Matcher[int] = pc.Matcher(native=True)
    for number in range(200):
        matcher.add(number, Tick, etcl(f"$.size != {number} and $.open"))
    assert len(matcher.match(Tick(size=3, open=True))) == 199
    assert matcher.match(Tick(size=None, open=True)) == matcher.match(Tick(size=3)) == []
    (index,) = matcher._indexes.values()
    assert isinstance(index, NativeIndex)
    assert not index._elsewhere
    assert not [residual for residual in index.kernel.residuals if residual is not None]
