"""Faults that are planted in a simulation, through the parts it is given; each has to be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proof_events import Event
from simulation_actors import Handle, Parts, PlannedError
from simulation_plan import Plan, Wish

import polycast as pc
from polycast.errors import NotSettledError, PolycastError
from polycast.events import Identity
from polycast.runtime import Runtime
from polycast.stores.entry import GivenReceipt, Publisher

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """What is wrong in which world, and the rules of which one at least says so."""

    parts: Parts
    plan: Callable[[int], Plan]
    rules: tuple[str, ...]


def _world(
    *wishes: Wish, hurts: tuple[tuple[float, str], ...] = (), brokers: int = 0, members: int = 1
) -> Callable[[int], Plan]:
    """One publisher, and subscribers."""
    subscribers = [
        (
            f"s{n}",
            brokers > 0,
            tuple(replace(wish, name=f"s{n}.{at}") for at, wish in enumerate(wishes)),
            0,
        )
        for n in range(1, members + 1)
    ]
    actors = (("p1", brokers > 0, (), 15), *subscribers)
    return lambda seed: Plan(seed, brokers, actors, hurts, 0.02, 0.02)


def _without_identity(bus: Any, event: Event, identity: Identity | None) -> pc.Receipt:
    """Try again as another event."""
    del identity
    receipt: pc.Receipt = bus.publish(event)
    return receipt


def _before_it_is_written(bus: Any, event: Event, identity: Identity | None) -> pc.Receipt:
    """Say that it is there, whatever the store says."""
    try:
        receipt: pc.Receipt = bus.publish(event, identity=identity)
    except PolycastError:
        return GivenReceipt(9_999, Publisher("p1", 9), Identity("p1", 9, event.size + 1))
    return receipt


def _acknowledged_first(handle: Handle, runtime: Runtime) -> Handle:
    """Save the cursor before the callback."""

    def handler(event: Event, delivery: pc.Delivery) -> None:
        delivery.ack()
        runtime.sleep(0.05)
        handle(event, delivery)

    return handler


def _never_again(handle: Handle, runtime: Runtime) -> Handle:
    """Count an attempt that has failed as one that has not."""
    del runtime

    def handler(event: Event, delivery: pc.Delivery) -> None:
        try:
            handle(event, delivery)
        except PlannedError:
            return

    return handler


def _swapped(handle: Handle, runtime: Runtime) -> Handle:
    """Handle every second event after the next."""
    del runtime
    kept: list[tuple[Event, pc.Delivery]] = []

    def handler(event: Event, delivery: pc.Delivery) -> None:
        if not kept and delivery.position % 4 == 1:
            kept.append((event, delivery))
            return
        handle(event, delivery)
        while kept:
            handle(*kept.pop())

    return handler


def _altered(handle: Handle, runtime: Runtime) -> Handle:
    """Change what came."""
    del runtime

    def handler(event: Event, delivery: pc.Delivery) -> None:
        handle(replace(event, filling="other"), delivery)

    return handler


def _at_leisure(handle: Handle, runtime: Runtime) -> Handle:
    """Go on for a while when the effect has taken place."""

    def handler(event: Event, delivery: pc.Delivery) -> None:
        handle(event, delivery)
        runtime.sleep(0.1)

    return handler


class _First:
    """A delivery that says that it is the first."""

    count = 1

    def __init__(self, delivery: pc.Delivery) -> None:
        self._delivery = delivery

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delivery, name)


def _always_the_first(handle: Handle, runtime: Runtime) -> Handle:
    """Do not tell repeats."""
    del runtime

    def handler(event: Event, delivery: pc.Delivery) -> None:
        handle(event, _First(delivery))

    return handler


def _twice(handle: Handle, runtime: Runtime) -> Handle:
    """Deliver what came once more, as a connection that is set up anew may."""
    del runtime

    def handler(event: Event, delivery: pc.Delivery) -> None:
        handle(event, delivery)
        handle(event, delivery)

    return handler


def _with_a_stale_token(delivery: pc.Delivery) -> None:
    """Accept what the bus refuses."""
    try:
        delivery.ack()
    except NotSettledError:
        return


def _without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Forget some options."""
    return lambda options: {k: v for k, v in options.items() if k not in names}


