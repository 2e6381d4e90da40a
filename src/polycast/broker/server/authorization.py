"""Authorization: what one client may ask and change, by its token's rights and by ownership."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from polycast.broker.server import change_rules as changes
from polycast.broker.server import query_rules as questions
from polycast.broker.server.ownership import PublisherOwners, Usage, owner_of_publisher
from polycast.broker.server.query_rules import AuthorizedRequest, admins, anybody, granted, readers
from polycast.broker.server.type_catalog import MOST_ABOVE, TypeAuthorization, TypeCatalog
from polycast.errors import AccessDeniedError, BadFrameError, LimitReachedError
from polycast.matching import Definition, TopicPattern, check_topic
from polycast.routing.translation import letter_name
from polycast.stores import EventType, OpenBus, Run, Standing, Store, Stray, Transaction, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polycast.broker.server.access import Principal
    from polycast.broker.server.query_rules import Rule
    from polycast.broker.wire.calls import RemoteMethod
    from polycast.events import Record


LONGEST, LEVELS = 2_000, 100
"""Characters and levels of a topic: every event is compared with every pattern, level by level."""


def check_topic_text(topic: str | None, *, is_pattern: bool) -> None:
    """Refuse a malformed topic, or one too long to compare with many patterns."""
    if topic is None:
        return
    if len(topic) > LONGEST or topic.count("/") > LEVELS:
        text = (
            f"a topic of {len(topic):,} characters and {topic.count('/'):,} levels; up to "
            f"{LONGEST:,} and {LEVELS} are accepted"
        )
        raise LimitReachedError("topic", text, {"limit": LEVELS})
    if is_pattern:
        TopicPattern(topic)
    else:
        check_topic(topic)


class EventAuthorization:
    """Judges events by the names of their class and supertypes, by topic and by publisher."""

    def __init__(
        self, principal: Principal, types: TypeAuthorization, store: Store, usage: Usage
    ) -> None:
        self._principal, self._types, self._store, self._usage = principal, types, store, usage
        self._names = types.catalog.names  # by the wire name and the hash of a class
        self._is_open = principal.rights.admin
        self._own_publishers: set[str] = set()  # those already looked up

    def check_append(self, runs: Sequence[Run], astray: Sequence[Stray]) -> None:
        """Refuse events that the client may not publish."""
        contexts = [run.context for run in runs for _ in run.payloads] if astray else []
        for stray in astray:
            context = contexts[stray.number] if 0 <= stray.number < len(contexts) else None
            if context is None or stray.subscription != letter_name(context):
                raise BadFrameError("`append`", why="it names an event astray that it has not")
        if not self._is_open:
            for run in runs:
                check_topic_text(run.topic, is_pattern=False)
                self._check_run(run)
            self._usage.add_runs(self._principal, runs, astray)

    def _check_run(self, run: Run) -> None:
        """Check the events of a run in their own form and in that of the root context."""
        self._check_publisher(run.first.publisher)
        self._check_form(EventType(run.name, run.version, run.hash), run.topic)
        if run.root is not None:
            root = EventType(run.root.name, run.root.version, run.root.hash)
            self._check_form(root, run.topic)

    def check_record(self, record: Record) -> None:
        """Refuse an event that the client might not publish, in its own form or the root's."""
        for form in (record, *(() if record.root is None else (record.root,))):
            self._check_form(EventType(form.name, form.version, form.hash), record.topic)

    def _check_publisher(self, publisher: str) -> None:
        if publisher not in self._own_publishers:
            with self._store.view() as view:
                owner = owner_of_publisher(view, publisher)
            if not self._principal.owns(owner):
                self._principal.refuse("publish as", f"the publisher {publisher!r}")
            self._own_publishers.add(publisher)

    def _check_form(self, form: EventType, topic: str | None) -> None:
        """Refuse a class without a grant, or one that would pass for another owner's."""
        name, catalog = form.name, self._types.catalog
        self._principal.check_publish(self._names(name, form.hash), topic)
        if catalog.pinned(name, form.version, form.hash) is None:
            self._types.refuse_form(name, form.hash)
        ancestry = catalog.ancestry(name, form.hash)
        if ancestry is not None and ancestry.is_too_much:
            text = f"{name!r:.100} has more than {MOST_ABOVE} supertypes and aliases above it"
            raise LimitReachedError("types", text, {"limit": MOST_ABOVE})
        for below, above in () if ancestry is None else ancestry.steps:
            if self._types.crosses_owners(below, above):
                self._check_supertype(name, above, topic)

    def _check_supertype(self, name: str, above: str, topic: str | None) -> None:
        names = self._types.catalog.names_of_type(above)
        if not self._principal.rights.may_publish(names, topic):
            owner = self._types.owner_of(above) or "nobody"
            what = f"{name}, which derives from {above} of {owner},"
            needs = f"publish grant that covers {above}"
            raise AccessDeniedError("publish", what, token=self._principal.name, needs=needs)

    def may_receive(self, record: Record) -> bool:
        """Whether the client may receive an event."""
        if self._is_open:
            return True
        forms = [(record.name, record.hash)]
        if record.root is not None:
            forms.append((record.root.name, record.root.hash))
        may_receive = self._principal.rights.may_receive
        return any(may_receive(self._names(*form), record.topic) for form in forms)

    def check_letter(self, record: Record) -> None:
        """Refuse a dead letter of an event that the client may neither receive nor publish."""
        if not self.may_receive(record):
            self._principal.check_publish(self._names(record.name, record.hash), record.topic)

    def check_definition(self, definition: Definition) -> None:
        """Refuse a subscription that the client has no grant for."""
        if not self._is_open:
            check_topic_text(definition.topic, is_pattern=True)
            names = tuple(
                name for kind in definition.types for name in self._names(kind.name, kind.hash)
            )
            self._principal.check_subscribe(names)


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

    def adverts(self, view: View) -> dict[int, int]:
        """The buses of adverts, by advert."""
        if self._adverts is None:
            self._adverts = {advert.number: advert.bus for advert in view.adverts()}
        return self._adverts


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
