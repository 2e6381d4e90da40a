"""A broker with the things of a tenant, of another, and of nobody; and what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from polycast.broker.server.access import Principal, Rights
from polycast.broker.server.authorization import RULES, Authorization
from polycast.broker.server.broker import Broker
from polycast.broker.server.ownership import (
    PUBLISHER,
    SUBSCRIPTION,
    PublisherOwners,
    set_publisher_owner,
    set_subscription_owner,
)
from polycast.broker.server.request_handler import WorkScope, take
from polycast.broker.wire.protocol import Step
from polycast.delivery.replay import REPLAYED
from polycast.events import Identity, Root, encode_record
from polycast.matching.interest import Definition, SelectedType
from polycast.routing.recipients import encode_recipients
from polycast.stores import (
    Advert,
    Draft,
    Flight,
    GroupMember,
    Letter,
    StoredSubscription,
    Stretch,
    Transaction,
    View,
)
from polycast.stores.claims import (
    OUTLIVING,
    ClaimRequest,
    SettledClaim,
    SettleRequest,
    outliving,
)
from polycast.typesystem import AttributeDescription, Description, TypeExpression
from polycast.typesystem import MemberDescription as Field

MINE, THEIRS, NOBODYS = "mine", "theirs", "nobodys"
OWNED = (MINE, THEIRS, NOBODYS)

# -- who asks: all of them belong to the owner `mine` ----------------------------------------------

ALL = {"publish": ["mine.*"], "subscribe": ["mine.*"], "describe": ["mine.*"]}
ROLES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "subscriber": {"subscribe": ["mine.*"]},
    "publisher": {"publish": ["mine.*"]},
    "describer": {"describe": ["mine.*"]},
    "tenant": ALL,
    "reader of all": {**ALL, "publish": ["*"], "subscribe": ["*"]},
    "admin": {"admin": True},
}
NUMBER = TypeExpression("class", "builtins.int")
LATER = 1e12


@dataclass(frozen=True)
class Things:
    """What belongs to one owner: it is told from others' by `mark`, wherever it is shown."""

    owner: str
    bus: int
    advert: int
    letter: int
    route: int
    position: int
    described: Description

    @property
    def mark(self) -> str:
        return f"of-{self.owner}"

    @property
    def subscription(self) -> str:
        return f"orders-of-{self.owner}"

    @property
    def group(self) -> str:
        return f"group:of-{self.owner}"

    @property
    def publisher(self) -> str:
        return f"publisher-of-{self.owner}"

    @property
    def definition(self) -> bytes:
        return definition_of(self.owner, self.described)


def described(owner: str, name: str = "Order") -> Description:
    return Description(
        f"{owner}.{name}",
        attributes=(AttributeDescription("amount", NUMBER),),
        members=(Field("amount", "field", NUMBER),),
    )


def definition_of(owner: str, description: Description) -> bytes:
    one = SelectedType(description.name, description.version, description.hash)
    where = f"amount > 'secret of-{owner}'"
    return Definition(description.name, "RELIABLE", types=(one,), where=where).encoded()


def draft(owner: str, description: Description, number: int = 1) -> Draft:
    identity = Identity(f"publisher-of-{owner}", 1, number)
    name, version, digest = description.name, description.version, description.hash
    return Draft(name, version, digest, identity, "json", b'{"amount": 1}')


