"""The contexts of a bus: which it knows, and what becomes of events that cannot cross."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from polycast.contexts import Context, Federation, FederationMember
from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.context_state import differences, state_of
from polycast.contexts.declare.statements import annotated_mappings
from polycast.delivery import DeadLetter, DeadLetters
from polycast.delivery.cursors import record_of
from polycast.errors import BadContextError, BadOptionError, ContextConflictError, StoreError
from polycast.routing.context_versions import ContextHistory, StoredTranslation
from polycast.routing.translation import TranslationFailed, letter_name, reason_of
from polycast.stores import ContextVersion, Entry, Letter, Store, Stored, Transaction, View
from polycast.typesystem import Description, describe_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.config import Clock
    from polycast.routing import Dispatcher, RecordRouter


class BusContexts:
    """One federation per bus: given to it, or made from the first context that it sees."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock, letters: DeadLetters) -> None:
        self._dispatcher, self._clock, self._letters = dispatcher, clock, letters

    @property
    def federation(self) -> Federation | None:
        """The contexts, if there are any."""
        return self._dispatcher.plan.translation.federation

    def use(self, federation: object) -> None:
        """Have these contexts."""
        if not isinstance(federation, Federation):
            raise BadOptionError("federation", federation, accepted="a pc.Federation")
        self._check(federation.members)
        self._dispatcher.plan.translation.federation = federation
        try:
            self._changed()
        except BaseException:
            self._dispatcher.plan.translation.federation = None
            raise
        federation.guard(self._check)
        federation.watch(self._changed)

    def enter(self, context: object, *, replace: bool = False) -> str | None:
        """The name of a context that may be new here; None for the root."""
        federation = self.federation
        if isinstance(context, str):
            if federation is None:
                raise BadContextError(
                    "a context", context, accepted="a pc.Context: none is known yet"
                )
            member = federation.member(context)
            return None if member is None else member.name
        if not isinstance(context, Context):
            raise BadContextError("a context", context, accepted="a pc.Context, or the name of one")
        if federation is None:
            federation = self._first(context, replace=replace)
        if context is federation.root:
            return None
        if not federation.knows(context) or (replace and self._is_newer(federation, context)):
            federation.add(context, replace=replace)
        return context.name

    def _is_newer(self, federation: Federation, context: Context) -> bool:
        """Whether something else stands in place of a context, of which it shall take the place."""
        return federation.members[context.name].context is not context or bool(self.replaced())

    def problems(self) -> list[str]:
        """What is wrong with contexts."""
        failing = [] if self.federation is None else self.federation.problems()
        return [*self.replaced(), *failing]

    def replaced(self) -> list[str]:
        """What is not as this process declares it."""
        return []

    def _first(self, context: Context, *, replace: bool) -> Federation:
        """A federation of a context, and the root; if it cannot be used, nothing has changed."""
        free = [above for above in context.lineage() if not above.is_frozen]
        try:
            federation = Federation(context.root)
            if context.parents:
                federation.add(context, replace=replace)
            self.use(federation)
        except BaseException:
            for above in free:
                above.thaw()
            raise
        return federation

    def _check(self, members: dict[str, FederationMember]) -> None:
        """Refuse contexts that this bus cannot have."""

    def _changed(self) -> None:
        """Contexts have come, gone or changed."""
        self._dispatcher.replan()

    def translation_failed(self, entry: Entry, context: str, error: BaseException) -> None:
        """A function raised, so nobody in that context gets the event."""
        name, now = letter_name(context), self._clock.time()
        self._letters.add(DeadLetter(entry, name, reason_of(error), error, 1, now))


