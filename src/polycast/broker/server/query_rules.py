"""Rules for questions: what another owner has is shown as if it did not exist."""

from __future__ import annotations

import heapq
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from polycast.broker.server.authorized_request import SHARED, may_see, subject_of
from polycast.broker.server.ownership import (
    owner_of_publisher,
    owner_of_subscription,
    subscriptions_of,
)
from polycast.errors import NotDecodableError
from polycast.routing.recipients import decode_recipients, encode_recipients
from polycast.routing.translation import context_of_letter, letter_name
from polycast.stores import Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.server.access import Principal
    from polycast.broker.server.authorized_request import AuthorizedRequest, Rule
    from polycast.stores import Advert, Letter, OpenBus

_PAGE = 500  # dead letters read at a time
_FEW = 100  # names looked up one by one; for more, all letters are read and filtered
_NOT_KNOWN = b"?"  # no takers: the reader matches by itself


# -- subscriptions ---------------------------------------------------------------------------------


def about_one(nothing: Callable[[], Any]) -> Rule:
    """A question about one subscription; for others' there is nothing."""
    return lambda request: request.perform() if may_see(request, request.name) else nothing()


def about_many(name_of: Callable[[Any], str]) -> Rule:
    """A question about all subscriptions; only its own are listed."""
    return lambda request: [item for item in request.perform() if may_see(request, name_of(item))]


def held_back(request: AuthorizedRequest) -> dict[str, int]:
    """By the names of its own subscriptions."""
    return {name: at for name, at in request.perform().items() if may_see(request, name)}


def changed(request: AuthorizedRequest) -> set[str] | None:
    """Its own; or None, which means any, if a removed one may have been its own."""
    names: set[str] | None = request.perform()
    view, since = request.view, request.given["since"]
    if names is None or request.authorization.was_away(since, view.revision()):
        return None
    mine = {name for name in names if may_see(request, name)}
    for name in names - mine:
        if owner_of_subscription(view, name) is None and view.subscription(name) is None:
            return None
    return mine


def stretches(request: AuthorizedRequest) -> list[Stretch]:
    """Routed ranges, with its own subscriptions as takers."""
    listed: list[Stretch] = request.perform()
    if not listed:
        return listed
    mine = {stretch.number for stretch in request.view.routes() if may_see(request, stretch.name)}
    return [_of_routes(stretch, mine) for stretch in listed]


def _of_routes(stretch: Stretch, mine: set[int]) -> Stretch:
    if not stretch.takers:
        return stretch
    try:
        takers = decode_recipients(stretch.low, stretch.takers)
    except NotDecodableError:
        return Stretch(stretch.low, stretch.high, _NOT_KNOWN)
    rows = [(at, [number for number in numbers if number in mine]) for at, numbers in takers]
    rows = [row for row in rows if row[1]]
    positions, numbers = [at for at, _ in rows], [row for _, row in rows]
    body = encode_recipients(stretch.low, positions, numbers, takers.unsure & mine)
    return Stretch(stretch.low, stretch.high, body)


# -- dead letters ----------------------------------------------------------------------------------


def letters(request: AuthorizedRequest) -> list[Letter]:
    """Dead letters of its own subscriptions and of contexts, if it may receive their events."""
    wanted, after, limit = (request.given[key] for key in ("subscription", "after", "limit"))
    names, most = _names(request, wanted), _PAGE if limit is None else max(0, limit)
    page = min(most, _PAGE)
    if len(names) > _FEW:
        matching = _letters_of(request, None, after, page, frozenset(names))
    else:
        rows = [_letters_of(request, name, after, page, frozenset(names)) for name in names]
        matching = heapq.merge(*rows, key=attrgetter("number"))
    return list(matching if limit is None else islice(matching, most))


