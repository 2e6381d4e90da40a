"""What a client may change: what is its owner's; a change of what is another's is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.broker.server.authorized_request import (
    check_bus,
    check_mine,
    definition_of,
    granted,
    may_see,
    subject_of,
)
from polycast.broker.server.publisher_owners import (
    give_publisher,
    give_subscription,
    owner_of_letter,
    owner_of_publisher,
    owner_of_subscription,
)
from polycast.broker.server.usage import size_of
from polycast.delivery.replay import REPLAYED
from polycast.matching import Definition
from polycast.routing.translation import context_of_letter
from polycast.stores.claims import OUTLIVING
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.broker.server.authorized_request import Asked, Rule
    from polycast.stores import Letter, OpenBus, StoredRoute, StoredSubscription, Transaction

__all__ = [
    "advertise",
    "begin_route",
    "bury",
    "change",
    "claim",
    "describe",
    "exhume",
    "fly",
    "join",
    "of_bus",
    "open_bus",
    "put_context",
    "remove",
    "replay",
    "save",
    "settle",
    "withdraw",
]

# -- subscriptions ---------------------------------------------------------------------------------


def _is_there(asked: Asked, name: str) -> bool:
    """Whether there is something to change; `AccessDeniedError` if it is not one's own."""
    guard, kept = asked.guard, asked.view.subscription(name)
    if kept is None:
        return False
    if not guard.is_open:
        guard.check_definition(Definition.decoded(kept.definition))
        check_mine(asked, name)
    return True


def change(nothing: object) -> Rule:
    """To change what is gone does nothing: whoever takes the name next finds nothing there."""
    return lambda asked: asked.do() if _is_there(asked, asked.name) else nothing


def save(asked: Asked) -> object:
    """A subscription belongs to who makes it, or attaches to it where it has no owner."""
    guard, view, kept = asked.guard, asked.view, asked.given["kept"]
    before, owner = view.subscription(kept.name), owner_of_subscription(view, kept.name)
    if before is None and not view.count_letters(subscription=kept.name):
        owner = None  # nothing is left of it
    if not guard.is_open:
        _check_definitions(asked, before, kept)
        if owner is not None:
            check_mine(asked, kept.name)
    if owner is None:
        _take_name(asked, kept.name)
    if before is None:
        _clear(view, kept.name)
    return asked.do()


def _check_definitions(
    asked: Asked, before: StoredSubscription | None, kept: StoredSubscription
) -> None:
    guard = asked.guard
    if context_of_letter(kept.name) is not None:
        what = f"the name {kept.name!r}, under which the dead letters of a context are kept"
        guard.who.check_admin("use", what)
    guard.check_definition(definition_of(kept.definition))
    if before is not None:
        guard.check_definition(Definition.decoded(before.definition))


def _take_name(asked: Asked, name: str) -> None:
    guard = asked.guard
    if guard.owner is not None:
        guard.usage.add_durable(asked.view, guard.who, name)
        give_subscription(asked.view, name, guard.owner)


def _clear(tx: Transaction, name: str) -> None:
    """A new subscription finds nothing that somebody has left under its name."""
    if tx.document(REPLAYED, name) is not None:
        tx.remove_document(REPLAYED, name)
    for each in tx.documents(OUTLIVING):
        if each.rpartition("/")[0] == name:
            tx.remove_document(OUTLIVING, each)


def remove(asked: Asked) -> None:
    """Nobody's, too, by who may attach to it: it may be over."""
    is_owned = owner_of_subscription(asked.view, asked.name) is not None
    if (not is_owned and may_see(asked, asked.name)) or _is_there(asked, asked.name):
        asked.do()


def fly(asked: Asked) -> None:
    """What is in flight for one's own subscriptions."""
    flights = asked.given["flights"]
    there = {name for name in {each.name for each in flights} if _is_there(asked, name)}
    asked.view.fly([each for each in flights if each.name in there])


def claim(asked: Asked) -> bool:
    """The same, if nobody has it yet."""
    return bool(_is_there(asked, asked.given["flight"].name) and asked.do())


def join(asked: Asked) -> None:
    """A bus of one's own in a group of one's own."""
    member = asked.given["member"]
    if _is_there(asked, member.name):
        check_bus(asked, member.bus)
        asked.do()


def begin_route(asked: Asked) -> StoredRoute:
    """The pipeline goes by what all go by; what is private to a subscription it cannot see."""
    guard, definition = asked.guard, definition_of(asked.given["definition"])
    check_mine(asked, asked.name)
    guard.check_definition(definition)
    for each in definition.types:
        if each.name not in STANDARD and not guard.is_public(each.hash):
            what = f"{each.name} through the pipeline"
            guard.refuse_undescribed("subscribe to", what, each.name)
    route: StoredRoute = asked.do()
    return route


def replay(asked: Asked) -> None:
    """A document by which a subscription learns what it is to have once more."""
    if _is_there(asked, subject_of(asked, asked.name)):
        size = len(asked.given.get("body", b""))
        asked.guard.usage.add_letters(asked.view, asked.guard.who, size)
        asked.do()


# -- dead letters ----------------------------------------------------------------------------------


def bury(asked: Asked) -> Any:
    """Letters of one's own subscriptions, also of those that no store knows."""
    _take_letters(asked, asked.given["letters"])
    return asked.do()


