"""Federations: what they count, what they refuse, and that a change is made whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc


@dataclass(frozen=True)
class Price:
    """What something costs."""

    amount: float


@dataclass(frozen=True)
class Order:
    """An event of the root."""

    price: Price


@dataclass(frozen=True)
class USOrder:
    """An event of `us`."""

    price: Price


@dataclass(frozen=True)
class BadOrder:
    """What no rule can make."""

    price: Price
    needed: int


def double(price: Price) -> Price:
    return Price(price.amount * 2)


def refuse(price: Price) -> Price:
    raise ValueError(f"{price} is refused")


def make_root() -> pc.Context:
    return pc.Context("root", types=[Order, Price])


def make_us(root: pc.Context, function: Any = double, name: str = "us") -> pc.Context:
    us = pc.Context(name, parent=root, types=[USOrder])
    us.map(Order, USOrder, "?")
    us.rule("Price", function)
    return us


def make_bad(root: pc.Context) -> pc.Context:
    bad = pc.Context("bad", parent=root, types=[BadOrder])
    bad.map(Order, BadOrder, "?")
    return bad


# -- counts ----------------------------------------------------------------------------------------


def test_counts_go_on_when_a_context_is_replaced() -> None:
    root = make_root()
    federation = pc.Federation(root)
    federation.add(make_us(root))
    for event in (Order(Price(1)), Price(1)):
        federation.translate(event, target="us")
    federation.replace(make_us(root, refuse))
    with pytest.raises(ValueError, match="is refused"):
        federation.translate(Order(Price(1)), target="us")
    federation.replace(make_us(root))
    federation.translate(Order(Price(1)), target="us")
    found = federation.statistics()["us"]
    assert (found.incoming, found.unchanged) == ({"Order => USOrder ?": 2}, 1)
    assert found.failed == {"Order": 1}


def test_counts_of_a_child_go_on_when_its_parent_is_replaced() -> None:
    root = make_root()
    federation = pc.Federation(root)
    federation.add(pc.Context("below", parent=make_us(root)))
    federation.translate(Order(Price(1)), target="below")
    federation.replace(make_us(root))
    federation.translate(Order(Price(1)), target="below")
    assert federation.statistics()["below"].incoming == {"Order => USOrder ?": 2}


def test_counts_end_when_a_context_is_removed() -> None:
    root = make_root()
    federation = pc.Federation(root)
    federation.add(make_us(root, refuse))
    with pytest.raises(ValueError, match="is refused"):
        federation.translate(Order(Price(1)), target="us")
    federation.remove("us")
    federation.add(make_us(root))
    assert federation.statistics()["us"].failed == {}


# -- all or nothing --------------------------------------------------------------------------------


def test_no_parent_is_added_if_another_is_refused() -> None:
    root = make_root()
    below = pc.Context("below", parent=[make_us(root), make_bad(root)], types=[])
    below.map(Order, USOrder, "?")  # so there is nothing wrong with it itself
    federation = pc.Federation(root)
    with pytest.raises(pc.ContextRefusedError, match="context 'bad' has 1 error"):
        federation.add(below)
    assert list(federation.members) == []


def test_a_refused_replacement_leaves_what_is_there() -> None:
    root = make_root()
    federation = pc.Federation(root)
    federation.add(make_us(root))
    broken = make_us(root)
    broken.map(Order, BadOrder, "?")
    with pytest.raises(pc.ContextRefusedError):
        federation.replace(broken)
    assert federation.translate(Order(Price(1)), target="us") == USOrder(Price(2))
    assert not broken.is_frozen


def test_a_child_that_does_not_go_with_its_new_parent_keeps_its_code_and_is_stale() -> None:
    root = make_root()
    federation = pc.Federation(root)
    below = pc.Context("below", parent=make_us(root))
    below.rule("USOrder.price", double)
    federation.add(below)
    federation.replace(pc.Context("us", parent=root))
    assert federation.statistics()["below"].stale
    assert federation.translate(Order(Price(1)), target="below") == USOrder(Price(2))
    assert federation.translate(Order(Price(1)), target="us") == Order(Price(1))
    federation.replace(make_us(root, pc.rules.identity))
    assert not federation.statistics()["below"].stale
    assert federation.translate(Order(Price(1)), target="below") == USOrder(Price(1))


def test_contexts_with_very_many_ways_up_to_the_root_are_settled_once_each() -> None:
    root = make_root()
    lowest = make_us(root)
    for number in range(24):  # 16 million ways
        pair = [pc.Context(f"{side}{number}", parent=lowest) for side in "ab"]
        lowest = pc.Context(f"c{number}", parent=pair)
    assert not lowest.check().errors
    assert [row.pattern for row in lowest.resolve(Order)] == ["Price"]


# -- what is refused -------------------------------------------------------------------------------


def test_a_context_below_another_root_of_the_same_name() -> None:
    with pytest.raises(pc.BadContextError) as refused:
        pc.Federation(make_root()).add(make_us(make_root()))
    assert str(refused.value) == (
        "the root of a context was 'root' (str); accepted: a context below 'root', the root of "
        "this federation; this one is below another context of that name"
    )


def test_the_root_cannot_be_removed() -> None:
    root = make_root()
    federation = pc.Federation(root)
    with pytest.raises(
        pc.BadContextError, match=r"accepted: none yet: add.. brings one in, and the"
    ):
        federation.remove("root")
    federation.add(make_us(root))
    with pytest.raises(pc.BadContextError, match=r"a context of this federation .* accepted: us$"):
        federation.remove("root")


def test_a_parent_that_was_replaced_since() -> None:
    root = make_root()
    federation = pc.Federation(root)
    old = make_us(root)
    federation.add(old)
    federation.replace(make_us(root))
    with pytest.raises(
        pc.BadContextError, match=r"accepted: a parent that is in: federation\.member"
    ):
        federation.add(pc.Context("below", parent=old))
    federation.add(pc.Context("below", parent=federation.members["us"].context))


@pytest.mark.parametrize("types", [Order, "Order", 5])
def test_types_that_are_no_list(types: Any) -> None:
    with pytest.raises(
        pc.BadContextError, match=r"^us: types was .* accepted: classes, in a list$"
    ):
        pc.Context("us", types=types)


def test_the_code_of_what_is_no_type_or_has_no_mapping() -> None:
    us = make_us(make_root())
    asked: Any = "Order"
    with pytest.raises(pc.BadContextError, match=r"us: a type was 'Order' .* accepted: a class"):
        us.source(asked)
    with pytest.raises(pc.BadContextError, match=r"accepted: none$"):
        us.source(Order, "!")
    with pytest.raises(pc.BadOptionError, match=r"one of '\?', '!'"):
        us.source(Order, asked)
