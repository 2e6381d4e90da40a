"""`polycast subs`: list or cancel durable subscriptions and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from polycast.cli.command_line import add_command, add_family
from polycast.cli.formatting import TextTable, ago, count, listed
from polycast.cli.operands import place_of, row_filter, time_at
from polycast.errors import BadOptionError, StoreError
from polycast.errors.root import did_you_mean
from polycast.stores.doctor import SubscriptionFigures, buses_in, subscriptions_in
from polycast.subscriptions.heartbeat import has_died

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal
    from polycast.stores import Transaction, View


def declare(commands: Any, what: str) -> None:
    """Declare the commands."""
    family = add_family(commands, "subs", what, "subs events.db")
    what = "list durable subscriptions and groups; `list` may be left out"
    command = add_command(family, "list", run_list, what, "subs events.db --where 'event.lag > 9'")
    command.take_place()
    command.take_where("a filter on what --json prints, such as 'event.lag > 9'")
    command.take_limit()
    what = "cancel a subscription that nobody will attach to again"
    command = add_command(family, "cancel", run_cancel, what, "subs cancel events.db billing")
    command.take_place()
    command.take("name NAME", "the name, as `subs` shows it")
    command.take_yes()


def run_list(given: Namespace, terminal: Terminal) -> int:
    """List durable subscriptions and groups, the one with the greatest lag first."""
    is_wanted = row_filter(given.where, SubscriptionFigures)
    with place_of(given).looking() as store, store.view() as view:
        now = time_at(store, terminal)
        kept = _kept(view, now)
    chosen = [figures for figures in kept if is_wanted(figures)][: given.limit]
    rows = [{**msgspec.to_builtins(figures), "attached": figures.attached} for figures in chosen]
    none = "no subscription is meant" if kept else "no subscriptions are kept"
    lines = [subscription_table(chosen, now) if chosen else none]
    terminal.show({"subscriptions": rows}, lines, paged=True)
    return 0


def _kept(view: View, now: float) -> list[SubscriptionFigures]:
    return subscriptions_in(view, buses_in(view, now=now, has_died=has_died), now=now)


def run_cancel(given: Namespace, terminal: Terminal) -> int:
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
    kept = {figures.name: figures for figures in _kept(view, now)}
    if name not in kept:
        accepted = ", ".join(map(repr, sorted(kept)[:20])) or "none: the store keeps none"
        why = "there is no such subscription"
        raise BadOptionError("name", name, accepted=accepted + did_you_mean(name, kept), why=why)
    if kept[name].attached:
        buses = ", ".join(map(str, kept[name].buses))
        raise StoreError(
            f"{name!r} is attached to bus {buses}, which is alive: cancel() it there, or close "
            f"that bus first; `polycast doctor` names the process"
        )
    return kept[name]


_HEADS = ("name", "what", "level", "group", "lag", "in flight", "attempts", "attached to", "lease")


def subscription_table(
    subscriptions: list[SubscriptionFigures], now: float, *, indent: int = 0
) -> TextTable:
    """A row for each subscription."""
    rows = [
        (
            figures.name,
            figures.what if figures.where is None else f"{figures.what} where {figures.where}",
            figures.level,
            figures.group or "-",
            figures.lag,
            figures.in_flight,
            figures.attempts,
            _holders(figures),
            "-" if figures.lease is None else f"ends {ago(figures.lease, now)}",
        )
        for figures in subscriptions
    ]
    return TextTable(_HEADS, rows, indent=indent)


def _holders(figures: SubscriptionFigures) -> str:
    dead = [f"bus {bus} (dead)" for bus in figures.dead]
    return listed([*(f"bus {bus}" for bus in figures.buses), *dead])
