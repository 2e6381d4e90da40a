"""Every error, warning and observation of a check, with its exact message."""

from __future__ import annotations

import abc
import re
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

import polycast as pc
from polycast.contexts.check.findings import CODES


@dataclass(frozen=True)
class Money:
    amount: float


@dataclass(frozen=True)
class Item:
    name: str


@dataclass(frozen=True)
class Heavy(Item):
    weight: float = 0.0


@dataclass(frozen=True)
class Big(Item):
    size: float = 0.0


@dataclass(frozen=True)
class BigHeavy(Big, Heavy):
    pass


@dataclass(frozen=True)
class Line:
    item: Item
    price: Money
    count: int = 1


@dataclass(frozen=True)
class Bill:
    first: Line
    Money: str = ""


@dataclass(frozen=True)
class USItem:
    name: str


@dataclass(frozen=True)
class USLine:
    item: Item
    price: Money


def to_dollars(money: Money) -> Money:
    return money


def twice(money: Money) -> Money:
    return money


def to_text(money: Money) -> str:
    return str(money)


def to_us(item: Item) -> USItem:
    return USItem(item.name)


def of_line(line: Line) -> USLine:
    return USLine(line.item, line.price)


def by_two(one: Money, other: Money) -> Money:
    return one


def unannotated(money):  # type: ignore[no-untyped-def]
    return money


def without_result(money: Money):  # type: ignore[no-untyped-def]
    return money


def nothing() -> Money:
    return Money(0.0)


async def later(money: Money) -> Money:
    return money


def make_root(*more: type) -> pc.Context:
    return pc.Context("root", types=[Bill, Line, Item, Heavy, Big, BigHeavy, Money, *more])


def make_us(*more: type, root: pc.Context | None = None) -> pc.Context:
    us = pc.Context("us", parent=root or make_root(), types=[USLine, *more])
    us.map(Line, USLine, "?")
    us.map(USLine, Line, "!")
    return us


def said(context: pc.Context, code: str) -> list[str]:
    """What a check says under a code."""
    return [
        f"{finding.severity}: {finding.where}: {finding.text}"
        for finding in context.check().findings
        if finding.code == code
    ]


# -- patterns --------------------------------------------------------------------------------------

PATTERNS: list[tuple[str, str, str, int]] = [
    ("bad-pattern", "", "the pattern is empty; it begins with a type", 0),
    ("bad-pattern", "Line.", "here an attribute or a type is expected", 5),
    ("bad-pattern", "Line..price", "here an attribute or a type is expected", 5),
    ("bad-pattern", ".Line", "here a type is expected", 0),
    ("bad-pattern", "Line price", "here '.' is expected", 5),
    ("bad-pattern", "Line.item(Heavy", "here ')' is expected", 15),
    ("bad-pattern", "Line.item()", "here a type is expected", 10),
    ("bad-pattern", "Line.*", "'*' has no place in a pattern", 5),
    ("bad-pattern", "Line.:", "here a type is expected", 6),
    ("bad-pattern", "(Line)", "here a type is expected", 0),
    ("unknown-type", "Lime", "there is no type 'Lime'; did you mean Line or USLine?", 0),
    ("unknown-type", "Zzz.price", "there is no type 'Zzz'", 0),
    ("unknown-type", "Line.item(Hvy)", "there is no type 'Hvy'; did you mean Heavy?", 10),
    ("unknown-type", "Line.:price", "there is no type 'price'", 6),
    (
        "unknown-attribute",
        "Line.cost",
        "'cost' is no attribute of Line and no type; it has item, price, count",
        5,
    ),
    (
        "unknown-attribute",
        "Line.price.amount.digits",
        "'digits' is no attribute of float and no type; it has no attributes",
        18,
    ),
    (
        "not-a-subtype",
        "Line.item(Money)",
        "Money is no subtype of Item, which 'item' holds",
        10,
    ),
    (
        "named-twice",
        "Line.Line.price",
        "Line is named twice; a path is not followed round in circles",
        5,
    ),
    ("not-an-attribute", "Bill.Heavy.name", "Bill has no attribute of type Heavy", 5),
    ("not-reachable", "Line.Bill", "no Bill is to be found anywhere in Line", 5),
    ("named-twice", "Line.Line", "Line is named twice; a path is not followed round in circles", 5),
    (
        "named-twice",
        "Bill.first(Line).item(Item).Item",
        "Item is named twice; a path is not followed round in circles",
        28,
    ),
]


