"""What a client may ask and change, by the rights of its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.delivery.replaying import REPLAYED
from polycast.matching import Definition
from polycast.stores.claiming import OUTLIVING
from polycast.wire.calls import READS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.events import Record
    from polycast.server.access import Identified
    from polycast.stores import Kept, Letter, OpenBus, Run, Transaction, View

__all__ = ["Guard"]

Names = tuple[str, ...]  # of a class, its aliases and its supertypes

_FOR_ADMINS = frozenset({"truncate"})
_FREE = frozenset({"describe", "open_bus", "keep_bus", "advertise", "withdraw"})
_OF_ONE = frozenset(
    {"move", "land", "land_before", "leave", "remove", "begin_route", "end_route"}
)  # subscription, by its name
_DOCUMENTS = frozenset({REPLAYED, OUTLIVING})


class Guard:
    """Stands between one client and the store; whatever is not allowed is `AccessDenied`."""

    def __init__(
        self, who: Identified, names: Callable[[str, str], Names], buses: set[int]
    ) -> None:
        self.who = who
        self._names = names  # of the class of a wire name and a hash
        self._buses = buses  # that this client has opened
        self.is_open = who.rights.admin

    def opened(self, bus: OpenBus) -> None:
        """The client has opened a bus, which it may close."""
        self._buses.add(bus.id)

    # -- events ------------------------------------------------------------------------------------

    def check_run(self, run: Run) -> None:
        """Refuse what the client may not publish, as what it is and as what it is in the root."""
        if self.is_open:
            return
        self.who.check_publish(self._names(run.name, run.hash), run.topic)
        if run.root is not None:
            self.who.check_publish(self._names(run.root.name, run.root.hash), run.topic)

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
        if name in ("document", "documents") and given["kind"] == OUTLIVING:
            self.who.check_subscribe((), None)

    def seen(self, letters: Iterable[Letter]) -> list[Letter]:
        """Those of some dead letters that the client may see."""
        return [each for each in letters if self.may_receive(each.record)]

    # -- changes -----------------------------------------------------------------------------------

    def check_step(self, tx: Transaction, name: str, given: dict[str, Any]) -> None:
        """Refuse a change that the client may not make."""
        if self.is_open or name in _FREE or name in READS:
            return
        if name in _OF_ONE:
            self._check_subscription(tx, given["name"])
        elif name in _CHECKS:
            _CHECKS[name](self, tx, given)
        else:
            self.who.check_admin(name, "the store")

    def _check_subscription(self, view: View, name: str) -> None:
        kept = view.subscription(name)
        if kept is not None:
            self.check_definition(Definition.decoded(kept.definition))

    def _check_save(self, tx: Transaction, given: dict[str, Any]) -> None:
        kept: Kept = given["kept"]
        self._check_subscription(tx, kept.name)
        self.check_definition(Definition.decoded(kept.definition))

    def _check_flights(self, tx: Transaction, given: dict[str, Any]) -> None:
        flights = given["flights"] if "flights" in given else [given["flight"]]
        for name in {each.name for each in flights}:
            self._check_subscription(tx, name)

    def _check_member(self, tx: Transaction, given: dict[str, Any]) -> None:
        self._check_subscription(tx, given["member"].name)

    def _check_bury(self, tx: Transaction, given: dict[str, Any]) -> None:
        del tx
        for letter in given["letters"]:
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
        del tx
        if given["bus"] not in self._buses:
            self.who.check_admin("remove", f"bus {given['bus']}, which another client has opened")

    def _check_document(self, tx: Transaction, given: dict[str, Any]) -> None:
        if given["kind"] not in _DOCUMENTS:
            self.who.check_admin("change", f"the document {given['name']!r} of {given['kind']!r}")
        self._check_subscription(tx, given["name"].rpartition("/")[0] or given["name"])

    def _check_context(self, tx: Transaction, given: dict[str, Any]) -> None:
        known = tx.context(given["name"])
        if known is None or known.body != given.get("body"):
            self.who.check_admin("change", f"the context {given['name']!r}")


_CHECKS: dict[str, Callable[[Guard, Transaction, dict[str, Any]], None]] = {
    "save": Guard._check_save,
    "fly": Guard._check_flights,
    "claim": Guard._check_flights,
    "join": Guard._check_member,
    "bury": Guard._check_bury,
    "settle": Guard._check_errand,
    "take_claims": Guard._check_errand,
    "exhume": Guard._check_exhume,
    "remove_bus": Guard._check_bus,
    "put_document": Guard._check_document,
    "remove_document": Guard._check_document,
    "put_context": Guard._check_context,
    "end_context": Guard._check_context,
}
