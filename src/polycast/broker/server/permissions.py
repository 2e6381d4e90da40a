"""Which rule applies to each question and each step; others are for admins only."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from polycast.broker.server import change_rules as changes
from polycast.broker.server import query_rules as questions
from polycast.broker.server.authorized_request import admins, anybody, granted, readers
from polycast.stores import Standing

if TYPE_CHECKING:
    from polycast.broker.server.authorized_request import Rule

__all__ = ["RULES"]


RULES: dict[str, Rule] = {
    # about the store
    **dict.fromkeys(("identity", "newest", "oldest", "revision"), anybody),
    **dict.fromkeys(("descriptions", "types", "context", "contexts"), granted),
    **dict.fromkeys(("routed", "position_at", "size"), granted),
    **dict.fromkeys(("strays", "awaited", "in_effect", "last_turn", "turns"), admins),
    "read": readers,
    "find": questions.find,
    # about subscriptions
    **dict.fromkeys(("subscription", "route", "flight"), questions.about_one(lambda: None)),
    **dict.fromkeys(("flights", "flights_at", "under_way"), questions.about_one(list)),
    **dict.fromkeys(("free", "members"), questions.about_one(list)),
    "standing": questions.about_one(lambda: Standing([], [], [])),
    **dict.fromkeys(("subscriptions", "routes"), questions.about_many(attrgetter("name"))),
    "lapsed": questions.about_many(str),
    "held_back": questions.held_back,
    "changed": questions.changed,
    "stretches": questions.stretches,
    # about what goes with them
    "letters": questions.letters,
    "count_letters": questions.count_letters,
    "buses": questions.buses,
    "adverts": questions.adverts,
    "document": questions.document,
    "documents": questions.documents,
    # changes of subscriptions
    **dict.fromkeys(("save", "take_over"), changes.save),
    "remove": changes.remove,
    "move": changes.change(nothing=False),
    **dict.fromkeys(("land", "land_before", "leave", "end_route"), changes.change(nothing=None)),
    "fly": changes.fly,
    "claim": changes.claim,
    "join": changes.join,
    "begin_route": changes.begin_route,
    **dict.fromkeys(("put_document", "remove_document"), changes.replay),
    **dict.fromkeys(("settle", "take_claims"), changes.settle),
    "bury": changes.bury,
    "exhume": changes.exhume,
    # other changes
    "open_bus": changes.open_bus,
    **dict.fromkeys(("keep_bus", "remove_bus"), changes.of_bus),
    "advertise": changes.advertise,
    "withdraw": changes.withdraw,
    "describe": changes.describe,
    "put_context": changes.put_context,
    **dict.fromkeys(("end_context", "forget_contexts", "forget_routes", "give_root"), admins),
    **dict.fromkeys(("take_routing", "advance", "drop_stretches", "truncate"), admins),
}
"""By the name of a question or a step of a transaction."""