@pytest.mark.parametrize(("code", "pattern", "why", "at"), PATTERNS)
def test_a_pattern_that_is_wrong(code: str, pattern: str, why: str, at: int) -> None:
    us = make_us()
    us.rule(pattern, to_dollars)
    assert said(us, code) == [f"error: us, rule {pattern!r}: {why}\n    {pattern}\n    {' ' * at}^"]
    assert len(us.check().errors) == 1


def test_a_name_that_is_two_types() -> None:
    other = make_dataclass("Money", ["x"])
    other.__module__ = "elsewhere"
    us = make_us(other)
    us.rule("Money", to_dollars)
    assert said(us, "ambiguous-type") == [
        "error: us, rule 'Money': 'Money' is two types; say elsewhere.Money or "
        f"{__name__}.Money\n    Money\n    ^"
    ]


def test_a_name_that_is_an_attribute_and_a_type() -> None:
    us = make_us()
    us.rule("Bill.Money", pc.rules.identity)
    us.rule("Bill.:Money", to_dollars)
    assert said(us, "attribute-or-type") == [
        "warning: us, rule 'Bill.Money': 'Money' in 'Bill.Money' is an attribute and a type; it is "
        "read as the attribute, .:Money is the type"
    ]


def local_types() -> tuple[type, type]:
    @dataclass(frozen=True)
    class Coin:
        amount: float

    @dataclass(frozen=True)
    class Purse:
        owner: str
        coin: Coin
        coins: list[Coin]
        nothing: None = None

    return Coin, Purse


def test_an_annotation_that_cannot_be_resolved() -> None:
    coin, purse = local_types()
    root = pc.Context("root", types=[coin, purse])
    text = (
        "which cannot be resolved from test_context_findings: it counts as Any, so no rule for a "
        "type ever wins there, and nothing inside is looked at"
    )
    assert said(root, "unresolved-annotation") == [
        f"warning: root: Purse.coin is annotated 'Coin', {text}",
        f"warning: root: Purse.coins is annotated 'list[Coin]', {text}",
    ]
    assert said(pc.Context("us", parent=root), "unresolved-annotation") == []


# -- functions -------------------------------------------------------------------------------------

ANNOTATE = "annotate it, as in f(x: Money) -> Money, or wrap it: pc.unchecked(f)"
UNUSABLE: list[tuple[Any, str]] = [
    (3, "3 is not a function; a function of one argument, or '-', is"),
    (by_two, "by_two takes 2 arguments; a rule gives it one: the value at the path"),
    (nothing, "nothing takes no argument; a rule gives it one: the value at the path"),
    (unannotated, f"its argument 'money' is not annotated in unannotated; {ANNOTATE}"),
    (without_result, f"its result is not annotated in without_result; {ANNOTATE}"),
    (later, "later gives no value, but a coroutine or a generator"),
]


@pytest.mark.parametrize(("function", "why"), UNUSABLE)
def test_a_function_that_cannot_be_used(function: Any, why: str) -> None:
    us = make_us()
    us.rule("Money", function)
    assert said(us, "bad-function") == [f"error: us, rule 'Money': {why}"]


def test_a_function_that_does_not_take_what_is_there() -> None:
    us = make_us()
    us.rule("Line.item", to_dollars)
    assert said(us, "bad-argument") == [
        "error: us, rule 'Line.item': to_dollars takes Money, and at the pattern is Item; it would "
        "have to take a supertype of that"
    ]


def test_a_function_whose_result_does_not_fit() -> None:
    us = make_us()
    us.rule("Line.price", to_text)
    us.rule("Money", to_dollars)
    assert said(us, "bad-result") == [
        "error: us, mapping 'Line => USLine ?': at Line.price 'Line.price' wins, and to_text gives "
        "str; Money is wanted there"
    ]


def test_a_rule_that_loses_may_be_wrong() -> None:
    us = make_us()
    us.rule("Line.price", to_dollars)
    us.rule("USLine.price", to_dollars)
    us.rule("Money", to_text)
    assert us.check().errors == ()


