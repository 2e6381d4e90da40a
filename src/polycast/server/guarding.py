"""What a client may ask and change, by the rights of its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.delivery.replaying import REPLAYED
from polycast.errors import AccessDenied
from polycast.matching import Definition
from polycast.stores import EventType
from polycast.stores.claiming import OUTLIVING
from polycast.typesystem.standard import STANDARD
from polycast.wire.calls import READS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.events import Record
    from polycast.server.access import Identified
    from polycast.server.vocabulary import Vocabulary
    from polycast.stores import Kept, Letter, Run, Store, Transaction, View
    from polycast.typesystem import Description

__all__ = ["OWNER", "Guard", "disown"]

_FOR_ADMINS = frozenset({"truncate"})
_FREE = frozenset({"advertise", "withdraw"})
_OF_ONE = frozenset(
    {"move", "land", "land_before", "leave", "remove", "end_route"}
)  # subscription, by its name
_DOCUMENTS = frozenset({REPLAYED, OUTLIVING})
OWNER = "owner"
"""The kind of the documents that say to whom a publisher or a subscription belongs."""


class Guard:
    """Stands between one client and the store; whatever is not allowed is `AccessDenied`."""

    def __init__(
        self,
        who: Identified,
        vocabulary: Vocabulary,
        store: Store,
        owner_of: Callable[[str], str | None],
    ) -> None:
        self.who = who
        self._vocabulary = vocabulary
        self._names = vocabulary.names  # of the class of a wire name and a hash
        self._owner_of = owner_of  # the name of a type
        self._store = store
        self._publishers: set[str] = set()  # that are known to belong to it
        self.is_open = who.rights.admin

    # -- what belongs to whom ----------------------------------------------------------------------

    def _is_mine(self, view: View, key: str) -> bool | None:
        """Whether something belongs to the owner of the token; None if it belongs to nobody."""
        owner = view.document(OWNER, key)
        return None if owner is None else owner.decode(errors="replace") == self.who.owner

    def _take(self, tx: Transaction, key: str) -> None:
        if self.who.owner is not None:  # else there are no tokens
            tx.put_document(OWNER, key, self.who.owner.encode())

    def _refuse(self, action: str, what: str) -> None:
        if not self.is_open:
            needs = "owner in common with whoever has it"
            raise AccessDenied(action, what, token=self.who.name, needs=needs)

    def _open_bus(self, tx: Transaction, publisher: str) -> None:
        """A publisher belongs to who opens a bus as it first."""
        key = publisher_key(publisher)
        mine = self._is_mine(tx, key)
        if mine is None:
            if any(each.publisher == publisher for each in tx.buses()):
                self._refuse("open a bus as", f"the publisher {publisher!r}")
            self._take(tx, key)
        elif not mine:
            self._refuse("open a bus as", f"the publisher {publisher!r}")

    def _check_publisher(self, publisher: str) -> None:
        if publisher not in self._publishers:
            with self._store.view() as view:
                mine = self._is_mine(view, publisher_key(publisher))
            if not mine:
                self._refuse("publish as", f"the publisher {publisher!r}")
            self._publishers.add(publisher)

    # -- events ------------------------------------------------------------------------------------

    def check_run(self, run: Run) -> None:
        """Refuse what the client may not publish, as what it is and as what it is in the root."""
        if self.is_open:
            return
        self._check_publisher(run.first.publisher)
        self._check_form(EventType(run.name, run.version, run.hash), run.topic)
        if run.root is not None:
            root = EventType(run.root.name, run.root.version, run.root.hash)
            self._check_form(root, run.topic)

    def _check_form(self, form: EventType, topic: str | None) -> None:
        """Refuse a class that is not covered, or that passes for what is another owner's."""
        name = form.name
        self.who.check_publish(self._names(name, form.hash), topic)
        if self._vocabulary.pinned(name, form.version, form.hash) is None:
            raise self._undescribed(name)
        found = self._vocabulary.ancestry(name, form.hash)
        for below, above in () if found is None else found.steps:
            if self._is_border(below, above):
                self._check_border(name, above, topic)

    def _is_border(self, below: str, above: str) -> bool:
        """Whether a step up the ancestry leads to what belongs to somebody else."""
        if above in STANDARD or self._owner_of(below) == self._owner_of(above):
            return False
        return self._owner_of(above) is not None or self._vocabulary.has_name(above)

    def _check_border(self, name: str, above: str, topic: str | None) -> None:
        names = self._vocabulary.names_of_type(above)
        if not self.who.rights.may_publish(names, topic):
            what = f"{name}, which derives from {above} of {self._owner_of(above) or 'nobody'},"
            needs = f"publish grant that covers {above}"
            raise AccessDenied("publish", what, token=self.who.name, needs=needs)

    # -- what types are ----------------------------------------------------------------------------

    def may_describe(self, description: Description) -> bool:
        """Whether the client may say for all what a type is; nobody may for standard types."""
        return self.is_open or self.who.rights.may_describe(description.names)

    def _undescribed(self, name: str) -> AccessDenied:
        owner = self._owner_of(name)
        whose = "" if owner in (None, self.who.owner) else f", which belongs to {owner!r}"
        needs = f"describe grant that covers it, such as describe = [{name!r}]"
        what = f"the type {name} in a form that nobody with a right to has described{whose}"
        return AccessDenied("publish", what, token=self.who.name, needs=needs)

    def _check_description(self, tx: Transaction, given: dict[str, Any]) -> None:
        """In a transaction, where nothing is private: it is known, or the client may say it."""
        description: Description = given["description"]
        if not self.may_describe(description) and not self._is_public(description.hash):
            needs = f"describe grant that covers it, such as describe = [{description.name!r}]"
            what = f"the type {description.name}"
            raise AccessDenied("describe", what, token=self.who.name, needs=needs)

    def _is_public(self, digest: str) -> bool:
        return self._vocabulary.described(digest) is not None

    def _check_route(self, tx: Transaction, given: dict[str, Any]) -> None:
        """The pipeline goes by what all go by; what is private to a subscription it cannot see."""
        self._check_subscription(tx, given["name"])
        for each in Definition.decoded(given["definition"]).types:
            if each.name not in STANDARD and not self._is_public(each.hash):
                needs = f"describe grant that covers it, such as describe = [{each.name!r}]"
                what = f"{each.name} through the pipeline"
                raise AccessDenied("subscribe to", what, token=self.who.name, needs=needs)

    def may_receive(self, record: Record) -> bool:
        """Whether the client may see an event."""
        if self.is_open:
            return True
        forms = [(record.name, record.hash)]
        if record.root is not None:
            forms.append((record.root.name, record.root.hash))
        may_receive = self.who.rights.may_receive
        return any(may_receive(self._names(*each), record.topic) for each in forms)

    def check_definition(self, definition: Definition) -> None:
        """Refuse what the client may not subscribe to."""
        if not self.is_open:
            names = tuple(n for each in definition.types for n in self._names(each.name, each.hash))
            self.who.check_subscribe(names, None)

    # -- questions ---------------------------------------------------------------------------------

    def check_call(self, name: str, given: dict[str, Any]) -> None:
        """Refuse a question that the client may not ask."""
        if self.is_open:
            return
        if name in _FOR_ADMINS:
            self.who.check_admin(name, "the log")
        if name == "read":  # before anything is read for one who may see nothing
            self.who.check_subscribe((), None)
        if name in ("document", "documents"):
            if given["kind"] == OWNER:
                self.who.check_admin("read", "what belongs to whom")
            if given["kind"] == OUTLIVING:
                self.who.check_subscribe((), None)

    def seen(self, letters: Iterable[Letter]) -> list[Letter]:
        """Those of some dead letters that the client may see."""
        return [each for each in letters if self.may_receive(each.record)]

    # -- changes -----------------------------------------------------------------------------------

    def check_step(self, tx: Transaction, name: str, given: dict[str, Any]) -> None:
        """Refuse a change that the client may not make."""
        if name == "open_bus":
            self._open_bus(tx, given["publisher"])
        elif name == "save":
            self._check_save(tx, given["kept"])
        elif self.is_open or name in _FREE:
            return
        elif name in READS:
            self.check_call(name, given)
        elif name in _OF_ONE:
            self._check_subscription(tx, given["name"])
        elif name in _CHECKS:
            _CHECKS[name](self, tx, given)
        else:
            self.who.check_admin(name, "the store")

    def _check_subscription(self, view: View, name: str) -> None:
        kept = view.subscription(name)
        if kept is not None:
            self.check_definition(Definition.decoded(kept.definition))
            if self._is_mine(view, subscription_key(name)) is False:
                self._refuse("use", f"the subscription {name!r}")

    def _check_save(self, tx: Transaction, kept: Kept) -> None:
        """A subscription belongs to who makes it, or attaches to it where it has no owner."""
        if not self.is_open:
            self._check_subscription(tx, kept.name)
            self.check_definition(Definition.decoded(kept.definition))
        key = subscription_key(kept.name)
        if tx.subscription(kept.name) is None or self._is_mine(tx, key) is None:
            self._take(tx, key)

    def _check_flights(self, tx: Transaction, given: dict[str, Any]) -> None:
        flights = given["flights"] if "flights" in given else [given["flight"]]
        for name in {each.name for each in flights}:
            self._check_subscription(tx, name)

    def _check_member(self, tx: Transaction, given: dict[str, Any]) -> None:
        self._check_subscription(tx, given["member"].name)

    def _check_bury(self, tx: Transaction, given: dict[str, Any]) -> None:
        for letter in given["letters"]:
            self._check_subscription(tx, letter.subscription)
            record: Record = letter.record
            names = self._names(record.name, record.hash)
            if not self.may_receive(record):  # it may be what the client has published
                self.who.check_publish(names, record.topic)

    def _check_exhume(self, tx: Transaction, given: dict[str, Any]) -> None:
        for number in given["numbers"]:
            for letter in tx.letters(after=number - 1, limit=1):
                if letter.number == number and not self.may_receive(letter.record):
                    self.who.check_admin("take out", f"dead letter {number}")

    def _check_errand(self, tx: Transaction, given: dict[str, Any]) -> None:
        asked = given["asked"]
        self._check_subscription(tx, asked.name)
        letters = [each.letter for each in asked.settled if each.letter is not None]
        self._check_bury(tx, {"letters": letters})

    def _check_bus(self, tx: Transaction, given: dict[str, Any]) -> None:
        for each in tx.buses():
            if each.id == given["bus"] and not self._is_mine(tx, publisher_key(each.publisher)):
                self._refuse("speak for", f"bus {each.id}, which another client has opened")

    def _check_document(self, tx: Transaction, given: dict[str, Any]) -> None:
        if given["kind"] not in _DOCUMENTS:
            self.who.check_admin("change", f"the document {given['name']!r} of {given['kind']!r}")
        self._check_subscription(tx, given["name"].rpartition("/")[0] or given["name"])

    def _check_context(self, tx: Transaction, given: dict[str, Any]) -> None:
        known = tx.context(given["name"])
        if known is None or known.body != given.get("body"):
            self.who.check_admin("change", f"the context {given['name']!r}")


def publisher_key(name: str) -> str:
    """Under which a document says to whom a publisher belongs."""
    return f"publisher/{name}"


def subscription_key(name: str) -> str:
    """The same of a subscription."""
    return f"subscription/{name}"


def disown(tx: Transaction) -> None:
    """Forget to whom subscriptions belonged that are gone."""
    prefix = subscription_key("")
    gone = {each for each in tx.documents(OWNER) if each.startswith(prefix)}
    gone -= {subscription_key(kept.name) for kept in tx.subscriptions()}
    for each in gone:
        tx.remove_document(OWNER, each)


_CHECKS: dict[str, Callable[[Guard, Transaction, dict[str, Any]], None]] = {
    "describe": Guard._check_description,
    "begin_route": Guard._check_route,
    "fly": Guard._check_flights,
    "claim": Guard._check_flights,
    "join": Guard._check_member,
    "bury": Guard._check_bury,
    "settle": Guard._check_errand,
    "take_claims": Guard._check_errand,
    "exhume": Guard._check_exhume,
    "keep_bus": Guard._check_bus,
    "remove_bus": Guard._check_bus,
    "put_document": Guard._check_document,
    "remove_document": Guard._check_document,
    "put_context": Guard._check_context,
    "end_context": Guard._check_context,
}
