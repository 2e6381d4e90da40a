"""What of the state a client is shown: what is another owner's is as if it were not there."""

from __future__ import annotations

import heapq
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from polycast.broker.server.authorized_request import SHARED, may_see, subject_of
from polycast.broker.server.publisher_owners import (
    owner_of_publisher,
    owner_of_subscription,
    subscriptions_of,
)
from polycast.errors import NotDecodableError
from polycast.routing.recipients import decode_takers, encode_takers
from polycast.routing.translation import context_of_letter, letter_name
from polycast.stores import Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.server.authorization import Guard
    from polycast.broker.server.authorized_request import Asked, Rule
    from polycast.stores import Advert, Letter, OpenBus

__all__ = [
    "about_many",
    "about_one",
    "adverts",
    "buses",
    "changed",
    "count_letters",
    "document",
    "documents",
    "find",
    "held_back",
    "letters",
    "stretches",
]

_PAGE = 500  # dead letters that are looked at together
_FEW = 100  # names that are asked about one by one; where there are more, others' are passed over
_NOT_KNOWN = b"?"  # no takers: whoever reads it asks by himself


# -- subscriptions ---------------------------------------------------------------------------------


def about_one(nothing: Callable[[], Any]) -> Rule:
    """A question about one subscription: there is nothing of one that is not one's own."""
    return lambda asked: asked.do() if may_see(asked, asked.name) else nothing()


def about_many(name_of: Callable[[Any], str]) -> Rule:
    """A question about all subscriptions: only one's own are listed."""
    return lambda asked: [each for each in asked.do() if may_see(asked, name_of(each))]


def held_back(asked: Asked) -> dict[str, int]:
    """By the name of one's own subscriptions."""
    return {name: at for name, at in asked.do().items() if may_see(asked, name)}


def changed(asked: Asked) -> set[str] | None:
    """One's own; or None, to look at all of them, where it is not known whose they were."""
    found: set[str] | None = asked.do()
    if found is None or asked.guard.was_away(asked.given["since"], asked.view.revision()):
        return None
    mine = {name for name in found if may_see(asked, name)}
    view = asked.view
    for name in found - mine:
        if owner_of_subscription(view, name) is None and view.subscription(name) is None:
            return None
    return mine


def stretches(asked: Asked) -> list[Stretch]:
    """Who takes what, of one's own subscriptions."""
    found: list[Stretch] = asked.do()
    if not found:
        return found
    mine = {each.number for each in asked.view.routes() if may_see(asked, each.name)}
    return [_of_routes(each, mine) for each in found]


def _of_routes(stretch: Stretch, mine: set[int]) -> Stretch:
    if not stretch.takers:
        return stretch
    try:
        takers = decode_takers(stretch.low, stretch.takers)
    except NotDecodableError:
        return Stretch(stretch.low, stretch.high, _NOT_KNOWN)
    rows = [(at, [each for each in numbers if each in mine]) for at, numbers in takers]
    rows = [row for row in rows if row[1]]
    positions, numbers = [at for at, _ in rows], [row for _, row in rows]
    body = encode_takers(stretch.low, positions, numbers, takers.unsure & mine)
    return Stretch(stretch.low, stretch.high, body)


# -- dead letters ----------------------------------------------------------------------------------


def letters(asked: Asked) -> list[Letter]:
    """Those of one's own subscriptions, and of contexts, whose events one may receive."""
    wanted, after, limit = (asked.given[key] for key in ("subscription", "after", "limit"))
    names, most = _names(asked, wanted), _PAGE if limit is None else max(0, limit)
    page = min(most, _PAGE)
    if len(names) > _FEW:
        found = _letters_of(asked, None, after, page, frozenset(names))
    else:
        rows = [_letters_of(asked, each, after, page, frozenset(names)) for each in names]
        found = heapq.merge(*rows, key=attrgetter("number"))
    return list(found if limit is None else islice(found, most))


