"""What contexts were at each position of a log, as its store has kept it."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from polycast.contexts import Context, Member
from polycast.contexts.functions import unchecked
from polycast.contexts.state import context_from, functions_of, read_state, state_of
from polycast.errors import BadContext, NotDecodable, PolycastError
from polycast.routing.borders.crossing import Astray, Crossing
from polycast.text import log_of
from polycast.typesystem import is_made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polycast.contexts import Federation, Finding
    from polycast.contexts.state import ContextState
    from polycast.stores import ContextVersion
    from polycast.typesystem import Registry

__all__ = ["ContextHistory", "Kept", "StoredCrossing"]

_log = log_of("polycast.contexts")
Lineage = tuple[int, ...]  # the numbers of a version and of those above it, at some position


class Kept:
    """A version of a context, as far as this process can have it."""

    def __init__(self, member: Member, *, is_whole: bool, is_pure: bool) -> None:
        self.member = member
        self.is_whole = is_whole
        """Whether all its functions and classes are here; functions that are not raise."""
        self.is_pure = is_pure
        """Whether its functions give the same tomorrow."""


class ContextHistory:
    """Contexts by position. What nobody here has declared is made from what the store says."""

    def __init__(
        self, registry: Registry, function: Callable[[str], Callable[..., object] | None]
    ) -> None:
        self._registry, self._function = registry, function
        self._versions: dict[str, list[ContextVersion]] = {}
        self._by_number: dict[int, ContextVersion] = {}
        self._offered: dict[tuple[bytes, ...], Member] = {}
        self._own: dict[str, Callable[..., Any]] = {}
        self._declared: dict[str, bytes] = {}  # what contexts are by what this process says
        self._turns: list[int] = []
        self._known: dict[tuple[str, int], Kept | None] = {}
        self._made: dict[Lineage, Kept | None] = {}
        self._contexts: dict[Lineage, Context] = {}
        self._unknown: dict[tuple[str, int], PolycastError] = {}  # why there is none, as in _known

    def knows(self, versions: Iterable[ContextVersion]) -> bool:
        """Whether there is no version that is new here."""
        return all(version.number in self._by_number for version in versions)

    def learn(self, versions: Iterable[ContextVersion]) -> None:
        """Have all versions that a store has, by number."""
        found: dict[str, list[ContextVersion]] = {}
        for each in versions:
            found.setdefault(each.name, []).append(each)
        self._versions = found
        self._by_number = {each.number: each for some in found.values() for each in some}
        ends = (end for each in self._by_number.values() for end in (each.start, each.until))
        self._turns = sorted({end for end in ends if end is not None})
        self._known, self._unknown = {}, {}

    def offer(self, federation: Federation) -> None:
        """Use what is declared here for the versions that are the same, and its functions."""
        bodies: dict[int, bytes] = {}

        def bodies_of(context: Context) -> tuple[bytes, ...]:
            for each in context.lineage():
                if id(each) not in bodies:
                    bodies[id(each)] = self._declared[each.name] = state_of(each)
                    self._own.update(functions_of(each))
            return tuple(bodies[id(each)] for each in context.lineage())

        for member in federation.members.values():
            self._offered[bodies_of(member.context)] = member
        self._known, self._made = {}, {}

    def kept(self, name: str, position: int) -> Kept | None:
        """A context at a position; None if there is none."""
        key = (name, self.turn(position))
        if key not in self._known:
            self._known[key] = self._found_at(name, position)
        return self._known[key]

    def _found_at(self, name: str, position: int) -> Kept | None:
        try:
            lineage = self._lineage(name, position)
            if not lineage:
                return None
            if lineage not in self._made:
                self._made[lineage] = self._make(name, position, lineage)
        except PolycastError as error:  # of a newer version, perhaps, or nobody has described it
            _log.warning("context %r at position %d is not known here: %s", name, position, error)
            self._unknown[name, self.turn(position)] = error
            return None
        return self._made[lineage]

    def why_unknown(self, name: str, position: int) -> PolycastError | None:
        """Why nobody here can say what a context is at a position, if others have changed it."""
        if self.kept(name, position) is not None or not self.is_superseded(name, position):
            return None
        return self._unknown.get((name, self.turn(position)))

    def names(self) -> list[str]:
        """The contexts that there are or were."""
        return sorted(self._versions)

    def states(self, name: str, position: int) -> list[ContextState]:
        """A context at a position, and those above it, as data."""
        numbers = self._lineage(name, position)
        return [read_state(self._by_number[number].body) for number in numbers]

    def every(self, name: str) -> list[Kept]:
        """All that a context was, each between two turns."""
        found = [self.kept(name, position) for position in (0, *self._turns)]
        return [each for each in found if each is not None]

    def turn(self, position: int) -> int:
        """Between which turns a position is: there, nothing changes."""
        return bisect_right(self._turns, position) if self._turns else 0

    def is_there(self, name: str, position: int) -> bool:
        """Whether there is a context at a position, be it known here what it is or not."""
        return self._at(name, position) is not None

    def has_ended(self, name: str, position: int) -> bool:
        """Whether a context was there, and is not any more at a position."""
        return bool(self._versions.get(name)) and self._at(name, position) is None

    def is_superseded(self, name: str, position: int) -> bool:
        """Whether others have replaced what this process declares, before a position."""
        try:
            lineage = self._lineage(name, position)
        except BadContext:  # what cannot be read here is not what this process declares
            return True
        return any(self._is_later(self._by_number[number]) for number in lineage)

    def _is_later(self, version: ContextVersion) -> bool:
        declared = self._declared.get(version.name)
        if declared is None or declared == version.body:
            return False
        own = [each.start for each in self._versions[version.name] if each.body == declared]
        return bool(own) and version.start > own[-1]

    # -- which versions ----------------------------------------------------------------------------

    def _at(self, name: str, position: int) -> ContextVersion | None:
        """The version of a name at a position; the first is for all that was before it, too."""
        versions = self._versions.get(name)
        if not versions:
            return None
        begun = [each for each in versions if each.start <= position]
        if not begun:
            return versions[0]
        last = begun[-1]
        return last if last.until is None or position < last.until else None

    def _lineage(self, name: str, position: int) -> Lineage:
        """The numbers of a version and of those above it, in the order of `Context.lineage`."""
        found: dict[str, int] = {}
        waiting = [name]
        for each in waiting:
            version = self._at(each, position)
            if version is None:
                return ()
            if each not in found:
                found[each] = version.number
                waiting += read_state(version.body).parents
        return tuple(found.values())

    # -- what they are here ------------------------------------------------------------------------

    def _make(self, name: str, position: int, lineage: Lineage) -> Kept | None:
        bodies = tuple(self._by_number[number].body for number in lineage)
        offered = self._offered.get(bodies)
        if offered is not None:
            return Kept(offered, is_whole=True, is_pure=_is_pure(map(read_state, bodies)))
        states = [read_state(body) for body in bodies]
        missing: set[str] = set()
        context = self._context(name, position, missing)
        errors = () if missing else context.check().errors
        if errors:
            return self._before(name, position, lineage, errors)
        context.freeze()
        member = Member(context, _report)
        # A class that was made does not say what its attributes hold.
        whole = not missing and not any(map(is_made, member.settled.types.types))
        return Kept(member, is_whole=whole, is_pure=_is_pure(states))

    def _before(
        self, name: str, position: int, lineage: Lineage, errors: Sequence[Finding]
    ) -> Kept | None:
        """A parent has changed so that this context does not go with it: it stays what it was."""
        last = max(self._by_number[number].start for number in lineage)
        own = self._by_number[lineage[0]]
        if last <= own.start:
            accepted = f"one that passes the check here: {'; '.join(map(str, errors))}"
            raise BadContext("a version of a context", name, accepted=accepted)
        _log.warning("context %r is stale from position %d on", name, position)
        return self.kept(name, last - 1)

    def _context(self, name: str, position: int, missing: set[str]) -> Context:
        lineage = self._lineage(name, position)
        known = self._contexts.get(lineage)
        if known is not None:
            return known
        version = self._at(name, position)
        if version is None:
            raise BadContext("a context", name, accepted="one that the store has")
        above = read_state(version.body).parents
        made = context_from(
            version.body,
            class_named=self._class,
            function_named=lambda path: self._found(path, missing),
            parents={each: self._context(each, position, missing) for each in above},
        )
        if not missing:
            self._contexts[lineage] = made
        return made

    def _class(self, name: str, version: int) -> type:
        try:
            return self._registry.class_for(name, version, None)
        except NotDecodable as error:
            raise BadContext("a type", name, accepted=f"one that is described ({error})") from None

    def _found(self, path: str, missing: set[str]) -> Callable[[Any], Any]:
        found = self._own.get(path) or self._function(path)
        if found is not None:
            return found
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
    return not any(
        function.impure
        for state in states
        for function in (
            *(rule.function for rule in state.rules),
            *(whole.function for whole in state.wholes),
        )
    )


def _report(context: str, finding: Finding) -> None:
    _log.warning("context %r: %s", context, finding)


class StoredCrossing(Crossing):
    """The contexts of a bus over a store: each event meets them as they were at its position."""

    def __init__(self, history: ContextHistory) -> None:
        super().__init__()
        self.history = history

    def turn(self, start: int, oldest: int) -> None:
        """Have the contexts as they are now; what they were, the store knows."""
        del oldest
        super().turn(start, start)

    def member(self, name: str, at: int | None) -> Member | None:
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
        """As any; `Astray` where others have made the context what nobody here can know."""
        unknown = None if at is None else self.history.why_unknown(target, at)
        if unknown is not None:
            raise Astray(target, unknown)
        return super().way_in(target, at)

    def publisher(self, name: str, at: int | None) -> Member | None:
        """The context of a publisher, as it is now: the root form is kept with the event."""
        del at
        return self.members.get(name)
