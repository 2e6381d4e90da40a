"""The plan that has routes and descriptions only, against decoding everything and asking each."""

from __future__ import annotations

import datetime
import decimal
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from generated_classes import Made, classes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from routing_reference import routes_taking

from polycast.config import level_named
from polycast.errors import BadOptionError, FilterError, NotDecodableError
from polycast.events import Codec, Identity, Record, codec_for
from polycast.filters import Filter
from polycast.filters.tree import nodes
from polycast.matching import Definition, Interest, definition_of, selector_for
from polycast.routing import Plan
from polycast.routing.explanation import asked_in_words
from polycast.routing.match import MOST_KINDS
from polycast.stores import Stored, StoredRoute
from polycast.typesystem import Registry

MORE = 20 if os.environ.get("POLYCAST_STRESS") == "long" else 1

LEVEL = level_named("sorted_set")
SLOW = settings(
    max_examples=60 * MORE,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TOPICS = [None, None, "/a", "/a/b"]
EVENT = nodes.Event()


@dataclass
class Known:
    """What a store would tell: the descriptions of some classes."""

    registry: Registry = field(default_factory=Registry)

    def bind(self, *found: type) -> None:
        for cls in found:
            self.registry.bind(cls)

    def descriptions(self, *, after: int = 0) -> list[Any]:
        return list(self.registry.descriptions())[after:]

    def contexts(self) -> Iterable[Any]:
        return ()

    def revision(self) -> int:
        return len(self.descriptions())

    def route(self, number: int, what: Any, where: Any = None) -> StoredRoute:
        interest = Interest(selector_for(what), None if where is None else Filter(where), LEVEL)
        return StoredRoute(number, f"route {number}", definition_of(interest).encoded(), 1)

    def stored(
        self, event: Any, *, position: int = 1, form: Any = "json", topic: str | None = None
    ) -> Stored:
        encoded = codec_for(form).encode(event, registry=self.registry)
        about = (encoded.name, encoded.version, encoded.hash, Identity("p", 1, position), 0.0)
        return Stored(position, Record(*about, encoded.codec, encoded.payload, topic=topic))


def planned(known: Any, routes: Iterable[StoredRoute] = ()) -> Plan:
    """A plan where no class is."""
    plan = Plan(Registry())
    plan.routes.move_to(routes, known)
    return plan


def taken(plan: Plan, records: list[Stored]) -> dict[int, list[int]]:
    found = plan.match(records)
    return {at: sorted(who) for at, who in zip(found.positions, found.recipients, strict=True)}


# -- random classes, events and filters ------------------------------------------------------------

SIMPLE: list[Any] = [None, True, False, 0, 1, "", "a", "$", 2.5, decimal.Decimal(0)]
PLAIN = (bool, int, float, str, type(None), decimal.Decimal, datetime.date, datetime.timedelta)


def _constants(event: Any, names: list[str]) -> list[Any]:
    held = [getattr(event, name, None) for name in names]
    usable = [each for each in held if type(each) in PLAIN]
    return [each for each in usable if not isinstance(each, float) or math.isfinite(each)]


@st.composite
def filters(draw: st.DrawFn, names: list[str], constants: list[Any]) -> Filter[Any]:
    """A filter that has a form as data."""
    attributes = st.sampled_from(names).map(lambda name: nodes.Attribute(EVENT, name))
    reached = st.sampled_from(names).map(lambda name: nodes.Reach(EVENT, name))
    inner = st.tuples(attributes, st.sampled_from(names)).map(lambda p: nodes.Attribute(*p))
    length = attributes.map(lambda term: nodes.Function("len", (term,)))
    item = attributes.map(lambda term: nodes.Item(term, nodes.Constant(0)))
    terms = st.one_of(attributes, attributes, attributes, reached, inner, length, item)
    values = st.sampled_from([*SIMPLE, *constants]).map(nodes.Constant)
    signs = st.sampled_from(["==", "==", "!=", "<", ">=", "is", "in"])
    right = st.one_of(values, values, terms)
    compared = st.tuples(terms, signs, right).map(lambda p: nodes.Compare(p[0], (p[1:],)))
    some = st.tuples(attributes, values).map(
        lambda p: nodes.Quantified(
            "any", p[0], (), nodes.Compare(nodes.Variable(0), (("==", p[1]),))
        )
    )
    whole = st.one_of(
        st.just(nodes.InstanceOf(EVENT, (int, str))),
        values.map(lambda value: nodes.Compare(EVENT, (("!=", value),))),
        values,
    )
    leaves = st.one_of(compared, compared, compared, terms, some)
    found = draw(st.lists(leaves, min_size=1, max_size=3))
    if draw(st.integers(0, 11)) == 0:
        found.append(draw(whole))
    tree = found[0]
    if len(found) > 1:
        tree = (nodes.And if draw(st.booleans()) else nodes.Or)(tuple(found))
    return Filter(nodes.Not(tree) if draw(st.integers(0, 3)) == 0 else tree)


@st.composite
def routes(draw: st.DrawFn, known: Known, found: list[Made], event: Any) -> list[StoredRoute]:
    """Subscriptions to the generated classes, with filters over their fields."""
    names = [*sorted({name for made in found for name in made.fields}), "f9_9"]
    constants = _constants(event, names)
    some = []
    for number in range(draw(st.integers(1, 5))):
        where = draw(filters(names, constants)) if draw(st.integers(0, 4)) else None
        try:
            what = draw(st.sampled_from([*(made.cls for made in found), object, "/a/**"]))
            some.append(known.route(number, what, where))
        except FilterError:
            continue
    return some


def _damaged(draw: st.DrawFn, codec: Codec, payload: bytes) -> bytes:
    """The payload with something else in it, or less of it."""
    module: Any = msgspec.json if codec.form == "json" else msgspec.msgpack
    if draw(st.integers(0, 4)) == 0:
        return payload[: draw(st.integers(0, len(payload)))]
    data = module.decode(payload)
    if type(data) is not dict:
        return payload
    names = [*data, "f9_9", "f9_9", "$", "f0_0"]
    junk = st.sampled_from([None, 1, "a", [], {}, {"$": "nobody"}, {"$": "builtins.int"}, 2.5])
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(names))
        if draw(st.booleans()):
            data[name] = draw(junk)
        else:
            data.pop(name, None)
    encoded: bytes = module.encode(data)
    return encoded


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Known, list[StoredRoute], list[Stored]]:
    found, known = draw(classes()), Known()
    known.bind(*(made.cls for made in found))
    form = draw(st.sampled_from(["json", "msgpack"]))
    events = [draw(made.objects) for made in found for _ in range(draw(st.integers(1, 2)))]
    records = []
    for position, event in enumerate(events):
        stored = known.stored(event, position=position, form=form)
        topic, payload = draw(st.sampled_from(TOPICS)), stored.record.payload
        if draw(st.integers(0, 2)) == 0:
            payload = _damaged(draw, codec_for(form), payload)
        changed = msgspec.structs.replace(stored.record, topic=topic, payload=payload)
        records.append(Stored(position, changed))
    return known, draw(routes(known, found, events[-1])), records


