"""What clients ask and change, as requests with their rights, and the rules for questions.

What another owner has is shown as if it did not exist.
"""

from __future__ import annotations

import heapq
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from polycast.broker.server.ownership import (
    owner_of_publisher,
    owner_of_subscription,
    subscriptions_of,
)
from polycast.delivery.replay import REPLAYED
from polycast.errors import BadFrameError, LimitReachedError, NotDecodableError
from polycast.matching import Definition
from polycast.routing.recipients import decode_recipients, encode_recipients
from polycast.routing.translation import context_of_letter, letter_name
from polycast.stores import Advert, Letter, OpenBus, Stretch, Transaction
from polycast.stores.claims import OUTLIVING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.server.access import Principal
    from polycast.broker.server.authorization import Authorization

    Rule = Callable[["AuthorizedRequest"], Any]

SHARED = frozenset({"retention", "pipeline"})
"""The kinds of documents that are about the whole store."""
LARGEST_DEFINITION = 1_000_000  # bytes of one subscription's definition


class AuthorizedRequest(NamedTuple):
    """What a client asks for, its rights, and how to perform it."""

    authorization: Authorization
    method: str
    view: Transaction
    """Or, for a question outside of a transaction, a view only."""
    given: dict[str, Any]
    perform: Callable[[], Any]
    """Asks the store, or changes it."""
    is_committed: bool
    """Whether the view shows committed state only."""

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.authorization.principal

    @property
    def name(self) -> str:
        """The name of the subscription or the context that it is about."""
        return str(self.given["name"])


def definition_of(data: bytes) -> Definition:
    """Decode a subscription's definition that a client has sent."""
    size = len(data)
    if size > LARGEST_DEFINITION:
        text = f"a definition of {size:,} bytes; {LARGEST_DEFINITION:,} are accepted"
        raise LimitReachedError("definition", text, {"limit": LARGEST_DEFINITION, "used": size})
    try:
        return Definition.decoded(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadFrameError("a definition", why=str(error)) from None


# -- by rights alone -------------------------------------------------------------------------------


def anybody(request: AuthorizedRequest) -> Any:
    """Allow every token."""
    return request.perform()


def granted(request: AuthorizedRequest) -> Any:
    """Allow every token with at least one grant: it is about what all clients share."""
    request.principal.check_granted(request.method)
    return request.perform()


def readers(request: AuthorizedRequest) -> Any:
    """Allow every token with a subscribe grant: rights are checked for each event of the result."""
    request.principal.check_subscribe(())
    return request.perform()


def admins(request: AuthorizedRequest) -> Any:
    """Allow admins only."""
    request.principal.check_admin(request.method, "the store")
    return request.perform()


# -- by owner --------------------------------------------------------------------------------------


def may_see(request: AuthorizedRequest, name: str) -> bool:
    """Whether the client owns a subscription, or it has no owner and the client may attach."""
    owner = owner_of_subscription(request.view, name)
    if owner is not None:
        return request.principal.owns(owner)
    return request.principal.rights.may_subscribe and request.view.subscription(name) is not None


def check_mine(request: AuthorizedRequest, name: str) -> None:
    """Raise `AccessDeniedError` for a subscription that the client does not own."""
    if not request.principal.owns(owner_of_subscription(request.view, name)):
        is_there = request.view.subscription(name) is not None
        left = "" if is_there else ", which has gone and left dead letters,"
        request.principal.refuse("use", f"the subscription {name!r}{left}")


def check_bus(request: AuthorizedRequest, bus: int) -> bool:
    """Whether a bus is open; raises `AccessDeniedError` if another client has opened it."""
    publisher = request.authorization.bus_listing.buses(request.view).get(bus)
    if publisher is None:
        return False
    if not request.principal.owns(owner_of_publisher(request.view, publisher)):
        request.principal.refuse("speak for", f"bus {bus}, which another client has opened")
    return True


def subject_of(request: AuthorizedRequest, name: str) -> str:
    """The subscription that a document is about; other documents are for admins only."""
    kind = request.given["kind"]
    if kind == REPLAYED:
        return name
    if kind == OUTLIVING:
        return name.rpartition("/")[0]
    request.principal.check_admin(request.method, f"of the kind {kind!r}")
    return name


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
    if not principal.rights.may_subscribe:
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
