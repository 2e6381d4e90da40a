"""Authorization: what one client may ask and change, by its token's rights and by ownership."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from polycast.broker.server import change_rules as changes
from polycast.broker.server import query_rules as questions
from polycast.broker.server.authorized_request import (
    AuthorizedRequest,
    BusListing,
    admins,
    anybody,
    granted,
    readers,
)
from polycast.broker.server.event_authorization import EventAuthorization
from polycast.broker.server.type_authorization import TypeAuthorization
from polycast.stores import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.broker.server.access import Principal
    from polycast.broker.server.authorized_request import Rule
    from polycast.broker.server.ownership import PublisherOwners
    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.broker.server.usage import Usage
    from polycast.broker.wire.calls import RemoteMethod
    from polycast.stores import Store, Transaction, View

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
_TAKES_OWNERSHIP = frozenset({"open_bus", "save", "take_over", "bury", "settle", "take_claims"})
"""Steps that may give something an owner, also when an admin takes them."""


class Authorization:
    """Checks every access of one client to the store; raises `AccessDeniedError` if denied."""

    def __init__(
        self,
        principal: Principal,
        type_catalog: TypeCatalog,
        store: Store,
        owner_of: Callable[[str], str | None],
        *,
        usage: Usage,
        publishers: PublisherOwners,
        rules: Mapping[str, Rule] = RULES,
    ) -> None:
        self.principal = principal
        self.usage, self.publishers, self.store = usage, publishers, store
        self.types = TypeAuthorization(principal, type_catalog, owner_of, usage)
        self.events = EventAuthorization(principal, self.types, store, usage)
        self.bus_listing = BusListing()
        self.is_open = principal.rights.admin
        self._rules = rules
        self._first_revision: int | None = None  # at its first question about changes

    def answer(self, view: View, method: RemoteMethod, given: dict[str, Any]) -> Any:
        """Answer a question about the state."""
        return self._decide(method, view, given, lambda: method.call(view, given), committed=True)

    def answer_of_log(self, method: RemoteMethod, given: dict[str, Any]) -> Any:
        """Answer a question about the log."""
        return self._of_log(method, given, lambda: method.call(self.store, given))

    def check_read(self, method: RemoteMethod, given: dict[str, Any]) -> None:
        """Refuse reading the log to a client that may not receive anything."""
        self._of_log(method, given, lambda: None)

    def _of_log(
        self, method: RemoteMethod, given: dict[str, Any], perform: Callable[[], Any]
    ) -> Any:
        if self.is_open:
            return perform()
        with self.store.view() as view:
            return self._decide(method, view, given, perform, committed=True)

    def begin(self) -> None:
        """Begin a transaction of the client."""
        self.usage.begin()
        self.bus_listing.begin()

    def take(self, tx: Transaction, method: RemoteMethod, given: dict[str, Any]) -> Any:
        """Take a step of a transaction; its result."""
        return self._decide(method, tx, given, lambda: method.call(tx, given), committed=False)

    def _decide(
        self,
        method: RemoteMethod,
        view: View,
        given: dict[str, Any],
        perform: Callable[[], Any],
        *,
        committed: bool,
    ) -> Any:
        if self.is_open and (self.principal.owner is None or method.name not in _TAKES_OWNERSHIP):
            return perform()
        rule = self._rules.get(method.name, admins)
        tx = cast("Transaction", view)
        return rule(AuthorizedRequest(self, method.name, tx, given, perform, committed))

    def was_away(self, since: int, revision: int) -> bool:
        """Whether it asks for changes from before its first question: names had other owners."""
        if self._first_revision is None:
            self._first_revision = revision
        return since < self._first_revision