def _is_whole(plan: Plan, record: Record) -> bool:
    try:
        codec_for(record.codec).decode(record, registry=plan.routes.registry)
    except NotDecodableError:
        return False
    return True


@SLOW
@given(world=worlds())
def test_decoding_some_attributes_finds_what_decoding_all_of_them_does(world: Any) -> None:
    known, some, records = world
    plan = planned(known, some)
    for _ in range(2):  # with functions that are made, and that were
        found = taken(plan, records)
        for stored in records:
            numbers, expected = found.get(stored.position, []), routes_taking(plan, stored.record)
            if _is_whole(plan, stored.record):
                assert numbers == sorted(expected)
            else:  # what is broken may be what no filter looks at
                assert set(numbers) <= set(expected)


@SLOW
@given(world=worlds(), data=st.data())
def test_a_plan_that_was_changed_is_as_one_that_was_made_so(world: Any, data: Any) -> None:
    known, some, records = world
    plan = planned(known)
    there: dict[int, StoredRoute] = {}
    for _ in range(data.draw(st.integers(0, 12))):
        route = data.draw(st.sampled_from(some)) if some else None
        if route is None or data.draw(st.integers(0, 3)) == 0:
            plan.match(records)
        elif route.number in there:
            plan.routes.remove(route.number)
            del there[route.number]
        else:
            plan.routes.add(route)
            there[route.number] = route
    fresh = planned(known, there.values())
    assert taken(plan, records) == taken(fresh, records)
    assert plan.routes.unsure == fresh.routes.unsure
    assert len(plan.routes) == len(fresh.routes) == len(there)


