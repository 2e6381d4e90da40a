"""Two declarations of one context over one store: refused, or one replaces the other, visibly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving


@dataclass(frozen=True)
class Sale:
    price: float


@dataclass(frozen=True)
class USSale:
    price: float


def twice(price: float) -> float:
    return price * 2


def thrice(price: float) -> float:
    return price * 3


def declared(function: Any = twice, *, strict: bool = False) -> pc.Context:
    root = pc.Context("root", types=[Sale])
    us = pc.Context("us", parent=root, types=[USSale], strict=strict)
    us.map(Sale, USSale, "?")
    us.rule("Sale.price", function)
    return us


@pytest.fixture(params=["sqlite", "remote"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    found = f"sqlite:///{tmp_path}/events.db"
    if request.param == "sqlite":
        yield found
        return
    with Serving(Broker(found)) as serving:
        yield serving.url


def by_bus(url: str, us: pc.Context, **more: Any) -> pc.Bus:
    return pc.Bus(url, context=us, **more)


def by_within(url: str, us: pc.Context, **more: Any) -> pc.Bus:
    bus = pc.Bus(url)
    try:
        return bus.within(us, **more)
    except BaseException:
        bus.close()
        raise


def by_add(url: str, us: pc.Context, **more: Any) -> pc.Bus:
    fed = pc.Federation(us.root)
    bus = pc.Bus(url, federation=fed)
    try:
        fed.add(us, **more)
    except BaseException:
        assert "us" not in fed
        bus.close()
        raise
    return bus.within(us)


def by_federation(url: str, us: pc.Context, **more: Any) -> pc.Bus:
    fed = pc.Federation(us.root)
    fed.add(us, **more)
    return pc.Bus(url, federation=fed).within(us)


WAYS = [by_bus, by_within, by_add, by_federation]


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0)


@pytest.mark.parametrize("way", WAYS)
def test_another_declaration_is_refused_in_words_and_nothing_changes(url: str, way: Any) -> None:
    with by_bus(url, declared()) as one:
        got: list[USSale] = []
        one.subscribe(USSale, got.append)
        with pytest.raises(pc.ContextConflictError) as raised:
            way(url, declared(thrice))
        home = __name__
        assert raised.value.differences == (
            f"rule Sale.price: {home}:twice in the store, {home}:thrice here",
        )
        one.within("root").publish(Sale(1.0))
        assert one.flush(10)
        assert got == [USSale(2.0)]
        assert one.health().ok


@pytest.mark.parametrize("way", WAYS)
def test_the_same_declaration_is_welcome(url: str, way: Any) -> None:
    with by_bus(url, declared()), way(url, declared()) as other:
        assert other.health().ok


@pytest.mark.parametrize("way", WAYS)
def test_replacing_is_in_effect_for_all_from_the_next_event_on_and_seen(url: str, way: Any) -> None:
    with by_bus(url, declared()) as one:
        fed = one.federation
        assert fed is not None
        got: list[USSale] = []
        one.subscribe(USSale, got.append)
        one.within("root").publish(Sale(1.0))
        assert one.flush(10)
        with way(url, declared(thrice), replace=True) as other:
            seen: list[USSale] = []
            other.subscribe(USSale, seen.append)
            other.within("root").publish(Sale(1.0))
            assert other.flush(10)
            assert seen == [USSale(3.0)]
            assert replaced(other) == []
            assert other.federation is not None
            [(name, finding)] = other.federation.findings
            assert (name, finding.code) == ("us", "replaced")
            until(lambda: replaced(one))
        [problem] = replaced(one)
        assert "context 'us' was replaced in the store, from position" in problem
        assert "twice here" in problem
        assert [(name, finding.code) for name, finding in fed.findings] == [("us", "replaced")]
        # This process has no function `thrice` in what it declares: it does not go on with `twice`.
        assert one.flush(10)
        assert USSale(2.0) not in got[1:]


@pytest.mark.parametrize("way", WAYS)
def test_replacing_before_any_event_is_in_effect_for_those_who_declared_the_former_one(
    url: str, way: Any
) -> None:
    with by_bus(url, declared()) as one:
        got: list[USSale] = []
        one.subscribe(USSale, got.append)
        with way(url, declared(thrice), replace=True) as other:
            other.within("root").publish(Sale(1.0))
            assert one.flush(10)
            # `thrice` is not registered where `twice` was declared: no event goes on with `twice`.
            [letter] = one.dead_letters()
            assert got == []
            assert "thrice is not registered here" in letter.reason


def replaced(bus: pc.Bus) -> list[str]:
    return [problem for problem in bus.health().problems if "was replaced" in problem]


def test_a_bus_that_only_publishes_sees_it_too(url: str) -> None:
    with by_bus(url, declared()) as one, by_bus(url, declared(thrice), replace=True):
        assert len(replaced(one)) == 1
    assert len(replaced(one)) == 1  # and may be asked when it is closed


def test_what_others_have_replaced_is_not_put_back_by_another_change(url: str) -> None:
    us = declared()
    with by_bus(url, us) as one, by_bus(url, declared(thrice), replace=True) as other:
        fed = one.federation
        assert fed is not None
        fed.add(pc.Context("ca", parent=us))
        seen: list[USSale] = []
        other.subscribe(USSale, seen.append)
        other.within("root").publish(Sale(1.0))
        assert other.flush(10)
        assert seen == [USSale(3.0)]


def test_it_may_be_put_back_on_purpose(url: str) -> None:
    us = declared()
    with by_bus(url, us) as one, by_bus(url, declared(thrice), replace=True) as other:
        got: list[USSale] = []
        for bus in (one, other):
            bus.subscribe(USSale, got.append if bus is one else lambda sale: None)
        until(lambda: replaced(one))
        one.within(us, replace=True)
        assert replaced(one) == []
        one.within("root").publish(Sale(1.0))
        assert one.flush(10)
        assert got == [USSale(2.0)]
        until(lambda: replaced(other))


def test_a_context_that_is_gone_leaves_its_name(url: str) -> None:
    with by_bus(url, declared()) as one:
        assert one.federation is not None
        one.federation.remove("us")
        with by_bus(url, declared(thrice)) as other:
            assert other.health().ok


def test_what_others_have_removed_gets_nothing_and_health_and_explain_say_so(url: str) -> None:
    us = declared()
    with by_bus(url, us) as one, by_bus(url, declared()) as other:
        got: list[USSale] = []
        sub = one.subscribe(USSale, got.append)
        assert other.federation is not None
        other.federation.remove("us")
        assert other.health().ok
        other.within("root").publish(Sale(1.0))
        assert one.flush(10)
        until(lambda: not one.health().ok)
        assert got == []
        starving, ended = one.health().problems
        assert "context 'us' was taken out of the store" in ended
        assert "gets nothing: context 'us' was taken out" in starving
        assert "taken out" in str(sub.explain())
        told = sub.explain(Sale(1.0))
        assert not told.delivered
        assert "taken out" in str(told)
        assert one.federation is not None
        one.federation.add(pc.Context("ca", parent=us))  # which is about another one
        assert not one.health().ok
        one.federation.add(us)
        assert one.health().ok
        other.within("root").publish(Sale(2.0))
        assert one.flush(10)
        assert got == [USSale(4.0)]
        assert sub.explain(Sale(1.0)).delivered


def test_replacing_by_the_federation_stays_the_explicit_way(url: str) -> None:
    us = declared()
    with by_bus(url, us) as bus:
        fed = bus.federation
        assert fed is not None
        new = us.copy(parent=us.parents)
        new.rule("Sale.price", thrice)
        fed.replace(new)
        assert bus.health().ok
        got: list[USSale] = []
        bus.subscribe(USSale, got.append)
        bus.within("root").publish(Sale(1.0))
        assert bus.flush(10)
        assert got == [USSale(3.0)]


def test_all_that_differs_is_said(url: str) -> None:
    with by_bus(url, declared()):
        other = declared(strict=True)
        other.rule("float", pc.rules.identity)
        other.map(USSale, Sale, "!")
        with pytest.raises(pc.ContextConflictError) as raised:
            by_bus(url, other)
        assert raised.value.differences == (
            "strict: False in the store, True here",
            f"mapping {__name__}.USSale !: only here",
            "rule float: only here",
        )


def test_in_memory_the_name_is_taken_unless_it_is_replaced() -> None:
    us = declared()
    other = pc.Context("us", parent=us.root, types=[USSale])
    other.map(Sale, USSale, "?")
    with pc.Bus(context=us) as bus:
        with pytest.raises(pc.BadContextError, match="replace=True"):
            bus.within(other)
        bus.within(other, replace=True)
        assert bus.federation is not None
        assert bus.federation.translate(Sale(1.0), target="us") == USSale(1.0)
