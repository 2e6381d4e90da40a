"""Subscribing to topics: wildcards, the root, both type and topic."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class ChatMsg:
    text: str = ""


class Shout(ChatMsg):
    pass


TOPICS = ["/", "/Chat", "/Chat/Insomnia", "/Chat/Insomnia/Late", "/Chatter", "/News"]


def topics_received(bus: TestBus, pattern: object, **options: object) -> list[str | None]:
    """Which of all topics reach a subscription."""
    seen: Recorder[object] = Recorder()
    bus.subscribe(pattern, seen, **options)  # type: ignore[call-overload]
    for topic in TOPICS:
        bus.publish(ChatMsg(), topic=topic)
    bus.run_until_idle()
    return [each.topic for each in seen.deliveries]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/Chat", ["/Chat"]),
        ("/Chat/*", ["/Chat/Insomnia"]),
        ("/Chat/**", ["/Chat", "/Chat/Insomnia", "/Chat/Insomnia/Late"]),
        ("/*", ["/Chat", "/Chatter", "/News"]),
        ("/*/Insomnia", ["/Chat/Insomnia"]),
        ("/**", TOPICS),
        ("/", TOPICS),
        ("**", TOPICS),
        ("/Nothing/**", []),
    ],
)
def test_a_pattern_gets_the_topics_it_means(
    bus: TestBus, pattern: str, expected: list[str]
) -> None:
    assert topics_received(bus, pattern) == expected


def test_names_in_a_topic_are_taken_literally(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe("/a.b", seen)
    bus.publish(1, topic="/axb")
    bus.publish(2, topic="/a.b")
    bus.run_until_idle()
    assert seen.events == [2]


def test_a_type_subscription_ignores_the_topic(bus: TestBus) -> None:
    assert topics_received(bus, ChatMsg) == TOPICS


def test_a_topic_subscription_does_not_get_events_without_topic(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe("/**", seen)
    bus.publish(ChatMsg())
    bus.run_until_idle()
    assert seen.events == []


@pytest.mark.parametrize("value", ["text", 7, {"a": 1}, [1], None, 1.5, ChatMsg("hi"), b"x"])
def test_any_value_goes_on_a_topic(bus: TestBus, value: object) -> None:
    seen: Recorder[object] = Recorder()
    bus.subscribe("/Chat", seen)
    bus.publish(value, topic="/Chat")
    bus.run_until_idle()
    assert seen.events == [value]


def test_type_with_topic_wants_both(bus: TestBus) -> None:
    seen: Recorder[ChatMsg] = Recorder()
    bus.subscribe(ChatMsg, seen, topic="/Chat/**")
    bus.publish(ChatMsg("no topic"))
    bus.publish(ChatMsg("elsewhere"), topic="/News")
    bus.publish("no message", topic="/Chat")
    bus.publish(Shout("both"), topic="/Chat/Insomnia")
    bus.run_until_idle()
    assert seen.events == [Shout("both")]


def test_a_typed_topic_wants_both(bus: TestBus) -> None:
    seen: Recorder[ChatMsg] = Recorder()
    bus.subscribe(pc.topic("/Chat/**", ChatMsg), seen)
    bus.publish("no message", topic="/Chat")
    bus.publish(ChatMsg("both"), topic="/Chat")
    bus.run_until_idle()
    assert seen.events == [ChatMsg("both")]


def test_exact_with_a_topic_leaves_subtypes_out(bus: TestBus) -> None:
    seen: Recorder[ChatMsg] = Recorder()
    bus.subscribe(ChatMsg, seen, topic="/Chat", exact=True)
    bus.publish(Shout(), topic="/Chat")
    bus.publish(ChatMsg(), topic="/Chat")
    bus.run_until_idle()
    assert [type(event) for event in seen.events] == [ChatMsg]


def test_an_event_that_matches_type_and_topic_of_two_subscriptions_goes_to_both(
    bus: TestBus,
) -> None:
    by_type: Recorder[ChatMsg] = Recorder()
    by_topic: Recorder[object] = Recorder()
    bus.subscribe(ChatMsg, by_type)
    bus.subscribe("/Chat", by_topic)
    bus.publish(ChatMsg(), topic="/Chat")
    bus.run_until_idle()
    assert (len(by_type.events), len(by_topic.events)) == (1, 1)


def test_the_delivery_names_the_topic(bus: TestBus) -> None:
    seen: Recorder[ChatMsg] = Recorder()
    bus.subscribe(ChatMsg, seen)
    bus.publish(ChatMsg())
    bus.publish(ChatMsg(), topic="/Chat")
    bus.run_until_idle()
    assert [each.topic for each in seen.deliveries] == [None, "/Chat"]


def test_a_topic_subscription_made_after_publishing_there_gets_what_follows(bus: TestBus) -> None:
    seen: Recorder[object] = Recorder()
    bus.publish(1, topic="/Chat")
    bus.subscribe("/Chat/**", seen)
    bus.publish(2, topic="/Chat")
    bus.run_until_idle()
    assert seen.events == [2]


@pytest.mark.parametrize("topic", ["Chat", "", "/Chat/*", "/**", "/Chat//x", "/Chat/", 7, ["/a"]])
def test_what_is_no_topic_cannot_be_published_to(bus: TestBus, topic: object) -> None:
    with pytest.raises(pc.BadTopicError, match="A topic looks like"):
        bus.publish(1, topic=topic)  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["Chat", "Chat/**", "", "/Chat//x", "/Chat/", "/Ch*t"])
def test_what_is_no_pattern_cannot_be_subscribed_to(bus: TestBus, pattern: str) -> None:
    with pytest.raises(pc.PolycastError, match="topic"):
        bus.subscribe(pattern, print)


@pytest.mark.parametrize("pattern", ["Chat", "/Chat//x", "/Ch*t", 7])
def test_what_is_no_pattern_cannot_be_the_topic_of_a_type(bus: TestBus, pattern: object) -> None:
    with pytest.raises(pc.BadTopicError, match="A topic looks like"):
        bus.subscribe(ChatMsg, print, topic=pattern)  # type: ignore[call-overload]


def test_a_topic_cannot_be_asked_for_twice(bus: TestBus) -> None:
    with pytest.raises(pc.PolycastError, match="already"):
        bus.subscribe("/Chat", print, topic="/News")


def test_a_refused_topic_takes_no_position(bus: TestBus) -> None:
    with pytest.raises(pc.BadTopicError):
        bus.publish(1, topic="nowhere")
    assert bus.publish(1).position == 1
