"""Rules for changes: a client may change what its owner has; other changes are refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.broker.server.ownership import (
    owner_of_letter,
    owner_of_publisher,
    owner_of_subscription,
    set_publisher_owner,
    set_subscription_owner,
    size_of,
)
from polycast.broker.server.query_rules import (
    check_bus,
    check_mine,
    definition_of,
    granted,
    may_see,
    subject_of,
)
from polycast.delivery.replay import REPLAYED
from polycast.matching import Definition
from polycast.routing.translation import context_of_letter
from polycast.stores.claims import OUTLIVING
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.query_rules import AuthorizedRequest, Rule
    from polycast.stores import Letter, OpenBus, StoredRoute, StoredSubscription, Transaction

# -- subscriptions ---------------------------------------------------------------------------------


def _is_there(request: AuthorizedRequest, name: str) -> bool:
    """Whether a subscription exists; raises `AccessDeniedError` if the client does not own it."""
    authorization, kept = request.authorization, request.view.subscription(name)
    if kept is None:
        return False
    if not authorization.is_open:
        authorization.events.check_definition(Definition.decoded(kept.definition))
        check_mine(request, name)
    return True


def change(nothing: object) -> Rule:
    """A change of a subscription; of a removed one it does nothing, so that no traces are left."""
    return lambda request: request.perform() if _is_there(request, request.name) else nothing


def save(request: AuthorizedRequest) -> object:
    """Save a subscription; the first client to save one without an owner becomes its owner."""
    view, kept = request.view, request.given["kept"]
    before, owner = view.subscription(kept.name), owner_of_subscription(view, kept.name)
    if before is None and not view.count_letters(subscription=kept.name):
        owner = None  # the name is free again
    if not request.authorization.is_open:
        _check_definitions(request, before, kept)
        if owner is not None:
            check_mine(request, kept.name)
    if owner is None:
        _take_name(request, kept.name)
    if before is None:
        _clear(view, kept.name)
    return request.perform()


def _check_definitions(
    request: AuthorizedRequest, before: StoredSubscription | None, kept: StoredSubscription
) -> None:
    events = request.authorization.events
    if context_of_letter(kept.name) is not None:
        what = f"the name {kept.name!r}, under which the dead letters of a context are kept"
        request.principal.check_admin("use", what)
    events.check_definition(definition_of(kept.definition))
    if before is not None:
        events.check_definition(Definition.decoded(before.definition))


def _take_name(request: AuthorizedRequest, name: str) -> None:
    principal = request.principal
    if principal.owner is not None:
        request.authorization.usage.add_durable(request.view, principal, name)
        set_subscription_owner(request.view, name, principal.owner)


def _clear(tx: Transaction, name: str) -> None:
    """Remove what an earlier subscription has left under its name."""
    if tx.document(REPLAYED, name) is not None:
        tx.remove_document(REPLAYED, name)
    for document in tx.documents(OUTLIVING):
        if document.rpartition("/")[0] == name:
            tx.remove_document(OUTLIVING, document)


def remove(request: AuthorizedRequest) -> None:
    """Remove a subscription; without an owner, any client that may attach to it may remove it."""
    is_owned = owner_of_subscription(request.view, request.name) is not None
    if (not is_owned and may_see(request, request.name)) or _is_there(request, request.name):
        request.perform()


def fly(request: AuthorizedRequest) -> None:
    """Record deliveries in flight for its own subscriptions."""
    flights = request.given["flights"]
    there = {name for name in {flight.name for flight in flights} if _is_there(request, name)}
    request.view.fly([flight for flight in flights if flight.name in there])


def claim(request: AuthorizedRequest) -> bool:
    """Claim an event for one of its own groups."""
    return bool(_is_there(request, request.given["flight"].name) and request.perform())


def join(request: AuthorizedRequest) -> None:
    """Let one of its own buses join one of its own groups."""
    member = request.given["member"]
    if _is_there(request, member.name):
        check_bus(request, member.bus)
        request.perform()


def begin_route(request: AuthorizedRequest) -> StoredRoute:
    """Have the pipeline route a subscription; it knows public descriptions only."""
    authorization = request.authorization
    definition = definition_of(request.given["definition"])
    check_mine(request, request.name)
    authorization.events.check_definition(definition)
    for kind in definition.types:
        if kind.name not in STANDARD and not authorization.types.is_public(kind.hash):
            what = f"{kind.name} through the pipeline"
            authorization.types.refuse_undescribed("subscribe to", what, kind.name)
    route: StoredRoute = request.perform()
    return route


def replay(request: AuthorizedRequest) -> None:
    """Request a replay for a subscription by a document."""
    if _is_there(request, subject_of(request, request.name)):
        size = len(request.given.get("body", b""))
        request.authorization.usage.add_letters(request.view, request.principal, size)
        request.perform()


# -- dead letters ----------------------------------------------------------------------------------


def bury(request: AuthorizedRequest) -> Any:
    """Store dead letters of its own subscriptions, also of ones that the store does not know."""
    _take_letters(request, request.given["letters"])
    return request.perform()


def settle(request: AuthorizedRequest) -> Any:
    """Settle deliveries of a group member, and claim the next ones."""
    settling = request.given["asked"]
    if _is_there(request, settling.name):
        _take_letters(
            request, [settled.letter for settled in settling.settled if settled.letter is not None]
        )
    return request.perform()


def _take_letters(request: AuthorizedRequest, letters: Sequence[Letter]) -> None:
    authorization, size = request.authorization, 0
    for letter in letters:
        if not authorization.is_open:
            authorization.events.check_letter(letter.record)
        size += len(letter.reason) + size_of(letter.record)
        if context_of_letter(letter.subscription) is not None:
            _check_is_in_log(request, letter)
        else:
            _take_letter(request, letter.subscription)
    authorization.usage.add_letters(request.view, request.principal, size)


def _take_letter(request: AuthorizedRequest, name: str) -> None:
    is_free = owner_of_subscription(request.view, name) is None
    if is_free and request.view.subscription(name) is None:
        _take_name(request, name)
    elif not request.authorization.is_open:
        check_mine(request, name)


def _check_is_in_log(request: AuthorizedRequest, letter: Letter) -> None:
    """Dead letters of a context are for all its members: their events must have been published.

    A client might publish its own events again in any case.
    """
    authorization, record = request.authorization, letter.record
    if authorization.is_open:
        return
    entries = authorization.store.read(letter.position, limit=1, until=letter.position + 1).entries
    if entries and entries[0].record == record:
        return
    if not request.principal.owns(owner_of_publisher(request.view, record.identity.publisher)):
        request.principal.check_admin(
            "bury", f"what is not at position {letter.position} of the log"
        )
    authorization.events.check_record(record)


def exhume(request: AuthorizedRequest) -> Any:
    """Take out its own dead letters, as long as it may receive their events."""
    view, principal = request.view, request.principal
    for number in request.given["numbers"]:
        for letter in view.letters(after=number - 1, limit=1):
            if letter.number == number:
                if not principal.owns(owner_of_letter(view, letter)):
                    principal.refuse("take out", f"dead letter {number}")
                if not request.authorization.events.may_receive(letter.record):
                    principal.check_admin("take out", f"dead letter {number}")
    return request.perform()


# -- buses and adverts -----------------------------------------------------------------------------


def open_bus(request: AuthorizedRequest) -> OpenBus:
    """Open a bus: the first client to do so as a publisher owns it; it needs some grant."""
    authorization, view, principal = request.authorization, request.view, request.principal
    publisher = request.given["publisher"]
    principal.check_granted("open a bus")
    owner, bus_listing = owner_of_publisher(view, publisher), authorization.bus_listing
    is_taken = owner is not None or bus_listing.has_publisher(view, publisher)
    if is_taken and not principal.owns(owner) and not authorization.is_open:
        principal.refuse("open a bus as", f"the publisher {publisher!r}")
    authorization.usage.add(view, principal, "buses", lambda: len(_my_buses(request)))
    if owner is None and principal.owner is not None:
        set_publisher_owner(view, publisher, principal.owner)
    bus: OpenBus = request.perform()
    bus_listing.opened(view, bus)
    return bus


def _my_buses(request: AuthorizedRequest) -> set[int]:
    view, owns = request.view, request.principal.owns
    listed = request.authorization.bus_listing.buses(view)
    return {bus for bus, publisher in listed.items() if owns(owner_of_publisher(view, publisher))}


def of_bus(request: AuthorizedRequest) -> Any:
    """Change one of its own buses, or one that is gone."""
    bus = request.given["bus"]
    check_bus(request, bus)
    if request.method == "remove_bus":
        request.authorization.bus_listing.buses(request.view).pop(bus, None)
    return request.perform()


def advertise(request: AuthorizedRequest) -> int:
    """Advertise for one of its own buses; for one declared dead, nothing is stored."""
    authorization, view = request.authorization, request.view
    advert = request.given["advert"]
    if not check_bus(request, advert.bus):
        return 0
    count = partial(_count_my_adverts, request)
    authorization.usage.add(view, request.principal, "adverts", count)
    number = int(request.perform())
    authorization.bus_listing.adverts(view)[number] = advert.bus
    return number


def _count_my_adverts(request: AuthorizedRequest) -> int:
    mine, listing = _my_buses(request), request.authorization.bus_listing
    return sum(bus in mine for bus in listing.adverts(request.view).values())


def withdraw(request: AuthorizedRequest) -> None:
    """Withdraw an advert of one of its own buses."""
    adverts = request.authorization.bus_listing.adverts(request.view)
    bus = adverts.get(request.given["number"])
    if bus is not None:
        check_bus(request, bus)
        del adverts[request.given["number"]]
    request.perform()


# -- types and contexts ----------------------------------------------------------------------------


def describe(request: AuthorizedRequest) -> None:
    """Describe a type within a transaction, which makes it public."""
    types, description = request.authorization.types, request.given["description"]
    if not types.is_public(description.hash):
        what = f"the type {description.name}"
        if not types.may_describe(description):
            types.refuse_undescribed("describe", what, description.name)
        if not types.raises_nothing(description):
            types.refuse_raised("describe", what)
        types.check_quota([description])
    request.perform()


def put_context(request: AuthorizedRequest) -> Any:
    """Store a context; only admins may change one, but everybody may repeat it."""
    known = request.view.context(request.name)
    if known is None or known.body != request.given["body"]:
        request.principal.check_admin("change", f"the context {request.name!r}")
    return granted(request)
