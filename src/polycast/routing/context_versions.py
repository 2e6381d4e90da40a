"""What contexts were at each position of a log, as its store has kept it."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from polycast.contexts import Context, Federation, FederationMember, Finding
from polycast.contexts.declare.context_state import context_from, functions_of, read_state, state_of
from polycast.contexts.declare.rule_functions import unchecked
from polycast.errors import BadContextError, NotDecodableError, PolycastError
from polycast.plain_text import log_of
from polycast.routing.translation import ContextTranslation, TranslationFailed
from polycast.typesystem import Registry, is_made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polycast.contexts.declare.context_state import ContextState, FunctionState
    from polycast.stores import ContextVersion, Entry

Lineage = tuple[int, ...]  # the numbers of a version and of those above it, at some position


class VersionLog:
    """It never changes: who reads it meanwhile sees all of a change of contexts or nothing."""

    def __init__(self, versions: Iterable[ContextVersion], *, revision: int | None = None) -> None:
        self.versions, self.revision = tuple(versions), revision
        self.by_number = {version.number: version for version in self.versions}
        self._by_name: dict[str, list[ContextVersion]] = {}
        for version in self.versions:
            self._by_name.setdefault(version.name, []).append(version)
        ends = (end for version in self.versions for end in (version.start, version.until))
        self.turns = sorted({end for end in ends if end is not None})

    def is_after(self, other: VersionLog) -> bool:
        """Whether another one was read earlier: it lacks a version, or the end of one.

        One more that it has may be forgotten, as it was never in effect: revisions tell.
        """
        if self.revision is not None and other.revision not in (None, self.revision):
            return self.revision > other.revision
        if max(self.by_number, default=0) != max(other.by_number, default=0):
            return max(self.by_number, default=0) > max(other.by_number, default=0)
        both = self.by_number.keys() & other.by_number.keys()
        ended = {number for number in both if self.by_number[number].until is not None}
        return any(other.by_number[number].until is None for number in ended)

    def names(self) -> list[str]:
        """The contexts that there are or were."""
        return sorted(self._by_name)

    def of(self, name: str) -> list[ContextVersion]:
        """All versions of a context."""
        return self._by_name.get(name, [])

    def turn(self, position: int) -> int:
        """Between which turns a position is: there, nothing changes."""
        return bisect_right(self.turns, position) if self.turns else 0

    def at(self, name: str, position: int) -> ContextVersion | None:
        """The version of a name at a position; the first is for all that was before it, too."""
        versions = self.of(name)
        if not versions:
            return None
        begun = [version for version in versions if version.start <= position]
        if not begun:
            return versions[0]
        last = begun[-1]
        return last if last.until is None or position < last.until else None

    def lineage(self, name: str, position: int) -> tuple[ContextVersion, ...]:
        """A version and those above it, in the order of `Context.lineage`; none if it has gone."""
        versions: dict[str, ContextVersion] = {}
        pending = [name]
        for context in pending:
            version = self.at(context, position)
            if version is None:
                return ()
            if context not in versions:
                versions[context] = version
                pending += read_state(version.body).parents
        return tuple(versions.values())


def numbers_of(versions: Iterable[ContextVersion]) -> Lineage:
    """What stands for a version and those above it."""
    return tuple(version.number for version in versions)


_log = log_of("polycast.contexts")


class KnownContext:
    """A version of a context, as far as this process can have it."""

    def __init__(self, member: FederationMember, *, is_whole: bool, is_pure: bool) -> None:
        self.member = member
        self.is_whole = is_whole
        """Whether all its functions and classes are here; functions that are not raise."""
        self.is_pure = is_pure
        """Whether its functions give the same tomorrow."""


class ContextHistory:
    """Contexts by position. What nobody here has declared is made from what the store says.

    One thread may learn and offer while others ask: each change is one step.
    """

    def __init__(
        self, registry: Registry, function: Callable[[str], Callable[..., object] | None]
    ) -> None:
        self._factory = ContextFactory(registry, function)
        self._contexts = LoggedContexts(VersionLog(()), self._factory)
        self._declared: dict[str, bytes] = {}  # what contexts are by what this process says
        self._numbers: dict[tuple[str, bytes], int] = {}  # and the last versions that say the same

    @property
    def log(self) -> VersionLog:
        """All versions that are known here."""
        return self._contexts.log

    def knows(self, versions: Iterable[ContextVersion]) -> bool:
        """Whether there is no version that is new here."""
        return all(version.number in self.log.by_number for version in versions)

    def learn(self, versions: Iterable[ContextVersion], *, revision: int | None = None) -> None:
        """Have all versions that a store has, by number, unless they were read before others.

        `revision` is that of the store when they were read, or an earlier one.
        """
        log = VersionLog(versions, revision=revision)
        # A store forgets a version that ends before anything was published.
        for version in log.versions:
            if self._declared.get(version.name) == version.body:
                key = (version.name, version.body)
                self._numbers[key] = max(version.number, self._numbers.get(key, 0))
        if not self.log.is_after(log):
            self._contexts = LoggedContexts(log, self._factory, self._contexts.made)

    def offer(self, federation: Federation) -> None:
        """Use what is declared here for the versions that are the same, and its functions."""
        self._declared |= self._factory.offer(federation)
        self._contexts = LoggedContexts(self.log, self._factory)

    def kept(self, name: str, position: int) -> KnownContext | None:
        """A context at a position; None if there is none."""
        return self._contexts.kept(name, position)

    def why_unknown(self, name: str, position: int) -> PolycastError | None:
        """Why nobody here can say what a context is at a position, if others have changed it."""
        contexts = self._contexts
        if contexts.kept(name, position) is not None or not self.is_superseded(name, position):
            return None
        return contexts.unknown.get((name, contexts.log.turn(position)))

    def states(self, name: str, position: int) -> list[ContextState]:
        """A context at a position, and those above it, as data."""
        return [read_state(version.body) for version in self.log.lineage(name, position)]

    def every(self, name: str) -> list[KnownContext]:
        """All that a context was, each between two turns."""
        several = [self.kept(name, position) for position in (0, *self.log.turns)]
        return [kept for kept in several if kept is not None]

    def is_there(self, name: str, position: int) -> bool:
        """Whether there is a context at a position, be it known here what it is or not."""
        return self.log.at(name, position) is not None

    def has_ended(self, name: str, position: int) -> bool:
        """Whether a context was there, and is not any more at a position."""
        return self.log.at(name, position) is None and self._was_there(name)

    def is_gone(self, name: str) -> bool:
        """Whether a context was there, and is not any more from now on."""
        versions = self.log.of(name)
        return versions[-1].until is not None if versions else self._was_there(name)

    def _was_there(self, name: str) -> bool:
        """Whether the store had a context, though perhaps not when anything was published."""
        declared = self._declared.get(name)
        return bool(self.log.of(name)) or (name, declared) in self._numbers

    def is_superseded(self, name: str, position: int) -> bool:
        """Whether others have replaced what this process declares, before a position."""
        try:
            lineage = self.log.lineage(name, position)
        except BadContextError:  # what cannot be read here is not what this process declares
            return True
        return any(map(self._is_later, lineage))

    def _is_later(self, version: ContextVersion) -> bool:
        declared = self._declared.get(version.name)
        if declared is None or declared == version.body:
            return False
        return version.number > self._numbers.get((version.name, declared), version.number)


class LoggedContexts:
    """The contexts of a log of versions, made when they are first asked for."""

    def __init__(
        self,
        log: VersionLog,
        factory: ContextFactory,
        made: dict[Lineage, KnownContext | None] | None = None,
    ) -> None:
        self.log, self._factory = log, factory
        self.made: dict[Lineage, KnownContext | None] = {} if made is None else made
        self._contexts: dict[Lineage, Context] = {}
        self._kept: dict[tuple[str, int], KnownContext | None] = {}  # by name and turn
        self.unknown: dict[tuple[str, int], PolycastError] = {}

    def kept(self, name: str, position: int) -> KnownContext | None:
        """A context at a position; None if there is none."""
        key = (name, self.log.turn(position))
        if key not in self._kept:
            try:
                self._kept[key] = self._of_lineage(name, position)
            except PolycastError as error:  # of a newer version, or nobody has described it
                text = "context %r at position %d is not known here: %s"
                _log.warning(text, name, position, error)
                self.unknown[key], self._kept[key] = error, None
        return self._kept[key]

    def _of_lineage(self, name: str, position: int) -> KnownContext | None:
        versions = self.log.lineage(name, position)
        if not versions:
            return None
        lineage = numbers_of(versions)
        if lineage not in self.made:
            self.made[lineage] = self._make(name, position, versions)
        return self.made[lineage]

    def _make(
        self, name: str, position: int, versions: tuple[ContextVersion, ...]
    ) -> KnownContext | None:
        states = [read_state(version.body) for version in versions]
        offered = self._factory.offered(versions)
        if offered is not None:
            return KnownContext(offered, is_whole=True, is_pure=_is_pure(states))
        missing: set[str] = set()
        context = self._context(name, position, missing)
        errors = () if missing else context.check().errors
        if errors:
            return self._before(name, position, versions, errors)
        context.freeze()
        member = FederationMember(context, _report)
        # A class that was made does not say what its attributes hold.
        whole = not missing and not any(map(is_made, member.settled.types.types))
        return KnownContext(member, is_whole=whole, is_pure=_is_pure(states))

    def _before(
        self,
        name: str,
        position: int,
        versions: tuple[ContextVersion, ...],
        errors: Sequence[Finding],
    ) -> KnownContext | None:
        """A parent has changed so that this context does not go with it: it stays what it was."""
        own, *above = versions
        last = max((version.start for version in above), default=0)
        if last <= own.start:
            accepted = f"one that passes the check here: {'; '.join(map(str, errors))}"
            raise BadContextError("a version of a context", name, accepted=accepted)
        _log.warning("context %r is stale from position %d on", name, position)
        return self.kept(name, last - 1)

    def _context(self, name: str, position: int, missing: set[str]) -> Context:
        versions = self.log.lineage(name, position)
        lineage = numbers_of(versions)
        if lineage in self._contexts:
            return self._contexts[lineage]
        if not versions:
            raise BadContextError("a context", name, accepted="one that the store has")
        above = read_state(versions[0].body).parents
        parents = {parent: self._context(parent, position, missing) for parent in above}
        context = self._factory.make(versions[0].body, parents, missing)
        if not missing:
            self._contexts[lineage] = context
        return context


class ContextFactory:
    """Makes contexts of what a store says, with the classes and functions that are here."""

    def __init__(
        self, registry: Registry, function: Callable[[str], Callable[..., object] | None]
    ) -> None:
        self._registry, self._function = registry, function
        self._offered: dict[tuple[bytes, ...], FederationMember] = {}
        self._own: dict[str, Callable[..., Any]] = {}

    def offer(self, federation: Federation) -> dict[str, bytes]:
        """Use what is declared here for the versions that are the same; its states by name."""
        bodies: dict[int, bytes] = {}
        declared: dict[str, bytes] = {}
        for member in federation.members.values():
            for above in member.context.lineage():
                if id(above) not in bodies:
                    bodies[id(above)] = declared[above.name] = state_of(above)
                    self._own.update(functions_of(above))
            lineage = member.context.lineage()
            self._offered[tuple(bodies[id(above)] for above in lineage)] = member
        for member in federation.members.values():  # not what a stale one still has above it
            declared[member.name] = bodies[id(member.context)]
        return declared

    def offered(self, versions: Iterable[ContextVersion]) -> FederationMember | None:
        """What this process declares, if it is the same as a version and those above it."""
        return self._offered.get(tuple(version.body for version in versions))

    def make(self, body: bytes, parents: dict[str, Context], missing: set[str]) -> Context:
        """The context of a version; the functions that are not here are noted as missing."""
        return context_from(
            body,
            class_named=self._class,
            function_named=lambda path: self._function_at(path, missing),
            parents=parents,
        )

    def _class(self, name: str, version: int) -> type:
        try:
            return self._registry.class_for(name, version, None)
        except NotDecodableError as error:
            raise BadContextError(
                "a type", name, accepted=f"one that is described ({error})"
            ) from None

    def _function_at(self, path: str, missing: set[str]) -> Callable[[Any], Any]:
        function = self._own.get(path) or self._function(path)
        if function is not None:
            return function
        missing.add(path)
        return unchecked(_Absent(path))


class _Absent:
    """In place of a function that this process does not have."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.__qualname__ = path.rpartition(":")[2]

    def __call__(self, value: Any) -> Any:
        raise LookupError(f"{self._path} is not registered here: imports= or functions= does it")