def _letters_of(
    asked: Asked, name: str | None, after: int, size: int, names: frozenset[str]
) -> Iterator[Letter]:
    """By number, those under one name, or under any of many, a page of them at a time."""
    more = size > 0
    while more:
        page = asked.view.letters(subscription=name, after=after, limit=size)
        for each in page:
            if each.subscription in names and asked.guard.may_receive(each.record):
                yield each
        more = len(page) == size
        after, size = page[-1].number if page else after, _PAGE


def count_letters(asked: Asked) -> int:
    """How many of one's own and of contexts; `letters` shows those whose events one may receive."""
    wanted = asked.given["subscription"]
    at = None if wanted is None else asked.given["at"]  # as a store does
    return sum(asked.view.count_letters(subscription=e, at=at) for e in _names(asked, wanted))


def _names(asked: Asked, wanted: str | None) -> list[str]:
    """Under which names there may be letters for a client, of those that it wants."""
    guard, view = asked.guard, asked.view
    if not guard.may_subscribe:
        return []
    if wanted is None:
        contexts = {letter_name(each.name) for each in view.contexts()}
        return [*subscriptions_of(view, guard.owner or ""), *sorted(contexts)]
    is_mine = guard.is_mine(owner_of_subscription(view, wanted))
    return [wanted] if is_mine or context_of_letter(wanted) is not None else []


# -- buses and adverts -----------------------------------------------------------------------------


def buses(asked: Asked) -> list[OpenBus]:
    """One's own."""
    return _mine(asked, asked.do())


def _mine(asked: Asked, found: list[OpenBus]) -> list[OpenBus]:
    guard, view, is_committed = asked.guard, asked.view, asked.is_committed
    owner = guard.publishers.owner
    return [
        each
        for each in found
        if guard.is_mine(owner(view, each.publisher, is_committed=is_committed))
    ]


def adverts(asked: Asked) -> list[Advert]:
    """One's own, and others' of types that one may receive."""
    mine = {each.id for each in _mine(asked, asked.view.buses())}
    found: list[Advert] = asked.do()
    return [each for each in found if each.bus in mine or _may_receive(asked.guard, each.what)]


def _may_receive(guard: Guard, what: str) -> bool:
    """Whether one may receive what an advert is about; where it filters, it is its owner's only."""
    text, topic = what.removeprefix("exactly "), None
    if " where " in text:
        return False
    if text.startswith("/"):
        text, topic = "", text
    elif " on " in text:
        text, _, topic = text.partition(" on ")
    names = [each for part in text.split(" | ") for each in part.split(" & ")]
    may_receive = guard.who.rights.may_receive
    return all(may_receive((name,), topic) for name in names)


# -- documents and the log -------------------------------------------------------------------------


def document(asked: Asked) -> bytes | None:
    """Those about the store, and about one's own subscriptions."""
    if asked.given["kind"] in SHARED:
        asked.guard.check_granted(asked.verb)
    elif not may_see(asked, subject_of(asked, asked.name)):
        return None
    found: bytes | None = asked.do()
    return found


def documents(asked: Asked) -> dict[str, bytes]:
    """The same, all of a kind."""
    if asked.given["kind"] in SHARED:
        asked.guard.check_granted(asked.verb)
        return dict(asked.do())
    subject_of(asked, "")  # raises for kinds that are for admins
    found = asked.do().items()
    return {name: body for name, body in found if may_see(asked, subject_of(asked, name))}


def find(asked: Asked) -> int | None:
    """Where an event is that is one's own, or that one may receive."""
    position: int | None = asked.do()
    guard, publisher = asked.guard, asked.given["identity"].publisher
    if position is None or guard.is_mine(owner_of_publisher(asked.view, publisher)):
        return position
    found = guard.store.read(position, limit=1, until=position + 1).entries
    return position if found and guard.may_receive(found[0].record) else None
