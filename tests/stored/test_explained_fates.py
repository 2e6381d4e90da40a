"""What is explained where an answer is easily wrong: contexts, groups, ends, brokers."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from explained_world import (
    FILTERS,
    Bill,
    Letter,
    LocalNote,
    LocalWare,
    Sellable,
    Toy,
    Ware,
    federation,
)

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.cli import main
from polycast.testing import ManualClock, Recorder

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]


def shown(url: str, *words: object, clock: Any = None) -> Any:
    """What `polycast explain` says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["explain", url, *map(str, words), "--json"], clock=clock) == 0
    return json.loads(out.getvalue())


@pytest.fixture
def market(open_bus: OpenBus) -> pc.Bus:
    return open_bus(federation=federation())


# -- what is asked elsewhere -----------------------------------------------------------------------


@pytest.mark.parametrize("where", ["lifted", "split"])
def test_in_a_context_nobody_claims_that_the_broker_asks_all_of_a_filter(
    market: pc.Bus, url: str, place: str, where: str
) -> None:
    us = market.within("us")
    sub = us.subscribe(LocalWare, Recorder(), where=FILTERS[where], durable="d")
    told = shown(url, "d")["at_broker"]
    assert told == (
        "the broker asks `event.price > 4` of what is published in context 'us'; of what comes "
        "into it, it sends every event of these types; the subscriber asks the whole filter"
    )
    if place == "remote":
        assert told in sub.explain().reasons


@pytest.mark.parametrize("place", ["remote"], indirect=True)
def test_in_a_context_the_broker_does_what_is_said(market: pc.Bus) -> None:
    seen: Recorder[LocalWare] = Recorder()
    us = market.within("us")
    us.subscribe(LocalWare, seen, where=FILTERS["lifted"])
    news: Any = market._engine.store._inbound  # type: ignore[attr-defined]
    before = news.events
    us.publish_many([LocalWare(n) for n in range(10)])
    assert market.flush(5)
    assert (len(seen.events), news.events - before) == (5, 5)
    market.publish_many([Ware(n) for n in range(5)])
    assert market.flush(5)
    assert (len(seen.events), news.events - before) == (7, 10)


@pytest.mark.parametrize("place", ["remote"], indirect=True)
def test_of_an_abstract_class_the_broker_sends_all(shop: pc.Bus, url: str) -> None:
    sub = shop.subscribe(Sellable, Recorder(), durable="d")
    told = "the broker sends every event, whatever its type"
    assert told in sub.explain().reasons
    assert shown(url, "d")["at_broker"] == told
    news: Any = shop._engine.store._inbound  # type: ignore[attr-defined]
    before = news.events
    shop.publish_many([Ware(1), Letter()])
    assert shop.flush(5)
    assert news.events - before == 2


@pytest.mark.parametrize("place", ["remote"], indirect=True)
def test_what_a_broker_asks_is_told_as_of_now(open_bus: OpenBus, eventually: Eventually) -> None:
    bus, other = open_bus(), open_bus()
    sub = bus.subscribe(Ware, Recorder(), where=FILTERS["lifted"])
    assert "the broker asks `event.price > 4`, which is all of the filter" in sub.explain().reasons
    other.subscribe(Bill, Recorder())  # what has a price may be compared in its own way now
    told = "the broker sends every event of these types; the subscriber asks the filter"
    eventually(lambda: told in sub.explain().reasons)


def test_without_its_broker_what_that_asks_is_not_known(
    tmp_path: Path, eventually: Eventually
) -> None:
    with Serving(Broker(f"sqlite:///{tmp_path / 'a.db'}")) as serving:
        bus = pc.Bus(serving.url)
        sub = bus.subscribe(Ware, Recorder(), where=FILTERS["lifted"])
    eventually(lambda: not bus.health().ok)
    told = sub.explain().reasons
    assert "what the broker asks of its filter is not known now" in told
    assert "wants those for which `event.price > 4` is true; a failure counts as no match" in told
    assert sub.explain(Ware(5)).delivered is True
    bus.close(timeout=0.1)


# -- events ----------------------------------------------------------------------------------------


def test_an_event_that_a_function_keeps_out_is_a_dead_letter_of_the_context(
    market: pc.Bus, url: str, eventually: Eventually
) -> None:
    sub = market.within("us").subscribe(LocalWare, Recorder(), durable="d")
    position = market.publish(Ware(9)).position
    eventually(lambda: len(market.dead_letters()) == 1)
    assert market.flush(5)
    told = shown(url, "d", "--position", position)
    assert told["delivered"] is False
    assert "it is a dead letter of context us" in told["fate"]
    assert sub.explain(Ware(9)).delivered is False
    assert "dead letter" in str(sub.explain(Ware(9)))


def test_an_event_that_does_not_leave_its_context_is_told_so(market: pc.Bus, url: str) -> None:
    market.subscribe(object, Recorder(), durable="d")
    position = market.within("us").publish(LocalNote(1)).position
    told = shown(url, "d", "--position", position)
    assert (told["wanted"], told["delivered"]) == (False, False)
    assert "does not leave that context" in told["reasons"][1]


