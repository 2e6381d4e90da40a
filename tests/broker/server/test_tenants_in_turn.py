"""One step after the other, a tenant gets no nearer to what is another's than by any of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tenants import ARGUMENTS, OWNED, ROLES, THEIRS, Things, World, a_letter, definition_of, nothing

import polycast as pc
from polycast.broker.server.authorization import RULES
from polycast.broker.server.ownership import PUBLISHER, SUBSCRIPTION
from polycast.broker.server.query_rules import anybody
from polycast.broker.server.request_handler import WorkScope, take
from polycast.broker.wire.calls import ERRANDS, READS, STEPS
from polycast.broker.wire.protocol import Step
from polycast.delivery.replay import REPLAYED
from polycast.events import encode_record
from polycast.routing.translation import letter_name
from polycast.stores import (
    Advert,
    Flight,
    GroupMember,
    Letter,
    StoredSubscription,
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

VERBS = STEPS | ERRANDS
Mixed = Callable[[Things, Things], dict[str, Any]]


def flown(things: Things) -> list[Flight]:
    return [
        Flight(name, 60, "x", holder=things.bus) for name in (things.subscription, things.group)
    ]


def wanting(one: Things, other: Things) -> bytes:
    """What is another's, by a filter of one's own."""
    return definition_of(one.owner, other.described)


def lost(one: Things, other: Things) -> list[SettledClaim]:
    letter = Letter(0, other.subscription, 1, a_letter(one).record, "forged", 1, 0.0)
    return [SettledClaim(at, 7, None, done=True, letter=letter) for at in (one.position, 60)]


MIXED: dict[str, Mixed] = {
    "save": lambda a, b: {
        "kept": StoredSubscription(a.subscription, wanting(a, b), 1, 99, holder=b.bus)
    },
    "take_over": lambda a, b: {
        "kept": StoredSubscription(a.subscription, wanting(a, b), 1, 99, holder=b.bus)
    },
    "fly": lambda a, b: {"flights": [*flown(a), *flown(b)]},
    "join": lambda a, b: {"member": GroupMember(a.group, b.bus, 99)},
    "leave": lambda a, b: {"name": a.group, "bus": b.bus},
    "bury": lambda a, b: {"letters": [a_letter(a), a_letter(b)]},
    "exhume": lambda a, b: {"numbers": [a.letter, b.letter]},
    "advertise": lambda a, b: {"advert": Advert(0, b.bus, f"{a.owner}.Order")},
    "begin_route": lambda a, b: {"name": a.subscription, "definition": wanting(a, b)},
    "put_document": lambda a, b: {
        "kind": OUTLIVING,
        "name": outliving(a.subscription, b.position),
        "body": encode_record(a_letter(b).record),
    },
    "remove_document": lambda a, b: {
        "kind": OUTLIVING,
        "name": outliving(a.subscription, b.position),
    },
    "settle": lambda a, b: {"asked": SettleRequest(a.group, lost(a, b))},
    "take_claims": lambda a, b: {
        "asked": ClaimRequest(a.group, b.bus, "none", 9, lost(a, b), flown(a), False, [], 99, 0)
    },
}
ALSO: dict[str, Mixed] = {
    "bury": lambda a, b: {
        "letters": [Letter(0, letter_name(a.owner), 1, a_letter(b).record, "forged", 1, 0.0)]
    },
    "open_bus": lambda a, b: {
        "publisher": f"new-{a.owner}",
        "until": 9e11,
        "address": "",
        "process": 1,
    },
    "remove": lambda a, b: {"name": a.group},
    "move": lambda a, b: {"name": a.group, "token": 0, "cursor": 99},
}


def given_by(verb: str, way: int, one: Things, other: Things) -> dict[str, Any]:
    if way == 1 and verb in MIXED:
        return MIXED[verb](one, other)
    if way == 2 and verb in ALSO:
        return ALSO[verb](one, other)
    return ARGUMENTS.get(verb, nothing)(one)


def kept_of(view: View, things: Things) -> dict[str, object]:
    """All that belongs to an owner, as far as anybody goes by it."""
    names, publisher = (things.subscription, things.group), things.publisher
    outlived = view.documents(OUTLIVING).items()
    return {
        "subscriptions": [view.subscription(name) for name in names],
        "flights": [view.flights(name) for name in names],
        "members": [view.members(name) for name in names],
        "letters": [view.letters(subscription=name) for name in names],
        "routes": [view.route(name) for name in names],
        "replayed": [view.document(REPLAYED, name) for name in names],
        "outlived": {key: body for key, body in outlived if key.startswith(names)},
        "owners": [view.document(SUBSCRIPTION, name) for name in names],
        "owner": view.document(PUBLISHER, f"publisher/{publisher}"),
        "buses": [each for each in view.buses() if each.publisher == publisher],
        "adverts": [each for each in view.adverts() if each.bus == things.bus],
        "in groups": [each for each in view.members(things.group) if each.bus == things.bus],
        "context": view.context(f"context-of-{things.owner}"),
        "letters of contexts": [
            each
            for each in view.letters()
            if each.record.identity.publisher == publisher
            and each.subscription == letter_name(things.owner)
        ],
    }


Said = tuple[str, int, str, str]  # a step, in which way, about whose things, mixed with whose


def check(world: World, role: str, steps: list[Said], *, at_once: bool = False) -> None:
    """Have a tenant take some steps; what is the other's stays as it is, and unseen."""
    theirs = world.things[THEIRS]
    before = looked_at(world, theirs)
    said = [
        (verb, Step(verb, VERBS[verb].arguments(**given_by(verb, way, *two(world, *whose)))))
        for verb, way, *whose in steps
    ]
    task = WorkScope(role, 0.0, world.guards[role])
    for some in [said] if at_once else [[each] for each in said]:
        done = world.store.write(partial(taken, task, some))
        error = done.exception(5)
        assert error is None or isinstance(error, pc.AccessDeniedError | ValueError), error
        if error is None:
            assert not [each for each in done.result() if SECRET.search(each)]
    assert looked_at(world, theirs) == before


