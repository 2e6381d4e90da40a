"""Events that a durable subscription has handled are given to it once more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from polycast.errors import BadOptionError
from polycast.routing.search import SearchResult, place_of
from polycast.stores import Flight, Store, Transaction

MOST = 10_000  # events at a time: whoever is attached takes up all of them at once
PAGE = 1_000  # in one transaction
REPLAYED = "replayed"  # the kind of the documents that say who has flights to look for
_ACCEPTED = f"1 to {MOST:,}, the first of which go; or a stretch of the log with fewer"


class Passed(NamedTuple):
    """An event that a subscription gets late, if it has passed it already."""

    position: int
    publisher: str
    token: int
    """Of who was attached then; who comes later finds it in the log."""


# Made once: the first use of a type must not happen in two threads at once.
_decode_passed = msgspec.msgpack.Decoder(list[Passed]).decode


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of events that a subscription was to have once more."""

    to: str
    count: int
    """How many went; or, if nothing was to be done, how many would go."""
    events: int
    """How many were meant."""
    coming: int
    """How many of these it gets anyway: they are not before its place."""
    under_way: int
    """How many of these it is busy with."""
    types: dict[str, int]
    first: int | None
    last: int | None
    at_most: bool
    """Whether it may leave some out, because only where it is attached its filter can be asked."""


def told(result: SearchResult, *, to: str, count: int, is_sure: bool) -> Replayed:
    """What is told of the result of a search."""
    return Replayed(
        to=to,
        count=count,
        events=result.events,
        coming=result.coming,
        under_way=result.under_way,
        types=result.types,
        first=result.first,
        last=result.last,
        at_most=not is_sure,
    )


def check_limit(limit: int | None) -> int:
    """How many events are to be listed, so that it is known whether they are too many."""
    if limit is None:
        return MOST
    if type(limit) is not int or not 0 < limit <= MOST:
        raise BadOptionError("limit", limit, accepted=_ACCEPTED)
    return limit


def check_count(result: SearchResult, *, to: str, limit: int | None) -> None:
    """Refuse more than may go at a time, unless the first of them are asked for."""
    if limit is None and result.going > MOST:
        why = f"{result.going:,} events would go to {to!r} once more"
        raise BadOptionError("limit", limit, why=why, accepted=_ACCEPTED)


def announce(tx: Transaction, name: str, *passed: Passed) -> None:
    """Let whoever is attached to a subscription look for what it is to have once more.

    What it may have passed, farther than the store knows, it has to look for by itself.
    """
    before = tx.document(REPLAYED, name)
    known = [] if not before else _decode_passed(before)
    tx.put_document(REPLAYED, name, msgspec.msgpack.encode([*known, *passed]))


def announced(tx: Transaction, name: str) -> list[Passed]:
    """What was announced to a subscription that it may have passed; it is told once."""
    body = tx.document(REPLAYED, name)
    tx.remove_document(REPLAYED, name)
    return [] if not body else _decode_passed(body)


def replay_to(store: Store, name: str, events: Sequence[tuple[int, str]]) -> int:
    """Let a subscription have some events once more, by position and publisher; how many went.

    One that is attached gets them at once, any other when it next is.
    """
    went = 0
    for at in range(0, len(events), PAGE):
        page = events[at : at + PAGE]
        went += store.write(partial(fly_once_more, name=name, events=page)).result()
    return went


def fly_once_more(tx: Transaction, name: str, events: Sequence[tuple[int, str]]) -> int:
    """Let them be in flight again, but for what is so already, or comes anyway, or is gone."""
    kept = tx.subscription(name)
    if kept is None:
        return 0
    place, oldest = place_of(tx, kept), tx.oldest()
    again = [event for event in events if event[0] >= oldest and place.fate(event[0]) == "goes"]
    if again:
        announce(tx, name)
        token = tx.revision() + 1  # higher than that of anybody who had claimed one
        tx.fly([Flight(name, position, by, token=token) for position, by in again])
    return len(again)