def test_a_function_of_whole_events_is_checked_like_the_others() -> None:
    us = make_us()
    us.whole(Line, to_dollars)
    assert said(us, "bad-result") == [
        "error: us, mapping 'Line => USLine ?': to_dollars gives Money, not USLine"
    ]
    assert said(us, "bad-argument") == [
        "error: us, mapping 'Line => USLine ?': to_dollars takes Money, and is given the event as "
        "it is, Line, to make the whole USLine of it"
    ]


def test_whole_events_without_a_mapping() -> None:
    us = make_us()
    us.whole(Bill, of_line)
    assert said(us, "bad-mapping") == [
        "error: us, whole 'Bill': Bill has no mapping, so its events stay as they are"
    ]


# -- mappings --------------------------------------------------------------------------------------


def test_a_direction_that_is_the_other_way_round() -> None:
    us = pc.Context("us", parent=make_root(), types=[USLine])
    us.map(Line, USLine, "!")
    us.map(USLine, Line, "?")
    paper = "The listing in the paper (FOS 4.3) prints '!' for a mapping from the root to a context"
    assert said(us, "bad-direction") == [
        "error: us, mapping 'Line => USLine !': '!' maps local to root, but Line is a root type "
        f"and USLine is a local type; did you mean '?'? {paper}",
        "error: us, mapping 'USLine => Line ?': '?' maps root to local, but USLine is a local type "
        f"and Line is a root type; did you mean '!'? {paper}",
    ]


def test_ends_that_are_on_the_same_side() -> None:
    us = pc.Context("us", parent=make_root(), types=[USLine, USItem])
    us.map(USLine, USItem, "?")
    us.map(Line, Item, "?")
    assert said(us, "bad-direction") == [
        "error: us, mapping 'USLine => USItem ?': '?' maps root to local, but USLine is a local "
        "type and USItem is a local type; the types of a context are those of types=[...], listed "
        "in 'us'",
        "error: us, mapping 'Line => Item ?': '?' maps root to local, but Line is a root type and "
        "Item is a root type; the types of a context are those of types=[...], listed in 'us'",
    ]


def test_the_root_maps_nothing() -> None:
    root = make_root()
    root.map(Line, USLine, "?")
    assert said(root, "bad-direction") == [
        "error: root, mapping 'Line => USLine ?': the root has no mappings: its types are what "
        "others map to and from"
    ]


class Abstract(abc.ABC):
    item: Item

    @abc.abstractmethod
    def run(self) -> None: ...


def test_a_target_that_nothing_is_of() -> None:
    us = pc.Context("us", parent=make_root(), types=[Abstract])
    us.map(Line, Abstract, "?")
    assert said(us, "not-buildable") == [
        "error: us, mapping 'Line => Abstract ?': Abstract is abstract: there are no objects of it"
    ]


@dataclass(frozen=True)
class Demanding:
    item: USItem
    tax: float
    price: Money | None = None


def test_attributes_that_nothing_produces() -> None:
    us = pc.Context("us", parent=make_root(), types=[Demanding])
    us.map(Line, Demanding, "?")
    end = "a mapping for what it holds, or a default would"
    assert said(us, "nothing-produces") == [
        "error: us, mapping 'Line => Demanding ?': nothing produces Demanding.item from Line: Item "
        "is there, and USItem is wanted; a rule for Line.item with f(x: Item) -> USItem, "
        f"{end}",
        "error: us, mapping 'Line => Demanding ?': nothing produces Demanding.tax from Line: Line "
        "has no attribute 'tax'; context.whole(Line, f) with f(x: Line) -> Demanding, or a "
        "default would",
    ]


def test_none_where_none_is_not_wanted() -> None:
    source = make_dataclass("Source", [("x", float | None)], frozen=True)
    target = make_dataclass("Target", [("x", float)], frozen=True)
    us = pc.Context("us", parent=make_root(source), types=[target])
    us.map(source, target, "?")
    assert said(us, "nothing-produces") == [
        "error: us, mapping 'Source => Target ?': nothing produces Target.x from Source: 'x' may "
        "be None, and float is wanted; context.whole(Source, f) with f(x: Source) -> Target, or a "
        "default would"
    ]