def _is_pure(states: Iterable[ContextState]) -> bool:
    return not any(function.impure for state in states for function in functions_in(state))


def functions_in(state: ContextState) -> list[FunctionState]:
    """The functions of all rules of a context."""
    return [*(rule.function for rule in state.rules), *(whole.function for whole in state.wholes)]


def _report(context: str, finding: Finding) -> None:
    _log.warning("context %r: %s", context, finding)


class StoredTranslation(ContextTranslation):
    """The contexts of a bus over a store: each event meets them as they were at its position."""

    def __init__(self, history: ContextHistory, root_of: Callable[[Entry], Entry | None]) -> None:
        super().__init__()
        self.history, self._root_of = history, root_of

    def root_of(self, entry: Entry) -> Entry | None:
        """The root form that was kept with an event; None if it has none."""
        return self._root_of(entry)

    def change(self, start: int, oldest: int) -> None:
        """Have the contexts as they are now; what they were, the store knows."""
        del oldest
        super().change(start, start)

    def is_gone(self, name: str | None) -> bool:
        """Whether a context was taken out, here or by others."""
        return super().is_gone(name) or (name is not None and self.history.is_gone(name))

    def member(self, name: str, at: int | None) -> FederationMember | None:
        """A context at a position; without one, as it is now.

        Where the functions of a former version are not here, those that are stand in for them. They
        do not for a later one: what is translated by functions that are not registered here raises.
        """
        current = super().member(name, None)
        if at is None or current is None:
            return current
        kept = self.history.kept(name, at)
        if kept is not None and (kept.is_whole or self.history.is_superseded(name, at)):
            return kept.member
        return None if self.history.has_ended(name, at) else current

    def way_in(self, target: str, at: int | None = None) -> Callable[[Any], Any]:
        """As any; raises if others have made the context what nobody here can know."""
        unknown = None if at is None else self.history.why_unknown(target, at)
        if unknown is not None:
            raise TranslationFailed(target, unknown)
        return super().way_in(target, at)

    def publisher(self, name: str, at: int | None) -> FederationMember | None:
        """The context of a publisher, as it is now: the root form is kept with the event."""
        del at
        return self.members.get(name)
