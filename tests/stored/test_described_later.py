"""What an attribute holds may be of a type that comes when that of its event is long known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.pipeline.code_distribution import CodeBundle
from polycast.pipeline.route_stream import RouteRange, Worker
from polycast.routing import decode_recipients
from polycast.stores import Run, Store, open_store
from polycast.stores.sqlite.readonly_store import open_readonly
from polycast.typesystem import (
    AttributeDescription,
    Description,
    MemberDescription,
    TypeExpression,
    describe,
)

NUMBER = TypeExpression("class", "builtins.int")
TALK = Description(
    "later.Talk",
    attributes=(AttributeDescription("stars", NUMBER),),
    members=(MemberDescription("stars", "field", NUMBER),),
)
KEYNOTE = Description(
    "later.Keynote",
    supertypes=("later.Talk",),
    attributes=(AttributeDescription("stars", NUMBER), AttributeDescription("fee", NUMBER)),
    members=(
        MemberDescription("stars", "field", NUMBER),
        MemberDescription("fee", "field", NUMBER),
    ),
)
OF_TALK = TypeExpression("class", "later.Talk")
SLOT = Description(
    "later.Slot",
    attributes=(AttributeDescription("talk", OF_TALK),),
    members=(MemberDescription("talk", "field", OF_TALK),),
)
PLAIN = b'{"talk": {"stars": 1}}'
SPECIAL = b'{"talk": {"$": "later.Keynote", "stars": 5, "fee": 9}}'


def publish(store: Store, publisher: str, number: int, payload: bytes) -> int:
    identity = pc.Identity(publisher, 1, number)
    run = Run(SLOT.name, SLOT.version, SLOT.hash, identity, "json", [payload])
    (position,) = store.submit([run]).result(5)
    assert position is not None
    return position


def test_a_subscriber_reads_it(
    open_bus: Callable[..., pc.Bus], eventually: Callable[..., None]
) -> None:
    there, here = open_bus(), open_bus()
    store: Any = there._engine.store  # type: ignore[attr-defined]
    got: list[Any] = []
    here.subscribe(object, got.append, durable="all")
    store.describe([SLOT, TALK]).result(5)
    publish(store, there.publisher, 1, PLAIN)
    eventually(lambda: len(got) == 1)
    store.describe([KEYNOTE]).result(5)
    publish(store, there.publisher, 2, SPECIAL)
    eventually(lambda: len(got) == 2 or here.dead_letters())
    assert [type(each.talk).__name__ for each in got] == ["Talk", "Keynote"]
    assert (got[1].talk.stars, got[1].talk.fee) == (5, 9)


@dataclass(frozen=True)
class Talk:
    stars: int


@dataclass(frozen=True)
class Keynote(Talk):
    fee: int


@dataclass(frozen=True)
class Slot:
    talk: Talk


def test_a_publisher_describes_it(open_bus: Callable[..., pc.Bus]) -> None:
    bus = open_bus()
    store: Any = bus._engine.store  # type: ignore[attr-defined]
    for slot, count in ((Slot(Talk(1)), 2), (Slot(Talk(2)), 2), (Slot(Keynote(5, 9)), 3)):
        bus.publish(slot)
        with store.view() as view:
            assert len(view.descriptions()) == count
    assert describe(Keynote) in view.descriptions()


def test_what_nobody_has_described_is_a_dead_letter(
    open_bus: Callable[..., pc.Bus], eventually: Callable[..., None]
) -> None:
    there, here = open_bus(), open_bus()
    store: Any = there._engine.store  # type: ignore[attr-defined]
    here.subscribe(object, print, durable="all")
    store.describe([SLOT, TALK]).result(5)
    publish(store, there.publisher, 1, SPECIAL)
    eventually(here.dead_letters)
    assert "the description of 'later.Keynote'" in here.dead_letters()[0].reason


@pytest.mark.parametrize("stars", [1, 5])
def test_a_worker_of_the_pipeline_reads_it(path: Path, stars: int) -> None:
    one = SelectedType(SLOT.name, SLOT.version, SLOT.hash)
    where = f"event.talk.stars == {stars}"
    data = {"format": 1, "filter": where}
    wanted = Definition(SLOT.name, "strong_set", (one,), where=where, filter=data)
    store = open_store(str(path))
    store.describe([SLOT, TALK]).result(5)
    store.write(lambda tx: tx.begin_route("rated", wanted.encoded())).result(5)
    first = publish(store, "there", 1, PLAIN)
    with open_readonly(str(path)) as reading, reading.view() as view:
        effect = view.in_effect(first)
    worker = Worker(str(path), CodeBundle())
    worker.follow(RouteRange(first, first + 1, *effect))
    taken = decode_recipients(first, worker.routed(first, first + 1).recipients).by_route()
    store.describe([KEYNOTE]).result(5)
    second = publish(store, "there", 2, SPECIAL)
    row = worker.routed(second, second + 1)
    worker.close()
    store.close()
    assert (row.failures, bool(taken)) == (b"", stars == 1)
    assert bool(decode_recipients(second, row.recipients).by_route()) is (stars == 5)
