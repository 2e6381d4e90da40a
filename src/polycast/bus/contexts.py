"""The contexts of a bus: which it knows, and what becomes of events that cannot cross."""

from __future__ import annotations

from concurrent.futures import wait
from typing import TYPE_CHECKING

from polycast.contexts import Context, Federation
from polycast.contexts.annotations import annotated_mappings
from polycast.contexts.state import state_of
from polycast.delivery import DeadLetter
from polycast.delivery.keeping import record_of
from polycast.errors import BadContext, BadOption
from polycast.routing.borders.crossing import Astray, letter_name, reason_of
from polycast.routing.borders.versions import ContextHistory, StoredCrossing
from polycast.stores import Letter, Stored
from polycast.typesystem import describe_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.contexts import Member
    from polycast.delivery import DeadLetters
    from polycast.routing import Dispatcher, StoredDispatcher
    from polycast.stores import ContextVersion, Entry, Store, Transaction, View
    from polycast.typesystem import Description

__all__ = ["BusContexts", "StoredContexts", "reason_of"]


class BusContexts:
    """One federation per bus: given to it, or made from the first context that it sees."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self.letters: DeadLetters
        dispatcher.astray = self._astray

    @property
    def federation(self) -> Federation | None:
        """The contexts, if there are any."""
        return self._dispatcher.crossing.federation

    def use(self, federation: object) -> None:
        """Have these contexts."""
        if not isinstance(federation, Federation):
            raise BadOption("federation", federation, accepted="a pc.Federation")
        self._check(federation.members)
        self._dispatcher.crossing.federation = federation
        try:
            self._changed()
        except BaseException:
            self._dispatcher.crossing.federation = None
            raise
        federation.guard(self._check)
        federation.watch(self._changed)

    def enter(self, context: object) -> str | None:
        """The name of a context that may be new here; None for the root."""
        federation = self.federation
        if isinstance(context, str):
            if federation is None:
                raise BadContext("a context", context, accepted="a pc.Context: none is known yet")
            member = federation.member(context)
            return None if member is None else member.name
        if not isinstance(context, Context):
            raise BadContext("a context", context, accepted="a pc.Context, or the name of one")
        if federation is None:
            federation = self._first(context)
        if context is federation.root:
            return None
        if not federation.knows(context):
            federation.add(context)
        return context.name

    def _first(self, context: Context) -> Federation:
        """A federation of a context, and the root; if it cannot be used, nothing has changed."""
        free = [each for each in context.lineage() if not each.is_frozen]
        try:
            federation = Federation(context.root)
            if context.parents:
                federation.add(context)
            self.use(federation)
        except BaseException:
            for each in free:
                each.thaw()
            raise
        return federation

    def _check(self, members: dict[str, Member]) -> None:
        """Refuse contexts that this bus cannot have."""

    def _changed(self) -> None:
        """Contexts have come, gone or changed."""
        self._dispatcher.replan()

    def _astray(self, entry: Entry, context: str, error: Exception) -> None:
        """A function raised, so nobody in that context gets the event."""
        name, now = letter_name(context), self._clock.time()
        self.letters.add(DeadLetter(entry, name, reason_of(error), error, 1, now))


class StoredContexts(BusContexts):
    """The contexts of a bus over a store: each version is kept, with where it takes effect."""

    def __init__(self, dispatcher: StoredDispatcher, clock: Clock, store: Store) -> None:
        super().__init__(dispatcher, clock)
        self._store, self._kept = store, set[str]()
        self._registry = dispatcher.registry
        self._history = ContextHistory(dispatcher.registry, self._function)
        dispatcher.crossing = StoredCrossing(self._history)
        self._burying: set[Future[None]] = set()

    def _function(self, name: str) -> Callable[..., object] | None:
        """What contexts of the store may name beyond the functions of those that are here."""
        federation = self.federation
        return None if federation is None else federation.names.get(name)

    def _check(self, members: dict[str, Member]) -> None:
        """Others have to find the functions: by where they are, or by what they do."""
        for member in members.values():
            state_of(member.context)

    def _changed(self) -> None:
        federation = self.federation
        assert federation is not None
        contexts = [federation.root, *(each.context for each in federation.members.values())]
        for cls in dict.fromkeys(cls for each in contexts for cls in _types_of(each)):
            # A record of a version that a context has is of that class, and of no other version.
            self._registry.bind(cls)
        bodies = {each.name: state_of(each) for each in contexts}
        gone = self._kept - bodies.keys()

        def keep(tx: Transaction) -> list[ContextVersion]:
            for context in contexts:
                for each in _described(context):
                    tx.describe(each)
                tx.put_context(context.name, bodies[context.name])
            for name in gone:
                tx.end_context(name)
            return tx.contexts()

        self._history.learn(self._store.write(keep).result())
        self._history.offer(federation)
        self._kept = set(bodies)
        self._dispatcher.replan()

    def look(self, view: View) -> None:
        """Others may have changed contexts."""
        if self.federation is not None:
            self._history.learn(view.contexts())

    def _astray(self, entry: Entry, context: str, error: Exception) -> None:
        """The same; several buses may find out, and one letter is enough."""
        stored, found = Stored(entry.position, record_of(entry)), Astray(context, error)
        burying = self._store.write(lambda tx: self._bury(tx, stored, found))
        self._burying.add(burying)
        burying.add_done_callback(self._burying.discard)

    def _bury(self, tx: Transaction, stored: Stored, astray: Astray) -> None:
        name, reason = letter_name(astray.context), reason_of(astray.error)
        if not tx.count_letters(subscription=name, at=stored.position):
            now = self._clock.time()
            tx.bury([Letter(0, name, stored.position, stored.record, reason, 1, now)])

    def settle(self) -> None:
        """Return when all that was found astray is kept."""
        wait(list(self._burying))


def _types_of(context: Context) -> list[type]:
    """What a context lists, and what its mappings are between."""
    mappings = [*annotated_mappings(context), *context.mapping_lines]
    types = [*context.types, *(end for mapping in mappings for end in mapping.ends)]
    return list(dict.fromkeys(types))


def _described(context: Context) -> list[Description]:
    """What others have to know of the types of a context."""
    return [each for cls in _types_of(context) for each in describe_all(cls)]
