"""A question or a change that a client asks for, and the checks that many rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from polycast.broker.server.ownership import owner_of_publisher, owner_of_subscription
from polycast.delivery.replay import REPLAYED
from polycast.errors import BadFrameError, LimitReachedError
from polycast.matching import Definition
from polycast.stores.claims import OUTLIVING

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.access import Principal
    from polycast.broker.server.authorization import Authorization
    from polycast.stores import Transaction

    Rule = Callable[["AuthorizedRequest"], Any]
    from polycast.stores import OpenBus, View

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
    request.principal.check_subscribe((), None)
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
    return request.principal.may_subscribe and request.view.subscription(name) is not None


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


class BusListing:
    """What a transaction of one client sees, its own steps included."""

    def __init__(self) -> None:
        self._buses: dict[int, str] | None = None
        self._publishers: set[str] = set()
        self._adverts: dict[int, int] | None = None

    def begin(self) -> None:
        """Begin a transaction."""
        self._buses = self._adverts = None

    def buses(self, view: View) -> dict[int, str]:
        """The publishers of open buses, by bus."""
        if self._buses is None:
            self._buses = {bus.id: bus.publisher for bus in view.buses()}
            self._publishers = set(self._buses.values())
        return self._buses

    def has_publisher(self, view: View, publisher: str) -> bool:
        """Whether a bus of a publisher is open, or was removed in this transaction."""
        self.buses(view)
        return publisher in self._publishers

    def opened(self, view: View, bus: OpenBus) -> None:
        """Add a bus."""
        self.buses(view)[bus.id] = bus.publisher
        self._publishers.add(bus.publisher)

    def removed(self, view: View, bus: int) -> None:
        """Remove a bus."""
        self.buses(view).pop(bus, None)

    def adverts(self, view: View) -> dict[int, int]:
        """The buses of adverts, by advert."""
        if self._adverts is None:
            self._adverts = {advert.number: advert.bus for advert in view.adverts()}
        return self._adverts

    def advertised(self, view: View, number: int, bus: int) -> None:
        """Add an advert."""
        self.adverts(view)[number] = bus

    def withdrawn(self, view: View, number: int) -> None:
        """Remove an advert."""
        self.adverts(view).pop(number, None)
