"""Both questions of a plan, in every engine, against a reference that asks every subscription."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from question_world import (
    LEVEL,
    EuTalk,
    Lunch,
    Sent,
    Talk,
    Wanting,
    doubled,
    expected,
    federation,
    halved,
    recipients,
    worlds,
)

import polycast as pc
from polycast.broker.server.fair_scheduler import FilterBudget
from polycast.filters import Filter
from polycast.matching import Interest, definition_of, selector_for, wanted_from_afar
from polycast.routing import Plan
from polycast.routing import plan as routing_plan
from polycast.routing.match import RecordMatcher
from polycast.routing.plan import TargetTable
from polycast.stores import StoredRoute
from polycast.typesystem import Registry, describe, describe_all

MORE = 20 if os.environ.get("POLYCAST_STRESS") == "long" else 1
FUNCTIONS = {f"question_world:{each.__name__}": each for each in (doubled, halved)}
quick = settings(
    max_examples=40 * MORE,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
slow = settings(quick, max_examples=12 * MORE)

World = tuple[list[Interest], list[Sent]]


# -- recipients ------------------------------------------------------------------------------------


def planned(interests: list[Interest]) -> Plan:
    plan = Plan()
    plan.translation.federation = federation()
    plan.translation.change(1, 1)
    for number, interest in enumerate(interests):
        plan.add(Wanting(number, interest))
    return plan


def check_recipients(world: World) -> None:
    interests, sent = world
    plan = planned(interests)
    for each in sent:
        assert recipients(plan, each) == expected(interests, each), each


@pytest.mark.parametrize("indexed", [False, True])
@quick
@given(world=worlds)
def test_recipients_are_those_that_the_reference_names(
    indexed: bool, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    if indexed:
        monkeypatch.setattr(routing_plan, "MANY", 0)
        monkeypatch.setattr(Plan, "forget", lambda plan: plan.index and None)  # made at once
    check_recipients(world)


@pytest.mark.parametrize("many", [0, 128])
@pytest.mark.parametrize("dispatch", ["inline", "pool"])
@quick
@given(world=worlds)
def test_a_bus_calls_those_that_the_reference_names(
    dispatch: Any, many: int, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """Generated routes, and the slow path where there is no route."""
    monkeypatch.setattr(routing_plan, "MANY", many)
    with pc.Bus(federation=federation()) as bus:
        check_bus(bus, world, dispatch)


def check_bus(bus: pc.Bus, world: World, dispatch: Any) -> None:
    got, known = list[int](), list[Interest]()
    for interest in world[0]:
        number, view = len(known), bus.within(interest.context or "root")

        def callback(event: Any, number: int = number) -> None:
            got.append(number)

        try:
            subscription = view.subscribe(
                interest.selector, callback, where=interest.where, dispatch=dispatch
            )
        except pc.FilterError:  # it asks for what no class of the selector has
            continue
        known.append(subscription.interest)
    for sent in world[1]:
        got.clear()
        topic: Any = {} if sent.topic is None else {"topic": sent.topic}
        bus.within(sent.source or "root").publish(sent.event, **topic)
        bus.flush(10.0)
        assert sorted(got) == expected(known, sent), sent


# -- records ---------------------------------------------------------------------------------------


@contextmanager
def published(sent: list[Sent]) -> Iterator[pc.Bus]:
    """A bus over a file that holds these events."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'events.db'}"
        with pc.Bus(url, federation=federation()) as bus:
            for each in sent:
                topic: Any = {} if each.topic is None else {"topic": each.topic}
                bus.within(each.source or "root").publish(each.event, **topic)
            yield bus


def check_match(bus: Any, world: World, plan: Plan, define: Callable[[Interest], Any]) -> None:
    """What a plan that has definitions only says of the records of a bus."""
    interests, sent = world
    store = bus._engine.store
    definitions = [define(interest) for interest in interests]
    routes = [
        StoredRoute(number, f"s{number}", definition.encoded(), 1)
        for number, definition in enumerate(definitions)
    ]
    types = {cls for interest in interests for cls in interest.selector.types}
    store.describe([each for cls in types for each in (describe(cls), *describe_all(cls))]).result()
    records = store.read(1, limit=100).entries
    with store.view() as view:
        plan.routes.learn(view)
        plan.routes.learn_contexts(view)
    for route in routes:
        plan.routes.add(route, owner="somebody")
    result = plan.match(records, owner="somebody")
    # What is registered with an abstract class, a broker cannot know.
    told_apart = {
        number
        for number, interest in enumerate(interests)
        if define is wanted_from_afar and definition_of(interest).open
    }
    unsure = plan.routes.unsure | result.unsure | told_apart
    taken = dict(zip(result.positions, map(set, result.recipients), strict=True))
    for stored, each in zip(records, sent, strict=True):
        numbers, meant = taken.get(stored.position, set()), set(expected(interests, each))
        assert numbers - unsure == meant - unsure, each
        assert numbers >= meant, each


def by_workers(interest: Interest) -> Any:
    return definition_of(interest)


@slow
@given(world=worlds)
def test_records_match_those_that_the_reference_names(world: World) -> None:
    """As a worker of the pipeline and a search ask, and as a broker does, who has no classes."""
    with published(world[1]) as bus:
        check_match(bus, world, Plan(Registry(), FUNCTIONS.get), by_workers)
        budget = FilterBudget(lambda: 0.0)
        brokers = Plan(Registry(classes=()), budget=budget)
        check_match(bus, world, brokers, wanted_from_afar)


@slow
@given(world=worlds)
def test_the_log_reader_brings_to_those_that_the_reference_names(world: World) -> None:
    interests, sent = world
    with published(sent) as bus:
        engine: Any = bus._engine
        records = engine.store.read(1, limit=100).entries
        targets = [Wanting(number, interest) for number, interest in enumerate(interests)]
        for stored, each in zip(records, sent, strict=True):
            router = engine.source.router
            wanted = [each.number for each in targets if router.wanted(each, [stored])]
            assert wanted == expected(interests, each), each


# -- what the comparison finds ---------------------------------------------------------------------

PLAIN: World = (
    [
        Interest(selector_for(Talk), Filter(lambda t: t.stars > 2), LEVEL),
        Interest(selector_for(EuTalk), Filter(lambda t: t.stars > 2), LEVEL, context="eu"),
        Interest(selector_for(pc.topic("/a/**", Lunch)), None, LEVEL),
    ],
    [
        Sent(Talk("a", 1.5), None, None),
        Sent(EuTalk("b", 8.0), "eu", "/a"),
        Sent(Lunch("c"), None, "/a/b"),
    ],
)


def test_an_error_in_the_first_question_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    check_recipients(PLAIN)
    covering = TargetTable.covering
    monkeypatch.setattr(
        TargetTable, "covering", lambda table, cls, topic, context: covering(table, cls, topic)
    )
    with pytest.raises(AssertionError):
        check_recipients(PLAIN)


def test_an_error_in_the_second_question_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with published(PLAIN[1]) as bus:
        check_match(bus, PLAIN, Plan(Registry(), FUNCTIONS.get), by_workers)
        form = RecordMatcher.form
        monkeypatch.setattr(
            RecordMatcher, "form", lambda matcher, context, stored: form(matcher, None, stored)
        )
        with pytest.raises(AssertionError):
            check_match(bus, PLAIN, Plan(Registry(), FUNCTIONS.get), by_workers)