def tangle(monkeypatch: pytest.MonkeyPatch, count: int, **more: object) -> list[type]:
    """Classes each of which holds all the others, and all of which extend the same ones."""
    link = [("link", "B0 | None", None)]
    above = [make_dataclass(f"B{n}", link, frozen=True) for n in range(5)]
    fields = [(f"a{n}", f"T{n} | None", None) for n in range(count)]
    fields += [(name, hint, None) for name, hint in more.items()]  # type: ignore[misc]
    made = [make_dataclass(f"T{n}", fields, bases=tuple(above), frozen=True) for n in range(count)]
    for cls in [*above, *made]:
        cls.__module__ = __name__
        monkeypatch.setitem(globals(), cls.__name__, cls)
    return made


def test_patterns_that_tell_apart_too_many_ways_in_which_types_contain_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types = tangle(monkeypatch, 8)
    target = make_dataclass("Target", [("a1", types[1], None)], frozen=True)
    us = pc.Context("us", parent=pc.Context("root", types=types), types=[target])
    us.map(types[0], target, "?")
    assert said(us, "too-many-paths") == []
    us.rule("T0.B0.B1.B2.B3.B4", pc.unchecked(lambda value: value))
    assert said(us, "too-many-paths") == [
        "error: us, mapping 'T0 => Target ?': T0: more than 10,000 paths: its types contain each "
        "other in too many ways"
    ]


def test_units_in_too_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    types = tangle(monkeypatch, 9, length=Annotated[float, pc.Unit("m")])
    target = make_dataclass("Target", [("a1", types[1], None)], frozen=True)
    us = pc.Context("us", parent=pc.Context("root", types=types), types=[target])
    us.map(types[0], target, "?")
    assert said(us, "too-many-paths") == [
        "error: us, mapping 'T0 => Target ?': T0: more than 10,000 paths: its types contain each "
        "other in too many ways, each of which may need its unit converted"
    ]


def test_unrelated_supertypes_that_are_both_mapped() -> None:
    big, heavy = (make_dataclass(n, [("name", str)], frozen=True) for n in ("USBig", "USHeavy"))
    us = make_us(big, heavy)
    us.map(Big, big, "?")
    us.map(Heavy, heavy, "?")
    assert said(us, "unrelated-mappings") == [
        "warning: us, mapping 'Big => USBig ?': BigHeavy is a Big and a Heavy, which are both "
        "mapped; Big => USBig ? is taken, because that supertype is declared first"
    ]


# -- what is said twice, or in vain ----------------------------------------------------------------


def test_the_same_source_twice() -> None:
    other = make_dataclass("Other", [("item", Item)], frozen=True)
    us = make_us(other)
    us.map(Line, other, "?")
    assert said(us, "mapping-twice") == [
        "warning: us, mapping 'Line => Other ?': the same source twice: Line => Other ? is taken, "
        "not Line => USLine ? (us)"
    ]


def test_the_same_pattern_twice() -> None:
    us = make_us()
    us.rule("Line.price", to_dollars)
    us.rule("Line.price(Money)", twice)
    us.whole(Line, of_line)
    us.whole(Line, of_line)
    assert said(us, "rule-twice") == [
        "warning: us, rule 'Line.price(Money)': the same pattern twice: Line.price(Money) > twice "
        "is taken, not Line.price > to_dollars (us)",
        "warning: us, whole 'Line': the same type of whole events twice: Line > of_line is taken, "
        "not Line > of_line (us)",
    ]


def test_nothing_to_disable() -> None:
    us = make_us()
    us.rule("Money", "-")
    assert said(us, "nothing-to-disable") == [
        "warning: us, rule 'Money': there is no inherited rule 'Money' to disable"
    ]


def test_parents_that_differ() -> None:
    root = make_root()
    one, two = (pc.Context(name, parent=root) for name in ("one", "two"))
    one.rule("Money", to_dollars)
    two.rule("Money", twice)
    child = pc.Context("child", parent=[one, two])
    assert said(child, "parents-differ") == [
        "warning: child: the parents have different rules for the same: Money > to_dollars (one) "
        "is taken, not Money > twice (two)"
    ]
    child.rule("Money", twice)
    assert said(child, "parents-differ") == []


# -- what one may want to know ---------------------------------------------------------------------


def test_types_without_a_mapping() -> None:
    us = pc.Context("us", parent=pc.Context("root", types=[Line, Money]), types=[USLine])
    us.map(Line, USLine, "?")
    assert said(us, "no-mapping") == [
        "observation: us: there is no mapping for Money: it comes in unchanged"
    ]
    assert said(us, "cannot-leave") == [
        "observation: us: there is no mapping for USLine: it cannot leave the context"
    ]