def test_an_event_that_has_expired_is_certainly_not_delivered(
    open_bus: OpenBus, url: str, clock: ManualClock
) -> None:
    bus = open_bus(clock=clock)
    bus.subscribe(Ware, Recorder(), durable="d").detach()
    position = bus.publish(Ware(1), expires=10).position
    assert shown(url, "d", "--position", position, clock=clock)["delivered"] is True
    clock.advance(11)
    told = shown(url, "d", "--position", position, clock=clock)
    assert (told["wanted"], told["delivered"]) == (True, False)
    assert "it has expired" in told["fate"]


def test_what_was_handled_and_has_expired_since_was_perhaps_not_delivered(
    open_bus: OpenBus, url: str, clock: ManualClock
) -> None:
    bus = open_bus(clock=clock)
    bus.subscribe(Ware, Recorder(), durable="d")
    position = bus.publish(Ware(1), expires=10).position
    assert bus.flush(5)
    clock.advance(11)
    told = shown(url, "d", "--position", position, clock=clock)
    assert told["delivered"] is None
    assert "it was delivered, unless it had expired first" in told["fate"]


def test_what_a_weak_level_may_have_lost_is_not_told_as_delivered(shop: pc.Bus, url: str) -> None:
    began, gate = threading.Event(), threading.Event()
    got: list[int] = []

    def slow(ware: Ware, delivery: pc.Delivery) -> None:
        began.set()
        gate.wait(10)
        got.append(delivery.position)

    options: Any = {"level": "weak_bag", "queue": 2, "overflow": "drop_oldest"}
    sub = shop.subscribe(Ware, slow, durable="d", **options)
    positions = [shop.publish(Ware(0)).position]
    assert began.wait(10)
    positions += [shop.publish(Ware(n)).position for n in range(1, 10)]
    gate.set()
    assert shop.flush(10)
    sub.detach()
    for position in positions:
        told = shown(url, "d", "--position", position)
        assert told["delivered"] is None
        assert "unless it was dropped: weak_bag may lose events" in told["fate"]
    assert len(got) < len(positions)


def test_what_a_former_filter_kept_away_is_told_by_what_is_wanted_now(
    shop: pc.Bus, url: str
) -> None:
    seen: Recorder[Ware] = Recorder()
    shop.subscribe(Ware, seen, durable="d", where=lambda ware: ware.price > 99)
    position = shop.publish(Ware(1)).position
    assert shop.flush(10)
    shop.subscribe(Ware, seen, durable="d", replace=True).detach()
    told = shown(url, "d", "--position", position)
    assert told["fate"] == "it was delivered; that goes by what the subscription wants now"
    assert seen.events == []


def test_an_event_before_a_subscription_is_certainly_not_delivered(shop: pc.Bus, url: str) -> None:
    position = shop.publish(Ware(1)).position
    shop.subscribe(Ware, Recorder(), durable="d")
    told = shown(url, "d", "--position", position)
    assert (told["wanted"], told["delivered"]) == (True, False)


def test_of_a_group_whose_members_differ_only_they_can_say(
    open_bus: OpenBus, url: str, eventually: Eventually
) -> None:
    bus = open_bus()
    seen: Recorder[Any] = Recorder()
    toys = bus.subscribe(Toy, seen, group="g")
    wares = bus.subscribe(Ware, seen, group="g", where=FILTERS["lifted"])
    position = bus.publish(Toy(1)).position
    eventually(lambda: seen.events)
    told = shown(url, "group:g", "--position", position)
    assert told["delivered"] is None
    assert "only they can say" in "\n".join(told["reasons"])
    said = [toys.explain(Toy(1)), wares.explain(Toy(1)), toys.explain(Toy(9))]
    assert [each.delivered for each in said] == [True, False, None]
    assert "one member of the group 'g' gets it" in str(said[2])


def test_a_member_elsewhere_may_get_an_event(open_bus: OpenBus) -> None:
    here, there = open_bus(), open_bus()
    mine = here.subscribe(Ware, Recorder(), group="g")
    assert mine.explain(Ware(1)).delivered is True
    theirs = there.subscribe(Ware, Recorder(), group="g")
    assert mine.explain(Ware(1)).delivered is None
    theirs.cancel()
    assert mine.explain(Ware(1)).delivered is True


def test_a_position_that_is_still_to_come_is_waited_for(shop: pc.Bus) -> None:
    seen: Recorder[Ware] = Recorder()
    sub = shop.subscribe(Ware, seen, since=3)
    said = []
    for number in range(3):
        said.append(sub.explain(Ware(number)).delivered)
        shop.publish(Ware(number))
    assert shop.flush(5)
    assert said == [False, False, True]
    assert [ware.price for ware in seen.events] == [2]


def test_what_waits_for_a_paused_subscription_is_told(shop: pc.Bus) -> None:
    sub = shop.subscribe(Ware, Recorder())
    sub.pause()
    told = sub.explain(Ware(1))
    assert told.delivered is True
    assert "the event waits until resume()" in str(told)


def test_a_subscription_whose_context_is_gone_gets_nothing(market: pc.Bus) -> None:
    seen: Recorder[LocalWare] = Recorder()
    sub = market.within("us").subscribe(LocalWare, seen)
    assert market.federation is not None
    assert sub.explain(Ware(1)).delivered is True
    market.federation.remove("us")
    told = sub.explain(Ware(1))
    market.publish(Ware(1))
    assert market.flush(5)
    assert (told.delivered, seen.events) == (False, [])
    assert "context 'us'; that was taken out" in str(told)