def _letters_of(
    request: AuthorizedRequest, name: str | None, after: int, size: int, names: frozenset[str]
) -> Iterator[Letter]:
    """Dead letters by number, of one name or of any of many; read in pages."""
    may_receive, more = request.authorization.events.may_receive, size > 0
    while more:
        page = request.view.letters(subscription=name, after=after, limit=size)
        for letter in page:
            if letter.subscription in names and may_receive(letter.record):
                yield letter
        more = len(page) == size
        after, size = page[-1].number if page else after, _PAGE


def count_letters(request: AuthorizedRequest) -> int:
    """How many of its own and of contexts; `letters` shows those that it may receive."""
    wanted = request.given["subscription"]
    at = None if wanted is None else request.given["at"]  # as a store does
    return sum(
        request.view.count_letters(subscription=name, at=at) for name in _names(request, wanted)
    )


def _names(request: AuthorizedRequest, wanted: str | None) -> list[str]:
    """The names under which there may be dead letters for a client."""
    principal, view = request.principal, request.view
    if not principal.may_subscribe:
        return []
    if wanted is None:
        contexts = {letter_name(context.name) for context in view.contexts()}
        return [*subscriptions_of(view, principal.owner or ""), *sorted(contexts)]
    is_mine = principal.owns(owner_of_subscription(view, wanted))
    return [wanted] if is_mine or context_of_letter(wanted) is not None else []


# -- buses and adverts -----------------------------------------------------------------------------


def buses(request: AuthorizedRequest) -> list[OpenBus]:
    """Its own buses."""
    return _mine(request, request.perform())


def _mine(request: AuthorizedRequest, listed: list[OpenBus]) -> list[OpenBus]:
    view, is_committed = request.view, request.is_committed
    owner, owns = request.authorization.publishers.owner, request.principal.owns
    return [bus for bus in listed if owns(owner(view, bus.publisher, is_committed=is_committed))]


def adverts(request: AuthorizedRequest) -> list[Advert]:
    """Its own adverts, and others' of types that it may receive."""
    mine = {advert.id for advert in _mine(request, request.view.buses())}
    listed: list[Advert] = request.perform()
    return [
        advert
        for advert in listed
        if advert.bus in mine or _may_receive(request.principal, advert.what)
    ]


def _may_receive(principal: Principal, what: str) -> bool:
    """Whether it may receive what an advert is about; one with a filter is for its owner only."""
    text, topic = what.removeprefix("exactly "), None
    if " where " in text:
        return False
    if text.startswith("/"):
        text, topic = "", text
    elif " on " in text:
        text, _, topic = text.partition(" on ")
    names = [name for part in text.split(" | ") for name in part.split(" & ")]
    may_receive = principal.rights.may_receive
    return all(may_receive((name,), topic) for name in names)


# -- documents and the log -------------------------------------------------------------------------


def document(request: AuthorizedRequest) -> bytes | None:
    """A document about the store, or about one of its own subscriptions."""
    if request.given["kind"] in SHARED:
        request.principal.check_granted(request.method)
    elif not may_see(request, subject_of(request, request.name)):
        return None
    body: bytes | None = request.perform()
    return body


def documents(request: AuthorizedRequest) -> dict[str, bytes]:
    """The same for all documents of a kind."""
    if request.given["kind"] in SHARED:
        request.principal.check_granted(request.method)
        return dict(request.perform())
    subject_of(request, "")  # raises `AccessDeniedError` for kinds that only admins may read
    bodies = request.perform().items()
    return {name: body for name, body in bodies if may_see(request, subject_of(request, name))}


def find(request: AuthorizedRequest) -> int | None:
    """The position of an event that it has published or may receive."""
    position: int | None = request.perform()
    authorization, publisher = request.authorization, request.given["identity"].publisher
    if position is None or request.principal.owns(owner_of_publisher(request.view, publisher)):
        return position
    entries = authorization.store.read(position, limit=1, until=position + 1).entries
    return position if entries and authorization.events.may_receive(entries[0].record) else None