# -- single claims ---------------------------------------------------------------------------------


def made(name: str, **hints: Any) -> Any:
    """A class that nobody finds by its name."""
    return msgspec.defstruct(name, list(hints.items()), module="generated")


Price = made("Price", amount=float, currency=str)
Order = made("Order", number=int, price=Price, note=str)


def orders(*events: Any) -> tuple[Known, list[Stored]]:
    known = Known()
    known.bind(Order)
    return known, [known.stored(event, position=at) for at, event in enumerate(events)]


def broken(stored: Stored, **changes: Any) -> Stored:
    data = {**msgspec.json.decode(stored.record.payload), **changes}
    payload = msgspec.json.encode(data)
    return Stored(stored.position, msgspec.structs.replace(stored.record, payload=payload))


def test_nothing_is_decoded_where_nobody_has_a_filter() -> None:
    known, (stored,) = orders(Order(1, Price(2.0, "CHF"), ""))
    plan = planned(known, [known.route(1, Order), known.route(2, object)])
    cut = msgspec.structs.replace(stored.record, payload=b"{")
    found = plan.match([stored, Stored(1, cut)])
    assert [sorted(each) for each in found.recipients] == [[1, 2], [1, 2]]
    assert found.decoded == 0


def test_a_filter_for_another_class_makes_nobody_look() -> None:
    known, (stored,) = orders(Order(1, Price(2.0, "CHF"), ""))
    cheap = known.route(2, Price, lambda p: p.amount < 3)
    plan = planned(known, [known.route(1, Order), cheap])
    assert plan.match([stored]).decoded == 0


def test_a_filter_that_cannot_be_asked_at_all_makes_nobody_look() -> None:
    def is_odd(order: Any) -> bool:
        found = order.number
        return bool(found % 2)

    known, (stored,) = orders(Order(2, Price(2.0, "CHF"), ""))
    plan = planned(known, [known.route(1, Order, is_odd)])
    found = plan.match([stored])
    assert (found.recipients, found.decoded, plan.routes.unsure) == ([[1]], 0, {1})


def test_what_is_decoded_is_counted() -> None:
    known, records = orders(*(Order(n, Price(2.0, "CHF"), "") for n in range(3)))
    plan = planned(known, [known.route(1, Order, lambda o: o.number > 1)])
    found = plan.match(records)
    assert (found.positions, found.decoded) == ([2], 3)


def test_what_no_filter_looks_at_may_be_broken() -> None:
    known, (stored,) = orders(Order(1, Price(2.0, "CHF"), ""))
    many, few = (lambda o: o.number > 5), (lambda o: o.number <= 5)
    plan = planned(known, [known.route(1, Order, many), known.route(2, Order, few)])
    assert taken(plan, [broken(stored, note=7)]) == {0: [2]}


def test_what_a_filter_looks_at_and_cannot_be_read_goes_to_all() -> None:
    known, (stored,) = orders(Order(1, Price(2.0, "CHF"), ""))
    many, few = (lambda o: o.number > 5), (lambda o: o.note == "x")
    plan = planned(known, [known.route(1, Order, many), known.route(2, Order, few)])
    assert taken(plan, [broken(stored, note=7)]) == {0: [1, 2]}