class World:
    """A broker with a tenant, another, and what was there before anybody had a token."""

    def __init__(self, rules: Mapping[str, Any] = RULES) -> None:
        self.broker = Broker()
        self._rules = rules
        self.things = {owner: self._furnish(owner) for owner in OWNED}
        self.store = self.broker.store
        self.store.write(self._route).result(5)
        self.guards = {role: self._guard(role, rights) for role, rights in ROLES.items()}
        with self.store.view() as view:
            self.before = view.revision()
            self.broker.type_catalog.learn(view)
        for authorization in self.guards.values():  # it is here when what comes next is changed
            self.broker.asked("changed", {"since": self.before}, authorization)
        self.store.write(self._save_again).result(5)

    def _guard(self, role: str, rights: dict[str, Any]) -> Any:
        who, broker = Principal(role, Rights.of(**rights), owner=MINE), self.broker
        about = (broker.type_catalog, broker.store, lambda name: None)
        options = {"usage": broker.usage, "publishers": PublisherOwners(), "rules": self._rules}
        return Authorization(who, *about, **options)

    def _furnish(self, owner: str) -> Things:
        description = described(owner)
        self.broker.store.describe([description]).result(5)
        [position] = self.broker.store.append([draft(owner, description)])
        record = draft(owner, description).at(0.0)
        kept = definition_of(owner, description)

        def furnish(tx: Transaction) -> Things:
            bus = tx.open_bus(
                f"publisher-of-{owner}", until=LATER, address=f"host-of-{owner}", process=424242
            )
            things = Things(owner, bus.id, 0, 0, 0, position, description)
            for name, group in ((things.subscription, False), (things.group, True)):
                tx.save(
                    StoredSubscription(name, kept, 1, 1, durable=True, group=group, lease=LATER)
                )
                if owner != NOBODYS:
                    set_subscription_owner(tx, name, owner)
            if owner != NOBODYS:
                set_publisher_owner(tx, things.publisher, owner)
            tx.join(GroupMember(things.group, bus.id, 1))
            for name in (things.subscription, things.group):
                done = Flight(name, 40, things.publisher, done=True)
                tx.fly([Flight(name, position, things.publisher, token=7), done])
            letter = Letter(0, things.subscription, position, record, f"why {things.mark}", 1, 0.0)
            tx.bury([letter])
            number = tx.letters(subscription=things.subscription)[-1].number
            advert = tx.advertise(Advert(0, bus.id, f"{owner}.Order"))
            tx.put_document(REPLAYED, things.subscription, things.mark.encode())
            body = encode_record(record)
            tx.put_document(OUTLIVING, outliving(things.subscription, position), body)
            tx.put_context(f"context-of-{owner}", things.mark.encode())
            route = tx.begin_route(things.subscription, kept)
            return Things(owner, bus.id, advert, number, route.number, position, description)

        return self.broker.store.write(furnish).result(5)

    def _route(self, tx: Transaction) -> None:
        """The pipeline has found that each event goes to its owner's subscription."""
        token = tx.take_routing().token
        rows = sorted((each.position, [each.route]) for each in self.things.values())
        body = encode_recipients(1, [at for at, _ in rows], [takers for _, takers in rows])
        assert tx.advance([Stretch(1, 4, body)], token=token)

    def theirs_around(self, step: Step, role: str, tx: Transaction) -> tuple[list[str], list[str]]:
        """What belongs to the other tenant before and after a step."""
        before = marked(rows(tx), THEIRS)
        take(tx, [step], WorkScope(role, 0.0, self.guards[role]))
        return before, marked(rows(tx), THEIRS)

    def _save_again(self, tx: Transaction) -> None:
        for things in self.things.values():
            kept = tx.subscription(things.subscription)
            assert kept is not None
            tx.save(kept)


# -- what is asked ---------------------------------------------------------------------------------

Arguments = Callable[[Things], dict[str, Any]]


def by_name(things: Things) -> dict[str, Any]:
    return {"name": things.subscription}


def nothing(things: Things) -> dict[str, Any]:
    del things
    return {}


def a_letter(things: Things) -> Letter:
    record = draft(things.owner, things.described, 9).at(0.0)
    return Letter(0, things.subscription, things.position, record, "forged", 1, 0.0)


def another(things: Things) -> Description:
    return described(things.owner, "Another")


def settled(things: Things) -> list[SettledClaim]:
    return [SettledClaim(things.position, 7, None, done=True)]


