"""What takes little to say and would take much to keep counts for what it becomes."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from test_flow import Client, SlowStore, run, settled

import polycast as pc
from polycast.broker.server.access import Principal, Rights
from polycast.broker.server.authorization import check_topic_text
from polycast.broker.server.broker import Broker
from polycast.broker.server.limits import Quota, ServerLimits
from polycast.broker.server.ownership import Usage, size_of_run
from polycast.broker.wire.protocol import Answer, Append, Limits, Refused
from polycast.errors import LimitReachedError
from polycast.events import Identity, Root
from polycast.matching import Definition
from polycast.routing.store_publisher import SubmissionQueue
from polycast.stores import Run, Stray
from polycast.stores.memory_store import MemoryStore
from polycast.testing import ManualClock

LONG = "x" * 10_000
MOST = 200_000
ROOT = Root(name="shop.Order", version=1, hash="h", payload=LONG.encode())
SHARED: dict[str, dict[str, Any]] = {
    "topic": {"topic": f"/{LONG}"},
    "context": {"context": LONG},
    "headers": {"headers": {"note": LONG}},
    "letters of two bytes": {"headers": {"note": "é" * 5_000}},
    "root": {"context": "us", "root": ROOT},
}


def events(number: int, **shared: Any) -> Run:
    return Run("shop.Order", 1, "h", Identity("p", 1, 1), "json", [b"{}"] * number, **shared)


def small() -> Broker:
    return Broker(server_limits=ServerLimits(appended=MOST), limits=Limits(frame=20_000))


@pytest.mark.parametrize("what", SHARED)
def test_what_events_have_in_common_counts_for_each_of_them(what: str) -> None:
    assert size_of_run(events(10, **SHARED[what])) - size_of_run(events(10)) >= 10 * len(LONG)


@pytest.mark.parametrize("what", SHARED)
def test_a_short_message_that_becomes_a_long_log_is_refused_and_nothing_is_kept(what: str) -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        client.say(Append(7, [events(30, **SHARED[what])]), Append(8, [events(10)]))
        await settled()
        [refused] = client.of(Refused)
        assert (refused.number, refused.code) == (7, "too-large")
        assert "in one message, each with its topic, context and headers" in refused.text
        assert [each.number for each in client.of(Answer)] == [8]
        assert broker.store.newest() == 10
        await client.close()

    run(test, small)


def test_as_much_as_its_events_become_is_held_for_a_message() -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        client.say(Append(7, [events(10, topic=f"/{LONG}")]))
        await settled()
        assert broker.inbound_budget.held >= 10 * len(LONG)
        store = broker.store
        assert isinstance(store, SlowStore)
        store.answer_all()
        await settled()
        assert broker.inbound_budget.held == 0
        await client.close()

    run(test, lambda: Broker(store=SlowStore()))


def test_headers_count_among_what_waits_for_the_store_at_a_client() -> None:
    queue = SubmissionQueue(lambda runs, astray: Future(), 10.0)
    queue.put([events(10, headers={"note": LONG})], (), counted=True)
    assert queue.held >= 10 * len(LONG)


def test_reasons_of_what_is_astray_count_among_the_dead_letters_of_a_day() -> None:
    clock = ManualClock()
    usage = Usage(MemoryStore(clock=clock), clock, lambda owner: Quota(bytes_per_day=5_000))
    who = Principal("till", Rights.of(publish=["*"]), owner="shop")
    usage.add_runs(who, [events(1)], [Stray(0, "us", "why")])
    assert 200 < usage.letters_today("shop") < 1_000
    with pytest.raises(LimitReachedError, match="dead letters"):
        usage.add_runs(who, [events(1)], [Stray(0, "us", LONG)])


@pytest.mark.parametrize("what", SHARED)
def test_a_store_in_memory_reads_about_as_much_as_is_asked_for(what: str) -> None:
    store = MemoryStore()
    store.submit([events(10, **SHARED[what])]).result(5)
    assert len(store.read(1, size=3 * len(LONG)).entries) <= 4


TOPICS = [
    ("/" + "a/" * 100 + "b", "levels"),
    ("/" + "a" * 2_000, "characters"),
    ("Chat", "does not start with '/'"),
    ("/a//b", "empty level"),
    ("/a/**", "wildcard"),
]


@pytest.mark.parametrize(("topic", "why"), TOPICS)
def test_a_topic_that_is_none_or_too_long_is_refused(topic: str, why: str) -> None:
    with pytest.raises(pc.PolycastError, match=why):
        check_topic_text(topic, is_pattern=False)
    if "*" not in topic:
        with pytest.raises(pc.PolycastError, match=why):
            check_topic_text(topic, is_pattern=True)


def test_topics_and_patterns_as_programs_write_them_are_taken() -> None:
    for topic in (None, "/Chat", "/" + "a/" * 99 + "b", "/"):
        check_topic_text(topic, is_pattern=False)
    for pattern in ("/Chat/**", "/*/x", "**", "/"):
        check_topic_text(pattern, is_pattern=True)


def test_what_a_client_sends_with_such_a_topic_is_refused() -> None:
    broker = Broker()
    authorization = broker.authorize(
        Principal("till", Rights.of(publish=["*"], subscribe=["*"]), owner="shop")
    )
    long = "/" + "**/" * 100 + "a"
    with pytest.raises(LimitReachedError, match="levels"):
        authorization.events.check_append([events(1, topic=long.replace("*", "a"))], [])
    with pytest.raises(LimitReachedError, match="levels"):
        authorization.events.check_definition(Definition("all", "sorted_set", topic=long))