def _alone(options: dict[str, Any]) -> dict[str, Any]:
    """Let each member of a group have all events."""
    options = _without("group")(options)
    return options | {"durable": f"alone {id(options)}"}


POWER = ((1.2, "power"),)
KILLS = ((0.5, "kill"), (0.7, "kill"), (0.9, "kill"), (1.1, "kill"))
SORTED = Wish("", "Event", "sorted_bag")
FAULTS: dict[str, Fault] = {
    "acknowledged before the sync": Fault(
        Parts(lies="-wal"), _world(SORTED, hurts=POWER), ("C1", "C2", "C5")
    ),
    "acknowledged though the disk is full": Fault(
        Parts(publish=_before_it_is_written),
        _world(SORTED, hurts=((0.4, "full"), (0.9, "full"), (1.3, "full"))),
        ("C1", "C2"),
    ),
    "published again with another identity": Fault(
        Parts(publish=_without_identity),
        _world(SORTED, brokers=1, hurts=((0.6, "stall"), (0.9, "stall"), (1.2, "stall"))),
        ("C2", "C1"),
    ),
    "cursor saved before the callback": Fault(
        Parts(handler=_acknowledged_first),
        _world(replace(SORTED, manual=True), hurts=KILLS),
        ("C1", "C8"),
    ),
    "retry lost": Fault(
        Parts(handler=_never_again), _world(replace(SORTED, failing=0.4)), ("C1", "C8")
    ),
    "order within a publisher swapped": Fault(
        Parts(handler=_swapped), _world(replace(SORTED, level="array")), ("C4",)
    ),
    "total order swapped": Fault(Parts(handler=_swapped), _world(SORTED), ("C5",)),
    "content altered": Fault(Parts(handler=_altered), _world(SORTED), ("C2",)),
    "repeats not told": Fault(
        Parts(handler=_always_the_first),
        _world(replace(SORTED, slow=0.1), hurts=KILLS),
        ("C9",),
    ),
    "delivered twice": Fault(
        Parts(handler=_twice, is_careful=False),
        _world(replace(SORTED, level="sorted_set")),
        ("C3",),
    ),
    "effects without a transaction": Fault(
        Parts(is_careful=False, handler=_at_leisure),
        _world(Wish("", "Event", "strong_set"), hurts=KILLS),
        ("C3",),
    ),
    "stale token accepted": Fault(
        Parts(acknowledge=_with_a_stale_token, is_careful=False),
        _world(
            Wish("", "Event", "strong_set", group="crew", manual=True, slow=0.4),
            members=2,
            hurts=((0.5, "pause"), (0.7, "pause"), (1.0, "pause"), (1.4, "pause")),
        ),
        ("C6",),
    ),
    "group ignored": Fault(
        Parts(options=_alone, is_careful=False),
        _world(Wish("", "Event", "strong_set", group="crew"), members=2),
        ("C6",),
    ),
    "lease ignored": Fault(
        Parts(options=_without("lease")),
        _world(Wish("", "Event", "strong_bag", durable=False, lease=0.3)),
        ("C7",),
    ),
    "filter ignored": Fault(
        Parts(options=_without("where")), _world(replace(SORTED, above=60)), ("C8",)
    ),
    "durable name forgotten": Fault(
        Parts(options=_without("durable", "since")), _world(SORTED, hurts=KILLS), ("C1", "C8")
    ),
    "frames lost within a connection": Fault(
        Parts(loss=0.05), _world(SORTED, brokers=1), ("C1", "C8", "quiet")
    ),
}
