"""What one tenant may see and change of another's, for all that can be asked of a broker.

The model is the table `WANTED`: for each question and step, a function of three lines says what
comes of it, by who asks and whose thing it is about. All of them are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

import msgspec
import pytest
from tenants import (
    ARGUMENTS,
    MINE,
    NOBODYS,
    OWNED,
    ROLES,
    Things,
    World,
    nothing,
    rows,
    undone,
)

import polycast as pc
from polycast.broker.server.request_handler import WorkScope, take
from polycast.broker.wire.calls import ASKED, CALLS, ERRANDS, READ, READS, STEPS, RemoteMethod
from polycast.broker.wire.protocol import FromClient, Step, encode_result
from polycast.routing.recipients import decode_recipients
from polycast.stores import Stretch, Transaction


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    found = World()
    yield found
    found.broker.close()


# -- the model -------------------------------------------------------------------------------------

TOLD, REFUSED, NOTHING, DONE = "told", "refused", "nothing", "done"


@dataclass(frozen=True)
class Who:
    """Who asks."""

    role: str

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    def may(self, action: str, owner: str) -> bool:
        """By the grants alone."""
        grants = ROLES[self.role].get(action, [])
        return self.is_admin or f"{owner}.*" in grants or "*" in grants

    @property
    def may_subscribe(self) -> bool:
        return self.is_admin or "subscribe" in ROLES[self.role]

    @property
    def has_grants(self) -> bool:
        return bool(ROLES[self.role])


def anybody(who: Who, owner: str) -> str:
    return TOLD


def granted(who: Who, owner: str) -> str:
    return TOLD if who.has_grants else REFUSED


def admins(who: Who, owner: str) -> str:
    return TOLD if who.is_admin else REFUSED


def admins_change(who: Who, owner: str) -> str:
    return DONE if who.is_admin else REFUSED


def own_question(who: Who, owner: str) -> str:
    """One's own; and what is nobody's, since one may attach to it."""
    is_free = owner == NOBODYS and who.may_subscribe
    return TOLD if who.is_admin or owner == MINE or is_free else NOTHING


def own_bus_question(who: Who, owner: str) -> str:
    return TOLD if who.is_admin or owner == MINE else NOTHING


def advert_question(who: Who, owner: str) -> str:
    return TOLD if owner == MINE or who.may("subscribe", owner) else NOTHING


def letter_question(who: Who, owner: str) -> str:
    return TOLD if who.is_admin or (owner == MINE and who.may_subscribe) else NOTHING


def event_question(who: Who, owner: str) -> str:
    return TOLD if owner == MINE or who.may("subscribe", owner) else NOTHING


def log_question(who: Who, owner: str) -> str:
    if not who.may_subscribe:
        return REFUSED
    return TOLD if who.may("subscribe", owner) else NOTHING


def own_change(who: Who, owner: str) -> str:
    return DONE if who.is_admin or (owner == MINE and who.may_subscribe) else REFUSED


def attaching(who: Who, owner: str) -> str:
    may = owner in (MINE, NOBODYS) and who.may_subscribe
    return DONE if who.is_admin or may else REFUSED


def burying(who: Who, owner: str) -> str:
    may = who.may("subscribe", owner) or who.may("publish", owner)
    return DONE if who.is_admin or (owner == MINE and may) else REFUSED


def own_bus_change(who: Who, owner: str) -> str:
    return DONE if who.is_admin or owner == MINE else REFUSED


def opening(who: Who, owner: str) -> str:
    return own_bus_change(who, owner) if who.has_grants else REFUSED


def describing(who: Who, owner: str) -> str:
    return DONE if who.may("describe", owner) else REFUSED


WANTED: dict[str, Callable[[Who, str], str]] = {
    **dict.fromkeys(("identity", "newest", "oldest", "revision"), anybody),
    **dict.fromkeys(("descriptions", "types", "context", "contexts"), granted),
    **dict.fromkeys(("routed", "position_at", "size"), granted),
    **dict.fromkeys(("strays", "awaited", "in_effect", "last_turn", "turns"), admins),
    **dict.fromkeys(("subscription", "subscriptions", "lapsed", "changed"), own_question),
    **dict.fromkeys(("flights", "flight", "flights_at", "under_way", "free"), own_question),
    **dict.fromkeys(("members", "standing", "held_back", "route", "routes"), own_question),
    **dict.fromkeys(("document", "documents", "stretches"), own_question),
    **dict.fromkeys(("letters", "count_letters"), letter_question),
    "buses": own_bus_question,
    "adverts": advert_question,
    "read": log_question,
    "find": event_question,
    **dict.fromkeys(("save", "take_over", "remove"), attaching),
    **dict.fromkeys(("move", "land", "land_before", "fly", "claim"), own_change),
    **dict.fromkeys(("join", "leave", "begin_route", "end_route"), own_change),
    **dict.fromkeys(("put_document", "remove_document"), own_change),
    **dict.fromkeys(("settle", "take_claims", "exhume"), own_change),
    "bury": burying,
    "open_bus": opening,
    **dict.fromkeys(("keep_bus", "remove_bus"), own_bus_change),
    **dict.fromkeys(("advertise", "withdraw"), own_bus_change),
    "notices": anybody,
    "asked": anybody,  # about what one's own connection wants
    "describe": describing,
    **dict.fromkeys(("put_context", "end_context", "give_root"), admins_change),
    **dict.fromkeys(("take_routing", "drop_stretches"), admins_change),
    **dict.fromkeys(("forget_routes", "forget_contexts", "advance", "truncate"), admins),
}
MESSAGES = {"hello", "call", "append", "describe", "work", "want", "follow", "credit"}
"""What a client may say at all; `call` and `work` are all of the above."""


def test_everything_that_can_be_asked_is_in_the_model() -> None:
    assert CALLS.keys() | STEPS.keys() | ERRANDS.keys() == WANTED.keys()
    assert {each.__struct_config__.tag for each in get_args(FromClient)} == MESSAGES


# -- what comes of it ------------------------------------------------------------------------------


def answered(world: World, who: Who, verb: RemoteMethod, given: dict[str, Any]) -> Any:
    """What a question is answered, as a connection has it answered."""
    authorization = world.guards[who.role]
    if verb is READ:
        authorization.check_read(READ, given)
        entries = world.store.read(1).entries
        return [each for each in entries if authorization.events.may_receive(each.record)]
    if verb is ASKED:
        return encode_result(world.broker.fanout.plan.asked(cast("Any", object()), "a name"))
    return world.broker.asked(verb.name, given, authorization)


def stepped(
    world: World, who: Who, verb: RemoteMethod, given: dict[str, Any]
) -> tuple[bytes, bool]:
    """The result of a step, as the work of a client has it; and whether anything has changed."""
    step = Step(verb.name, verb.arguments(**given))

    def work(tx: Transaction) -> tuple[bytes, bool]:
        before = rows(tx)
        [result] = take(tx, [step], WorkScope(who.role, 0.0, world.guards[who.role]))
        return result, rows(tx) != before

    return undone(world, work)


def tells(world: World, verb: str, answer: Any, things: Things) -> bool:
    """Whether an answer shows what belongs to an owner."""
    data = answer if isinstance(answer, bytes) else encode_result(answer)
    if verb == "stretches":
        body = msgspec.msgpack.decode(data, type=list[Stretch])[0]
        return things.route in decode_recipients(1, body.takers).by_route()
    if verb == "count_letters":
        return int(msgspec.msgpack.decode(data)) > 0
    if verb == "find":
        return msgspec.msgpack.decode(data) == things.position
    mark = f"{things.owner}.Order" if verb == "adverts" else things.mark
    return mark.encode() in data


def is_about_owners(verb: str) -> bool:
    return WANTED[verb] not in (anybody, granted, admins, admins_change)


def given_for(world: World, verb: str, things: Things) -> dict[str, Any]:
    if verb == "changed":
        return {"since": world.before}
    return ARGUMENTS.get(verb, nothing)(things)


@pytest.mark.parametrize("owner", OWNED)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", sorted(CALLS))
def test_a_question_shows_what_the_model_says(
    world: World, verb: str, role: str, owner: str
) -> None:
    who, things = Who(role), world.things[owner]
    if verb == "truncate":
        outcome = refusal_of(lambda: world.guards[role].check_read(CALLS[verb], {"before": 0}))
        assert (outcome or TOLD) == WANTED[verb](who, owner)
        return
    given = {} if verb == READ.name else given_for(world, verb, things)
    try:
        answer = answered(world, who, CALLS[verb], given)
    except pc.AccessDeniedError:
        assert WANTED[verb](who, owner) == REFUSED
        return
    if not is_about_owners(verb):
        assert WANTED[verb](who, owner) == TOLD
        assert answer == answered(world, Who("admin"), CALLS[verb], given)
        return
    outcome = TOLD if tells(world, verb, answer, things) else NOTHING
    assert outcome == WANTED[verb](who, owner)


def refusal_of(work: Callable[[], object]) -> str:
    try:
        work()
    except pc.AccessDeniedError:
        return REFUSED
    return ""


@pytest.mark.parametrize("owner", OWNED)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", sorted(STEPS.keys() | ERRANDS.keys()))
def test_a_step_shows_and_changes_what_the_model_says(
    world: World, verb: str, role: str, owner: str
) -> None:
    who, things = Who(role), world.things[owner]
    given = given_for(world, verb, things)
    try:
        result, has_changed = stepped(world, who, (STEPS | ERRANDS)[verb], given)
    except pc.AccessDeniedError:
        assert WANTED[verb](who, owner) == REFUSED
        return
    if not is_about_owners(verb):
        assert WANTED[verb](who, owner) in (TOLD, DONE)
    elif verb in READS:
        outcome = TOLD if tells(world, verb, result, things) else NOTHING
        assert (outcome, has_changed) == (WANTED[verb](who, owner), False)
    else:
        assert (DONE if has_changed else NOTHING) == WANTED[verb](who, owner)


@pytest.mark.parametrize("role", [each for each in ROLES if each != "admin"])
@pytest.mark.parametrize("verb", sorted(STEPS.keys() - READS.keys() | ERRANDS.keys()))
def test_no_step_changes_what_belongs_to_another(world: World, verb: str, role: str) -> None:
    """Whatever the model says, and whatever the step is about."""
    step = (STEPS | ERRANDS)[verb]
    for things in world.things.values():
        given = given_for(world, verb, things)
        taking = partial(world.theirs_around, Step(verb, step.arguments(**given)), role)
        try:
            before, after = undone(world, taking)
        except pc.AccessDeniedError:
            continue
        assert before
        assert before == after
