"""Contexts against the judge: for random worlds, what is built says what the page says."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from functools import cache, partial
from itertools import islice
from typing import Any, cast

import page
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from page import CANNOT_LEAVE, ContextData, Refused, World
from reflective import reflect
from world_events import changeable, objects, witnesses
from worlds import Case, cases, plain, round_trips

import polycast as pc
from polycast.contexts.declare.statements import Direction
from polycast.contexts.resolve.inheritance import SettledContext, settle
from polycast.contexts.resolve.resolution import ResolvedRule, Resolver
from polycast.contexts.run.translator import Translator
from polycast.errors import NotTranslatedError

LONG = os.environ.get("POLYCAST_STRESS") == "long"
EXAMPLES = 2_000 if LONG else 12
WITNESSES, MANY = 40, 3_000
WORLDS = 200

random_worlds = settings(
    derandomize=not LONG,  # the same few worlds each time; many others at length
    max_examples=EXAMPLES,
    # Making a world smaller takes minutes. At length, what is found first is shown as it is, with
    # the line that brings it back; the few worlds of a short run are soon gone through.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclasses.dataclass
class Built:
    """The contexts of a world, and a federation of those that are right."""

    federation: pc.Federation
    contexts: dict[str, pc.Context] = dataclasses.field(default_factory=dict)
    settled: dict[str, SettledContext] = dataclasses.field(default_factory=dict)
    errors: dict[str, list[Any]] = dataclasses.field(default_factory=dict)

    def rows(self, name: str, cls: type) -> list[ResolvedRule]:
        """What `Context.resolve` says."""
        settled = self.settled[name]
        return Resolver(settled.rules, settled.types).rows(cls)

    def right(self) -> list[str]:
        """The names of the contexts that were added."""
        return [name for name in self.contexts if name in self.federation]


def build(world: World) -> Built:
    world.witnesses = lambda cls, there: islice(witnesses(cls, there), WITNESSES)
    root = pc.Context("root", types=world.root_types)
    built = Built(pc.Federation(root))
    for name, data in world.contexts.items():
        parents = [built.contexts[parent] for parent in data.parents] or root
        context = pc.Context(name, parent=parents, types=data.types)
        for source, target, direction in data.mappings:
            context.map(source, target, direction)  # type: ignore[arg-type]
        for pattern, function in data.rules:
            context.rule(pattern, pc.rules.identity if function is page.identity else function)
        for source, function in data.wholes:
            context.whole(source, function)
        built.contexts[name], built.settled[name] = context, settle(context)
        built.errors[name] = list(context.check().errors)
        if not built.errors[name] and all(parent in built.federation for parent in data.parents):
            built.federation.add(context)
    return built


def compiled(built: Built, event: Any, source: str | None, target: str | None) -> Any:
    return built.federation.translate(event, source=source, target=target)


def reflected(built: Built, event: Any, source: str | None, target: str | None) -> Any:
    if source is not None and source != target:
        event = reflect(built.settled[source], "!", event)
    if event is not None and target is not None and source != target:
        event = reflect(built.settled[target], "?", event)
    return CANNOT_LEAVE if event is None else event


def folded(built: Built, event: Any, source: str | None, target: str | None) -> Any:
    """As where types contain each other in very many ways: paths that are alike are one."""
    for name, direction in ((source, "!"), (target, "?")):
        if source != target and name is not None and event is not None:
            settled, way = built.settled[name], cast("Direction", direction)
            event = Translator(settled, way, lambda finding: None, few=0).translate(event)
    return CANNOT_LEAVE if event is None else event


WAYS = (compiled, reflected, folded)


def outcome(way: Any, built: Any, event: Any, source: str | None, target: str | None) -> Any:
    try:
        return way(built, event, source, target)
    except NotTranslatedError:
        return CANNOT_LEAVE


def judged(world: World, event: Any, source: str | None, target: str | None) -> Any:
    return plain(page.translate(world, event, source, target))


@st.composite
def journeys(draw: st.DrawFn, case: Case, names: list[str]) -> tuple[Any, str | None, str | None]:
    """An event, where it is published, and where it is wanted."""
    places: list[str | None] = [None, *names]
    source = draw(st.sampled_from([place for place in places if case.population(place)]))
    target = draw(st.sampled_from([place for place in places if place != source]))
    there = [*case.population(source), *(case.strangers if source is None else [])]
    held = [*there, *case.world.root_types, *case.strangers]
    return draw(objects(draw(st.sampled_from(there)), held)), source, target


@random_worlds
@given(data=st.data())
def test_an_event_becomes_what_the_page_says(data: st.DataObject) -> None:
    case = data.draw(cases())
    built = build(case.world)
    assume(built.right())
    for _ in range(4):
        event, source, target = data.draw(journeys(case, built.right()))
        before = repr(plain(event))
        expected = judged(case.world, event, source, target)
        for way in WAYS:
            if way is reflected and built.federation.findings:
                continue  # it knows no other view of an object than that of its class
            result = outcome(way, built, event, source, target)
            assert plain(result) == expected
            assert not changeable(result).keys() & changeable(event).keys()
        assert repr(plain(event)) == before


@seed(6)
@settings(
    max_examples=WORLDS,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(case=cases())
def _count_reasons(case: Case, *, counts: Counter[str]) -> None:
    built = build(case.world)
    events = [(name, cls) for name in built.contexts for cls in case.world.root_types]
    counts.update({row.reason for name, cls in events for row in built.rows(name, cls)})
    counts.update(["right"] if built.right() else [])
    counts["worlds"] += 1


@pytest.mark.skipif(not LONG, reason="a share of so few worlds says little: POLYCAST_STRESS=long")
def test_each_priority_decides_something_in_a_share_of_the_worlds() -> None:
    counts: Counter[str] = Counter()
    _count_reasons(counts=counts)
    shares = {kind: count / counts["worlds"] for kind, count in counts.items()}
    assert min(shares.get(f"P{number}", 0) for number in range(1, 7)) > 0.02, shares
    assert shares["right"] > 1 / 3, shares


def shown(world: World, name: str, most: int = WITNESSES) -> str:
    """Why the judge refuses a context: what some simple event of a mapped type shows."""
    there = page.known(world, name)
    for direction in "?!":
        way = page.way_through(world, name, direction)
        for source in way.table:
            for met in [known for known in there if source in known.__mro__]:
                for event in islice(witnesses(met, there), most):
                    try:
                        way.cross(event)
                    except Refused as error:
                        return f"{direction} {plain(event)}: {error}"
    return ""


@random_worlds
@given(case=cases())
def test_a_context_is_refused_if_and_only_if_an_event_would_show_why(case: Case) -> None:
    built = build(case.world)
    for name, errors in built.errors.items():
        why = shown(case.world, name) or (errors and shown(case.world, name, MANY))
        assert bool(why) == bool(errors)


@random_worlds
@given(case=cases())
def test_rows_are_those_of_the_page(case: Case) -> None:
    built = build(case.world)
    for name in built.contexts:  # a wrong result does not change which rule wins
        parse = cache(partial(page.parse, page.known(case.world, name)))
        for cls in case.world.root_types + case.locals[name]:
            expected = [
                (types, names, parse(pattern), shadowed)
                for types, names, pattern, shadowed in page.rows(case.world, name, cls)
            ]
            found = [
                (tuple(r.types), tuple(r.attributes), parse(r.pattern), r.shadowed)
                for r in built.rows(name, cls)
            ]
            assert Counter(found) == Counter(expected)


def reordered(world: World, data: st.DataObject) -> World:
    """The same lines in another order; of identical ones, only those that count."""
    contexts = {}
    for name, declared in world.contexts.items():
        there = page.known(world, name)
        rules = {page.parse(there, text): (text, function) for text, function in declared.rules}
        mappings = {(source, way): target for source, target, way in declared.mappings}
        lines = [(source, target, way) for (source, way), target in mappings.items()]
        contexts[name] = ContextData(
            declared.parents,
            data.draw(st.permutations(declared.types)),
            data.draw(st.permutations(lines)),
            data.draw(st.permutations(list(rules.values()))),
        )
        contexts[name].wholes = data.draw(st.permutations(declared.wholes))
    return World(data.draw(st.permutations(world.root_types)), contexts)


@random_worlds
@given(data=st.data())
def test_the_order_of_lines_never_matters(data: st.DataObject) -> None:
    case = data.draw(cases())
    one, other = build(case.world), build(reordered(case.world, data))
    assert one.right() == other.right()
    assume(one.right())
    event, source, target = data.draw(journeys(case, one.right()))
    results = [outcome(compiled, built, event, source, target) for built in (one, other)]
    assert plain(results[0]) == plain(results[1])
    for name in one.right():
        for cls in case.population(None):
            rows = [
                Counter((r.types, r.attributes, r.pattern) for r in built.rows(name, cls))
                for built in (one, other)
            ]
            assert rows[0] == rows[1]


@random_worlds
@given(data=st.data())
def test_to_the_root_and_back_with_inverse_rules_is_the_identity(data: st.DataObject) -> None:
    case = data.draw(round_trips())
    built = build(case.world)
    assert not built.errors["one"]
    for source, target in ((None, "one"), ("one", None)):
        there = case.population(source)
        event = data.draw(objects(data.draw(st.sampled_from(there)), there))
        expected = judged(case.world, event, source, target)
        for way in WAYS:
            between = way(built, event, source, target)
            assert type(between) is not type(event)
            assert plain(between) == expected
            assert plain(way(built, between, target, source)) == plain(event)