ARGUMENTS: dict[str, Arguments] = {
    "changed": lambda t: {"since": 0},  # filled in by the world
    "descriptions": lambda t: {"after": 0},
    "lapsed": lambda t: {"at": LATER + 1},
    "flight": lambda t: {"name": t.subscription, "position": t.position},
    "flights_at": lambda t: {"name": t.subscription, "positions": [t.position]},
    "free": lambda t: {"name": t.group, "at": LATER, "limit": 9},
    "members": lambda t: {"name": t.group},
    "standing": lambda t: {"name": t.group, "at": LATER, "limit": 9},
    "letters": lambda t: {"subscription": None, "after": 0, "limit": None},
    "count_letters": lambda t: {"subscription": t.subscription, "at": None},
    "document": lambda t: {"kind": REPLAYED, "name": t.subscription},
    "documents": lambda t: {"kind": REPLAYED},
    "routes": lambda t: {"at": None},
    "context": lambda t: {"name": f"context-of-{t.owner}"},
    "contexts": lambda t: {"at": None},
    "in_effect": lambda t: {"position": 1},
    "last_turn": lambda t: {"position": 1},
    "turns": lambda t: {"low": 0, "high": 9},
    "stretches": lambda t: {"start": 1, "limit": 9},
    "position_at": lambda t: {"moment": 0.0},
    "find": lambda t: {"identity": Identity(t.publisher, 1, 1)},
    "truncate": lambda t: {"before": 2},
    "describe": lambda t: {"description": another(t)},
    "open_bus": lambda t: {
        "publisher": t.publisher,
        "until": LATER,
        "address": "",
        "process": 1,
    },
    "keep_bus": lambda t: {"bus": t.bus, "until": 1.0},
    "remove_bus": lambda t: {"bus": t.bus},
    "save": lambda t: {"kept": StoredSubscription(t.subscription, t.definition, 1, 99)},
    "take_over": lambda t: {"kept": StoredSubscription(t.subscription, t.definition, 1, 99)},
    "move": lambda t: {"name": t.subscription, "token": 0, "cursor": 99},
    "fly": lambda t: {"flights": [Flight(t.subscription, 50, "x")]},
    "claim": lambda t: {"flight": Flight(t.subscription, 50, "x")},
    "land": lambda t: {"name": t.subscription, "positions": [t.position]},
    "land_before": lambda t: {"name": t.subscription, "position": 99},
    "join": lambda t: {"member": GroupMember(t.group, t.bus, 99)},
    "leave": lambda t: {"name": t.group, "bus": t.bus},
    "bury": lambda t: {"letters": [a_letter(t)]},
    "exhume": lambda t: {"numbers": [t.letter]},
    "advertise": lambda t: {"advert": Advert(0, t.bus, "x")},
    "withdraw": lambda t: {"number": t.advert},
    "put_document": lambda t: {"kind": REPLAYED, "name": t.subscription, "body": b"forged"},
    "remove_document": lambda t: {"kind": REPLAYED, "name": t.subscription},
    "begin_route": lambda t: {"name": t.subscription, "definition": t.definition},
    "forget_routes": lambda t: {"before": 99},
    "put_context": lambda t: {"name": f"context-of-{t.owner}", "body": b"forged"},
    "end_context": lambda t: {"name": f"context-of-{t.owner}"},
    "forget_contexts": lambda t: {"before": 99},
    "give_root": lambda t: {"position": t.position, "root": Root("x", 1, "y", b"")},
    "advance": lambda t: {"stretches": [Stretch(4, 4, b"")], "token": 1},
    "drop_stretches": lambda t: {"before": 99},
    "settle": lambda t: {"asked": SettleRequest(t.group, settled(t))},
    "take_claims": lambda t: {
        "asked": ClaimRequest(t.group, t.bus, "none", 9, settled(t), [], False, [], 99, 0)
    },
    **dict.fromkeys(("subscription", "flights", "under_way", "route", "remove"), by_name),
    "end_route": by_name,
}


# -- what is there ---------------------------------------------------------------------------------


class _Undo(Exception):
    """Of what was tried, nothing is kept."""


def rows(view: View) -> list[str]:
    """All that is in the state, each with the mark of its owner, if it has one."""
    names = [each.name for each in view.subscriptions()]
    found: list[Any] = [*view.buses(), *view.subscriptions(), *view.letters(), *view.adverts()]
    found += [*view.routes(), *view.contexts(), view.routed(), *view.stretches(0, limit=99)]
    for name in names:
        found += [*view.flights(name), *view.members(name)]
    for kind in (PUBLISHER, SUBSCRIPTION, REPLAYED, OUTLIVING, "retention"):
        found += view.documents(kind).items()
    found += [each.name for each in view.descriptions()]
    return sorted(map(repr, found))


def undone(world: World, work: Callable[[Transaction], Any]) -> Any:
    """The result of some work, of which nothing is kept."""
    found: list[Any] = []

    def undo(tx: Transaction) -> None:
        found.append(work(tx))
        raise _Undo

    with pytest.raises(_Undo):
        world.store.write(undo).result(5)
    return found[0]


def marked(found: list[str], owner: str) -> list[str]:
    return [each for each in found if f"of-{owner}" in each or f"{owner}.Order" in each]