def test_a_filter_that_comes_is_looked_for_from_the_next_record_on() -> None:
    known, (stored,) = orders(Order(1, Price(2.0, "CHF"), "x"))
    plan = planned(known, [known.route(1, Order, lambda o: o.number == 1)])
    assert taken(plan, [stored]) == {0: [1]}
    plan.routes.add(known.route(2, Order, lambda o: o.price.amount > 1 and o.note == "x"))
    assert taken(plan, [stored]) == {0: [1, 2]}
    plan.routes.remove(1)
    assert taken(plan, [stored]) == {0: [2]}
    plan.routes.remove(2)
    assert taken(plan, [stored]) == {}


def test_a_route_is_added_once_and_removed_once() -> None:
    known, _ = orders()
    route = known.route(1, Order)
    plan = planned(known, [route])
    with pytest.raises(BadOptionError, match="not in effect"):
        plan.routes.add(route)
    plan.routes.remove(1)
    with pytest.raises(BadOptionError, match="in effect"):
        plan.routes.remove(1)


def test_a_route_of_types_that_nobody_has_described_changes_nothing() -> None:
    known, (stored,) = orders(Order(1, Price(2.0, "CHF"), ""))
    plan = Plan(Registry())
    route = known.route(1, Order)
    with pytest.raises(NotDecodableError):
        plan.routes.add(route)
    assert len(plan.routes) == 0
    plan.routes.learn(known)  # type: ignore[arg-type]
    plan.routes.add(route)
    assert taken(plan, [stored]) == {0: [1]}


# -- what filters may take -------------------------------------------------------------------------


@dataclass
class Allowance:
    """A budget that lets a party ask for so many seconds."""

    seconds: dict[str, float]
    longest: int = 1_000_000
    steps: float = 1_000_000.0
    spent: dict[str, float] = field(default_factory=dict)

    def allowance(self, party: str) -> float:
        return self.seconds[party]

    def spend(self, party: str, seconds: float) -> None:
        self.spent[party] = self.spent.get(party, 0.0) + seconds


@dataclass
class Meter:
    value: int


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=1, max_size=60),
    st.fixed_dictionaries({each: st.sampled_from([0.0, 1e-6, 60.0]) for each in "ab"}),
)
@settings(max_examples=60 * MORE, deadline=None)
def test_a_party_over_its_budget_gets_all_and_the_others_what_they_want(
    routes: list[tuple[str, int]], values: list[int], seconds: dict[str, float]
) -> None:
    known = Known()
    known.bind(Meter)
    value = nodes.Attribute(EVENT, "value")
    records = [known.stored(Meter(each), position=n) for n, each in enumerate(values, 1)]
    budget = Allowance(seconds)
    plan = Plan(Registry(), budget=budget)
    plan.routes.move_to((), known)  # type: ignore[arg-type]
    for number, (party, least) in enumerate(routes):
        where = nodes.Compare(value, ((">=", nodes.Constant(least)),))
        plan.routes.add(known.route(number, Meter, where), owner=party)
    found = taken(plan, records)
    for number, (party, least) in enumerate(routes):
        takes = {at for at, who in found.items() if number in who}
        wants = {at for at, each in enumerate(values, 1) if each >= least}
        assert takes >= wants
        if seconds[party] == 60.0:
            assert takes == wants
        elif seconds[party] == 0.0:
            assert takes == set(range(1, len(values) + 1))
    assert budget.spent.keys() == {party for party, _ in routes}
    alone = plan.match(records, owner="a")
    mine = {number for number, (party, _) in enumerate(routes) if party == "a"}
    assert {number for who in alone.recipients for number in who} <= mine


