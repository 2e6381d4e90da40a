"""The generated code: short, without reflection, and deaf to hostile names."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from reflective import reflect

import polycast as pc
from polycast.contexts.resolve.inheritance import settle


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
class Huge(Big):
    crane: bool = True


@dataclass(frozen=True)
class Line:
    price: Money
    item: Item
    extras: tuple[Money, ...] = ()
    rebate: Money | None = None


@dataclass(frozen=True)
class Order:
    lines: list[Line]
    notes: dict[str, Money] = field(default_factory=dict)
    mixed: list[int] | int = 0
    next: Order | None = None


@dataclass(frozen=True)
class USItem:
    name: str


@dataclass(frozen=True)
class USLine:
    price: Money
    item: USItem
    extras: tuple[Money, ...] = ()
    rebate: Money | None = None


@dataclass(frozen=True)
class USOrder:
    lines: list[USLine]
    notes: dict[str, Money] = field(default_factory=dict)
    mixed: list[int] | int = 0
    next: USOrder | None = None


def to_dollars(money: Money) -> Money:
    return Money(money.amount * 2)


def orders() -> pc.Context:
    root = pc.Context("root", types=[Order, Line, Item, Heavy, Big, Huge, Money])
    us = pc.Context("us", parent=root, types=[USOrder, USLine, USItem])
    us.map(Order, USOrder, "?")
    us.map(Line, USLine, "?")
    us.map(Item, USItem, "?")
    us.rule("Money", to_dollars)
    return us


def both_ways(made: pc.Context, event: Any) -> Any:
    federation = pc.Federation(made.root)
    federation.add(made)
    found = federation.translate(event, target=made)
    assert reflect(settle(made), "?", event) == found
    return found


def test_the_code_of_a_mapping_reads_as_one_would_write_it() -> None:
    assert orders().source(Line) == (
        "def translate(e):\n"
        "    return USLine(\n"
        "        (\n"
        "            (\n"
        "                made if type(made := to_dollars(price)) is Money\n"
        "                else checked_to_dollars(made)\n"
        "            ) if type(price := e.price) is Money\n"
        "            else other_price(price)\n"
        "        ),\n"
        "        by_type_item.get(type(item := e.item), new_item)(item),\n"
        "        tuple([\n"
        "            (\n"
        "                (\n"
        "                    made_2 if type(made_2 := to_dollars(x)) is Money\n"
        "                    else checked_to_dollars_2(made_2)\n"
        "                ) if type(x) is Money\n"
        "                else other_extras(x)\n"
        "            )\n"
        "            for x in e.extras\n"
        "        ]),\n"
        "        (\n"
        "            None if (rebate := e.rebate) is None\n"
        "            else (\n"
        "                made_3 if type(made_3 := to_dollars(rebate)) is Money\n"
        "                else checked_to_dollars_3(made_3)\n"
        "            ) if type(rebate) is Money\n"
        "            else other_rebate(rebate)\n"
        "        ),\n"
        "    )\n"
        "\n\n"
        "def Item_to_USItem(e):\n"
        "    return USItem(e.name)\n"
        "\n\n"
        "def Heavy_to_USItem(e):\n"
        "    return USItem(e.name)\n"
        "\n\n"
        "def Big_to_USItem(e):\n"
        "    return USItem(e.name)\n"
        "\n\n"
        "def Huge_to_USItem(e):\n"
        "    return USItem(e.name)\n"
        "\n\n"
        "by_type_item.update({\n"
        "    Item: Item_to_USItem,\n"
        "    Heavy: Heavy_to_USItem,\n"
        "    Big: Big_to_USItem,\n"
        "    Huge: Huge_to_USItem,\n"
        "})\n"
    )


def test_there_is_one_function_for_each_mapping_and_type_met() -> None:
    tree = ast.parse(orders().source(Order))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    items = ["Item_to_USItem", "Heavy_to_USItem", "Big_to_USItem", "Huge_to_USItem"]
    assert names == ["translate", "Line_to_USLine", *items]


def test_no_attribute_is_looked_up_and_no_class_tested_but_containers() -> None:
    source = orders().source(Order)
    called = [
        node.func.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert not {"getattr", "setattr", "hasattr", "vars", "eval", "exec"} & set(called)
    assert called.count("isinstance") == source.count("isinstance(mixed := e.mixed, list)") == 1
    assert max(map(len, source.splitlines())) <= 88


def test_what_is_shown_is_what_runs() -> None:
    line = Line(Money(1.0), Huge("a"), (Money(2.0),), None)
    order = Order([line], {"n": Money(3.0)}, [4], Order([]))
    us_line = USLine(Money(2.0), USItem("a"), (Money(4.0),), None)
    expected = USOrder([us_line], {"n": Money(6.0)}, [4], USOrder([]))
    assert both_ways(orders(), order) == expected


def test_a_type_that_contains_itself_calls_itself() -> None:
    assert "translate(next) if type(next)" not in orders().source(Order)  # it is a built-in name
    assert "translate(the_next) if type(the_next) is Order" in orders().source(Order)


NAMES = ["type", "list", "tuple", "e", "v", "v1", "x", "k", "translate", "other_price", "Money"]
NAMES += ["USLine", "price", "copied", "missing", "Lacking", "None", "print"]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_may_have_any_name(name: str) -> None:
    def double(money: Money) -> Money:
        return Money(money.amount * 2)

    double.__name__ = double.__qualname__ = name
    root = pc.Context("root", types=[Line, Item, Money])
    us = pc.Context("us", parent=root, types=[USLine, USItem])
    us.map(Line, USLine, "?")
    us.map(Item, USItem, "?")
    us.rule("Money", double)
    us.rule("USItem.name", pc.rules.identity)
    line = Line(Money(1.0), Item("a"), (Money(2.0),), Money(3.0))
    expected = USLine(Money(2.0), USItem("a"), (Money(4.0),), Money(6.0))
    assert both_ways(us, line) == expected


def test_functions_of_one_name_are_kept_apart() -> None:
    root = pc.Context("root", types=[Line, Item, Money])
    us = pc.Context("us", parent=root, types=[USLine, USItem])
    us.map(Line, USLine, "?")
    us.map(Item, USItem, "?")
    for number, pattern in enumerate(["Line.price", "Line.extras", "Line.rebate"]):
        us.rule(pattern, pc.unchecked(lambda money, by=number: Money(money.amount + by)))
    line = Line(Money(1.0), Item("a"), (Money(1.0),), Money(1.0))
    expected = USLine(Money(1.0), USItem("a"), (Money(2.0),), Money(3.0))
    assert both_ways(us, line) == expected


EVIL = "__import__('os').abort()"


@pytest.mark.parametrize("name", [EVIL, "a b", "x\n    raise", "1", "", "\x0e\x11,\x12", "ß", "ﬁ"])
def test_the_name_of_a_function_is_never_run(name: str) -> None:
    def double(money: Money) -> Money:
        return Money(money.amount * 2)

    double.__name__ = double.__qualname__ = name
    root = pc.Context("root", types=[Line, Item, Money])
    us = pc.Context("us", parent=root, types=[USLine])
    us.map(Line, USLine, "?")
    us.rule("Money", double)
    us.rule("Line.item", pc.unchecked(lambda item: USItem(item.name)))
    found = both_ways(us, Line(Money(1.0), Item("a"), (Money(1.0),)))
    assert found == USLine(Money(2.0), USItem("a"), (Money(2.0),))
    assert "import" not in us.source(Line)


@pytest.mark.parametrize("name", ["class", "lambda", "None", EVIL, "ﬁ", "a b", "e", "type", "self"])
def test_a_class_and_its_attributes_may_have_any_name(name: str) -> None:
    one, two = _named(name), _named(name)
    root = pc.Context("root", types=[one, Money])
    us = pc.Context("us", parent=root, types=[two])
    us.map(one, two, "?")
    us.rule("Money", to_dollars)
    found = both_ways(us, _filled(one, name, 1.0))
    assert type(found) is two
    assert getattr(found, name) == Money(2.0)


def _named(name: str) -> Any:
    class Holder:
        def __eq__(self, other: object) -> bool:
            return vars(self) == vars(other)

        __hash__ = None  # type: ignore[assignment]

    Holder.__annotations__ = {name: Money}
    Holder.__name__ = Holder.__qualname__ = name
    return Holder


def _filled(cls: Any, name: str, amount: float) -> Any:
    made = cls()
    setattr(made, name, Money(amount))
    return made


def test_an_alias_that_is_no_identifier_is_given_as_it_is() -> None:
    class Model(pydantic.BaseModel):
        price: Money = pydantic.Field(alias="the-price")
        other: str = pydantic.Field(alias="'}); raise SystemExit #")

    source = make_dataclass("Source", [("price", Money), ("other", str)], frozen=True)
    root = pc.Context("root", types=[source, Money])
    us = pc.Context("us", parent=root, types=[Model])
    us.map(source, Model, "?")
    us.rule("Money", to_dollars)
    found = both_ways(us, source(Money(1.0), "a"))
    assert (found.price, found.other) == (Money(2.0), "a")


def test_built_in_names_are_never_hidden() -> None:
    tree = ast.parse(orders().source(Order))
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and _binds(node)}
    assert not bound & set(dir(builtins))


def _binds(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


class Struct(msgspec.Struct, kw_only=True):
    price: Money


class FrozenStruct(msgspec.Struct, frozen=True):
    price: Money


@attrs.define
class Attrs:
    _price: Money
    price: Money = attrs.field(alias="cost")


@attrs.frozen(kw_only=True)
class FrozenAttrs:
    price: Money = attrs.field()
    seen: int = attrs.field(init=False, default=3)


@dataclass(slots=True)
class Slots:
    price: Money


@dataclass(kw_only=True)
class Own:
    price: Money
    double: float = field(init=False)

    def __post_init__(self) -> None:
        self.double = self.price.amount * 2


class Plain:
    price: Money

    def __init__(self, price: Money) -> None:
        self.price = price


class Odd:
    __slots__ = ("price",)
    price: Money

    def __init__(self, row: tuple[Money]) -> None:
        (self.price,) = row


class Model(pydantic.BaseModel):
    price: Money = pydantic.Field(alias="$")


@dataclass(frozen=True)
class Source:
    price: Money
    _price: Money = Money(7.0)


@pytest.mark.parametrize(
    "target", [Struct, FrozenStruct, Attrs, FrozenAttrs, Slots, Own, Plain, Odd, Model]
)
def test_objects_of_all_kinds_are_made(target: type) -> None:
    root = pc.Context("root", types=[Source, Money])
    us = pc.Context("us", parent=root, types=[target])
    us.map(Source, target, "?")
    us.rule("Money", to_dollars)
    federation = pc.Federation(root)
    federation.add(us)
    for found in (
        federation.translate(Source(Money(1.0)), target=us),
        reflect(settle(us), "?", Source(Money(1.0))),
    ):
        assert type(found) is target
        assert found.price == Money(2.0)
        assert getattr(found, "double", 4.0) == 4.0
        assert getattr(found, "_price", Money(14.0)) == Money(14.0)


# -- attributes that a constructor does not take ---------------------------------------------------


@dataclass
class Claim:
    number: int
    state: str = field(init=False, default="new")
    notes: list[str] = field(init=False, default_factory=list)
    total: float = field(init=False)


@dataclass
class USClaim(Claim):
    pass


@dataclass(frozen=True)
class FrozenClaim:
    number: int
    state: str = field(init=False, default="new")


@dataclass
class CheckedClaim:
    number: int
    state: str = field(init=False, default="new")

    def __post_init__(self) -> None:
        self.state = f"checked {self.number}"


class WrittenClaim(Claim):
    def __init__(self, number: int) -> None:
        super().__init__(number + 100)


def louder(state: str) -> str:
    return state.upper()


def claims(target: type, *, rule: bool = False) -> Any:
    """What becomes of a claim that was paid since it was made."""
    claim = Claim(1)
    claim.state, claim.total = "paid", 2.5
    claim.notes.append("urgent")
    root = pc.Context("root", types=[Claim])
    us = pc.Context("us", parent=root, types=[target])
    us.map(Claim, target, "?")
    if rule:
        us.rule("Claim.state", louder)
    fed = pc.Federation(root)
    fed.add(us)
    made = fed.translate(claim, target=us)
    assert vars(made) == vars(reflect(settle(us), "?", claim))
    return made


def test_an_attribute_that_a_constructor_does_not_take_is_copied_by_its_name() -> None:
    made = claims(USClaim)
    assert (type(made), made.number, made.state, made.total) == (USClaim, 1, "paid", 2.5)
    assert made.notes == ["urgent"]
    assert claims(FrozenClaim).state == "paid"


def test_a_rule_applies_to_it_too() -> None:
    assert claims(USClaim, rule=True).state == "PAID"


def test_one_that_may_be_computed_is_left_to_its_class() -> None:
    assert claims(CheckedClaim).state == "checked 1"
    made = claims(WrittenClaim)
    assert (made.number, made.state) == (101, "new")
