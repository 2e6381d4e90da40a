"""What contexts were at each position of a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.contexts.declare.context_state import state_of
from polycast.registered_names import RegisteredNames
from polycast.routing.context_versions import ContextHistory
from polycast.stores import ContextVersion
from polycast.typesystem import Registry, describe_all


@dataclass(frozen=True)
class Sale:
    price: float


@dataclass(frozen=True)
class LocalSale:
    price: float


def double(price: float) -> float:
    return price * 2


def treble(price: float) -> float:
    return price * 3


def as_text(price: float) -> str:
    return str(price)


ROOT = pc.Context("root", types=[Sale])


def local(function: Any = double, parent: pc.Context = ROOT, name: str = "us") -> pc.Context:
    made = pc.Context(name, parent=parent, types=[LocalSale])
    made.map(Sale, LocalSale, "?")
    made.rule("Sale.price", function)
    return made


def version(number: int, context: pc.Context, start: int, until: int | None = None) -> Any:
    return ContextVersion(number, context.name, state_of(context), start, until)


def history(
    *versions: ContextVersion,
    function: Callable[[str], Any] | None = None,
    registry: Registry | None = None,
) -> ContextHistory:
    found = ContextHistory(registry or Registry(), function or RegisteredNames([__name__]).get)
    found.learn(versions)
    return found


def price(found: ContextHistory, position: int, name: str = "us") -> float | None:
    """What a sale of 1.0 is at a position."""
    kept = found.kept(name, position)
    if kept is None:
        return None
    price: float = kept.member.incoming.translate(Sale(1.0)).price
    return price


ABOVE = version(1, ROOT, 1)


def test_each_position_has_its_version() -> None:
    found = history(ABOVE, version(2, local(), 1, 10), version(3, local(treble), 10))
    assert [price(found, at) for at in (1, 9, 10, 99)] == [2.0, 2.0, 3.0, 3.0]


def test_the_first_version_is_for_all_that_was_before_it() -> None:
    found = history(version(1, ROOT, 50), version(2, local(), 50))
    assert price(found, 1) == 2.0


def test_what_has_ended_is_not_there_any_more() -> None:
    found = history(ABOVE, version(2, local(), 1, 10))
    assert (price(found, 9), price(found, 10)) == (2.0, None)
    assert [found.has_ended("us", at) for at in (9, 10)] == [False, True]


def test_a_name_that_the_store_does_not_have_is_nothing() -> None:
    found = history(ABOVE)
    assert found.kept("us", 1) is None
    assert not found.has_ended("us", 1)


def test_a_child_follows_its_parent_at_each_position() -> None:
    child = pc.Context("ny", parent=local())
    found = history(
        ABOVE, version(2, local(), 1, 10), version(3, child, 1), version(4, local(treble), 10)
    )
    assert [price(found, at, "ny") for at in (9, 10)] == [2.0, 3.0]


def test_a_child_that_does_not_go_with_its_new_parent_stays_what_it_was() -> None:
    child = pc.Context("ny", parent=local())
    found = history(
        ABOVE, version(2, local(), 1, 10), version(3, child, 1), version(4, local(as_text), 10)
    )
    assert [price(found, at, "ny") for at in (9, 10)] == [2.0, 2.0]


def test_what_is_declared_here_is_used_where_it_is_the_same() -> None:
    fed = pc.Federation(ROOT)
    fed.add(local())
    found = history(ABOVE, version(2, local(treble), 1, 10), version(3, local(), 10))
    found.offer(fed)
    assert [(kept := found.kept("us", at)) and kept.member for at in (10,)] == [fed.members["us"]]
    assert price(found, 1) == 3.0


def test_without_its_functions_a_context_is_known_by_its_mappings_only() -> None:
    found = history(ABOVE, version(2, local(), 1), function=lambda path: None)
    kept = found.kept("us", 1)
    assert kept is not None
    assert (kept.is_whole, kept.member.incoming.becomes(Sale)) == (False, LocalSale)
    with pytest.raises(LookupError, match="double is not registered here"):
        kept.member.incoming.translate(Sale(1.0))


def test_functions_that_may_change_their_mind_are_known() -> None:
    found = history(ABOVE, version(2, local(), 1, 5), version(3, local(pc.impure(double)), 5))
    assert [(kept := found.kept("us", at)) and kept.is_pure for at in (1, 5)] == [True, False]


class Strangers(Registry):
    """Of a process that has none of the classes."""

    def resolve(self, name: str, *, version: int | None = None) -> type | None:
        return None if name.startswith(__name__) else super().resolve(name, version=version)


def strangers() -> Registry:
    found = Strangers()
    for cls in (Sale, LocalSale):
        for each in describe_all(cls):
            found.add(each)
    return found


def test_classes_that_are_made_say_too_little() -> None:
    found = history(ABOVE, version(2, local(), 1), registry=strangers())
    kept = found.kept("us", 1)
    assert kept is not None
    assert not kept.is_whole
    made = kept.member.settled.types.named("Sale")[0]
    assert made is not Sale
    assert str(kept.member.incoming.becomes(made)).endswith("LocalSale'>")


def test_a_state_of_a_newer_version_is_not_known_and_stops_nobody() -> None:
    strange = ContextVersion(2, "us", b'{"format": 99, "name": "us"}', 1)
    found = history(ABOVE, strange)
    assert found.kept("us", 1) is None
