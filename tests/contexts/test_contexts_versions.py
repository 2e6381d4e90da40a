"""Two versions of one type, in two contexts over one store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polycast as pc
from polycast.testing import Recorder


@pc.event(name="till.Order", version=2)
@dataclass(frozen=True)
class Order:
    number: int


@pc.event(name="till.Order", version=1)
@dataclass(frozen=True)
class OldOrder:
    number: int


def versions() -> tuple[pc.Federation, pc.Context]:
    root = pc.Context("now", types=[Order])
    old = pc.Context("old", parent=root, types=[OldOrder])
    old.map(OldOrder, Order, "!")
    old.map(Order, OldOrder, "?")
    fed = pc.Federation(root)
    fed.add(old)
    return fed, old


def test_a_bus_that_knew_one_version_gets_events_of_the_other(tmp_path: Path) -> None:
    fed, old = versions()
    url = f"sqlite:///{tmp_path / 'till.db'}"
    with pc.Bus(url, federation=fed, context=old) as till:
        till.publish(OldOrder(1))
    new, before = Recorder[Order](), Recorder[OldOrder]()
    with (
        pc.Bus(url, federation=fed) as shop,
        pc.Bus(url, federation=fed, context=old) as till,
    ):
        shop.subscribe(Order, new, durable="new", since="beginning")
        till.subscribe(OldOrder, before, durable="old", since="beginning")
        till.flush(5)
        shop.publish(Order(2))
        shop.flush(5)
        till.flush(5)
    assert (new.events, before.events) == ([Order(1), Order(2)], [OldOrder(1), OldOrder(2)])


# -- a context that another process replaces -------------------------------------------------------


@dataclass(frozen=True)
class Sale:
    price: float


@dataclass(frozen=True)
class LocalSale:
    price: float


@dataclass(frozen=True)
class LocalDay:
    sales: int


def in_words(price: str) -> str:
    return f"{price} euros"


def double(price: float) -> float:
    return price * 2


def treble(price: float) -> float:
    return price * 3


ROOT = pc.Context("root", types=[Sale])


def shop(function: Callable[[float], float], *more: type) -> pc.Context:
    made = pc.Context("shop", parent=ROOT, types=[LocalSale, *more])
    made.map(Sale, LocalSale, "?")
    made.rule("Sale.price", function)
    return made


def replaced(
    tmp_path: Path, federation: pc.Federation, *more: type
) -> tuple[list[LocalSale], list[str]]:
    """What a shop gets, and its dead letters, when another process changes how it sees sales."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    elsewhere = pc.Federation(ROOT)
    elsewhere.add(shop(double))
    seen = Recorder[LocalSale]()
    with (
        pc.Bus(url, federation=federation, context=shop(double)) as here,
        pc.Bus(url, federation=elsewhere) as there,
    ):
        here.subscribe(LocalSale, seen, durable="sales")
        there.publish(Sale(1.0))
        elsewhere.replace(shop(treble, *more))
        there.publish(Sale(1.0))
        here.flush(5)
        letters = [f"{letter.subscription}: {letter.reason}" for letter in here.dead_letters()]
    return list(seen.events), letters


def test_functions_that_are_registered_serve_a_context_that_others_replaced(tmp_path: Path) -> None:
    federation = pc.Federation(ROOT, functions={f"{__name__}:treble": treble})
    assert replaced(tmp_path, federation) == ([LocalSale(2.0), LocalSale(3.0)], [])


def test_without_its_functions_a_context_that_others_replaced_tells_so(tmp_path: Path) -> None:
    seen, letters = replaced(tmp_path, pc.Federation(ROOT))
    assert seen == [LocalSale(2.0)]
    assert len(letters) == 1
    assert letters[0].startswith("context shop: ")
    assert f"{__name__}:treble is not registered here" in letters[0]


def test_a_version_that_does_not_pass_the_check_here_tells_so(tmp_path: Path) -> None:
    federation = pc.Federation(ROOT, functions={f"{__name__}:treble": in_words})
    seen, letters = replaced(tmp_path, federation)
    assert seen == [LocalSale(2.0)]
    assert len(letters) == 1
    assert letters[0].startswith("context shop: ")
    assert "a version of a context" in letters[0]
    assert "passes the check here" in letters[0]


def test_a_version_with_a_type_that_is_not_here_is_the_one_in_effect(tmp_path: Path) -> None:
    elsewhere = type("Elsewhere", (LocalDay,), {"__module__": "a.shop.far.away"})
    federation = pc.Federation(ROOT, functions={f"{__name__}:treble": treble})
    assert replaced(tmp_path, federation, elsewhere) == ([LocalSale(2.0), LocalSale(3.0)], [])