class StoredContexts(BusContexts):
    """The contexts of a bus over a store: each version is kept, with where it takes effect."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        router: RecordRouter,
        clock: Clock,
        letters: DeadLetters,
        store: Store,
        pending: set[Future[None]],
    ) -> None:
        super().__init__(dispatcher, clock, letters)
        self._pending = pending  # what flush() waits for
        self._store, self._kept = store, set[str]()
        self._registry = router.registry
        self._history = ContextHistory(router.registry, self._function)
        dispatcher.plan.translation = StoredTranslation(self._history, router.root_of)
        self._describe = router.learn
        self._said: dict[str, bytes] = {}  # what this bus has declared last
        self._others: dict[str, str] = {}  # contexts that others have replaced or removed, and how
        self._changing: frozenset[str] = frozenset()  # those that this bus is about to change

    def _function(self, name: str) -> Callable[..., object] | None:
        """What contexts of the store may name beyond the functions of those that are here."""
        federation = self.federation
        return None if federation is None else federation.names.get(name)

    def _check(self, members: dict[str, FederationMember]) -> None:
        """Others have to find the functions: by where they are, or by what they do."""
        for member in members.values():
            state_of(member.context)

    def _changed(self) -> None:
        federation = self.federation
        assert federation is not None
        contexts = [federation.root, *(member.context for member in federation.members.values())]
        for cls in dict.fromkeys(cls for context in contexts for cls in _types_of(context)):
            # A record of a version that a context has is of that class, and of no other version.
            self._registry.bind(cls)
        bodies = {context.name: state_of(context) for context in contexts}
        gone = self._kept - bodies.keys()
        replaced: list[tuple[str, list[str]]] = []

        def keep(tx: Transaction) -> list[ContextVersion]:
            known = {kept.name: kept.body for kept in tx.contexts() if kept.until is None}
            replaced.clear()
            for context in contexts:
                name, body = context.name, bodies[context.name]
                there, said = known.get(name), self._said.get(name)
                is_own = context is federation.root or there in (body, said)
                if said == body and (is_own or name not in federation.renewed):
                    continue  # nothing new; if others have replaced it since, it is theirs
                if there is not None and not is_own:
                    lines = differences(there, body)
                    if name not in federation.overriding:
                        raise ContextConflictError(name, lines)
                    replaced.append((name, lines))
                for description in _described(context):
                    tx.describe(description)
                tx.put_context(name, body)
            for name in gone:
                tx.end_context(name)
            return tx.contexts()

        # Before the store has it: whoever reads meanwhile learns of it, and needs its functions.
        self._history.offer(federation)
        new = {name for name, body in bodies.items() if self._said.get(name) != body}
        self._changing = federation.renewed | gone | new
        try:
            versions = self._store.write(keep).result()
            with self._store.view() as view:
                self._learn(view)
            self._kept, self._said = set(bodies), bodies
        finally:
            self._changing = frozenset()
        for name, lines in replaced:
            text = f"it takes the place of what the store had: {'; '.join(lines)}"
            federation.report(name, Finding("replaced", text, name))
        self._notice(versions)
        self._dispatcher.replan()

    def replaced(self) -> list[str]:
        """The contexts that others have replaced or removed since this process declared them."""
        if self._said:
            # A bus without subscriptions does not follow the store; one that is closed cannot.
            with contextlib.suppress(StoreError), self._store.view() as view:
                self._notice(view.contexts())
        return [f"context {name!r} {text}" for name, text in self._others.items()]

    def _notice(self, versions: list[ContextVersion]) -> None:
        """See which contexts others have declared otherwise."""
        federation = self.federation
        assert federation is not None
        live = {version.name: version for version in versions if version.until is None}
        mine = {*self._said} - self._changing - {federation.root.name}
        self._others = {
            name: _otherwise(live.get(name), body)
            for name, body in self._said.items()
            if name in mine and (name not in live or live[name].body != body)
        }
        for name, text in self._others.items():
            federation.report(name, Finding("replaced", f"it {text}", name))

    def look(self, view: View) -> None:
        """Others may have changed contexts."""
        self._notice(self._learn(view))

    def _learn(self, view: View) -> list[ContextVersion]:
        revision, versions = view.revision(), view.contexts()
        if not self._history.knows(versions):
            self._describe()  # what they name, which was described before they were kept
        self._history.learn(versions, revision=revision)
        return versions

    def translation_failed(self, entry: Entry, context: str, error: BaseException) -> None:
        """The same; several buses may find out, and one letter is enough."""
        stored, failure = (
            Stored(entry.position, record_of(entry)),
            TranslationFailed(context, error),
        )
        burying = self._store.write(lambda tx: self._bury(tx, stored, failure))
        self._pending.add(burying)
        burying.add_done_callback(self._pending.discard)

    def _bury(self, tx: Transaction, stored: Stored, failure: TranslationFailed) -> None:
        name, reason = letter_name(failure.context), reason_of(failure.error)
        if not tx.count_letters(subscription=name, at=stored.position):
            now = self._clock.time()
            tx.bury([Letter(0, name, stored.position, stored.record, reason, 1, now)])


def _otherwise(there: ContextVersion | None, declared: bytes) -> str:
    """What others have made of a context."""
    if there is None:
        return "was taken out of the store, so no event gets there until fed.add() brings it back"
    lines = "; ".join(differences(there.body, declared))
    return f"was replaced in the store, from position {there.start} on: {lines}"


def _types_of(context: Context) -> list[type]:
    """What a context lists, and what its mappings are between."""
    mappings = [*annotated_mappings(context), *context.mapping_lines]
    types = [*context.types, *(end for mapping in mappings for end in mapping.ends)]
    return list(dict.fromkeys(types))


def _described(context: Context) -> list[Description]:
    """What others have to know of the types of a context."""
    return [part for cls in _types_of(context) for part in describe_all(cls)]
