"""Types that contain each other in very many ways: paths that no rule tells apart are one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import make_dataclass
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from test_contexts_page import build, random_worlds
from worlds import Case, cases

import polycast as pc
from polycast.contexts.resolve.resolution import PathNode, Resolver

DEPTH = 5


def same_choice(one: PathNode, other: PathNode) -> bool:
    return (one.winner, one.reason, one.runner_up) == (other.winner, other.reason, other.runner_up)


def assert_alike(one: PathNode, other: PathNode, depth: int) -> None:
    """From two nodes on, the same rules win everywhere, and for the same reasons."""
    one, other = one.first or one, other.first or other
    for attribute, child in one.all_children():
        twin = other.child(attribute, child.met)
        assert same_choice(child, twin), str(child.path)
        if depth:
            assert_alike(child, twin, depth - 1)


@random_worlds
@given(case=cases())
def test_rules_win_as_if_every_path_were_followed(case: Case) -> None:
    built = build(case.world)
    for name, settled in built.settled.items():
        apart = Resolver(settled.rules, settled.types)
        folded = Resolver(settled.rules, settled.types, few=0)
        for cls in case.world.root_types + case.locals[name]:
            assert_alike(apart.root(cls), folded.root(cls), DEPTH)


# -- many types ------------------------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Where classes name each other."""
    made = ModuleType("many_types")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def families(module: ModuleType, count: int, links: list[int]) -> tuple[list[type], list[type]]:
    """Root types and local ones, each of which holds some further on, in a ring."""
    price = make_dataclass("Price", [("amount", float)], frozen=True)
    found: tuple[list[type], list[type]] = ([], [])
    for side, prefix in zip(found, ("T", "L"), strict=True):
        for n in range(count):
            fields: list[Any] = [("price", "Price", None)]
            fields += [(f"a{step}", f"{prefix}{(n + step) % count} | None", None) for step in links]
            side.append(make_dataclass(f"{prefix}{n}", fields, frozen=True))
    for cls in [price, *found[0], *found[1]]:
        cls.__module__ = module.__name__
        setattr(module, cls.__name__, cls)
    return found


def make_context(sides: tuple[list[type], list[type]], module: ModuleType) -> pc.Context:
    price = module.Price

    def double(given: Any) -> Any:
        return price(given.amount * 2)

    us = pc.Context("us", parent=pc.Context("root", types=sides[0]), types=sides[1])
    for source, target in zip(*sides, strict=True):
        us.map(source, target, "?")
        us.rule(f"{source.__name__}.price", pc.rules.identity)
    us.rule("Price", pc.unchecked(double))
    return us


STEPS = [1, 2, 3, 1, 2, 2, 1, 2, 1, 1]


def nested(types: list[type], price: Any, steps: list[int]) -> Any:
    """An event inside an event inside an event: each is some steps further on in the ring."""
    places = [0, *accumulate(steps)]
    event: Any = None
    for place, step in zip(reversed(places), [0, *reversed(steps)], strict=True):
        held = {} if event is None else {f"a{step}": event}
        event = types[place % len(types)](price=price(float(place)), **held)
    return event


def prices(event: Any) -> Iterator[float]:
    """What an event and all inside it cost, from outside in."""
    while event is not None:
        yield event.price.amount
        inside = [value for name, value in vars(event).items() if name != "price"]
        event = next((value for value in inside if value is not None), None)


@pytest.mark.parametrize("count", [12, 40])
def test_many_types_that_contain_each_other_are_checked_and_translated(
    module: ModuleType, count: int
) -> None:
    sides = families(module, count, [1, 2, 3])
    us = make_context(sides, module)
    federation = pc.Federation(us.root)
    assert not federation.add(us).errors
    found = federation.translate(nested(sides[0], module.Price, STEPS), target=us)
    assert type(found) is sides[1][0]
    # The rule of the event's own type holds at the event, and where its type comes again.
    places = map(float, [0, *accumulate(STEPS)])
    assert list(prices(found)) == [n if n % count == 0 else n * 2 for n in places]


def test_what_is_shown_of_many_types_has_each_of_them_once(module: ModuleType) -> None:
    us = make_context(families(module, 12, [1, 2, 3]), module)
    text = str(us.show(module.T0))
    assert text.count("rebuilt by T5 => L5 ?\n") == 1
    assert "rebuilt by T5 => L5 ?, as above\n" in text


def test_rows_of_many_types_have_each_of_them_once(module: ModuleType) -> None:
    rows = make_context(families(module, 12, [1, 2, 3]), module).resolve(module.T0)
    owners = [row.types[-2].__name__ for row in rows if row.attributes[-1] == "price"]
    assert set(owners) == {f"T{n}" for n in range(12)}
    assert len(owners) == 12 + 3  # those that the event holds itself, and the same further in
    assert {row.pattern for row in rows if row.types[-2] is module.T0} == {"T0.price"}


def test_types_nested_very_deep_are_checked_and_translated(module: ModuleType) -> None:
    types, _ = families(module, 300, [1])
    fields: list[Any] = [("price", module.Price), ("a1", types[1], None)]
    target = make_dataclass("Target", fields, frozen=True)
    us = make_context(([types[0]], [target]), module)
    federation = pc.Federation(us.root)
    assert not federation.add(us).errors
    found = federation.translate(nested(types, module.Price, [1] * 299), target=us)
    assert list(prices(found)) == [0.0, *(n * 2.0 for n in range(1, 300))]
