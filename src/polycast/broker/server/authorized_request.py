"""A question or a change that a client asks for, and the rights that many of them go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from polycast.broker.server.publisher_owners import owner_of_publisher, owner_of_subscription
from polycast.delivery.replay import REPLAYED
from polycast.errors import BadFrameError, LimitReachedError
from polycast.matching import Definition
from polycast.stores.claims import OUTLIVING

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.authorization import Guard
    from polycast.stores import Transaction

    Rule = Callable[["Asked"], Any]

__all__ = [
    "SHARED",
    "Asked",
    "admins",
    "anybody",
    "check_bus",
    "check_mine",
    "definition_of",
    "granted",
    "may_see",
    "readers",
    "subject_of",
]

SHARED = frozenset({"retention", "pipeline"})
"""The kinds of documents that are about the whole store."""
LARGEST_DEFINITION = 1_000_000  # bytes of what one subscription wants


class Asked(NamedTuple):
    """What is asked for, by whom, and how it is done."""

    guard: Guard
    verb: str
    view: Transaction
    """Or, for a question outside of a transaction, a view only."""
    given: dict[str, Any]
    do: Callable[[], Any]
    """Asks the store, or changes it."""
    is_committed: bool
    """Whether what the view shows is there for good."""

    @property
    def name(self) -> str:
        """That of the subscription or the context that it is about."""
        return str(self.given["name"])


def definition_of(data: bytes) -> Definition:
    """What a client says that a subscription wants."""
    size = len(data)
    if size > LARGEST_DEFINITION:
        text = f"a definition of {size:,} bytes; {LARGEST_DEFINITION:,} are accepted"
        raise LimitReachedError("definition", text, {"limit": LARGEST_DEFINITION, "used": size})
    try:
        return Definition.decoded(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadFrameError("a definition", why=str(error)) from None


# -- by rights alone -------------------------------------------------------------------------------


def anybody(asked: Asked) -> Any:
    """Whoever has a token."""
    return asked.do()


def granted(asked: Asked) -> Any:
    """Whoever has any grant: it is about what all have in common."""
    asked.guard.check_granted(asked.verb)
    return asked.do()


def readers(asked: Asked) -> Any:
    """Whoever may receive anything: what is found is judged event by event."""
    asked.guard.who.check_subscribe((), None)
    return asked.do()


def admins(asked: Asked) -> Any:
    """Admins only."""
    asked.guard.who.check_admin(asked.verb, "the store")
    return asked.do()


# -- by owner --------------------------------------------------------------------------------------


def may_see(asked: Asked, name: str) -> bool:
    """Whether a subscription is one's own, or nobody's and one may attach to it."""
    guard, owner = asked.guard, owner_of_subscription(asked.view, name)
    if owner is not None:
        return guard.is_mine(owner)
    return guard.may_subscribe and asked.view.subscription(name) is not None


def check_mine(asked: Asked, name: str) -> None:
    """Raises `AccessDeniedError` for a subscription that is not one's own."""
    if not asked.guard.is_mine(owner_of_subscription(asked.view, name)):
        is_there = asked.view.subscription(name) is not None
        left = "" if is_there else ", which has gone and left dead letters,"
        asked.guard.refuse("use", f"the subscription {name!r}{left}")


def check_bus(asked: Asked, bus: int) -> bool:
    """Whether a bus is there; `AccessDeniedError` if it is another's."""
    publisher = asked.guard.register.buses(asked.view).get(bus)
    if publisher is None:
        return False
    if not asked.guard.is_mine(owner_of_publisher(asked.view, publisher)):
        asked.guard.refuse("speak for", f"bus {bus}, which another client has opened")
    return True


def subject_of(asked: Asked, name: str) -> str:
    """The subscription that a document is about; what is about none is for admins only."""
    kind = asked.given["kind"]
    if kind == REPLAYED:
        return name
    if kind == OUTLIVING:
        return name.rpartition("/")[0]
    asked.guard.who.check_admin(asked.verb, f"of the kind {kind!r}")
    return name
