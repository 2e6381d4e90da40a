"""A type that comes has only those filters looked at again that it may concern."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from polycast.config import level_named
from polycast.events import MSGPACK, Identity, Record
from polycast.filters import Filter
from polycast.filters.tree import nodes
from polycast.filters.tree.relaxation import EVERYTHING
from polycast.matching import Interest, definition_of, selector_for
from polycast.routing import Plan
from polycast.routing.evaluable import NameMeanings
from polycast.stores import Stored, StoredRoute
from polycast.typesystem import Registry

LEVEL = level_named("sorted_set")
MANY = 300


def made(name: str, *behaviour: str, **hints: Any) -> Any:
    """A class that nobody finds by its name."""
    more = {each: property(lambda self: 1) for each in behaviour}
    return msgspec.defstruct(name, list(hints.items()), namespace=more, module="generated")


Price = made("Price", amount=float)
Sale = made("Sale", number=int, price=int)
TYPES = [
    Sale,
    Price,
    made("Item", "number", amount=float),
    made("Basket", items=list[Price], main=Price),
    made("Note", "main", items=list[int], price=Any),
    made("Odd", amount=Any, number=int),
    made("Label", price=str),
]


class Told:
    """What a store tells: descriptions, in the order in which they came."""

    def __init__(self, *types: type) -> None:
        self.registry = Registry()
        self.bind(*types)

    def bind(self, *types: type) -> None:
        for each in types:
            self.registry.bind(each)

    def descriptions(self, *, after: int = 0) -> list[Any]:
        return list(self.registry.descriptions())[after:]

    def contexts(self) -> tuple[()]:
        return ()

    def route(self, number: int, tree: Any) -> StoredRoute:
        interest = Interest(selector_for(Sale), Filter(tree), LEVEL)
        return StoredRoute(number, f"s{number}", definition_of(interest).encoded(), 1)


def above(bound: int, *, attribute: str = "number") -> Any:
    asked = nodes.Attribute(nodes.Event(), attribute)
    return nodes.Compare(asked, ((">", nodes.Constant(bound)),))


def planned(told: Any, *trees: Any) -> Plan:
    plan = Plan(Registry())
    plan.routes.learn(told)
    for number, tree in enumerate(trees, 1):
        plan.routes.add(told.route(number, tree))
    return plan


def test_a_type_that_mentions_nothing_of_it_has_no_filter_parsed_or_looked_at() -> None:
    told = Told(Sale)
    plan = planned(told, *map(above, range(MANY)))
    told.bind(made("Other", "behaviour", field=int))
    plan.routes.learn(told, later=True)  # type: ignore[arg-type]
    assert plan.routes.is_settled
    assert plan.routes.filters.parsed == MANY


def test_a_type_that_changes_what_a_name_means_has_no_filter_parsed_again() -> None:
    told = Told(Sale)
    plan = planned(told, *map(above, range(MANY)))
    assert not plan.routes.unsure
    told.bind(made("Other", "number", field=int))
    plan.routes.learn(told)  # type: ignore[arg-type]
    assert len(plan.routes.unsure) == MANY
    assert plan.routes.filters.parsed == MANY


def test_filters_are_looked_at_again_a_part_at_a_time() -> None:
    told = Told(Sale)
    plan = planned(told, *map(above, range(5)), above(1, attribute="price"))
    told.bind(made("Other", "number", field=int))
    plan.routes.learn(told, later=True)  # type: ignore[arg-type]
    assert [plan.routes.reconsider(2), plan.routes.reconsider(2), plan.routes.reconsider(2)] == [
        True,
        True,
        False,
    ]
    assert plan.routes.is_settled
    assert plan.routes.unsure == {1, 2, 3, 4, 5}


def test_while_filters_of_a_party_wait_it_may_want_all_and_others_are_asked() -> None:
    told = Told(Sale, Price)
    plan = Plan(Registry())
    plan.routes.learn(told)  # type: ignore[arg-type]
    for number, (party, tree) in enumerate(
        [("a", above(5)), ("a", above(7)), ("b", above(1, attribute="price")), ("a", above(9))], 1
    ):
        plan.routes.add(told.route(number, tree), owner=party)
    sale = stored(told.registry, Sale(6, 0))
    assert plan.match([sale]).recipients == [[1]]
    told.bind(made("Other", "number", field=int))
    plan.routes.learn(told, later=True)  # type: ignore[arg-type]
    plan.routes.remove(4)
    for is_more in (True, False):
        found = plan.match([sale])
        assert found.recipients == [[1, 2]]
        assert found.unsure == {1, 2}
        assert plan.routes.reconsider(1) is is_more
    assert not plan.match([sale]).unsure
    assert plan.routes.unsure == {1, 2}  # nobody knows what `number` is, now


def stored(registry: Registry, event: Any) -> Stored:
    encoded = MSGPACK.encode(event, registry=registry)
    about = (encoded.name, 1, encoded.hash, Identity("p", 1, 1), 1.0)
    return Stored(1, Record(*about, encoded.codec, encoded.payload))


def test_one_text_is_parsed_once_for_all_who_have_it() -> None:
    plan = planned(Told(Sale), *[above(7)] * MANY)
    assert plan.routes.filters.parsed == 1
    plan.routes.remove(1)
    assert plan.routes.filters.parsed == 1


def test_a_filter_of_a_class_that_nobody_had_described_is_parsed_when_it_is() -> None:
    told = Told(Sale)
    asked = nodes.InstanceOf(nodes.Event(), (Price,))
    plan = planned(told, asked, above(1))
    assert plan.routes.unsure == {1}
    told.bind(Price)
    plan.routes.learn(told)  # type: ignore[arg-type]
    assert not plan.routes.unsure
    assert plan.routes.filters.parsed == 3


def product(one: str, other: str) -> Any:
    factors = (nodes.Attribute(nodes.Event(), each) for each in (one, other))
    return nodes.Compare(nodes.Arithmetic("*", *factors), ((">", nodes.Constant(1)),))


def test_a_product_is_asked_until_a_type_comes_in_which_it_repeats_a_text() -> None:
    told = Told(Sale)
    plan = planned(told, product("number", "price"), above(1))
    assert not plan.routes.unsure
    told.bind(made("Label", price=str))
    plan.routes.learn(told)  # type: ignore[arg-type]
    assert plan.routes.unsure == {1}
    assert plan.routes.entries[1].where == EVERYTHING  # the subscriber asks it
    assert plan.routes.filters.parsed == 2


def test_what_takes_many_steps_for_a_small_event_is_left_to_the_subscriber() -> None:
    whole = nodes.Attribute(nodes.Event(), "text")
    tests = [
        nodes.Compare(nodes.Constant(f"{number}"), (("in", whole),)) for number in range(1_000)
    ]
    plan = planned(Told(Sale, made("Page", text=str)), nodes.And(tuple(tests)), above(1))
    assert plan.routes.unsure == {1}
    assert plan.routes.entries[1].where == EVERYTHING


def sets_of(names: NameMeanings) -> list[set[str]]:
    return [names.several, names.behaving, names.objects, names.sequences, names.open]


@settings(max_examples=60, deadline=None)
@given(st.permutations(TYPES), st.integers(0, len(TYPES)))
def test_types_that_come_later_mean_the_same_as_if_they_had_been_there(
    types: list[type], later: int
) -> None:
    trees = [
        above(1),
        above(1, attribute="amount"),
        above(1, attribute="price"),
        nodes.Attribute(nodes.Event(), "main"),
        nodes.InstanceOf(nodes.Event(), (Price,)),
        product("number", "price"),
        product("amount", "number"),
        nodes.Quantified("any", nodes.Attribute(nodes.Event(), "items"), (), nodes.Variable(0)),
    ]
    told = Told(Sale, *types[:later])
    plan = planned(told, *trees)
    for each in types[later:]:
        told.bind(each)
        plan.routes.learn(told)  # type: ignore[arg-type]
    fresh = planned(told, *trees)
    assert plan.routes.unsure == fresh.routes.unsure
    found = [str(plan.routes.entries[number].where) for number in plan.routes.entries]
    assert sorted(found) == sorted(str(each.where) for each in fresh.routes.entries.values())


def test_names_learnt_one_by_one_are_those_of_the_whole() -> None:
    told = Told(*TYPES)
    registry = Registry()
    names = NameMeanings(registry)
    for each in told.registry.descriptions():
        registry.add(each)
        names.add(each)
    assert sets_of(names) == sets_of(NameMeanings(registry))