def test_what_is_asked_of_a_filter_is_told_as_things_are_now() -> None:
    known = Known()
    known.bind(Meter)
    seconds = {"busy": 1.0}
    plan = Plan(Registry(), budget=Allowance(seconds))
    plan.routes.learn(known)
    route = known.route(1, Meter, lambda meter: meter.value > 3)
    plan.routes.add(route, owner="busy")
    definition = Definition.decoded(route.definition)
    told = "the broker asks `event.value > 3`, which is all of the filter"
    assert asked_in_words(plan.routes.asked(1), definition) == told
    seconds["busy"] = 0.0
    told = asked_in_words(plan.routes.asked(1), definition)
    assert told.startswith("for a while the broker sends every event of these types, and asks no")


@dataclass
class Parcel:
    weight: int = 0
    note: str = ""
    codes: set[int] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)


def asked(event: Parcel, *texts: str, steps: float = 1_000_000.0) -> set[int]:
    """Whom an event goes to that none of some filters wants."""
    known = Known()
    known.bind(Parcel)
    plan = Plan(Registry(classes=()), budget=Allowance({"shop": 60.0}, steps=steps))
    plan.routes.move_to((), known)  # type: ignore[arg-type]
    for number, text in enumerate(texts):
        where = Filter.from_json({"format": 1, "filter": text})
        interest = Interest(selector_for(Parcel), where, LEVEL)
        route = StoredRoute(number, f"{number}", definition_of(interest).encoded(), 1)
        plan.routes.add(route, owner="shop")
    found = plan.match([known.stored(event)])
    assert found.unsure == {number for who in found.recipients for number in who}
    return found.unsure


LONG = "x" * 300_000
LETTERS = "any(each == 'y' for each in event.note)"


@pytest.mark.parametrize(
    ("event", "texts"),
    [
        (Parcel(note=LONG), [LETTERS]),
        (Parcel(note=LONG), ["event.weight > 3", LETTERS]),
        (Parcel(note=LONG[:3_000]), [f"event.note.count('{n}y') > 3" for n in range(400)]),
        (Parcel(note=LONG), [f"'{n}y' in event.note" for n in range(60)]),
        (Parcel(codes=set(range(30_000))), ["len(event.codes) > 30_000"]),
        (Parcel(codes=set(range(30_000))), ["-1 in event.codes"]),
        (Parcel(note=LONG), ["xpath.holds(event, '//string[. = \"y\"]')"]),
        (Parcel(), [f"'{n}y' in event.note" for n in range(1_000)]),
    ],
    ids=[
        "letters",
        "beside another",
        "very many",
        "texts in a text",
        "a length",
        "a set of numbers",
        "XPath",
        "very many that no index looks up",
    ],
)
def test_an_event_about_which_asking_may_take_too_long_goes_to_all(
    event: Parcel, texts: list[str]
) -> None:
    assert asked(event, *texts) == set(range(len(texts)))
    assert asked(event, *texts, steps=math.inf) == set()


@pytest.mark.parametrize(
    ("event", "texts"),
    [
        (Parcel(note=LONG), ["event.weight > 3", "event.note == 'y'", "'y' in event.note"]),
        (Parcel(tags={f"{n}" for n in range(30_000)}), ["'y' in event.tags"]),
        (Parcel(note="x" * 100), [LETTERS] * 100),
        (Parcel(), [f"event.weight > {n} and 'y' in event.note" for n in range(1_000)]),
    ],
    ids=["large, plain", "a set of texts", "small", "very many that are looked up"],
)
def test_an_event_about_which_asking_takes_little_goes_to_nobody_else(
    event: Parcel, texts: list[str]
) -> None:
    assert asked(event, *texts) == set()


def test_what_is_remembered_of_topics_is_bounded() -> None:
    known = Known()
    known.bind(Meter)
    plan = Plan(Registry())
    plan.routes.move_to([known.route(1, Meter)], known)  # type: ignore[arg-type]
    for number in range(2 * MOST_KINDS + 1):
        one = known.stored(Meter(1), topic=f"/{number}")
        assert taken(plan, [one]) == {one.position: [1]}
    assert len(plan.records._known) <= MOST_KINDS
