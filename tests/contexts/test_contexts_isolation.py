"""In another context than the publisher's, each subscription and attempt has its own object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from parties import (
    Dollar,
    Euro,
    Note,
    Order,
    Parties,
    UKOrder,
    USOrder,
    calls,
    make_root,
    make_us,
    us_order,
)

import polycast as pc

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]
DISPATCH: Any = pytest.mark.parametrize("dispatch", ["pool", "inline"])


class Spoiler:
    """Remembers what it was given, as it was then, and changes it; it may fail a few times."""

    def __init__(self, *, fails: int = 0) -> None:
        self.given: list[list[str]] = []
        self._fails = fails

    def __call__(self, event: Any) -> None:
        self.given.append(list(event.items))
        event.items.append("spoilt")
        if len(self.given) <= self._fails:
            raise OSError("not yet")


def at_todays_rate(price: Euro) -> Dollar:
    calls["rate"] += 1
    return Dollar(price.amount * calls["rate"])


def bolts() -> Order:
    return Order(1, Euro(5.0), ["bolt"])


@DISPATCH
def test_a_change_reaches_nobody_else_there(market: pc.Bus, dispatch: Any) -> None:
    us, seen = market.within("us"), list[Any]()
    spoilers = [Spoiler() for _ in range(3)]
    for spoiler in spoilers:
        us.subscribe(USOrder, spoiler, dispatch=dispatch)
        us.subscribe(USOrder, seen.append, dispatch=dispatch, where=lambda o: len(o.items) != 1)
    market.publish(bolts())
    assert market.flush(5)
    assert [spoiler.given for spoiler in spoilers] == [[["bolt"]]] * 3
    assert seen == []
    assert calls == {"to_dollars": 1}


@DISPATCH
@pytest.mark.parametrize("topic", [None, "/orders"])
def test_what_a_filter_changes_reaches_no_callback_there(
    market: pc.Bus, dispatch: Any, topic: str | None
) -> None:
    def spoils(order: Any) -> bool:
        order.items.append("spoilt")
        return True

    us = market.within("us")
    spoilers = [Spoiler() for _ in range(4)]
    for spoiler, where in zip(spoilers, [None, spoils, None, spoils], strict=True):
        us.subscribe(USOrder, spoiler, where=where, dispatch=dispatch)
    market.publish(bolts(), topic=topic)
    assert market.flush(5)
    assert [spoiler.given for spoiler in spoilers] == [[["bolt"]]] * 4


@DISPATCH
def test_a_change_reaches_no_further_attempt_there(
    market: pc.Bus, eventually: Eventually, dispatch: Any
) -> None:
    us, spoiler = market.within("us"), Spoiler(fails=2)
    us.subscribe(USOrder, spoiler, attempts=3, backoff=0.001, dispatch=dispatch)
    market.publish(bolts())
    eventually(lambda: len(spoiler.given) == 3)
    assert spoiler.given == [["bolt"]] * 3
    assert calls == {"to_dollars": 1}


@DISPATCH
@pytest.mark.parametrize("own", ["pool", "inline"])
def test_a_change_in_the_publishers_context_reaches_no_other(
    market: pc.Bus, dispatch: Any, own: Any
) -> None:
    market.subscribe(Order, Spoiler(), dispatch=own)
    here, there = Spoiler(), Spoiler()
    market.within("us").subscribe(USOrder, here, dispatch=dispatch)
    market.within("uk").subscribe(UKOrder, there, dispatch=dispatch)
    for _ in range(10):
        market.publish(bolts())
    assert market.flush(5)
    assert here.given == there.given == [["bolt"]] * 10


@DISPATCH
def test_a_change_of_what_left_a_context_reaches_no_other(market: pc.Bus, dispatch: Any) -> None:
    spoilers = [Spoiler(fails=1) for _ in range(4)]
    for spoiler in spoilers[:2]:
        market.subscribe(Order, spoiler, dispatch=dispatch, backoff=0.001)
    for spoiler in spoilers[2:]:
        market.within("uk").subscribe(UKOrder, spoiler, dispatch=dispatch, backoff=0.001)
    us = market.within("us")
    us.publish(USOrder(1, Dollar(10.0), ["bolt"]))
    us.publish_many([USOrder(2, Dollar(10.0), ["bolt"])])
    assert market.flush(5)
    assert [spoiler.given for spoiler in spoilers] == [[["bolt"]] * 3] * 4


@DISPATCH
def test_a_root_type_that_nobody_maps_is_copied_too(market: pc.Bus, dispatch: Any) -> None:
    marks: list[list[str]] = []

    def spoil(note: Note) -> None:
        marks.append(list(note.marks))
        note.marks.append("spoilt")

    for _ in range(2):
        market.within("us").subscribe(Note, spoil, dispatch=dispatch)
    market.publish(Note("urgent", ["red"]))
    assert market.flush(5)
    assert marks == [["red"]] * 2


def test_a_dead_letter_has_what_was_published(market: pc.Bus, eventually: Eventually) -> None:
    us, spoiler = market.within("us"), Spoiler(fails=1)
    us.subscribe(USOrder, spoiler, attempts=1)
    market.publish(bolts())
    eventually(lambda: len(market.dead_letters()) == 1)
    assert market.dead_letters()[0].event.items == ["bolt"]
    assert market.dead_letters().replay() == 1
    eventually(lambda: len(spoiler.given) == 2)
    assert spoiler.given == [["bolt"]] * 2


@DISPATCH
def test_what_is_impure_is_translated_again_from_what_was_published(
    open_bus: OpenBus, eventually: Eventually, dispatch: Any
) -> None:
    calls.clear()
    root = make_root()
    federation = pc.Federation(root)
    federation.add(make_us(root, incoming=pc.impure(at_todays_rate)))
    bus = open_bus(federation=federation)
    spoiler, prices = Spoiler(fails=2), list[float]()

    def work(event: USOrder) -> None:
        prices.append(event.price.amount)
        spoiler(event)

    bus.subscribe(Order, Spoiler(), dispatch="inline")
    bus.within("us").subscribe(USOrder, work, attempts=3, backoff=0.001, dispatch=dispatch)
    bus.publish(bolts())
    eventually(lambda: len(spoiler.given) == 3)
    assert spoiler.given == [["bolt"]] * 3
    assert prices == [5.0, 10.0, 15.0]


def test_all_in_a_bus_with_copies_have_their_own(party: Parties) -> None:
    order, spoilers = us_order(), [Spoiler() for _ in range(4)]
    order.items[:] = ["bolt"]
    with pc.Bus(isolation="copy", history=10, federation=party.federation) as bus:
        us = bus.within("us")
        us.subscribe(USOrder, spoilers[0], dispatch="inline")
        us.subscribe(USOrder, spoilers[1])
        bus.subscribe(Order, spoilers[2])
        us.publish(order)
        order.items.append("changed by its publisher")
        bus.within("uk").subscribe(UKOrder, spoilers[3], since="beginning")
        assert bus.flush(5)
    assert [spoiler.given for spoiler in spoilers] == [[["bolt"]]] * 4


# -- what may be shared ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Kilos:
    amount: float


class LooseKilos(Kilos):
    """It takes further attributes."""


@dataclass(frozen=True)
class Pounds:
    amount: float


class LoosePounds(Pounds):
    """It takes further attributes."""


@dataclass(frozen=True)
class Load:
    number: int
    weight: Kilos
    label: Any = None


@dataclass(frozen=True)
class USLoad:
    number: int
    weight: Pounds


@dataclass(frozen=True)
class UKLoad:
    number: int
    weight: Kilos


@dataclass(frozen=True)
class LabelledLoad:
    number: int
    label: Any = None


def weighed(weight: Kilos) -> Pounds:
    make = LoosePounds if weight.amount > 100 else Pounds
    return make(weight.amount * 2)


def loaded(target: Any, *loads: Load) -> list[tuple[Any, Any]]:
    """What two subscribers in a context get."""
    root = pc.Context("root", types=[Load, Kilos])
    there = pc.Context("there", parent=root, types=[target, Pounds])
    there.map(Load, target, "?")
    if target is USLoad:
        there.rule("Kilos", weighed)
    federation = pc.Federation(root)
    federation.add(there)
    one, other = list[Any](), list[Any]()
    with pc.Bus(federation=federation) as bus:
        for seen in (one, other):
            bus.within("there").subscribe(target, seen.append, dispatch="inline")
        for load in loads:
            bus.publish(load)
    return list(zip(one, other, strict=True))


@pytest.mark.parametrize("target", [USLoad, UKLoad, LabelledLoad])
def test_what_nobody_can_change_is_one_object_for_all_there(target: Any) -> None:
    [(one, other)] = loaded(target, Load(1, Kilos(1.0)))
    assert one is other


def test_what_a_function_gives_of_another_class_is_looked_at() -> None:
    pairs = loaded(USLoad, *(Load(n, Kilos(w)) for n, w in enumerate([1.0, 200.0, 1.0])))
    assert [one.weight is other.weight for one, other in pairs] == [True, False, True]
    assert [one == other for one, other in pairs] == [True] * 3


def test_what_is_of_a_class_that_nobody_named_is_looked_at() -> None:
    pairs = loaded(UKLoad, Load(1, Kilos(1.0)), Load(2, LooseKilos(1.0)), Load(3, Kilos(1.0)))
    assert [one.weight is other.weight for one, other in pairs] == [True, False, True]


def test_what_may_be_anything_is_looked_at() -> None:
    pairs = loaded(LabelledLoad, *(Load(1, Kilos(1.0), one) for one in ("x", ["x"], ("x", []))))
    assert [one is other for one, other in pairs] == [True, False, False]
    assert all(one == other for one, other in pairs)
