"""Durable subscriptions in memory: a name, a place, and what is in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Sale:
    number: int = 0


@dataclass
class Refund:
    number: int = 0


def big(sale: Any) -> bool:
    return bool(sale.number > 5)


def numbers(seen: Recorder[Any]) -> list[int]:
    """What was handled, in order."""
    return [event.number for event in seen.events]


def attach(bus: TestBus, what: Any = Sale, **options: Any) -> tuple[Any, Recorder[Any]]:
    """Attach a recorder to the durable name."""
    seen: Recorder[Any] = Recorder()
    options.setdefault("durable", "billing")
    return bus.subscribe(what, seen, **options), seen


# -- coming and going ------------------------------------------------------------------------------


def test_what_was_missed_while_detached_comes_after_attaching_again(bus: TestBus) -> None:
    sub, before = attach(bus)
    bus.publish(Sale(0))
    bus.run_until_idle()
    sub.detach()
    bus.publish_many([Sale(1), Sale(2)])
    bus.run_until_idle()
    _, after = attach(bus)
    bus.publish(Sale(3))
    bus.run_until_idle()
    assert (numbers(before), numbers(after)) == ([0], [1, 2, 3])


def test_what_was_handled_does_not_come_again(bus: TestBus) -> None:
    sub, _ = attach(bus)
    bus.publish(Sale(0))
    bus.run_until_idle()
    sub.detach()
    _, after = attach(bus)
    bus.run_until_idle()
    assert after.events == []


def test_what_was_not_acknowledged_comes_again(bus: TestBus) -> None:
    sub, before = attach(bus, ack="manual")
    bus.publish_many([Sale(0), Sale(1)])
    bus.run_until_idle()
    before.deliveries[0].ack()
    bus.run_until_idle()
    sub.detach()
    _, after = attach(bus)
    bus.run_until_idle()
    assert numbers(after) == [1]


def test_a_callback_that_returns_after_detaching_has_handled_its_event(bus: TestBus) -> None:
    subs: list[pc.Subscription[Sale]] = []
    subs.append(bus.subscribe(Sale, lambda sale: subs[0].detach(), durable="billing"))
    bus.publish(Sale(0))
    bus.run_until_idle()
    _, after = attach(bus)
    bus.run_until_idle()
    assert after.events == []


def test_what_waits_for_another_attempt_survives_detaching(bus: TestBus) -> None:
    failing: Recorder[Sale] = Recorder(fail=lambda sale: OSError("no"))
    sub = bus.subscribe(Sale, failing, durable="billing", backoff=10)
    bus.publish_many([Sale(0), Sale(1)])
    bus.run_until_idle()
    sub.detach()
    bus.advance(20)
    _, after = attach(bus)
    bus.advance(20)
    assert numbers(after) == [0, 1]


def test_a_detached_subscription_says_so(bus: TestBus) -> None:
    sub, _ = attach(bus)
    sub.detach()
    assert sub.state == "detached"
    assert [each.state for each in bus.health().subscriptions] == ["detached"]


def test_only_durables_can_be_detached(bus: TestBus) -> None:
    sub = bus.subscribe(Sale, print)
    with pytest.raises(pc.BadOptionError, match="durable"):
        sub.detach()


def test_cancel_deletes_a_durable(bus: TestBus) -> None:
    sub, _ = attach(bus)
    sub.cancel()
    bus.publish(Sale(0))
    _, after = attach(bus)
    bus.run_until_idle()
    assert after.events == []


def test_after_cancel_the_name_is_free_for_another_definition(bus: TestBus) -> None:
    attach(bus)[0].cancel()
    sub, _ = attach(bus, Refund)
    assert sub.state == "active"


def test_names_are_per_bus(bus: TestBus) -> None:
    attach(bus)
    with TestBus() as other:
        assert attach(other, Refund)[0].state == "active"


def test_several_durables_each_have_their_place(bus: TestBus) -> None:
    sub, _ = attach(bus, durable="one")
    _, other = attach(bus, durable="other")
    sub.detach()
    bus.publish(Sale(0))
    bus.run_until_idle()
    _, again = attach(bus, durable="one")
    bus.run_until_idle()
    assert (numbers(other), numbers(again)) == ([0], [0])


def test_a_detached_durable_does_not_keep_flush_waiting(live: pc.Bus) -> None:
    sub = live.subscribe(Sale, print, durable="billing")
    sub.detach()
    live.publish(Sale())
    assert live.flush(10)


def test_a_durable_called_in_line_collects_while_detached(bus: TestBus) -> None:
    got: list[int] = []
    sub = bus.subscribe(Sale, lambda s: got.append(s.number), durable="b", dispatch="inline")
    sub.detach()
    bus.publish_many([Sale(0), Sale(1)])
    bus.subscribe(Sale, lambda s: got.append(s.number), durable="b", dispatch="inline")
    bus.publish(Sale(2))
    assert got == [0, 1, 2]


def test_only_what_matches_is_collected(bus: TestBus) -> None:
    sub, _ = attach(bus, where=big)
    sub.detach()
    bus.publish_many(Sale(number) for number in (1, 9, 2, 8))
    _, after = attach(bus, where=big)
    bus.run_until_idle()
    assert numbers(after) == [9, 8]


# -- another definition ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"what": Refund}, "selector"),
        ({"where": big}, "where"),
        ({"level": "strong_set"}, "level"),
        ({"group": "g"}, "group"),
        ({"exact": True}, "selector"),
        ({"topic": "/sales"}, "selector"),
    ],
)
def test_another_definition_under_the_same_name_is_refused(
    bus: TestBus, changed: dict[str, Any], field: str
) -> None:
    attach(bus)
    with pytest.raises(pc.DurableChangedError, match="replace=True") as caught:
        attach(bus, **changed)
    assert (caught.value.name, field in caught.value.difference) == ("billing", True)


def test_a_refused_definition_leaves_the_attachment_alone(bus: TestBus) -> None:
    sub, seen = attach(bus)
    with pytest.raises(pc.DurableChangedError):
        attach(bus, Refund)
    bus.publish(Sale(0))
    bus.run_until_idle()
    assert (sub.state, numbers(seen)) == ("active", [0])


def test_the_same_definition_is_accepted(bus: TestBus) -> None:
    attach(bus, where=big, level="list")
    assert attach(bus, where=big, level="list")[0].state == "active"


def test_the_same_union_in_another_order_is_the_same_definition(bus: TestBus) -> None:
    attach(bus, Sale | Refund)
    assert attach(bus, Refund | Sale)[0].state == "active"


def test_replace_takes_the_new_definition_from_its_place_on(bus: TestBus) -> None:
    sub, _ = attach(bus)
    sub.detach()
    bus.publish_many([Sale(1), Sale(9)])
    _, after = attach(bus, where=big, replace=True)
    bus.publish_many([Sale(2), Sale(8)])
    bus.run_until_idle()
    assert numbers(after) == [9, 8]


def test_replace_gets_what_the_new_definition_wants_since_its_place() -> None:
    with TestBus(history=100) as bus:
        sub, _ = attach(bus)
        bus.publish(Sale(0))
        bus.run_until_idle()
        sub.detach()
        bus.publish_many([Refund(1), Sale(2)])
        _, after = attach(bus, Sale | Refund, replace=True)
        bus.publish(Refund(3))
        bus.run_until_idle()
        assert numbers(after) == [1, 2, 3]


@pytest.mark.parametrize("changed", [{"what": Refund}, {"level": "strong_set"}, {"group": "g"}])
def test_replace_accepts_any_other_definition(bus: TestBus, changed: dict[str, Any]) -> None:
    attach(bus)[0].detach()
    assert attach(bus, replace=True, **changed)[0].state == "active"


def test_after_replace_the_old_definition_is_refused(bus: TestBus) -> None:
    attach(bus)
    attach(bus, where=big, replace=True)
    with pytest.raises(pc.DurableChangedError):
        attach(bus)


# -- two attachments -------------------------------------------------------------------------------


def test_a_second_attachment_takes_over(bus: TestBus) -> None:
    first, before = attach(bus)
    _, after = attach(bus)
    bus.publish(Sale(0))
    bus.run_until_idle()
    assert (first.state, before.events, numbers(after)) == ("taken over", [], [0])


def test_the_first_attachment_ends_with_taken_over(bus: TestBus) -> None:
    first, _ = attach(bus)
    attach(bus)
    with pytest.raises(pc.TakenOverError):
        first.pause()


def test_what_the_first_had_in_flight_comes_with_a_higher_token(bus: TestBus) -> None:
    _, before = attach(bus, ack="manual")
    bus.publish(Sale(0))
    bus.run_until_idle()
    _, after = attach(bus, ack="manual")
    bus.run_until_idle()
    assert after.deliveries[0].token > before.deliveries[0].token


def test_the_first_cannot_acknowledge_any_more(bus: TestBus) -> None:
    _, before = attach(bus, ack="manual")
    bus.publish(Sale(0))
    bus.run_until_idle()
    attach(bus, ack="manual")
    bus.run_until_idle()
    with pytest.raises(pc.NotSettledError):
        before.deliveries[0].ack()


def test_a_late_return_of_the_first_does_not_acknowledge_for_the_second(bus: TestBus) -> None:
    failing: Recorder[Sale] = Recorder(fail=lambda sale: OSError("no"))

    def hand_over(sale: Sale) -> None:
        bus.subscribe(Sale, failing, durable="billing", attempts=2)

    bus.subscribe(Sale, hand_over, durable="billing", attempts=2)
    bus.publish(Sale(0))
    bus.run_until_idle()
    bus.advance(60)
    assert [letter.event for letter in bus.dead_letters()] == [Sale(0)]


def test_cancelling_what_was_taken_over_deletes_nothing(bus: TestBus) -> None:
    first, _ = attach(bus)
    second, after = attach(bus)
    first.cancel()
    bus.publish(Sale(0))
    bus.run_until_idle()
    assert (second.state, numbers(after)) == ("active", [0])


def test_in_a_group_both_stay(bus: TestBus) -> None:
    first, one = attach(bus, group="g")
    second, other = attach(bus, group="g")
    bus.publish_many(Sale(number) for number in range(4))
    bus.run_until_idle()
    assert (first.state, second.state) == ("active", "active")
    assert sorted(numbers(one) + numbers(other)) == [0, 1, 2, 3]


def test_a_durable_group_collects_while_nobody_is_there(bus: TestBus) -> None:
    for sub in [attach(bus, group="g")[0] for _ in range(2)]:
        sub.detach()
    bus.publish_many([Sale(0), Sale(1)])
    bus.run_until_idle()
    _, seen = attach(bus, group="g")
    bus.run_until_idle()
    assert sorted(numbers(seen)) == [0, 1]


# -- leases ----------------------------------------------------------------------------------------


def test_a_lease_ends_a_durable_and_its_name(bus: TestBus) -> None:
    sub, _ = attach(bus, lease=60)
    sub.detach()
    bus.publish(Sale(0))
    bus.advance(60)
    _, after = attach(bus, Refund)
    bus.run_until_idle()
    assert after.events == []


def test_attaching_again_prolongs_the_lease(bus: TestBus) -> None:
    attach(bus, lease=60)[0].detach()
    bus.advance(50)
    sub, _ = attach(bus, lease=60)
    bus.advance(50)
    assert sub.state == "active"
