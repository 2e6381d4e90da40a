"""Looking at a bus: health, explanations, advertisements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Talk:
    stars: int = 0


class Lecture(Talk):
    pass


@dataclass
class Song:
    stars: int = 0


def popular(talk: Talk) -> bool:
    return talk.stars > 3


# -- health ----------------------------------------------------------------------------------------


def test_a_new_bus_is_well(bus: TestBus) -> None:
    health = bus.health()
    assert (health.ok, health.state, health.problems) == (True, "open", ())


def test_health_counts_what_was_published(bus: TestBus) -> None:
    bus.publish_many([Talk()] * 3)
    bus.publish(Talk())
    assert bus.health().published == 4


def test_health_lists_subscriptions_with_what_waits(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print)
    sub.pause()
    bus.publish_many([Talk()] * 3)
    (health,) = bus.health().subscriptions
    assert (health.name, health.state, health.waiting) == (sub.name, "paused", 3)


def test_health_counts_what_was_delivered(bus: TestBus) -> None:
    bus.subscribe(Talk, Recorder())
    bus.publish_many([Talk()] * 3)
    bus.run_until_idle()
    assert bus.health().counts.delivered == 3


def test_health_can_be_read(bus: TestBus) -> None:
    bus.subscribe(Talk, Recorder(fail=lambda talk: OSError()), attempts=1)
    bus.publish(Talk())
    bus.run_until_idle()
    text = str(bus.health())
    assert "1 published" in text
    assert "dead letters" in text


def test_health_after_close_says_closed() -> None:
    bus = pc.Bus()
    bus.close()
    assert bus.health().state == "closed"


def test_asking_for_health_changes_nothing(bus: TestBus) -> None:
    bus.subscribe(Talk, Recorder())
    bus.publish(Talk())
    assert bus.health() == bus.health()


# -- explain ---------------------------------------------------------------------------------------


def test_explain_tells_type_filter_level_and_queue(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print, where=popular, level="strong_set", queue=77)
    text = str(sub.explain())
    assert all(part in text for part in ("Talk", "event.stars", "exactly once", "77", "cut_off"))


def test_explain_without_an_event_gives_no_verdict(bus: TestBus) -> None:
    assert bus.subscribe(Talk, print).explain().delivered is None


def test_explain_tells_group_and_durable_name(bus: TestBus) -> None:
    text = str(bus.subscribe(Talk, print, group="crew", durable="desk").explain())
    assert "'crew'" in text
    assert "'desk'" in text


@pytest.mark.parametrize(
    ("event", "delivered"),
    [(Talk(5), True), (Lecture(5), True), (Talk(1), False), (Song(5), False)],
)
def test_explain_says_what_would_be_delivered(bus: TestBus, event: Any, delivered: bool) -> None:
    sub = bus.subscribe(Talk, print, where=popular)
    assert sub.explain(event).delivered is delivered


def test_explain_agrees_with_what_is_delivered(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    sub = bus.subscribe(Talk, seen, where=popular)
    events: list[Any] = [Talk(1), Talk(4), Lecture(9), Song(9), 3, "text"]
    bus.publish_many(events)
    bus.run_until_idle()
    assert seen.events == [event for event in events if sub.explain(event).delivered]


def test_explain_names_the_condition_that_failed(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print, where=popular)
    assert "is False" in str(sub.explain(Talk(1)))
    assert "does not conform" in str(sub.explain(Song(5)))


def test_explain_names_the_error_of_a_filter(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print, where=lambda talk: 1 / talk.stars)
    assert "ZeroDivisionError" in str(sub.explain(Talk(0)))


def test_explain_considers_the_topic(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print, topic="/a/**")
    verdicts = [sub.explain(Talk(), topic=topic).delivered for topic in ("/a/b", "/b", None)]
    assert verdicts == [True, False, False]


def test_explain_says_that_an_ended_subscription_gets_nothing(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print)
    sub.cancel()
    assert sub.explain(Talk()).delivered is False


def test_explaining_an_event_counts_nothing(bus: TestBus) -> None:
    sub = bus.subscribe(Talk, print, where=lambda talk: 1 / talk.stars)
    sub.explain(Talk(0))
    assert bus.health().counts.filter_failures == 0


def test_a_subscription_tells_in_its_repr_what_it_is_to(bus: TestBus) -> None:
    text = repr(bus.subscribe(Talk, print))
    assert "Talk" in text
    assert "active" in text


# -- advertisements --------------------------------------------------------------------------------


def test_what_is_advertised_is_listed(bus: TestBus) -> None:
    bus.advertise(Talk)
    bus.advertise("/Chat/**")
    listed = bus.health().advertised
    assert len(listed) == 2
    assert "/Chat/**" in listed


def test_an_advertisement_ends_with_its_lease(bus: TestBus) -> None:
    bus.advertise(Talk, lease=60)
    bus.advance(59)
    before = len(bus.health().advertised)
    bus.advance(1)
    assert (before, len(bus.health().advertised)) == (1, 0)


def test_an_advertisement_can_be_renewed(bus: TestBus) -> None:
    advertisement = bus.advertise(Talk, lease=60)
    bus.advance(50)
    advertisement.renew(60)
    bus.advance(50)
    assert len(bus.health().advertised) == 1


def test_an_advertisement_can_be_taken_back(bus: TestBus) -> None:
    bus.advertise(Talk).cancel()
    assert bus.health().advertised == ()


def test_publishing_needs_no_advertisement(bus: TestBus) -> None:
    assert bus.publish(Talk()).position == 1


@pytest.mark.parametrize("what", [5, "Chat", list[int]])
def test_what_cannot_be_subscribed_to_cannot_be_advertised(bus: TestBus, what: Any) -> None:
    with pytest.raises(pc.PolycastError, match="Accepted"):
        bus.advertise(what)
