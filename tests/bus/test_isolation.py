"""In memory publishing hands the object over, unless the bus or a subscription asks for copies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import polycast as pc
from polycast.errors import BadOptionError, NotSerialisableError
from polycast.testing import Recorder, TestBus


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ticket:
    number: int
    seats: tuple[str, ...] = ()


@dataclass
class Guarded:
    """Nothing but this process can have one."""

    number: int
    lock: Any = field(default_factory=threading.Lock)


@pytest.fixture
def apart() -> TestBus:
    """A bus whose subscribers share nothing."""
    return TestBus(isolation="copy", history=100)


def spoil(basket: Basket) -> None:
    basket.items.append("spoilt")


def is_spoilt(basket: Basket) -> bool:
    return "spoilt" in basket.items


# -- handing over ----------------------------------------------------------------------------------


def test_in_memory_subscribers_get_the_very_object(bus: TestBus) -> None:
    seen, basket = Recorder[Basket](), Basket()
    bus.subscribe(Basket, seen)
    bus.subscribe(Basket, seen, dispatch="inline", copy=False)
    bus.publish(basket)
    bus.run_until_idle()
    assert [each is basket for each in seen.events] == [True, True]


def test_a_filter_may_be_true_only_because_somebody_changed_the_event(bus: TestBus) -> None:
    seen: list[Basket] = []
    bus.subscribe(Basket, spoil, dispatch="inline")
    bus.subscribe(Basket, seen.append, dispatch="inline", where=is_spoilt)
    bus.publish(Basket())
    assert len(seen) == 1


# -- copies for one subscription -------------------------------------------------------------------


def test_a_subscription_with_copies_has_an_object_of_its_own(bus: TestBus) -> None:
    shared, own, basket = Recorder[Basket](), Recorder[Basket](), Basket(["bolt"])
    bus.subscribe(Basket, shared)
    bus.subscribe(Basket, own, copy=True)
    bus.subscribe(Basket, own, copy=True, dispatch="inline")
    bus.publish(basket)
    bus.run_until_idle()
    assert shared.events[0] is basket
    one, other = own.events
    assert one == other == basket
    assert len({id(basket), id(one), id(other)}) == 3


def test_a_filter_with_copies_is_asked_about_what_was_published(bus: TestBus) -> None:
    seen: list[Basket] = []
    bus.subscribe(Basket, spoil, dispatch="inline")
    bus.subscribe(Basket, seen.append, dispatch="inline", where=is_spoilt, copy=True)
    bus.publish(Basket())
    bus.publish_many([Basket(), Basket()])
    bus.publish(Basket(), topic="/shop")
    assert seen == []


def test_a_copy_is_of_when_it_was_published(bus: TestBus) -> None:
    seen, basket = Recorder[Basket](), Basket(["bolt"])
    bus.subscribe(Basket, spoil, dispatch="inline")
    bus.subscribe(Basket, seen, copy=True)
    bus.publish(basket)
    spoil(basket)
    bus.run_until_idle()
    assert seen.events == [Basket(["bolt"])]


def test_each_attempt_has_a_copy(bus: TestBus) -> None:
    given: list[list[str]] = []

    def work(basket: Basket) -> None:
        given.append(list(basket.items))
        spoil(basket)
        raise OSError("not yet")

    bus.subscribe(Basket, work, copy=True, attempts=3, backoff=1)
    bus.publish(Basket(["bolt"]))
    bus.advance(10)
    assert given == [["bolt"]] * 3
    assert bus.dead_letters()[0].event == Basket(["bolt"])


def test_a_group_gives_copies_if_one_of_its_members_asks_for_them(bus: TestBus) -> None:
    seen, basket = Recorder[Basket](), Basket(["bolt"])
    bus.subscribe(Basket, seen, group="workers")
    bus.publish(basket)
    bus.subscribe(Basket, seen, group="workers", copy=True)
    bus.publish(basket)
    bus.run_until_idle()
    assert [each is basket for each in seen.events] == [True, False]


def test_a_durable_subscription_may_go_over_to_copies(bus: TestBus) -> None:
    seen, basket = Recorder[Basket](), Basket(["bolt"])
    bus.subscribe(Basket, seen, durable="billing").detach()
    bus.subscribe(Basket, seen, durable="billing", copy=True)
    bus.publish(basket)
    bus.run_until_idle()
    assert seen.events == [basket]
    assert seen.events[0] is not basket


def test_a_collection_takes_copies(bus: TestBus) -> None:
    seen, basket = Recorder[Basket](), Basket(["bolt"])
    pulled = pc.DAStrongSet(Basket, bus, pull="fifo", copy=True)
    pc.DAList(Basket, bus).contains(seen, copy=True)
    bus.publish(basket)
    bus.run_until_idle()
    spoil(basket)
    assert [*seen.events, pulled.get()] == [Basket(["bolt"])] * 2


def test_history_is_copied_when_it_is_asked_for() -> None:
    bus = TestBus(history=10)
    seen, basket = Recorder[Basket](), Basket(["bolt"])
    bus.publish(basket)
    bus.subscribe(Basket, seen, since="beginning", copy=True)
    spoil(basket)
    bus.run_until_idle()
    assert seen.events == [Basket(["bolt"])]


def test_a_definition_that_is_replaced_is_asked_about_copies(bus: TestBus) -> None:
    basket, seen = Basket(["bolt"]), Recorder[Basket]()
    first = bus.subscribe(Basket, seen, durable="billing", copy=True)
    first.pause()
    bus.publish(basket)
    spoil(basket)
    bus.subscribe(
        Basket, seen, durable="billing", replace=True, where=lambda b: len(b.items) == 1, copy=True
    )
    bus.run_until_idle()
    assert seen.events == [Basket(["bolt"])]


# -- copies for all --------------------------------------------------------------------------------


def test_what_nobody_can_change_is_the_very_object_also_with_copies(apart: TestBus) -> None:
    seen, ticket = Recorder[Ticket](), Ticket(1, ("a1",))
    for dispatch in ("pool", "inline"):
        apart.subscribe(Ticket, seen, dispatch=dispatch)
    apart.publish(ticket)
    apart.subscribe(Ticket, seen, since="beginning")
    apart.run_until_idle()
    assert [each is ticket for each in seen.events] == [True] * 3


def test_history_is_as_it_was_published(apart: TestBus) -> None:
    seen, basket = Recorder[Basket](), Basket(["bolt"])
    apart.publish(basket)
    spoil(basket)
    apart.subscribe(Basket, seen, since="beginning", where=lambda b: not is_spoilt(b))
    apart.run_until_idle()
    assert seen.events == [Basket(["bolt"])]


def test_many_subscribers_with_filters_have_copies(apart: TestBus) -> None:
    seen = [Recorder[Basket]() for _ in range(80)]
    for number, each in enumerate(seen):
        apart.subscribe(Basket, each, where=lambda b, n=number: len(b.items) <= n)
    basket = Basket(["bolt"])
    apart.publish(basket)
    spoil(basket)
    apart.run_until_idle()
    assert [each.events for each in seen] == [[]] + [[Basket(["bolt"])]] * 79
    assert len({id(each.events[0]) for each in seen[1:]}) == 79


def test_what_is_published_inside_a_callback_is_copied(apart: TestBus) -> None:
    seen, inner = Recorder[Basket](), Basket(["inner"])

    def publish(ticket: Ticket) -> None:
        apart.publish(inner)
        spoil(inner)

    apart.subscribe(Ticket, publish, dispatch="inline")
    apart.subscribe(Basket, seen, dispatch="inline")
    apart.publish(Ticket(1))
    assert seen.events == [Basket(["inner"])]


# -- dead letters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [Ticket(1), Basket(["bolt"])], ids=["frozen", "open"])
def test_a_letter_of_a_subscription_with_copies_is_replayed(bus: TestBus, event: Any) -> None:
    wrong = [OSError("not yet")]
    seen = Recorder[Any](fail=lambda _: wrong.pop() if wrong else None)
    bus.subscribe(type(event), seen, copy=True, attempts=1)
    bus.publish(event)
    bus.run_until_idle()
    [letter] = bus.dead_letters()
    assert letter.event == event
    assert bus.dead_letters().replay() == 1
    bus.run_until_idle()
    assert seen.events == [event]


def test_a_letter_from_before_copies_were_asked_for_is_copied_when_it_is_replayed(
    bus: TestBus,
) -> None:
    def fail(basket: Basket) -> None:
        raise OSError("never")

    basket, seen = Basket(["bolt"]), Recorder[Basket]()
    bus.subscribe(Basket, fail, durable="billing", attempts=1)
    bus.publish(basket)
    bus.run_until_idle()
    bus.subscribe(Basket, seen, durable="billing", copy=True)
    assert bus.dead_letters().replay() == 1
    spoil(basket)
    bus.run_until_idle()
    assert seen.events == [Basket(["bolt"])]


def test_a_letter_that_cannot_be_copied_stays_one(bus: TestBus) -> None:
    def fail(guarded: Guarded) -> None:
        raise OSError("never")

    bus.subscribe(Guarded, fail, durable="billing", attempts=1)
    bus.publish(Guarded(1))
    bus.run_until_idle()
    bus.subscribe(Guarded, print, durable="billing", copy=True)
    assert bus.dead_letters().replay() == 0
    [letter] = bus.dead_letters()
    assert "Guarded.lock" in letter.reason


# -- what cannot be copied -------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["the bus", "a subscription"])
def test_what_cannot_be_copied_is_refused_and_goes_to_nobody(form: str) -> None:
    bus = TestBus(isolation="copy" if form == "the bus" else "none", history=10)
    seen = Recorder[Any]()
    bus.subscribe(Guarded, seen)
    bus.subscribe(Guarded, seen, copy=True, dispatch="inline")
    with pytest.raises(NotSerialisableError, match=r"Guarded\.lock"):
        bus.publish(Guarded(1))
    with pytest.raises(NotSerialisableError, match=r"Guarded\.lock"):
        bus.publish_many([Guarded(1, lock=None), Guarded(2)])
    bus.run_until_idle()
    assert seen.events == []
    assert bus.publish(Ticket(1)).position == 1


def test_what_nobody_copies_may_hold_anything(bus: TestBus) -> None:
    seen = Recorder[Any]()
    bus.subscribe(Guarded, seen)
    bus.subscribe(Basket, seen, copy=True)
    bus.publish(Guarded(1))
    bus.run_until_idle()
    assert len(seen.events) == 1


def test_history_that_cannot_be_copied_is_refused_at_subscribe() -> None:
    bus = TestBus(history=10)
    bus.publish(Guarded(1))
    with pytest.raises(NotSerialisableError, match=r"Guarded\.lock"):
        bus.subscribe(Guarded, print, since="beginning", copy=True)
    assert bus.health().subscriptions == ()


# -- what is said ----------------------------------------------------------------------------------

WRONG: list[tuple[Callable[[TestBus], object], str]] = [
    (lambda bus: pc.Bus(isolation="deep"), "isolation='deep'"),  # type: ignore[arg-type]
    (lambda bus: pc.Bus(isolation=True), "isolation=True"),  # type: ignore[arg-type]
    (lambda bus: bus.subscribe(Basket, print, copy="yes"), "copy='yes'"),  # type: ignore[call-overload]
    (lambda bus: pc.DAList(Basket, bus, copy=True), "copy=True"),
    (lambda bus: pc.DAList(Basket, bus, pull="fifo", copy=1), "copy=1"),  # type: ignore[call-overload]
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_makes_no_sense_is_refused(
    bus: TestBus, wrong: Callable[[TestBus], object], said: str
) -> None:
    with pytest.raises(BadOptionError) as caught:
        wrong(bus)
    assert said in str(caught.value)