SECRET = re.compile(rb"secret of-theirs|host-of-theirs")
"""What nobody is shown of a subscription and a bus, whatever rights on events he has."""


def looked_at(world: World, things: Things) -> dict[str, object]:
    with world.store.view() as view:
        return kept_of(view, things)


def taken(task: WorkScope, some: list[tuple[str, Step]], tx: Transaction) -> list[bytes]:
    """The answers to the questions among some steps."""
    results = take(tx, [each for _, each in some], task)
    return [result for (verb, _), result in zip(some, results, strict=True) if verb in READS]


def two(world: World, one: str, other: str) -> tuple[Things, Things]:
    return world.things[one], world.things[other]


step = st.tuples(
    st.sampled_from(sorted(VERBS)),
    st.sampled_from((0, 1, 2)),
    st.sampled_from(OWNED),
    st.sampled_from(OWNED),
)


@settings(max_examples=150, deadline=None)
@given(
    role=st.sampled_from(sorted(ROLES.keys() - {"admin"})),
    steps=st.lists(step, min_size=1, max_size=12),
    at_once=st.booleans(),
)
def test_no_row_of_steps_shows_or_changes_what_is_anothers(
    role: str, steps: list[Said], at_once: bool
) -> None:
    world = World()
    check(world, role, steps, at_once=at_once)
    world.broker.close()


@pytest.mark.parametrize(
    "verb",
    [
        *(
            "save",
            "take_over",
            "remove",
            "move",
            "land",
            "land_before",
            "fly",
            "claim",
            "leave",
            "end_route",
        ),
        *("put_document", "remove_document", "begin_route", "settle", "take_claims", "exhume"),
        *("bury", "keep_bus", "remove_bus", "advertise", "withdraw", "put_context", "end_context"),
        *("join", "buses", "subscription", "subscriptions", "routes", "route"),
    ],
)
def test_a_rule_that_lets_everybody_is_found(verb: str) -> None:
    world = World({**RULES, verb: anybody})
    with pytest.raises(AssertionError):
        check(world, "tenant", [(verb, 0, THEIRS, THEIRS)])
    world.broker.close()
