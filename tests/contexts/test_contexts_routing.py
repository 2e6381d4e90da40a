"""Who gets what, against a model that asks each subscription about each event."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import parties
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parties import (
    Dollar,
    Euro,
    Note,
    Order,
    Pound,
    RushOrder,
    UKOrder,
    USMemo,
    USOrder,
    USRushOrder,
)

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.matching import selector_for

MORE = 20 if os.environ.get("POLYCAST_STRESS") == "long" else 1

DEADLINE = 5.0  # only a broken program reaches it
CONTEXTS = ["root", "us", "uk", "ca"]
AMERICAN: list[type] = [USOrder, USRushOrder, USMemo, Note, object]
WANTED: dict[str, list[type]] = {
    "root": [Order, RushOrder, Note, object],
    "us": AMERICAN,
    "ca": AMERICAN,
    "uk": [UKOrder, Note, object],
}
ORDERS = (Order, RushOrder, USOrder, USRushOrder, UKOrder)
FILTERS: dict[str, Callable[[Any], bool]] = {
    "even": lambda o: o.number % 2 == 0,
    "dear": lambda o: o.price.amount > 5,
    "cheap": lambda o: o.price.amount <= 5 or o.number == 1,
}
LEVELS: list[Any] = [None, None, "strong_set", "strong_bag", "list", "sorted_set"]


class Sent(NamedTuple):
    """An event, from where, and how it was published."""

    event: Any
    source: str
    topic: str | None
    way: str


class Sub(NamedTuple):
    """A subscription that is to see all events, from the beginning."""

    context: str
    what: type
    where: str | None
    topic: str | None
    level: Any
    dispatch: str
    mode: str  # live, since, durable, group
    fails: bool

    def wants(self, event: Any, topic: str | None) -> bool:
        """By its type, topic and filter; a filter that raises is not passed."""
        if not self.covers(type(event), topic):
            return False
        return self.where is None or FILTERS[self.where](event)

    def covers(self, cls: type, topic: str | None) -> bool:
        return selector_for(self.what, topic=self.topic).covers(cls, topic)


def prices() -> st.SearchStrategy[float]:
    return st.sampled_from([10.0, 1.0, -4.0])


@st.composite
def sent(draw: st.DrawFn, number: int) -> Sent:
    source = draw(st.sampled_from(CONTEXTS))
    local: dict[str, list[Callable[[float], Any]]] = {
        "root": [
            lambda price: Order(number, Euro(price), ["tea"]),
            lambda price: RushOrder(number, Euro(price), [], hours=2),
        ],
        "uk": [lambda price: UKOrder(number, Pound(price), ["tea"])],
        "us": [
            lambda price: USOrder(number, Dollar(price), ["tea"]),
            lambda price: USRushOrder(number, Dollar(price), [], hours=2),
            lambda price: USMemo(str(number)),
        ],
    }
    made = [*local.get(source, local["us"]), lambda price: Note(str(number), ["a"])]
    event = draw(st.sampled_from(made))(draw(prices()))
    topic = draw(st.sampled_from([None, None, "/a", "/a/b"]))
    return Sent(event, source, topic, draw(st.sampled_from(["one", "many", "priority"])))


@st.composite
def subs(draw: st.DrawFn) -> Sub:
    context = draw(st.sampled_from(CONTEXTS))
    what = draw(st.sampled_from(WANTED[context]))
    where = draw(st.sampled_from([None, *FILTERS])) if what in ORDERS else None
    mode = draw(st.sampled_from(["live", "live", "since", "durable", "group"]))
    level = None if mode == "group" else draw(st.sampled_from(LEVELS))
    dispatch = "pool" if mode == "group" else draw(st.sampled_from(["pool", "inline"]))
    topic = draw(st.sampled_from([None, None, None, "/a", "/a/**"]))
    fails = mode != "group" and draw(st.integers(0, 5)) == 5
    return Sub(context, what, where, topic, level, dispatch, mode, fails)


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Sub], list[Sent]]:
    wanted = draw(st.lists(subs(), min_size=1, max_size=7))
    count = draw(st.integers(1, 8))
    return wanted, [draw(sent(number)) for number in range(count)]


# -- the model -------------------------------------------------------------------------------------


def make_federation(*, mended: bool = False) -> pc.Federation:
    root = parties.make_root()
    federation = pc.Federation(root)
    us = parties.make_us(root)
    if mended:
        us = parties.make_us(
            root, incoming=parties.to_dollars_always, outgoing=parties.from_dollars_always
        )
    for context in (us, parties.make_uk(root), parties.make_ca(us)):
        federation.add(context)
    return federation


class Model:
    """For each subscription and event: what it sees of it, if it wants that."""

    def __init__(self, wanted: list[Sub], events: list[Sent]) -> None:
        self.wanted, self.events = wanted, events
        self.before, self.after = make_federation(), make_federation(mended=True)

    def seen(self, sub: Sub, sent: Sent, federation: pc.Federation) -> Any:
        """What a subscription gets of an event; None if nothing."""
        try:
            there = federation.translate(sent.event, source=sent.source, target=sub.context)
        except (parties.Refused, pc.NotTranslatedError):
            return None
        return there if sub.wants(there, sent.topic) else None

    def first(self, sub: Sub) -> list[Any]:
        """What a subscription gets when all has been published."""
        found = (self.seen(sub, sent, self.before) for sent in self.events)
        return [event for event in found if event is not None]

    def letters(self) -> set[tuple[int, str]]:
        """Position and name of the dead letters of contexts."""
        found = set()
        for position, sent in enumerate(self.events, 1):
            for sub in self.wanted:
                there = self.before.becomes(
                    type(sent.event), source=sent.source, target=sub.context
                )
                if there is not None and sub.covers(there, sent.topic):
                    found.add((position, self._stuck(sent, sub.context)))
        return {(position, f"context {name}") for position, name in found if name is not None}

    def leaving(self) -> set[tuple[int, str]]:
        """Those of events that their publisher could not make a root form of."""
        return {
            (position, f"context {sent.source}")
            for position, sent in enumerate(self.events, 1)
            if sent.source != "root" and self._stuck(sent, "root") is not None
        }

    def _stuck(self, sent: Sent, target: str) -> str | None:
        """The context whose function keeps an event from another, if there is one."""
        if sent.source == target:
            return None
        try:
            there = self.before.translate(sent.event, source=sent.source)
        except pc.NotTranslatedError:
            return None
        except parties.Refused:
            return sent.source
        try:
            self.before.translate(there, target=target)
        except parties.Refused:
            return target
        return None

    def replayed(self, sub: Sub, letters: set[tuple[int, str]]) -> list[Any]:
        """What a subscription gets of these when the contexts are mended."""
        found = []
        for position, name in sorted(letters):
            sent, context = self.events[position - 1], name.removeprefix("context ")
            if (sub.context == context) != (sent.source == context):
                found.append(self.seen(sub, sent, self.after))
        return [event for event in found if event is not None]


# -- the bus ---------------------------------------------------------------------------------------


class Member:
    """A callback that remembers; while it is broken it fails on every second event."""

    def __init__(self, sub: Sub) -> None:
        self.sub, self.seen = sub, list[Any]()
        self.failed, self.broken = 0, sub.fails

    def __call__(self, event: Any) -> None:
        if self.broken and len(self.seen) % 2:
            self.failed += 1
            self.broken = False  # once: what comes after it is handled
            raise OSError("broken")
        self.seen.append(event)


def text(events: list[Any]) -> list[str]:
    return sorted(map(repr, events))


@contextmanager
def opened(place: str, federation: pc.Federation) -> Iterator[pc.Bus]:
    if place == "memory":
        with pc.Bus(federation=federation, history=1_000) as bus:
            yield bus
        return
    with ExitStack() as around:
        folder = around.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{Path(folder) / 'events.db'}"
        if place == "remote":
            url = around.enter_context(Serving(Broker(url))).url
        yield around.enter_context(pc.Bus(url, federation=federation))


def wait(condition: Callable[[], object]) -> None:
    pause, deadline = threading.Event(), time.monotonic() + DEADLINE
    while not condition() and time.monotonic() < deadline:
        pause.wait(0.001)


class Story:
    """Subscribes and publishes on a real bus what the model knows."""

    def __init__(self, bus: pc.Bus, wanted: list[Sub], events: list[Sent]) -> None:
        self.bus, self.events = bus, events
        self.members = [Member(sub) for sub in wanted]

    def open(self, number: int, **options: Any) -> pc.Subscription[Any]:
        member, sub = self.members[number], self.members[number].sub
        if sub.level is not None:
            options["level"] = sub.level
        if sub.topic is not None:
            options["topic"] = sub.topic
        if sub.where is not None:
            options["where"] = FILTERS[sub.where]
        if sub.mode == "group":
            options["group"] = f"crew of {sub.context}"
        if sub.mode == "durable":
            options["durable"] = f"number {number}"
        view = self.bus.within(sub.context)
        return view.subscribe(
            sub.what, lambda event: member(event), dispatch=sub.dispatch, attempts=1, **options
        )

    def subscribe(self, *modes: str, **options: Any) -> None:
        for number, member in enumerate(self.members):
            if member.sub.mode in modes:
                sub = self.open(number, **options)
                if modes == ("durable",) and self.bus.health().published == 0:
                    sub.detach()

    def publish(self, some: list[Sent]) -> None:
        for sent in some:
            view = self.bus.within(sent.source)
            if sent.way == "many":
                view.publish_many([sent.event], topic=sent.topic)
            elif sent.way == "priority":
                view.publish(sent.event, topic=sent.topic, priority=2)
            else:
                view.publish(sent.event, topic=sent.topic)

    def run(self) -> None:
        """Half of the events come while the durable ones are away, and all before the late ones."""
        half = len(self.events) // 2
        self.subscribe("live", "group")
        self.subscribe("durable")
        self.publish(self.events[:half])
        if half == 0:  # nothing was published while they were away
            self.publish(self.events[:1])
            half = 1
        self.subscribe("durable")
        self.publish(self.events[half:])
        self.subscribe("since", since="beginning")

    def letters(self) -> set[tuple[int, str]]:
        found = [(letter.position, letter.subscription) for letter in self.bus.dead_letters()]
        assert len(set(found)) == len(found)
        return {letter for letter in found if letter[1].startswith("context ")}


def check_groups(model: Model, story: Story, expected: Callable[[Sub], list[Any]]) -> None:
    """An event that members want goes to one of them, and each gets only what it wants."""
    for context in CONTEXTS:
        crew = [m for m in story.members if m.sub.mode == "group" and m.sub.context == context]
        union = {repr(event) for member in crew for event in expected(member.sub)}
        assert text([event for member in crew for event in member.seen]) == sorted(union)
        for member in crew:
            assert set(map(repr, member.seen)) <= set(map(repr, expected(member.sub)))


def total(story: Story) -> int:
    return sum(len(member.seen) + member.failed for member in story.members)


def count(story: Story, expected: Callable[[Sub], list[Any]]) -> int:
    alone = [member for member in story.members if member.sub.mode != "group"]
    crews = {
        (member.sub.context, repr(event))
        for member in story.members
        if member.sub.mode == "group"
        for event in expected(member.sub)
    }
    return sum(len(expected(member.sub)) for member in alone) + len(crews)


def check(place: str, wanted: list[Sub], events: list[Sent]) -> None:
    federation = make_federation()
    model = Model(wanted, events)
    with opened(place, federation) as bus:
        story = Story(bus, wanted, events)
        story.run()
        letters = model.letters()
        if place != "memory":
            letters |= model.leaving()
        wait(lambda: total(story) == count(story, model.first) and story.letters() == letters)
        assert bus.flush(DEADLINE)
        for member in story.members:
            if member.sub.mode == "group":
                continue
            if member.sub.level is None and not member.failed:
                assert member.seen == model.first(member.sub), member.sub
            assert len(member.seen) + member.failed == len(model.first(member.sub))
        check_groups(model, story, model.first)
        assert story.letters() == letters

        # What could not get to a context gets there when that is mended.
        root = federation.root
        federation.replace(
            parties.make_us(
                root, incoming=parties.to_dollars_always, outgoing=parties.from_dollars_always
            )
        )
        for member in story.members:
            member.broken = False
        bus.dead_letters().replay()

        def expected(sub: Sub) -> list[Any]:
            return [*model.first(sub), *model.replayed(sub, letters)]

        wait(lambda: sum(len(m.seen) for m in story.members) == count(story, expected))
        assert bus.flush(DEADLINE)
        for member in story.members:
            if member.sub.mode != "group":
                assert text(member.seen) == text(expected(member.sub)), member.sub
        check_groups(model, story, expected)


@settings(max_examples=30 * MORE, deadline=None)
@given(stories())
def test_in_memory_everybody_gets_what_the_model_says(story: tuple[list[Sub], list[Sent]]) -> None:
    check("memory", *story)


@pytest.mark.slow
@settings(max_examples=12 * MORE, deadline=None)
@given(stories())
def test_over_a_file_everybody_gets_what_the_model_says(
    story: tuple[list[Sub], list[Sent]],
) -> None:
    check("sqlite", *story)


@pytest.mark.slow
@settings(max_examples=6 * MORE, deadline=None)
@given(stories())
def test_over_a_broker_everybody_gets_what_the_model_says(
    story: tuple[list[Sub], list[Sent]],
) -> None:
    check("remote", *story)
