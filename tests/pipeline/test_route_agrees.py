"""Workers say what plain Python says about every event and subscription."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from route_world import TOPICS, some_event, some_filter, some_selector

import polycast as pc
from polycast.config import level_named
from polycast.errors import NotRoutableError
from polycast.filters import Filter
from polycast.matching import Interest, definition_of, selector_for
from polycast.pipeline.route_stream import route_ranges
from polycast.routing import decode_recipients
from polycast.stores import Store, StoredSubscription, Transaction, open_store
from polycast.typesystem import Registry

HERE = Path(__file__).parent


class Child:
    """A worker in a process of its own."""

    def __init__(self, imports: list[str]) -> None:
        self.imports = imports
        path = [str(HERE)] if imports else []
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "route_child.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parent,
            env={"PYTHONPATH": ":".join(path), "PYTHONSAFEPATH": "1"},
        )

    def ask(self, path: str, store: Store) -> dict[int, tuple[list[int], frozenset[int]]]:
        with store.view() as view:
            wanted = route_ranges(view, 1, view.newest() + 1)
            request = (path, view.identity(), self.imports, wanted)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        found = {}
        for low, _, error, body in json.loads(self._process.stdout.readline()):
            assert error is None, error
            takers = decode_recipients(low, base64.b64decode(body))
            found.update({at: (numbers, takers.unsure) for at, numbers in takers})
        return found

    def close(self) -> None:
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module", params=[(), ("route_types",)], ids=["made", "imported"])
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    child = Child(list(request.param))
    yield child
    child.close()


def subscribe(store: Store, name: str, interest: Interest, registry: Registry) -> int | None:
    """What a bus does for `engine="spark"`."""
    try:
        definition = definition_of(interest, engine="spark").encoded()
    except NotRoutableError:
        return None
    for cls in interest.selector.types:
        if cls is not object:
            registry.bind(cls)

    def write(tx: Transaction) -> int:
        for description in registry.descriptions():
            tx.describe(description)
        start = tx.newest() + 1
        tx.save(StoredSubscription(name, definition, start, start))
        return tx.begin_route(name, definition).number

    return store.write(write).result()


@pytest.mark.parametrize("seed", range(25))
def test_workers_say_what_python_says(seed: int, child: Child, tmp_path: Path) -> None:
    random, registry = Random(seed), Registry()
    path = str(tmp_path / "events.db")
    interests: dict[int, Interest] = {}
    events: dict[int, tuple[Any, str | None]] = {}
    ended: dict[int, int] = {}
    with pc.Bus(f"sqlite:///{path}") as bus:
        store = open_store(path)
        for step in range(8):
            for each in range(random.randrange(2, 9)):
                level = level_named("sorted_set")
                interest = Interest(some_selector(random), some_filter(random), level)
                number = subscribe(store, f"{step}-{each}", interest, registry)
                if number is not None:
                    interests[number] = interest.starting(bus.health().published + 1)
            for _ in range(random.randrange(12)):
                event, topic = some_event(random), random.choice(TOPICS)
                events[bus.publish(event, topic=topic).position] = event, topic
            if interests and random.random() < 0.5:
                gone = random.choice(sorted(interests))
                with store.view() as view:
                    names = {route.number: route.name for route in view.routes()}
                    end = view.newest() + 1
                if gone in names and gone not in ended:
                    store.write(lambda tx, name=names[gone]: tx.remove(name)).result()
                    ended[gone] = end
        found = child.ask(path, store)
        store.close()
    for position, (event, topic) in events.items():
        numbers, unsure = found.get(position, ([], frozenset()))
        assert len(numbers) == len(set(numbers))
        expected = {
            number
            for number, interest in interests.items()
            if interest.in_effect(position)
            and position < ended.get(number, position + 1)
            and interest.wants(event, topic)
        }
        told = f"position {position}, {event} on {topic}"
        for number in expected ^ set(numbers):
            interest = interests[number]
            what = f"{told}: {interest.selector} where {interest.where}"
            assert number in unsure, what
            assert number not in expected, what  # the subscriber cannot ask for what is not there


@pc.event(name="route.Item", version=1)
@dataclass(frozen=True)
class OldItem:
    number: int


@pc.event(name="route.Item", version=2)
@dataclass(frozen=True)
class Item:
    number: int
    colour: str = "red"


@pc.event(name="route.Box")
@dataclass(frozen=True)
class Box:
    size: int


@pc.event(name="route.Crate")
@dataclass(frozen=True)
class Crate:
    width: int

    @property
    def size(self) -> int:
        return self.width * 2


def test_what_a_newer_version_would_say_is_left_to_who_has_it(tmp_path: Path) -> None:
    made, path = Child([]), str(tmp_path / "events.db")
    with pc.Bus(f"sqlite:///{path}") as bus:
        store, registry, level = open_store(path), Registry(), level_named("sorted_set")
        where: Filter[Any] = pc.lift(lambda item: item.colour == "red")
        number = subscribe(store, "red", Interest(selector_for(Item), where, level), registry)
        assert number is not None
        bus.publish_many([OldItem(1), Item(2), Item(3, "blue")])
        found = made.ask(path, store)
        # As the newest class has it, the old item is red.
        assert all(number in found[at][0] and number in found[at][1] for at in (1, 2, 3))
        store.close()
    made.close()


def test_a_type_that_comes_later_is_asked_as_it_should_be(tmp_path: Path) -> None:
    made, path = Child([]), str(tmp_path / "events.db")
    with pc.Bus(f"sqlite:///{path}") as bus:
        store, registry, level = open_store(path), Registry(), level_named("sorted_set")
        where: Filter[Any] = pc.lift(lambda box: box.size > 3)
        interest = Interest(selector_for("/**"), where, level)
        number = subscribe(store, "large", interest, registry)
        assert number is not None
        bus.publish_many([Box(1), Box(5)], topic="/a")
        assert made.ask(path, store) == {2: ([number], frozenset())}
        bus.publish(Crate(3), topic="/a")
        assert made.ask(path, store)[3] == ([number], frozenset({number}))
        store.close()
    made.close()
