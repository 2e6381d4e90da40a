"""Functions of a context that raise, and what becomes of the events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from parties import (
    Dollar,
    Euro,
    Note,
    Order,
    Parties,
    Refused,
    UKOrder,
    USOrder,
    calls,
    from_dollars_never,
    make_us,
    order,
    uk_order,
    us_order,
)

import polycast as pc
from polycast.testing import Recorder

OpenBus = Callable[..., pc.Bus]
Publish = Callable[[pc.Bus, Any], object]
Eventually = Callable[[Callable[[], object]], None]

PUBLISHED: dict[str, Publish] = {
    "publish": lambda bus, event: bus.publish(event),
    "many": lambda bus, event: bus.publish_many([event]),
    "topic": lambda bus, event: bus.publish(event, topic="/orders/new"),
}


def recorded(bus: pc.Bus, what: Any, **options: Any) -> list[Any]:
    """What a new subscription gets from now on."""
    seen: list[Any] = []
    bus.subscribe(what, lambda event: seen.append(event), **options)
    return seen


def numbers(events: list[Any]) -> list[int]:
    return [event.number for event in events]


# -- coming in -------------------------------------------------------------------------------------


@pytest.mark.parametrize("publish", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_function_that_raises_keeps_an_event_from_its_context_only(
    market: pc.Bus, publish: Publish, dispatch: str, eventually: Eventually
) -> None:
    us, uk = market.within("us"), market.within("uk")
    in_us = [recorded(us, USOrder, dispatch=dispatch), recorded(us, object, dispatch=dispatch)]
    others = [recorded(uk, UKOrder, dispatch=dispatch), recorded(market, Order, dispatch=dispatch)]
    publish(uk, uk_order(1, -4.0))
    publish(uk, uk_order(2, 5.0))
    assert market.flush(5)
    assert [numbers(events) for events in in_us] == [[2], [2]]
    assert [numbers(events) for events in others] == [[1, 2], [1, 2]]
    eventually(lambda: len(market.dead_letters()) == 1)
    [letter] = market.dead_letters()
    assert letter.subscription == "context us"
    assert (letter.event, letter.position) == (uk_order(1, -4.0), 1)
    assert "Refused" in letter.reason
    assert calls["to_dollars"] == 2


def test_it_is_counted_and_said_by_health(
    market: pc.Bus, party: Parties, eventually: Eventually
) -> None:
    recorded(market.within("us"), USOrder)
    market.publish(order(1, -1.0))
    eventually(lambda: market.health().dead_letters == 1)
    assert party.federation.statistics()["us"].failed == {"Order": 1}
    assert not market.health().ok


def test_looking_at_the_event_again_makes_no_second_letter(
    market: pc.Bus, eventually: Eventually
) -> None:
    us = market.within("us")
    recorded(us, USOrder)
    market.publish_many([order(1, -1.0), order(2)])
    assert market.flush(5)
    again = [recorded(us, USOrder, since="beginning"), recorded(us, object, since=1)]
    eventually(lambda: all(numbers(events) == [2] for events in again))
    market.publish(order(3, -1.0))  # so that what was to be kept before it has been
    eventually(lambda: len(market.dead_letters()) > 1)
    assert [letter.position for letter in market.dead_letters()] == [1, 3]


@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_a_letter_is_replayed_to_all_in_the_context_when_it_is_mended(
    market: pc.Bus, party: Parties, dispatch: str
) -> None:
    us, uk = market.within("us"), market.within("uk")
    mine = [
        recorded(us, USOrder, dispatch=dispatch),
        recorded(us, object, dispatch=dispatch),
        recorded(us, USOrder, where=lambda o: o.price.amount < 0, dispatch=dispatch),
    ]
    picky = recorded(us, USOrder, where=lambda o: o.price.amount > 0)
    others = [recorded(uk, UKOrder), recorded(market, Order)]
    market.publish(order(1, -1.0))
    assert market.flush(5)
    party.mend()
    late = recorded(us, USOrder)
    calls.clear()
    assert market.dead_letters().replay() == 1
    assert market.flush(5)
    assert mine == [[USOrder(1, Dollar(-4.0), ["tea"])]] * 3
    assert (picky, late) == ([], [])
    assert [numbers(events) for events in others] == [[1], [1]]
    assert len(market.dead_letters()) == 0
    assert calls == {"to_dollars_always": 1}


def test_a_letter_that_is_replayed_in_vain_stays(market: pc.Bus, eventually: Eventually) -> None:
    seen = recorded(market.within("us"), USOrder)
    market.publish(order(1, -1.0))
    eventually(lambda: len(market.dead_letters()) == 1)
    assert market.dead_letters().replay() == 0
    assert market.flush(5)
    assert (seen, len(market.dead_letters())) == ([], 1)


def test_a_letter_stays_if_nobody_in_the_context_wants_it(market: pc.Bus, party: Parties) -> None:
    sub = market.within("us").subscribe(USOrder, print)
    market.publish(order(1, -1.0))
    assert market.flush(5)
    sub.cancel()
    recorded(market, Order)
    party.mend()
    assert market.dead_letters().replay() == 0
    assert len(market.dead_letters()) == 1


@pytest.mark.parametrize("group", [None, "crew"])
def test_a_letter_is_replayed_to_durables_of_the_context(
    market: pc.Bus, party: Parties, group: str | None, eventually: Eventually
) -> None:
    us = market.within("us")
    options: dict[str, Any] = {} if group is None else {"group": group}
    there, plain = recorded(us, USOrder, durable="there", **options), recorded(us, USOrder)
    market.publish_many([order(1, -1.0), order(2)])
    assert market.flush(5)
    party.mend()
    assert market.dead_letters().replay() == 1
    eventually(lambda: (sorted(numbers(there)), sorted(numbers(plain))) == ([1, 2], [1, 2]))
    assert there[-1] == USOrder(1, Dollar(-4.0), ["tea"])
    assert market.flush(5)
    assert len(market.dead_letters()) == 0


@pytest.mark.parametrize("durable", [None, "crew"])
def test_a_letter_is_replayed_to_a_group_of_the_context(
    market: pc.Bus, party: Parties, durable: str | None, eventually: Eventually
) -> None:
    seen: list[Any] = []
    market.within("us").subscribe(USOrder, seen.append, group="crew", durable=durable)
    market.publish(order(1, -2.0))
    assert market.flush(5)
    assert seen == []
    party.mend()
    assert market.dead_letters().replay() == 1
    eventually(lambda: len(seen) == 1)
    assert market.flush(5)
    assert (len(seen), len(market.dead_letters())) == (1, 0)


def test_a_letter_waits_for_a_durable_that_is_detached(
    market: pc.Bus, party: Parties, eventually: Eventually
) -> None:
    us = market.within("us")
    sub = us.subscribe(USOrder, print, durable="away")
    market.publish(order(1, -1.0))
    assert market.flush(5)
    sub.detach()
    party.mend()
    assert market.dead_letters().replay() == 1
    seen = recorded(us, USOrder, durable="away")
    eventually(lambda: numbers(seen) == [1])


def test_a_letter_of_a_subscription_in_a_context_is_replayed_to_it(
    market: pc.Bus, eventually: Eventually
) -> None:
    broken = [True]
    seen: Recorder[Any] = Recorder(fail=lambda event: OSError("no") if broken else None)
    market.within("us").subscribe(USOrder, seen, attempts=1)
    market.within("uk").publish(uk_order())
    eventually(lambda: len(market.dead_letters()) == 1)
    broken.clear()
    assert market.dead_letters().replay() == 1
    eventually(lambda: seen.events == [us_order()])
    assert len(market.dead_letters()) == 0


# -- going out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("publish", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("dispatch", ["pool", "inline"])
def test_what_cannot_leave_because_a_function_raises_is_kept_and_stays_at_home(
    market: pc.Bus, publish: Publish, dispatch: str, eventually: Eventually
) -> None:
    us, uk = market.within("us"), market.within("uk")
    home = recorded(us, USOrder, dispatch=dispatch)
    others = [recorded(uk, UKOrder, dispatch=dispatch), recorded(market, Order, dispatch=dispatch)]
    publish(us, us_order(1, -2.0))
    publish(us, us_order(2, 2.0))
    assert market.flush(5)
    assert numbers(home) == [1, 2]
    assert [numbers(events) for events in others] == [[2], [2]]
    eventually(lambda: len(market.dead_letters()) == 1)
    [letter] = market.dead_letters()
    assert (letter.subscription, letter.event) == ("context us", us_order(1, -2.0))
    assert calls["from_dollars"] == 2
    late = recorded(us, USOrder, since="beginning")
    eventually(lambda: numbers(late) == [1, 2])
    assert market.flush(5)
    assert len(market.dead_letters()) == 1


def test_it_is_replayed_to_the_others_when_the_context_is_mended(
    market: pc.Bus, party: Parties, eventually: Eventually
) -> None:
    us, uk = market.within("us"), market.within("uk")
    home = recorded(us, USOrder)
    others = [recorded(uk, UKOrder), recorded(market, Order), recorded(uk, object, group="crew")]
    us.publish(us_order(1, -2.0))
    assert market.flush(5)
    assert market.dead_letters().replay() == 0
    party.mend()
    late = recorded(market, Order)
    assert market.dead_letters().replay() == 1
    assert market.flush(5)
    assert (numbers(home), numbers(late)) == ([1], [])
    eventually(lambda: [numbers(events) for events in others] == [[1], [1], [1]])
    assert others[1] == [Order(1, Euro(-0.5), ["tea"])]
    assert len(market.dead_letters()) == 0


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("is_saved", [False, True])
def test_it_is_replayed_to_durables_of_the_others(
    market: pc.Bus, party: Parties, *, away: bool, is_saved: bool, eventually: Eventually
) -> None:
    us, uk = market.within("us"), market.within("uk")
    seen: list[Any] = []
    sub = uk.subscribe(UKOrder, lambda event: seen.append(event), durable="books")
    us.publish(us_order(1, -2.0))
    if is_saved:
        us.publish(us_order(2))
    assert market.flush(5)
    if away:
        sub.detach()
    party.mend()
    assert market.dead_letters().replay() == 1
    if away:
        uk.subscribe(UKOrder, lambda event: seen.append(event), durable="books")
    eventually(lambda: 1 in numbers(seen))
    us.publish(us_order(3))
    eventually(lambda: 3 in numbers(seen))
    assert sorted(numbers(seen)) == ([1, 2, 3] if is_saved else [1, 3])


def test_it_stays_with_its_new_reason_if_the_context_is_mended_badly(
    market: pc.Bus, party: Parties
) -> None:
    recorded(market, Order)
    us = market.within("us")
    us.publish(us_order(1, -2.0))
    assert market.flush(5)
    [before] = market.dead_letters()
    party.federation.replace(make_us(party.root, outgoing=from_dollars_never))
    assert market.dead_letters().replay() == 0
    [letter] = market.dead_letters()
    assert ("Refused" in before.reason, "ZeroDivisionError" in letter.reason) == (True, True)
    assert (letter.subscription, letter.event) == ("context us", us_order(1, -2.0))


def test_over_a_store_it_is_there_for_who_comes_later(
    open_bus: OpenBus, party: Parties, place: str, eventually: Eventually
) -> None:
    bus = open_bus(federation=party.federation)
    recorded(bus, Order)
    us = bus.within("us")
    us.publish(us_order(1, -2.0))
    us.publish(us_order(2))
    assert bus.flush(5)
    party.mend()
    assert bus.dead_letters().replay() == 1
    assert bus.flush(5)
    late = recorded(bus, Order, since="beginning")
    # In memory the root form is not kept, and each event meets the contexts of its position.
    eventually(lambda: numbers(late) == ([2] if place == "memory" else [1, 2]))


def test_the_letter_is_there_when_publish_returns(market: pc.Bus) -> None:
    recorded(market, Order, dispatch="inline")
    market.within("us").publish(us_order(1, -2.0))
    assert len(market.dead_letters()) == 1


def test_letters_are_there_when_flush_returns(market: pc.Bus) -> None:
    recorded(market.within("us"), USOrder)
    for number in range(1, 30):
        market.publish(order(number, -1.0))
        assert market.flush(5)
        assert len(market.dead_letters()) == number


def test_a_function_that_raises_is_not_called_where_nobody_listens(
    market: pc.Bus, place: str, eventually: Eventually
) -> None:
    recorded(market.within("us"), USOrder)
    market.publish(Note("x"))
    market.within("us").publish(us_order(1, -2.0))
    assert market.flush(5)
    # Over a store the root form is made by the publisher, whoever may come later.
    letters = 0 if place == "memory" else 1
    eventually(lambda: len(market.dead_letters()) == letters)


def test_the_error_itself_is_kept_in_memory(party: Parties) -> None:
    with pc.Bus(federation=party.federation) as bus:
        recorded(bus.within("us"), USOrder)
        bus.publish(order(1, -1.0))
        [letter] = bus.dead_letters()
    assert isinstance(letter.error, Refused)
