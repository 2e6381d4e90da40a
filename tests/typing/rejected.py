"""Code that both type checkers reject, on each line that says so and on no other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import polycast as pc
from polycast.errors import BadOptionError, BusClosedError, PolycastError
from polycast.testing import Recorder, TestBus


class DSC(ABC):
    @abstractmethod
    def get_speaker(self) -> str: ...


class HasSpeaker(Protocol):
    @property
    def speaker(self) -> str: ...


@dataclass(frozen=True)
class Talk:
    speaker: str
    title: str
    room: str | None = None


@dataclass(frozen=True)
class Keynote(Talk):
    stars: int = 0


@dataclass
class Lecture:
    speaker: str
    week: int


def hear(talk: Talk) -> None: ...
def hear_keynote(keynote: Keynote) -> None: ...
def hear_lecture(lecture: Lecture) -> None: ...
def hear_nothing() -> None: ...
def hear_three(talk: Talk, delivery: pc.Delivery, more: str) -> None: ...
def hear_and_count(talk: Talk, times: int) -> None: ...
def hear_by_keyword(talk: Talk, *, loudly: bool) -> None: ...
async def hear_lecture_later(lecture: Lecture) -> None: ...


def callbacks(bus: pc.Bus) -> None:
    bus.subscribe(Talk, hear_lecture)  # rejected
    bus.subscribe(Talk, hear_keynote)  # rejected
    bus.subscribe(Talk, hear_lecture_later)  # rejected
    bus.subscribe(Talk, hear_nothing)  # rejected
    bus.subscribe(Talk, hear_three)  # rejected
    bus.subscribe(Talk, hear_and_count)  # rejected
    bus.subscribe(Talk, hear_by_keyword)  # rejected
    bus.subscribe(Talk, "hear")  # rejected
    bus.subscribe(Talk, None)  # rejected
    bus.subscribe(Talk)  # rejected
    bus.subscribe(Talk, lambda t: print(t.titel))  # rejected
    bus.subscribe(Talk, lambda t, d: print(d.positions))  # rejected
    bus.subscribe(HasSpeaker, hear)  # rejected
    bus.subscribe(DSC, hear)  # rejected
    bus.subscribe(Talk | Lecture, hear)  # rejected
    bus.subscribe(pc.all_of(DSC, Talk), hear)  # rejected
    bus.subscribe(pc.structured("Finance", "Quote"), hear)  # rejected
    bus.subscribe(pc.all_of(DSC, Talk, view=Talk), hear_lecture)  # rejected
    bus.subscribe(pc.topic("/Chat/**", Talk), hear_lecture)  # rejected
    bus.subscribe(pc.topic("/Chat/**"), hear)  # rejected
    bus.subscribe("/Chat/**", hear_nothing)  # rejected
    bus.subscribe(3, print)  # rejected
    bus.subscribe(Talk("Eugster", "Types"), print)  # rejected


def about_talk(talk: Talk) -> bool:
    return talk.room is not None


def about_lecture(lecture: Lecture) -> bool:
    return lecture.week > 3


def filters(
    bus: pc.Bus, of_talks: pc.Filter[Talk], of_keynotes: pc.Filter[Keynote]
) -> pc.Filter[Talk]:
    bus.subscribe(Talk, print, where=lambda t: t.speeker == "Eugster")  # rejected
    bus.subscribe(Talk, print, where=lambda t: t.room.lower() == "bc")  # rejected
    bus.subscribe(Talk | Lecture, print, where=lambda t: t.title == "Types")  # rejected
    bus.subscribe(HasSpeaker, print, where=lambda t: t.title == "Types")  # rejected
    bus.subscribe(DSC, print, where=lambda t: t.get_descr() == "Types")  # rejected
    bus.subscribe(Talk, print, where=about_lecture)  # rejected
    bus.subscribe(Talk, print, where=of_keynotes)  # rejected
    bus.subscribe(Talk, print, where="speaker == 'Eugster'")  # rejected
    bus.subscribe(Talk, print, where=lambda t, d: True)  # rejected
    bus.subscribe(Lecture, print, where=of_talks)  # rejected
    bus.subscribe(Talk, print, about_talk)  # rejected
    of_talks.matches(Lecture("Eugster", 3))  # rejected
    of_talks(Lecture("Eugster", 3))  # rejected
    pc.Filter(3)  # rejected
    return of_keynotes  # rejected


def options(bus: pc.Bus) -> None:
    bus.subscribe(Talk, print, level="strongest")  # rejected
    bus.subscribe(Talk, print, overflow="drop")  # rejected
    bus.subscribe(Talk, print, dispatch="thread")  # rejected
    bus.subscribe(Talk, print, ack="none")  # rejected
    bus.subscribe(Talk, print, engine="flink")  # rejected
    bus.subscribe(Talk, print, copy="deep")  # rejected
    bus.subscribe(Talk, print, queues=3)  # rejected
    bus.subscribe(Talk, print, queue="3")  # rejected
    bus.subscribe(Talk, print, attempts=1.5)  # rejected
    bus.subscribe(Talk, print, lease="1 minute")  # rejected
    bus.subscribe(Talk, print, since="yesterday")  # rejected
    bus.subscribe(Talk, print, durable=True)  # rejected
    bus.subscribe("/Chat/**", print, level="strongest")  # rejected
    bus.subscribe(pc.topic("/Chat/**", Talk), print, queues=3)  # rejected
    wrong: pc.SubscribeOptions = {"levels": "list"}  # rejected
    bus.subscribe(Talk, print, **wrong)


def decorators(bus: pc.Bus) -> None:
    @bus.on(Talk)  # rejected
    def wrong_type(lecture: Lecture) -> None: ...

    @bus.on(Talk)  # rejected
    def too_narrow(keynote: Keynote) -> None: ...

    @bus.on(Talk)  # rejected
    def no_argument() -> None: ...

    @bus.on(DSC)  # rejected
    def not_that_class(talk: Talk) -> None: ...

    @bus.on(Talk, where=lambda t: t.speeker)  # rejected
    def wrong_attribute(talk: Talk) -> None: ...

    @bus.on(Talk, where=about_lecture)  # rejected
    def wrong_filter(talk: Talk) -> None: ...

    @bus.on(Talk, levels="list")  # rejected
    def wrong_option(talk: Talk) -> None: ...

    @bus.on("/Chat/**", level="strongest")  # rejected
    def wrong_value(event: object) -> None: ...

    @bus.on(Talk)
    def right(talk: Talk) -> None: ...

    right(Lecture("Eugster", 3))  # rejected


async def streams(bus: pc.Bus) -> None:
    async for talk in bus.stream(Talk):
        print(talk.speeker)  # rejected
    async for event in bus.stream(Talk | Lecture):
        print(event.title)  # rejected
    bus.stream(Talk, where=lambda t: t.speeker)  # rejected
    bus.stream(Talk, levels="list")  # rejected
    list(bus.stream(Talk))  # rejected


def publishing(bus: pc.Bus, talk: Talk) -> None:
    bus.publish()  # rejected
    bus.publish(talk, 3)  # rejected
    bus.publish(talk, topic=3)  # rejected
    bus.publish(talk, priority="high")  # rejected
    bus.publish(talk, expires="tomorrow")  # rejected
    bus.publish(talk, headers={"trace": 7})  # rejected
    bus.publish(talk, identity="till-7:1:1")  # rejected
    bus.publish(talk, topics="/Talks")  # rejected
    bus.publish(talk).positions  # rejected
    bus.publish_many(3)  # rejected
    bus.publish_many([talk], priority="high")  # rejected


async def publishing_in_a_coroutine(bus: pc.Bus, talk: Talk) -> None:
    (await bus.publish_async(talk)).positions  # rejected
    await bus.publish_async(talk, prio=3)  # rejected


def selectors() -> None:
    pc.all_of()  # rejected
    pc.structured("Finance")  # rejected
    pc.structured("Finance", 3)  # rejected
    pc.StructuredEvent(filterable_data=[("a", 1)])  # rejected
    pc.all_of(Talk, 3)  # rejected
    pc.all_of(DSC, Talk, view=3)  # rejected
    pc.topic(Talk)  # rejected
    pc.topic("/Chat/**", 3)  # rejected


def a_more_special_subscription(subscription: pc.Subscription[Talk]) -> pc.Subscription[Keynote]:
    return subscription  # rejected


def making(bus: pc.Bus) -> None:
    pc.DAStrongSet(Talk)  # rejected
    pc.DAStrongSet(3, bus)  # rejected
    pc.DAStrongSet(Talk, bus, pull="queue")  # rejected
    pc.DAStrongSet(Talk, bus, pull="fifo", where=lambda t: t.speeker)  # rejected
    pc.DAStrongSet(Talk, bus, pull="fifo", where=about_lecture)  # rejected
    pc.DAStrongSet(Talk, bus, pulls="fifo")  # rejected
    pc.Bus("memory:", histories=3)  # rejected
    pc.Bus("memory:", history="all")  # rejected
    pc.Bus(isolation="deep")  # rejected
    pc.Bus(clock=3)  # rejected


def collections(talks: pc.DAStrongSet[Talk], talk: Talk) -> None:
    talks.add(Lecture("Eugster", 3))  # rejected
    talks.add("Types")  # rejected
    talks.add(talk, priority="high")  # rejected
    talks.add(talk, prio=3)  # rejected
    talks.contains(hear_lecture)  # rejected
    talks.contains(hear_nothing)  # rejected
    talks.contains(hear, lambda t: t.speeker == "Eugster")  # rejected
    talks.contains(hear, about_lecture)  # rejected
    talks.contains_all(hear_keynote)  # rejected
    talks.contains_all(hear, where=about_lecture)  # rejected
    talks.contains_all(hear, about_talk, leases=60)  # rejected
    talks.remove(hear_three)  # rejected
    talks.remove_all(hear_lecture_later)  # rejected
    talks.clear(3)  # rejected
    talks.covers(Talk)  # rejected


def keynotes_are_not_talks(keynotes: pc.DAStrongSet[Keynote]) -> pc.DAStrongSet[Talk]:
    return keynotes  # rejected


def talks_are_not_keynotes(talks: pc.DAStrongSet[Talk]) -> pc.DAStrongSet[Keynote]:
    return talks  # rejected


def promises_differ(talks: pc.DAWeakSet[Talk]) -> pc.DAStrongSet[Talk]:
    return talks  # rejected


def pulling(inbox: pc.DAStrongSet[Talk]) -> None:
    print(inbox.get().title)  # rejected
    taken: Talk = inbox.get(timeout=1.0)  # rejected
    inbox.get(timeout="1")  # rejected
    for talk in inbox:
        print(talk.speeker)  # rejected
    print(inbox[0], taken)  # rejected


def next_lecture() -> Lecture | None: ...


def supplying(talks: pc.DAStrongSet[Talk]) -> None:
    talks.supply(next_lecture)  # rejected
    talks.supply(hear)  # rejected
    talks.supply(lambda: "a talk")  # rejected
    talks.supply(lambda: None, every="often")  # rejected


def looking_after_it(bus: pc.Bus, subscription: pc.Subscription[Talk]) -> None:
    subscription.renew()  # rejected
    subscription.renew("1 minute")  # rejected
    subscription.stop()  # rejected
    subscription.state = "paused"  # rejected
    subscription.explain().verdict  # rejected
    bus.health().healthy  # rejected
    bus.dead_letters()[0].cause  # rejected
    bus.advertise(Talk, lease="1 minute")  # rejected


def answering(delivery: pc.Delivery) -> None:
    delivery.nack("later")  # rejected
    delivery.reject(3)  # rejected
    delivery.position = 3  # rejected


def filtering(talk: Talk) -> None:
    pc.lift(Talk, lambda t: t.rooms)  # rejected
    pc.lift(Talk, lambda t: t.room).matches(3)  # rejected
    pc.lift(Talk, lambda t: t.room).explain(talk)  # rejected
    pc.lift(Talk, 3)  # rejected


def matching(talk: Talk) -> None:
    matcher = pc.Matcher[int]()
    matcher.add("1", Talk)  # rejected
    matcher.add(1, Talk, lambda t: t.rooms)  # rejected
    matcher.add(1, Talk, 3)  # rejected
    matcher.remove("1")  # rejected
    matcher.match(talk)[0].upper()  # rejected
    matcher.match_batch(talk)  # rejected
    pc.Matcher[list[int]]()  # rejected


def testing(bus: TestBus, recorder: Recorder[Keynote]) -> None:
    bus.subscribe(Talk, recorder)  # rejected
    bus.advance("1 minute")  # rejected
    bus.clock.advance(timedelta(minutes=1))  # rejected
    print(recorder.events[0].week)  # rejected


BusClosedError(3)  # rejected
BusClosedError("publish").operations  # rejected
BadOptionError("queue", 3)  # rejected
BadOptionError.choice(
    "overflow",
    "drop",
    3,  # rejected
)


def root_of_all() -> type[PolycastError]:
    return ValueError  # rejected