def settle(asked: Asked) -> Any:
    """What a member of a group has done, and what it would have next."""
    told = asked.given["asked"]
    if _is_there(asked, told.name):
        _take_letters(asked, [each.letter for each in told.settled if each.letter is not None])
    return asked.do()


def _take_letters(asked: Asked, letters: Sequence[Letter]) -> None:
    guard, size = asked.guard, 0
    for letter in letters:
        if not guard.is_open:
            guard.check_letter(letter.record)
        size += len(letter.reason) + size_of(letter.record)
        if context_of_letter(letter.subscription) is not None:
            _check_is_in_log(asked, letter)
        else:
            _take_letter(asked, letter.subscription)
    guard.usage.add_letters(asked.view, guard.who, size)


def _take_letter(asked: Asked, name: str) -> None:
    is_free = owner_of_subscription(asked.view, name) is None
    if is_free and asked.view.subscription(name) is None:
        _take_name(asked, name)
    elif not asked.guard.is_open:
        check_mine(asked, name)


def _check_is_in_log(asked: Asked, letter: Letter) -> None:
    """The letters of a context are for all in it: they are of events that were published.

    Its own it might publish again in any case.
    """
    guard, record = asked.guard, letter.record
    if guard.is_open:
        return
    found = guard.store.read(letter.position, limit=1, until=letter.position + 1).entries
    if found and found[0].record == record:
        return
    if not guard.is_mine(owner_of_publisher(asked.view, record.identity.publisher)):
        guard.who.check_admin("bury", f"what is not at position {letter.position} of the log")
    guard.check_record(record)


def exhume(asked: Asked) -> Any:
    """One's own, as long as one may receive their events."""
    guard, view = asked.guard, asked.view
    for number in asked.given["numbers"]:
        for letter in view.letters(after=number - 1, limit=1):
            if letter.number == number:
                if not guard.is_mine(owner_of_letter(view, letter)):
                    guard.refuse("take out", f"dead letter {number}")
                if not guard.may_receive(letter.record):
                    guard.who.check_admin("take out", f"dead letter {number}")
    return asked.do()


# -- buses and adverts -----------------------------------------------------------------------------


def open_bus(asked: Asked) -> OpenBus:
    """A publisher belongs to who opens a bus as it first; who may do nothing opens none."""
    guard, view, publisher = asked.guard, asked.view, asked.given["publisher"]
    guard.check_granted("open a bus")
    owner, register = owner_of_publisher(view, publisher), guard.register
    is_taken = owner is not None or register.has_publisher(view, publisher)
    if is_taken and not guard.is_mine(owner) and not guard.is_open:
        guard.refuse("open a bus as", f"the publisher {publisher!r}")
    guard.usage.add(view, guard.who, "buses", lambda: len(_my_buses(asked)))
    if owner is None and guard.owner is not None:
        give_publisher(view, publisher, guard.owner)
    bus: OpenBus = asked.do()
    register.opened(view, bus)
    return bus


def _my_buses(asked: Asked) -> set[int]:
    guard, view = asked.guard, asked.view
    listed = guard.register.buses(view)
    return {bus for bus, each in listed.items() if guard.is_mine(owner_of_publisher(view, each))}


def of_bus(asked: Asked) -> Any:
    """A bus of one's own, or one that is gone."""
    bus = asked.given["bus"]
    check_bus(asked, bus)
    if asked.verb == "remove_bus":
        asked.guard.register.removed(asked.view, bus)
    return asked.do()


def advertise(asked: Asked) -> int:
    """For a bus that has counted as dead, nothing is kept."""
    guard, view, advert = asked.guard, asked.view, asked.given["advert"]
    if not check_bus(asked, advert.bus):
        return 0
    guard.usage.add(view, guard.who, "adverts", lambda: _count_my_adverts(asked))
    number = int(asked.do())
    guard.register.advertised(view, number, advert.bus)
    return number


def _count_my_adverts(asked: Asked) -> int:
    mine = _my_buses(asked)
    return sum(bus in mine for bus in asked.guard.register.adverts(asked.view).values())


def withdraw(asked: Asked) -> None:
    """An advert of a bus of one's own."""
    guard, number = asked.guard, asked.given["number"]
    bus = guard.register.adverts(asked.view).get(number)
    if bus is not None:
        check_bus(asked, bus)
    guard.register.withdrawn(asked.view, number)
    asked.do()


# -- types and contexts ----------------------------------------------------------------------------


def describe(asked: Asked) -> None:
    """In a transaction, where nothing is private: it is known, or one may say it."""
    guard, description = asked.guard, asked.given["description"]
    if not guard.is_public(description.hash):
        what = f"the type {description.name}"
        if not guard.may_describe(description):
            guard.refuse_undescribed("describe", what, description.name)
        if not guard.raises_nothing(description):
            guard.refuse_raised("describe", what)
        guard.check_types([description])
    asked.do()


def put_context(asked: Asked) -> Any:
    """To say again what a context is changes nothing."""
    known = asked.view.context(asked.name)
    if known is None or known.body != asked.given["body"]:
        asked.guard.who.check_admin("change", f"the context {asked.name!r}")
    return granted(asked)