def test_a_rule_that_never_wins() -> None:
    us = make_us()
    us.rule("Bill.first", pc.rules.identity)
    assert said(us, "never-wins") == [
        "observation: us, rule 'Bill.first': Bill.first > identity never wins at any path of any "
        "mapping"
    ]


def test_a_rule_that_wins_in_both_directions() -> None:
    us = make_us()
    us.rule("Money", to_dollars)
    assert said(us, "both-directions") == [
        "observation: us, rule 'Money': Money > to_dollars wins in both directions, at Line.price "
        "and at USLine.price"
    ]


def test_a_rule_that_is_shadowed() -> None:
    us = make_us()
    us.rule("Line.price", to_dollars)
    us.rule("Line.price.amount", pc.rules.identity)
    assert said(us, "shadowed") == [
        "observation: us, rule 'Line.price.amount': 'Line.price.amount' wins at Line.price.amount, "
        "but 'Line.price' wins further out and ends the descent there"
    ]


def test_a_decision_by_declared_order_alone() -> None:
    us = make_us()
    us.rule("Big", pc.rules.identity)
    us.rule("Heavy", pc.rules.identity)
    assert said(us, "declared-order")[0] == (
        "observation: us, rule 'Big': at Line.item 'Big' wins over 'Heavy' only because its "
        "supertype is declared first"
    )


def test_a_rule_whose_result_is_thrown_away() -> None:
    us = make_us()
    us.rule("Line.count", pc.rules.identity)
    assert said(us, "unused-result") == [
        "warning: us, rule 'Line.count': Line.count > identity wins at Line.count, and what it "
        "gives is thrown away: USLine has no attribute 'count'",
    ]
    assert said(us, "never-wins") == []


def test_a_rule_that_is_never_called() -> None:
    us = make_us()
    us.rule("int", pc.rules.identity)
    assert said(us, "unused-result") == [
        "warning: us, rule 'int': int > identity wins at Line.count, and is never called: "
        "Line => USLine ? has no place for it"
    ]
    us.rule("Line.price", to_dollars)
    us.whole(Line, of_line)
    assert said(us, "unused-result") == [
        f"warning: us, rule '{rule}': {rule} > {function} wins at {path}, and is never called: "
        "of_line makes the whole USLine"
        for rule, function, path in (
            ("int", "identity", "Line.count"),
            ("Line.price", "to_dollars", "Line.price"),
        )
    ]


def test_attributes_that_are_dropped() -> None:
    us = make_us()
    assert said(us, "dropped") == [
        "observation: us, mapping 'Line => USLine ?': at Line: USLine has no count, so it is "
        "dropped"
    ]
    small = make_dataclass("Small", [("item", Item)], frozen=True)
    us = pc.Context("us", parent=make_root(), types=[small])
    us.map(Line, small, "?")
    assert said(us, "dropped") == [
        "observation: us, mapping 'Line => Small ?': at Line: Small has no price, count, so they "
        "are dropped"
    ]


# -- all of them -----------------------------------------------------------------------------------

ELSEWHERE = {  # files, units, defaults, containers, stores have tests of their own
    *("bad-xml", "unknown-function", "units-differ", "one-unit", "defaulted", "does-not-fit"),
    *("not-looked-into", "unknown-inside", "replaced"),
}


def test_every_code_has_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in CODES if code not in ELSEWHERE and f'"{code}"' not in text] == []


def test_all_errors_come_at_once() -> None:
    us = make_us()
    us.rule("Lime", to_dollars)
    us.rule("Line.price", to_text)
    us.map(Line, Line, "?")
    fed = pc.Federation(us.root)
    with pytest.raises(pc.ContextRefusedError) as raised:
        fed.add(us)
    assert [error.code for error in raised.value.errors] == [  # type: ignore[attr-defined]
        *("unknown-type", "bad-direction", "bad-result")
    ]
    assert str(raised.value).startswith(
        "context 'us' has 3 errors and is refused; what was in effect before stays in effect\n"
        "  us, rule 'Lime': there is no type 'Lime'"
    )


def test_the_page_has_every_code_with_its_severity() -> None:
    page = Path(__file__).parents[2] / "docs" / "contexts.md"
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (\w+) \|", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert dict(rows) == CODES
    assert len(rows) == len(CODES)
