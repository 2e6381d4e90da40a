"""The subscriptions of a store with their progress, and the buses that are alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.stores.doctor.report import BusFigures, SubscriptionFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.stores.contract import View
    from polycast.stores.values import Flight, OpenBus, StoredSubscription

__all__ = ["OVERDUE", "buses_in", "subscriptions_in"]

OVERDUE = 60.0  # seconds after which a due attempt counts as overdue


class _Defined(msgspec.Struct):
    """The parts of a definition that are shown."""

    selector: str = "?"
    level: str = "?"
    where: str | None = None
    group: str | None = None


def buses_in(
    view: View, *, now: float, has_died: Callable[[OpenBus], bool] = lambda bus: False
) -> list[BusFigures]:
    """The buses that the store lists; `has_died` knows of processes that are certainly gone."""
    return [
        BusFigures(
            bus.id,
            bus.publisher,
            bus.epoch,
            bus.process,
            bus.until,
            bus.until > now and not has_died(bus),
        )
        for bus in view.buses()
    ]


def subscriptions_in(
    view: View, buses: Sequence[BusFigures], *, now: float
) -> list[SubscriptionFigures]:
    """Every durable subscription and group, the one with the greatest lag first."""
    alive = {bus.id for bus in buses if bus.alive}
    end = view.newest() + 1
    listed = [_figures(view, kept, alive, end, now) for kept in view.subscriptions()]
    return sorted(listed, key=lambda figures: (-figures.lag, figures.name))


def _figures(
    view: View, kept: StoredSubscription, alive: set[int], end: int, now: float
) -> SubscriptionFigures:
    defined = _defined(kept.definition)
    flights = view.under_way(kept.name)
    holders = {member.bus for member in view.members(kept.name)} if kept.group else set()
    holders |= {
        holder for holder in (kept.holder, *(f.holder for f in flights)) if holder is not None
    }
    lag = max(0, end - kept.cursor) if kept.until is None else max(0, kept.until - kept.cursor)
    return SubscriptionFigures(
        name=kept.name,
        what=defined.selector,
        where=defined.where,
        level=defined.level,
        group=defined.group,
        durable=kept.durable,
        pinned=kept.pinned,
        cursor=kept.cursor,
        lag=lag,
        in_flight=len(flights),
        attempts=max((flight.attempts for flight in flights), default=0),
        overdue=sum(_is_overdue(flight, now) for flight in flights),
        buses=sorted(holders & alive),
        dead=sorted(holders - alive),
        lease=kept.lease,
    )


def _is_overdue(flight: Flight, now: float) -> bool:
    """Whether a retry is overdue; what never failed is not due at any time."""
    return 0 < flight.due <= now - OVERDUE and flight.holder is None


def _defined(definition: bytes) -> Any:
    try:
        return msgspec.json.decode(definition, type=_Defined)
    except (msgspec.DecodeError, ValueError, TypeError):  # a damaged row may have none
        return _Defined()
