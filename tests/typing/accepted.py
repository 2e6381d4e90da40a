"""Code that both type checkers accept, without a word."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, assert_type

import polycast as pc
from polycast.errors import BadOptionError, FilterError, PolycastError
from polycast.testing import ManualClock, Recorder, TestBus

# -- event types: ordinary classes -----------------------------------------------------------------


class DSC(ABC):
    """A department, as an interface with a method."""

    @abstractmethod
    def get_speaker(self) -> str: ...


class DI(ABC):
    """Another department."""

    @abstractmethod
    def get_descr(self) -> str: ...


class Both(DSC, DI):
    """What conforms to both, so that a callback can use both."""


class HasSpeaker(Protocol):
    @property
    def speaker(self) -> str: ...


@dataclass(frozen=True)
class Talk(DSC, DI):
    speaker: str
    title: str
    room: str | None = None

    def get_speaker(self) -> str:
        return self.speaker

    def get_descr(self) -> str:
        return self.title


@dataclass(frozen=True)
class Keynote(Talk):
    stars: int = 0


@dataclass
class Lecture:
    speaker: str
    week: int


@pc.event(name="com.acme.Order", version=2, aliases=["com.acme.Purchase"])
@dataclass
class Order:
    amount: int


@pc.event(name="com.acme.Priced")
class Priced(ABC):
    @abstractmethod
    def price(self) -> int: ...


def named_events_keep_their_class() -> None:
    assert_type(Order(3), Order)
    assert_type(Order(3).amount, int)


# -- callbacks: one argument or two, sync or async -------------------------------------------------


def hear(talk: Talk) -> None: ...
def hear_it_delivered(talk: Talk, delivery: pc.Delivery) -> None: ...
def hear_if_at_all(talk: Talk, delivery: pc.Delivery | None = None) -> None: ...
def hear_anything(event: object) -> None: ...
def hear_speaker(event: HasSpeaker) -> None: ...
def hear_department(event: DSC) -> None: ...
def hear_both(event: Both) -> None: ...
def hear_either(event: Talk | Lecture) -> None: ...
def count(talk: Talk) -> int:
    return len(talk.title)


async def hear_later(talk: Talk) -> None: ...
async def hear_it_delivered_later(talk: Talk, delivery: pc.Delivery) -> None: ...


class Desk:
    def hear(self, talk: Talk) -> None: ...
    async def hear_later(self, talk: Talk, delivery: pc.Delivery) -> None: ...
    def __call__(self, talk: Talk, delivery: pc.Delivery) -> None: ...


def a_class(bus: pc.Bus, desk: Desk, heard: list[Talk]) -> None:
    assert_type(bus.subscribe(Talk, print), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_it_delivered), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_if_at_all), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, count), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_later), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_it_delivered_later), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, desk.hear), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, desk.hear_later), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, desk), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, heard.append), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, functools.partial(print, "talk:")), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, lambda t: print(t.title)), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, lambda t, d: print(t.title, d.position)), pc.Subscription[Talk])


def a_callback_may_take_more_than_it_gets(bus: pc.Bus) -> None:
    assert_type(bus.subscribe(Keynote, hear), pc.Subscription[Keynote])
    assert_type(bus.subscribe(Keynote, hear_it_delivered), pc.Subscription[Keynote])
    assert_type(bus.subscribe(Talk, hear_anything), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_speaker), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_department), pc.Subscription[Talk])
    assert_type(bus.subscribe(Talk, hear_either), pc.Subscription[Talk])


def a_protocol(bus: pc.Bus) -> None:
    assert_type(bus.subscribe(HasSpeaker, hear_speaker), pc.Subscription[HasSpeaker])
    bus.subscribe(HasSpeaker, lambda event: print(event.speaker))
    bus.subscribe(HasSpeaker, print, where=lambda event: event.speaker == "Eugster")


def an_abstract_class(bus: pc.Bus) -> None:
    assert_type(bus.subscribe(DSC, hear_department), pc.Subscription[DSC])
    bus.subscribe(DSC, print, where=lambda event: event.get_speaker() == "Eugster")

    # The advised form: nothing but the annotation says the type.
    @bus.on
    def announce(event: DSC) -> str:
        return event.get_speaker()

    assert_type(announce(Talk("Eugster", "Types")), str)


def either(bus: pc.Bus) -> None:
    assert_type(bus.subscribe(Talk | Lecture, hear_either), pc.Subscription[Talk | Lecture])
    assert_type(bus.subscribe(Talk | Lecture, print), pc.Subscription[Talk | Lecture])
    bus.subscribe(Talk | Lecture, lambda event: print(event.speaker))
    bus.subscribe(Talk | Lecture, print, where=lambda event: event.speaker == "Eugster")
    bus.subscribe(Talk | Lecture, print, exact=True)


def all_of_them(bus: pc.Bus) -> None:
    assert_type(pc.all_of(DSC, DI), pc.Selector[DSC])
    assert_type(pc.all_of(Talk, HasSpeaker), pc.Selector[Talk])
    assert_type(pc.all_of(DSC, DI, view=Talk), pc.Selector[Talk])
    assert_type(pc.all_of(DSC, DI, view=Both), pc.Selector[Both])
    assert_type(pc.all_of(DSC, DI, view=HasSpeaker), pc.Selector[HasSpeaker])
    assert_type(bus.subscribe(pc.all_of(DSC, DI), hear_department), pc.Subscription[DSC])
    bus.subscribe(pc.all_of(DSC, DI), print, where=lambda event: event.get_speaker() != "")
    bus.subscribe(pc.all_of(DSC, DI, view=Both), hear_both)
    bus.subscribe(pc.all_of(DSC, DI, view=Both), lambda event: print(event.get_descr()))


def structured_events(bus: pc.Bus) -> None:
    quotes = pc.structured("Finance", "Quote*")
    assert_type(quotes, pc.Selector[pc.StructuredEvent])
    assert_type(bus.subscribe(quotes, print), pc.Subscription[pc.StructuredEvent])
    bus.subscribe(quotes, lambda event: print(event.filterable_data["price"]))
    bus.subscribe(quotes, print, where=pc.parse_filter("$price > 5", "etcl"))
    bus.subscribe(Talk, print, where=pc.parse_filter("$.room == 'CO'", "etcl", clock=ManualClock()))
    assert_type(pc.topic("/Chat/**", quotes), pc.Selector[pc.StructuredEvent])
    assert_type(pc.DAList(quotes, bus), pc.DAList[pc.StructuredEvent])
    pc.TaggedUnion(7)
    pc.TaggedUnion(1, "a", 2.5, labels={"a": (1,)}, default_member="b")


def topics(bus: pc.Bus) -> None:
    assert_type(bus.subscribe("/Chat/**", print), pc.Subscription[Any])
    assert_type(bus.subscribe("/Chat/**", hear_it_delivered), pc.Subscription[Any])
    bus.subscribe("/Chat/**", lambda event: print(event.text))
    bus.subscribe("/Chat/**", print, where=lambda event: "Tom" in event.text)
    assert_type(pc.topic("/Chat/**"), pc.Selector[object])
    assert_type(pc.topic("/Chat/**", Talk), pc.Selector[Talk])
    assert_type(pc.topic("/Chat/**", DSC), pc.Selector[DSC])
    assert_type(pc.topic("/Chat/**", Talk | Lecture), pc.Selector[Talk | Lecture])
    assert_type(pc.topic("/Chat/**", pc.all_of(DSC, DI)), pc.Selector[DSC])
    assert_type(bus.subscribe(pc.topic("/Chat/**", Talk), hear), pc.Subscription[Talk])
    bus.subscribe(pc.topic("/Chat/**", Talk), print, where=lambda talk: talk.room is None)
    assert_type(bus.subscribe(Talk, hear, topic="/Chat/**"), pc.Subscription[Talk])


def a_more_general_selector(selector: pc.Selector[Keynote]) -> pc.Selector[Talk]:
    return selector


def a_more_general_subscription(subscription: pc.Subscription[Keynote]) -> pc.Subscription[Talk]:
    return subscription


# -- filters ---------------------------------------------------------------------------------------


def from_eugster(talk: Talk) -> bool:
    return talk.speaker == "Eugster"


def filters(bus: pc.Bus) -> None:
    bus.subscribe(Talk, print, where=from_eugster)
    bus.subscribe(Keynote, print, where=from_eugster)
    bus.subscribe(Talk, hear, where=lambda t: t.room is not None and "java" in t.title.lower())
    bus.subscribe(Talk, print, where=lambda t: t.room)  # anything that is true or false
    bus.subscribe(Talk, print, where=None)
    mine = pc.Filter(from_eugster)
    assert_type(mine, pc.Filter[Talk])
    assert_type(mine(Talk("Eugster", "Types")), object)
    assert_type(mine.matches(Talk("Eugster", "Types")), bool)
    bus.subscribe(Talk, print, where=mine)
    bus.subscribe(Keynote, print, where=mine)
    written: pc.Filter[Talk] = pc.Filter(lambda talk: talk.room is None)
    assert_type(written == mine, bool)


def a_filter_of_the_base_is_one_of_the_derived(base: pc.Filter[Talk]) -> pc.Filter[Keynote]:
    return base


def a_filter_is_a_callable(base: pc.Filter[Talk]) -> Callable[[Keynote], object]:
    return base


# -- options ---------------------------------------------------------------------------------------


def every_option(bus: pc.Bus) -> None:
    bus.subscribe(Talk, print, exact=True, topic="/Talks/*")
    bus.subscribe(Talk, print, group="workers")
    bus.subscribe(Talk, print, durable="billing", replace=True)
    bus.subscribe(Talk, print, since="beginning")
    bus.subscribe(Talk, print, since=7)
    bus.subscribe(Talk, print, since=datetime(2025, 1, 1, tzinfo=UTC))
    bus.subscribe(Talk, print, lease=60, level="strong_set", dispatch="inline")
    bus.subscribe(Talk, print, lease=timedelta(minutes=1), level="weak_bag", dispatch="pool")
    bus.subscribe(Talk, print, queue=1000, overflow="drop_oldest")
    bus.subscribe(Talk, print, overflow="block", block_for=0.5)
    bus.subscribe(Talk, print, ack="manual", ack_timeout=30, attempts=5, backoff=0.1)
    bus.subscribe(Talk, print, engine="direct")
    bus.subscribe(Talk, print, copy=True)


def options_can_be_kept(bus: pc.Bus) -> None:
    careful: pc.SubscribeOptions = {"level": "sorted_set", "attempts": 10, "ack_timeout": 30}
    bus.subscribe(Talk, print, **careful)
    bus.subscribe(Talk, print, where=from_eugster, **careful)
    bus.subscribe("/Chat/**", print, **careful)
    urgent: pc.PublishOptions = {"priority": 9, "topic": "/Talks"}
    bus.publish(Talk("Eugster", "Types"), **urgent)


# -- the decorator ---------------------------------------------------------------------------------


def the_decorator_reads_the_annotation(bus: pc.Bus) -> None:
    @bus.on
    def announce(talk: Talk) -> str:
        return talk.title

    @bus.on
    def announce_delivered(talk: Talk, delivery: pc.Delivery) -> int:
        return delivery.position

    @bus.on
    async def announce_later(talk: Talk | Lecture) -> str:
        return talk.speaker

    assert_type(announce(talk=Talk("Eugster", "Types")), str)
    called: Callable[[Talk, pc.Delivery], int] = announce_delivered
    awaited: Callable[[Lecture], Awaitable[str]] = announce_later
    print(called, awaited)


def the_decorator_takes_a_type(bus: pc.Bus) -> None:
    @bus.on(Talk)
    def announce(talk: Talk) -> str:
        return talk.title

    @bus.on(Talk, where=lambda t: t.room is not None, level="list", queue=10)
    def announce_room(talk: Talk, delivery: pc.Delivery) -> int:
        return delivery.position

    @bus.on(Talk, group="workers")
    async def announce_later(talk: Talk) -> int:
        return len(talk.title)

    @bus.on(DSC, where=lambda event: event.get_speaker() != "")
    def announce_department(event: DSC) -> None: ...

    @bus.on(HasSpeaker)
    def announce_speaker(event: HasSpeaker) -> None: ...

    @bus.on(Talk | Lecture, where=lambda event: event.speaker == "Eugster")
    def announce_either(event: Talk | Lecture) -> None: ...

    @bus.on(pc.all_of(DSC, DI, view=Both))
    def announce_both(event: Both) -> None: ...

    assert_type(announce, Callable[[Talk], str])
    assert_type(announce_room, Callable[[Talk, pc.Delivery], int])
    assert_type(announce(Talk("Eugster", "Types")), str)
    print(announce_department, announce_speaker, announce_either, announce_both, announce_later)


def the_decorator_takes_a_topic(bus: pc.Bus) -> None:
    @bus.on("/Chat/**")
    def listen(event: Talk) -> int:
        return len(event.title)

    @bus.on("/Chat/**", where=lambda event: "Tom" in event.text)
    def listen_delivered(event: Any, delivery: pc.Delivery) -> None: ...

    @bus.on(pc.topic("/Chat/**", Talk), where=lambda talk: talk.room is None)
    def listen_typed(talk: Talk) -> None: ...

    assert_type(listen(Talk("Eugster", "Types")), int)
    print(listen_delivered, listen_typed)


class Service:
    """Subscribes its own methods."""

    def __init__(self, bus: pc.Bus) -> None:
        bus.on(self.hear)
        bus.on(Talk, where=from_eugster)(self.hear)

    def hear(self, talk: Talk) -> None: ...


# -- streams ---------------------------------------------------------------------------------------


async def streams(bus: pc.Bus) -> None:
    assert_type(bus.stream(Talk), pc.Stream[Talk])
    async for talk in bus.stream(Talk, where=lambda t: t.room is None, queue=10):
        assert_type(talk, Talk)
    async for department in bus.stream(DSC):
        assert_type(department, DSC)
    async for speaker in bus.stream(HasSpeaker):
        assert_type(speaker, HasSpeaker)
    async for one in bus.stream(Talk | Lecture):
        assert_type(one, Talk | Lecture)
    async for both in bus.stream(pc.all_of(DSC, DI, view=Both)):
        assert_type(both, Both)
    async for typed in bus.stream(pc.topic("/Chat/**", Talk)):
        assert_type(typed, Talk)
    async for anything in bus.stream("/Chat/**", where=lambda event: event.text):
        assert_type(anything, Any)
    async with bus.stream(Talk) as stream:
        assert_type(stream, pc.Stream[Talk])
        assert_type(await anext(stream), Talk)
        assert_type(stream.subscription.state, str)


# -- publishing ------------------------------------------------------------------------------------


def publishing(bus: pc.Bus, talk: Talk) -> None:
    receipt = bus.publish(talk)
    assert_type(receipt, pc.Receipt)
    assert_type(receipt.position, int)
    assert_type(receipt.identity, pc.Identity)
    assert_type(receipt.durable, bool)
    assert_type(receipt.identity.publisher, str)
    assert_type(receipt.identity.epoch, int)
    assert_type(receipt.identity.sequence, int)
    bus.publish(talk, topic="/Talks", priority=3, expires=60, headers={"trace": "7"})
    bus.publish(talk, topic=None, priority=0, expires=None, headers=None, identity=None)
    bus.publish(talk, expires=timedelta(hours=1), identity=receipt.identity)
    bus.publish(talk, expires=datetime(2030, 1, 1, tzinfo=UTC))
    bus.publish("any value goes on a topic", topic="/Chat/Insomnia")
    assert_type(bus.publish_many([talk, Order(3)], topic="/Talks"), list[pc.Receipt])
    assert_type(bus.publish_many(Talk("Eugster", str(n)) for n in range(3)), list[pc.Receipt])


async def publishing_in_a_coroutine(bus: pc.Bus, talk: Talk) -> None:
    assert_type(await bus.publish_async(talk, priority=1), pc.Receipt)
    first, second = await asyncio.gather(bus.publish_async(talk), bus.publish_async(talk))
    assert_type(first, pc.Receipt)
    assert_type(second.position, int)
    task = asyncio.create_task(bus.publish_async(talk))
    assert_type(await task, pc.Receipt)


# -- the bus and its subscriptions -----------------------------------------------------------------


class HalfSpeed:
    """A clock of one's own."""

    def time(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


def opening() -> None:
    pc.Bus(isolation="copy").close()
    with pc.Bus("memory:", publisher="till-7", history=1000, clock=HalfSpeed()) as bus:
        assert_type(bus, pc.Bus)
        assert_type(bus.publisher, str)
        assert_type(bus.flush(), bool)
        assert_type(bus.flush(timeout=1.0), bool)
    for left in bus.close(timeout=5):
        assert_type(left.events, int)
        assert_type(left.why, str)


async def opening_in_a_coroutine() -> None:
    async with pc.Bus() as bus:
        assert_type(bus, pc.Bus)


def advertising(bus: pc.Bus) -> None:
    word = bus.advertise(Talk, lease=60)
    assert_type(word, pc.Advertisement)
    word.renew(60)
    word.cancel()
    bus.advertise(DSC)
    bus.advertise("/Chat/Insomnia")
    bus.advertise(pc.topic("/Chat/Insomnia", Talk))


def the_handle(bus: pc.Bus, talk: Talk) -> None:
    with bus.subscribe(Talk, print) as subscription:
        assert_type(subscription, pc.Subscription[Talk])
        assert_type(subscription.state, str)
        assert_type(subscription.name, str)
        assert_type(subscription.ended, pc.SubscriptionEndedError | None)
        why = subscription.explain(talk, topic="/Talks")
        assert_type(why, pc.Explanation)
        assert_type(why.delivered, bool | None)
        assert_type(why.reasons, tuple[str, ...])
        assert_type(subscription.explain(), pc.Explanation)
        subscription.pause()
        subscription.resume()
        subscription.renew(60)
        subscription.renew(timedelta(minutes=1))
        subscription.detach()
        subscription.cancel()


def the_delivery(delivery: pc.Delivery) -> None:
    assert_type(delivery.topic, str | None)
    assert_type(delivery.position, int)
    assert_type(delivery.identity, pc.Identity)
    assert_type(delivery.publisher, str)
    assert_type(delivery.time, datetime)
    assert_type(delivery.headers.get("trace"), str | None)
    assert_type(delivery.count, int)
    delivery.ack()
    delivery.nack()
    delivery.nack(1.5)
    delivery.reject("not for me")
    with delivery.transaction(object()) as fresh:
        assert_type(fresh, bool)


def the_dead_letters(bus: pc.Bus) -> Sequence[pc.DeadLetter]:
    letters = bus.dead_letters()
    for letter in letters:
        assert_type(letter, pc.DeadLetter)
        assert_type(letter.reason, str)
        assert_type(letter.attempts, int)
        assert_type(letter.error, BaseException | None)
        assert_type(letters.replay(letter), int)
    assert_type(letters[0].identity, pc.Identity)
    assert_type(letters[:2], list[pc.DeadLetter])
    assert_type(letters.purge(), int)
    return letters


def the_health(bus: pc.Bus) -> None:
    health = bus.health()
    assert_type(health, pc.Health)
    assert_type(health.ok, bool)
    assert_type(health.problems, tuple[str, ...])
    for subscription in health.subscriptions:
        assert_type(subscription.waiting, int)
    assert_type(health.counts.as_dict(), dict[str, int])


def the_types_of_this_process() -> None:
    assert_type(pc.conforming(Talk), frozenset[type])
    assert_type(pc.conforming(DSC), frozenset[type])
    assert_type(pc.directly_conforming(Talk), frozenset[type])
    pc.conforming(pc.interface_of(Talk))


# -- collections -----------------------------------------------------------------------------------


def the_eight(bus: pc.Bus) -> None:
    assert_type(pc.DAWeakBag(Talk, bus), pc.DAWeakBag[Talk])
    assert_type(pc.DAWeakSet(Talk, bus), pc.DAWeakSet[Talk])
    assert_type(pc.DAStrongBag(Talk, bus), pc.DAStrongBag[Talk])
    assert_type(pc.DAStrongSet(Talk, bus), pc.DAStrongSet[Talk])
    assert_type(pc.DAArray(Talk, bus), pc.DAArray[Talk])
    assert_type(pc.DAList(Talk, bus), pc.DAList[Talk])
    assert_type(pc.DASortedBag(Talk, bus), pc.DASortedBag[Talk])
    assert_type(pc.DASortedSet(Talk, bus), pc.DASortedSet[Talk])


def of_anything_that_can_be_subscribed_to(bus: pc.Bus) -> None:
    assert_type(pc.DAStrongSet(DSC, bus), pc.DAStrongSet[DSC])
    assert_type(pc.DAStrongSet(HasSpeaker, bus), pc.DAStrongSet[HasSpeaker])
    assert_type(pc.DAStrongSet(Talk | Lecture, bus), pc.DAStrongSet[Talk | Lecture])
    assert_type(pc.DAStrongSet(pc.all_of(DSC, DI), bus), pc.DAStrongSet[DSC])
    assert_type(pc.DAStrongSet(pc.topic("/Chat", Talk), bus), pc.DAStrongSet[Talk])
    anything = pc.DAStrongSet("/Chat/Insomnia", bus, pull="fifo")
    assert_type(anything, pc.DAStrongSet[Any])
    anything.add("any value")
    anything.contains(print, lambda event: event.text)
    assert_type(anything.get(), Any | None)


def publishing_by_adding(talks: pc.DAStrongSet[Talk], talk: Talk) -> None:
    assert_type(talks.add(talk), pc.Receipt)
    talks.add(Keynote("Eugster", "Types"), priority=3, headers={"trace": "7"})


def subscribing_by_asking(talks: pc.DAStrongSet[Talk], mine: pc.Filter[Talk]) -> None:
    assert_type(talks.contains(hear), pc.Subscription[Talk])
    assert_type(talks.contains(hear_it_delivered, mine), pc.Subscription[Talk])
    assert_type(talks.contains(print, lambda t: t.room is None), pc.Subscription[Talk])
    assert_type(talks.contains_all(hear, where=from_eugster), pc.Subscription[Talk])
    assert_type(
        talks.contains_all(hear, from_eugster, durable="billing", lease=60, ack_timeout=30),
        pc.Subscription[Talk],
    )
    assert_type(talks.contains_all(lambda t, d: print(t.title, d.topic)), pc.Subscription[Talk])
    assert_type(talks.remove(hear_later), pc.Subscription[Talk])
    assert_type(talks.remove(hear, lambda t: t.room is not None), pc.Subscription[Talk])
    assert_type(talks.remove_all(hear_it_delivered), pc.Subscription[Talk])
    talks.clear(hear)
    talks.clear(callback=hear_it_delivered)


def pulling(bus: pc.Bus, talk: Talk) -> None:
    inbox = pc.DAStrongSet(Talk, bus, pull="fifo", where=lambda t: t.room is None, queue=10)
    assert_type(inbox, pc.DAStrongSet[Talk])
    assert_type(inbox.get(), Talk | None)
    if (taken := inbox.get(timeout=1.0)) is not None:
        assert_type(taken, Talk)
    for waiting in inbox:
        assert_type(waiting, Talk)
    assert_type(list(inbox), list[Talk])
    assert_type(iter(inbox), Iterator[Talk])
    assert_type(len(inbox), int)
    assert_type(talk in inbox, bool)
    inbox.ack()
    inbox.clear()
    inbox.close()
    pc.DAList(Talk, bus, pull="lifo", durable="billing", subtypes=False)


def comparing(talks: pc.DAStrongSet[Talk], keynotes: pc.DAList[Keynote]) -> None:
    assert_type(talks.name, str)
    assert_type(talks == keynotes, bool)
    assert_type(talks.covers(keynotes), bool)
    assert_type({talks: 1}, dict[pc.DAStrongSet[Talk], int])


def a_collection_in_the_sense_of_python(talks: pc.DAStrongSet[Keynote]) -> Collection[Talk]:
    return talks


def next_talk() -> Talk | None:
    return None


def next_keynote() -> Keynote:
    return Keynote("Eugster", "Types", stars=5)


def supplying(talks: pc.DAStrongSet[Talk]) -> None:
    talks.supply(next_talk).cancel()
    talks.supply(next_keynote, every=0.5)
    talks.supply(lambda: None, every=timedelta(seconds=1))


# -- filters and matching --------------------------------------------------------------------------


def filtering(talk: Talk) -> None:
    wanted = pc.lift(Talk, lambda t: t.room is not None)
    assert_type(wanted, pc.Filter[Talk])
    assert_type(wanted.matches(talk), bool)
    assert_type(wanted.to_python(Talk), str)
    assert_type(wanted.explain(Talk).indexed, tuple[str, ...])
    assert_type(wanted.explain(Talk, talk).matches, bool | None)
    for_keynotes: pc.Filter[Keynote] = wanted  # who can judge every talk can judge a keynote
    wanted.check(Talk, Keynote)
    print(for_keynotes)


def matching(talk: Talk) -> None:
    matcher = pc.Matcher[int]()
    matcher.add(1, Talk)
    matcher.add(2, Talk, lambda t: t.room is not None)
    matcher.add(3, Keynote, pc.lift(Talk, lambda t: t.room is not None))
    matcher.add(4, Talk | Keynote, lambda t: t.room is not None)
    matcher.add(5, pc.all_of(Talk, Keynote), lambda t: t.room is not None)
    matcher.add(6, "/talks/**", lambda anything: anything.room)
    matcher.remove(6)
    assert_type(matcher.match(talk), list[int])
    assert_type(matcher.match(talk, topic="/talks"), list[int])
    assert_type(matcher.match_batch([talk]), list[list[int]])
    keys: list[int] = list(matcher)
    print(keys, 3 in matcher, len(matcher))


# -- testing ---------------------------------------------------------------------------------------


def the_bus_for_tests(talk: Talk) -> None:
    clock = ManualClock()
    with TestBus(publisher="test", history=10, isolation="copy", clock=clock) as bus:
        assert_type(bus, TestBus)
        assert_type(bus.clock, ManualClock)
        recorder = Recorder[Talk](fail=lambda t: ValueError() if t.room is None else None)
        assert_type(bus.subscribe(Talk, recorder), pc.Subscription[Talk])
        assert_type(bus.subscribe(Keynote, recorder, attempts=3), pc.Subscription[Keynote])
        pc.DAStrongSet(Talk, bus).contains_all(recorder)
        bus.publish(talk)
        assert_type(bus.run_until_idle(), int)
        assert_type(bus.advance(60), int)
        assert_type(bus.advance(timedelta(minutes=1)), int)
        assert_type(recorder.events, list[Talk])
        assert_type(recorder.deliveries, list[pc.Delivery])
    clock.advance(1.5)


def a_manual_clock_is_a_clock(clock: ManualClock) -> pc.Clock:
    return clock


def a_test_bus_is_a_bus(bus: TestBus) -> pc.Bus:
    return bus


# -- errors ----------------------------------------------------------------------------------------


def errors(bus: pc.Bus, talk: Talk) -> None:
    try:
        bus.publish(talk)
    except pc.PublishUnknownError as error:
        assert_type(error, pc.PublishUnknownError)
    except pc.QueueFullError as error:
        assert_type(error.queue, int)
    except pc.BadOptionError as error:
        assert_type(error.option, str)
    except pc.PolycastError:
        raise


def unknown_option() -> BadOptionError:
    return BadOptionError.unknown("queues", 3, ["queue"])


def root_of_the_filters_errors() -> type[PolycastError]:
    return FilterError
