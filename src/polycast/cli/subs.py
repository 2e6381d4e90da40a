"""`polycast subs`: who the store keeps a place for."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import msgspec

from polycast.cli.doctor import SUBSCRIPTION, subscription_rows
from polycast.cli.formatting import count, table
from polycast.cli.targets import has_died, place_of, time_at
from polycast.errors import BadOptionError, StoreError
from polycast.stores.doctor import buses_in, subscriptions_in

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal
    from polycast.stores import Transaction, View
    from polycast.stores.doctor import SubscriptionFigures

__all__ = ["cancel_subscription", "list_subscriptions"]


def list_subscriptions(given: Namespace, terminal: Terminal) -> int:
    """List durable subscriptions and groups, the one with the greatest lag first."""
    with place_of(given).looking() as store, store.view() as view:
        now = time_at(store, terminal)
        found = _found(view, now)
    data = [{**msgspec.to_builtins(each), "attached": each.attached} for each in found]
    lines = table(SUBSCRIPTION, subscription_rows(found, now))
    terminal.show({"subscriptions": data}, lines if found else ["no subscriptions are kept"])
    return 0


def _found(view: View, now: float) -> list[SubscriptionFigures]:
    return subscriptions_in(view, buses_in(view, now=now, has_died=has_died), now=now)


def cancel_subscription(given: Namespace, terminal: Terminal) -> int:
    """Cancel a subscription that nobody will attach to again."""
    place, name = place_of(given), given.name
    with place.looking() as store, store.view() as view:
        kept = _free(view, name, time_at(store, terminal))
    what = (
        f"{name!r} ({kept.what}) would be cancelled: {count(kept.lag, 'event')} behind, "
        f"{kept.in_flight:,} in flight; what it has not handled it will never get"
    )
    cancelled = terminal.confirm(what, yes=given.yes)
    if cancelled:
        with place.changing() as writable:
            now = time_at(writable, terminal)

            def remove(tx: Transaction) -> None:
                _free(tx, name, now)
                tx.remove(name)

            writable.write(remove).result()
    data = {"cancelled": cancelled, "name": name, "lag": kept.lag, "in_flight": kept.in_flight}
    terminal.show(data, [f"{name!r} is cancelled" if cancelled else "nothing was done"])
    return 0


def _free(view: View, name: str, now: float) -> SubscriptionFigures:
    """The subscription of that name, which nobody must be attached to."""
    found = {each.name: each for each in _found(view, now)}
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        accepted = ", ".join(map(repr, sorted(found)[:20])) or "none: the store keeps none"
        hint = f"; did you mean {near[0]!r}?" if near else ""
        why = "there is no such subscription"
        raise BadOptionError("name", name, accepted=accepted + hint, why=why)
    if found[name].attached:
        buses = ", ".join(map(str, found[name].buses))
        raise StoreError(
            f"{name!r} is attached to bus {buses}, which is alive: cancel() it there, or close "
            f"that bus first; `polycast doctor` names the process"
        )
    return found[name]
