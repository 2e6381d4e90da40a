"""A federation: contexts at work, added and replaced while events flow."""

from __future__ import annotations

import contextlib
import copy
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polycast.contexts.declare.context import Context
from polycast.contexts.declare.function_names import registered
from polycast.contexts.resolve.inheritance import from_above, settle
from polycast.contexts.run.depth import check_depth
from polycast.contexts.run.translator import Translator
from polycast.errors import BadContextError, ContextRefusedError, NotTranslatedError
from polycast.errors.failures import FAILURES
from polycast.forks import shared_lock
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

    from polycast.contexts.check.findings import Finding, Report

__all__ = ["Federation", "FederationMember", "Statistics"]

_log = log_of("polycast.contexts")
_TAKEN_OUT = "that was taken out of the federation"


@dataclass
class Statistics:
    """What a context has done."""

    incoming: dict[str, int] = field(default_factory=dict)
    """Events translated from the root, by mapping."""
    outgoing: dict[str, int] = field(default_factory=dict)
    """Events translated to the root, by mapping."""
    unchanged: int = 0
    """Events of root types that no mapping is for."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Events of local types that no mapping lets out, by type."""
    failed: dict[str, int] = field(default_factory=dict)
    """Events for which a function raised, by type."""
    stale: bool = False
    """Whether a parent was replaced by one that this context does not go with."""


class FederationMember:
    """A context in a federation, compiled."""

    def __init__(self, context: Context, report: Callable[[str, Finding], None]) -> None:
        self.context, self.name = context, context.name
        self.parents = tuple(parent.name for parent in context.parents)
        settled = settle(context)
        self.settled, self.is_pure = settled, settled.is_pure
        self.incoming = Translator(settled, "?", lambda finding: report(self.name, finding))
        self.outgoing = Translator(settled, "!", lambda finding: report(self.name, finding))
        self.stale: Report | None = None
        """Why it could not follow its parent, if that is so."""


class Federation:
    """The root, and the contexts of all parties.

    What is read here is replaced in one step and never changed: a reader sees all of a change or
    nothing of it. Where a store has contexts as they were before, they may name the functions of
    those in here, what the modules in `imports` define, and `functions` by their names: no others.
    """

    def __init__(
        self,
        root: Context,
        *,
        imports: Iterable[ModuleType | str] = (),
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        if not isinstance(root, Context) or root.parents:
            raise BadContextError("root", root, accepted="a context without a parent")
        self.names = registered("imports", imports, functions, where=root.name)
        report = root.check()
        if report.errors:
            raise ContextRefusedError(root.name, report.errors)
        root.freeze()
        self.root = root
        self._lock = shared_lock()
        self.members: dict[str, FederationMember] = {}
        self._watchers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._guards: list[weakref.WeakMethod[Callable[[dict[str, FederationMember]], None]]] = []
        self._accepted: weakref.WeakSet[Context] = weakref.WeakSet()
        self._counts: dict[str, Statistics] = {}
        self.overriding: set[str] = set()
        """The contexts that stand in place of what a store has under their names."""
        self.renewed: frozenset[str] = frozenset()
        """Those that the change that is under way is about."""
        self.findings: list[tuple[str, Finding]] = []
        """What was found wrong with types that were met while events flowed, by context."""

    # -- contexts ----------------------------------------------------------------------------------

    def add(self, context: Context, *, replace: bool = False) -> Report:
        """Check a context, and let events flow through it; its parents come with it.

        With `replace`, it stands in place of one of its name, here or in the store of a bus.
        """
        with self._lock:
            self._check_belongs(context)
            above = [each for each in from_above(context) if each is not self.root]
            new = [each for each in above if not self._has(each)]
            for each in new:
                if each.name in self.members and not replace:
                    accepted = "a new name, federation.replace(), or replace=True"
                    if each is not context:
                        accepted = f"a parent that is in: federation.member({each.name!r}).context"
                    raise BadContextError("the name of a context", each.name, accepted=accepted)
            reports = {each: _accepted(each) for each in new or [context]}
            asked = frozenset([context.name])
            self._put(new or [context] if replace else new, asked, overriding=replace)
            return reports[context]

    def replace(self, context: Context) -> Report:
        """Put a context in place of the one with its name, and let those below follow it."""
        with self._lock:
            self._check_belongs(context)
            if context.name not in self.members:
                raise self._unknown(context.name, root=False)
            report = _accepted(context)
            for parent in context.parents:
                if parent is not self.root and not self._has(parent):
                    accepted = "parents that are in the federation"
                    raise BadContextError(
                        "parent", parent.name, accepted=accepted, where=context.name
                    )
            self._put([context], frozenset([context.name]), overriding=True)
            return report

    def remove(self, context: Context | str) -> None:
        """Take a context out."""
        name = context if isinstance(context, str) else context.name
        with self._lock:
            if name not in self.members:
                raise self._unknown(name, root=False)
            below = [each.name for each in self.members.values() if name in each.parents]
            if below:
                accepted = f"one that has no children; it has {', '.join(below)}"
                raise BadContextError("a context to remove", name, accepted=accepted)
            self._swap({key: each for key, each in self.members.items() if key != name})
            self._counts.pop(name, None)
            self.overriding = self.overriding - {name}

    def _has(self, context: Context) -> bool:
        """Whether a context itself is in, not another one of its name."""
        known = self.members.get(context.name)
        return known is not None and known.context is context

    def _put(self, contexts: list[Context], asked: frozenset[str], *, overriding: bool) -> None:
        """Compile contexts and all below them aside, then have them in effect in one step."""
        before = self.members
        made: list[Context] = []  # what is in effect if this succeeds, and frozen here
        overridden = self.overriding
        self.renewed = asked.union(each.name for each in contexts)
        if overriding:
            self.overriding = overridden | self.renewed
        try:
            members = dict(before)
            for context in contexts:
                self._freeze(context, made)
                members[context.name] = FederationMember(context, self._report)
                self._follow(context, members)
            self._swap(members)
        except BaseException:
            self.overriding = overridden
            for each in made:
                each.thaw()
            raise
        finally:
            self.renewed = frozenset()
        self._accepted.update(contexts)
        for name in members.keys() - before.keys():
            self._counts.pop(name, None)  # of one of its name that was taken out
        for name, member in before.items():
            if members[name].incoming is not member.incoming:
                self._counts[name] = self._statistics(member)  # its successor goes on from there

    def _freeze(self, context: Context, made: list[Context]) -> None:
        if not context.is_frozen:
            made.append(context)
        context.freeze()

    def _follow(self, parent: Context, members: dict[str, FederationMember]) -> None:
        """Contexts below a new parent are made anew; one that breaks keeps its old code."""
        for name, member in list(members.items()):
            if parent.name not in member.parents:
                continue
            above = [
                self.root if each is self.root else members[each.name].context
                for each in member.context.parents
            ]
            child = member.context.copy(parent=above)
            report = child.check()
            if report.errors:
                old = members[name] = _copy_of(member)
                old.stale = report
                _log.warning("context %r is stale: it does not go with its new parent", name)
                continue
            child.freeze()
            members[name] = FederationMember(child, self._report)
            self._follow(child, members)

    def _swap(self, members: dict[str, FederationMember]) -> None:
        """Have all of a change, or nothing: who cannot have it says so, and nobody does."""
        for guard in self._guards:
            if (check := guard()) is not None:
                check(members)
        before, self.members = self.members, members
        told: list[Callable[[], None]] = []
        alive = [(each, changed) for each in self._watchers if (changed := each()) is not None]
        self._watchers = [each for each, _ in alive]
        try:
            for _, changed in alive:
                told.append(changed)
                changed()
        except BaseException:
            self.members = before
            for changed in told:
                with contextlib.suppress(Exception):  # what went wrong is said already
                    changed()
            raise

    def watch(self, changed: Callable[[], None]) -> None:
        """Have a method called after each change, as long as its object lives."""
        with self._lock:
            self._watchers = [*self._watchers, weakref.WeakMethod(changed)]

    def guard(self, check: Callable[[dict[str, FederationMember]], None]) -> None:
        """Have a method called before each change, as long as its object lives; it may raise."""
        with self._lock:
            self._guards = [*self._guards, weakref.WeakMethod(check)]

    def knows(self, context: Context) -> bool:
        """Whether a context is here, or was before it was replaced."""
        if context is self.root:
            return True
        return context.name in self.members and context in self._accepted

    def _check_belongs(self, context: object) -> None:
        if not isinstance(context, Context):
            raise BadContextError("a context", context, accepted="a pc.Context")
        if context is self.root or not context.parents:
            accepted = f"a context below the root {self.root.name!r}"
            raise BadContextError("a context to add", context.name, accepted=accepted)
        if context.root is not self.root:
            accepted = f"a context below {self.root.name!r}, the root of this federation"
            if context.root.name == self.root.name:
                accepted += "; this one is below another context of that name"
            raise BadContextError("the root of a context", context.root.name, accepted=accepted)

    def _unknown(self, name: object, *, root: bool = True) -> BadContextError:
        names = [*([self.root.name] if root else []), *self.members]
        accepted = " or ".join(names) or "none yet: add() brings one in, and the root stays"
        return BadContextError("a context of this federation", name, accepted=accepted)

    def report(self, name: str, finding: Finding) -> None:
        """Have something found that concerns a context at work, and said once."""
        if (name, finding) not in self.findings:
            self._report(name, finding)

    def _report(self, name: str, finding: Finding) -> None:
        self.findings.append((name, finding))
        _log.warning("context %r: %s", name, finding)

    def __contains__(self, context: Context | str) -> bool:
        name = context if isinstance(context, str) else context.name
        return name == self.root.name or name in self.members

    # -- events ------------------------------------------------------------------------------------

    def member(self, context: Context | str | None) -> FederationMember | None:
        """A context at work; None for the root."""
        if context is None or context is self.root:
            return None
        name = context if isinstance(context, str) else context.name
        if name == self.root.name:
            return None
        found = self.members.get(name)
        if found is None:
            raise self._unknown(name)
        return found

    def becomes(
        self, cls: type, *, source: Context | str | None, target: Context | str | None
    ) -> type | None:
        """What events of a class are in another context; None if they do not get there."""
        outer, inner = self.member(source), self.member(target)
        if outer is inner:
            return cls
        found: type | None = cls if outer is None else outer.outgoing.becomes(cls)
        if found is None or inner is None:
            return found
        return inner.incoming.becomes(found)

    def translate(
        self,
        event: Any,
        *,
        source: Context | str | None = None,
        target: Context | str | None = None,
    ) -> Any:
        """An event as another context sees it; without a context, the root."""
        outer, inner = self.member(source), self.member(target)
        if outer is inner:
            return event
        if outer is not None:
            event = self.cross(outer, outer.outgoing, event)
        if inner is not None:
            event = self.cross(inner, inner.incoming, event)
        return event

    def cross(self, member: FederationMember, way: Translator, event: Any) -> Any:
        """Bring an event out of a context, or into it, and count that."""
        cls = type(event)
        run = way.functions.get(cls) or way.function(cls)
        if run is None:
            raise self._stays(member, way, event)
        try:
            found = run(event)
        except RecursionError as error:
            self._failed(member, way, cls, error)
            check_depth(event)
            raise
        except FAILURES as error:
            self._failed(member, way, cls, error)
            raise
        way.counts[cls] = way.counts.get(cls, 0) + 1
        return found

    def _stays(self, member: FederationMember, way: Translator, event: Any) -> NotTranslatedError:
        """An event that cannot get out of its context, or into another."""
        if way is member.outgoing:
            why = "it is a local type, and no '!' mapping lets it out"
            return NotTranslatedError(event, source=member.name, target=self.root.name, why=why)
        why = "it is a type of that context, and no event of the root"
        return NotTranslatedError(event, source=self.root.name, target=member.name, why=why)

    # -- looking -----------------------------------------------------------------------------------

    def count_dropped(self, context: str, cls: type) -> None:
        """An event did not leave its context: no mapping lets it out, or the context is gone."""
        with self._lock:
            counts = self._counts.setdefault(context, Statistics()).dropped
            counts[cls.__name__] = counts.get(cls.__name__, 0) + 1
            first = counts[cls.__name__] == 1
        if first:
            why = "it is a local type, and no '!' mapping lets it out"
            why = why if context in self.members else _TAKEN_OUT
            _log.warning("events of %s do not leave context %r: %s", cls.__name__, context, why)

    def _failed(
        self, member: FederationMember, way: Translator, cls: type, error: BaseException
    ) -> None:
        with self._lock:
            counts = self._counts.setdefault(member.name, Statistics()).failed
            counts[cls.__name__] = counts.get(cls.__name__, 0) + 1
            way.failed(cls, error)

    def problems(self) -> list[str]:
        """The contexts that events do not leave as they are gone, or as functions fail of late."""
        with self._lock:
            gone = [name for name in self._counts if name not in self.members]
            return [
                *(
                    f"{count} events of {cls} did not leave context {name!r}: {_TAKEN_OUT}"
                    for name in gone
                    for cls, count in self._counts[name].dropped.items()
                ),
                *self._failing(),
            ]

    def _failing(self) -> Iterator[str]:
        for member in self.members.values():
            for way in (member.incoming, member.outgoing):
                for cls, trials in way.vain():
                    yield (
                        f"{_titled(way.culprits.get(cls))} of context {member.name!r} fails, so no "
                        f"{cls.__name__} gets {'into' if way is member.incoming else 'out of'} it: "
                        f"{trials}"
                    )

    def statistics(self) -> dict[str, Statistics]:
        """What each context has done since it was put here, by its name."""
        with self._lock:
            return {name: self._statistics(member) for name, member in self.members.items()}

    def _statistics(self, member: FederationMember) -> Statistics:
        found = copy.deepcopy(self._counts.get(member.name, Statistics()))
        found.stale = member.stale is not None
        for way, counts in (
            (member.incoming, found.incoming),
            (member.outgoing, found.outgoing),
        ):
            for cls, count in list(way.counts.items()):
                mapping = way.mapping(cls)
                if mapping is None:
                    found.unchanged += count
                else:
                    counts[str(mapping)] = counts.get(str(mapping), 0) + count
        return found


def _accepted(context: Context) -> Report:
    report = context.check()
    if report.errors:
        raise ContextRefusedError(context.name, report.errors)
    for each in report.warnings:
        _log.warning("context %r: %s", context.name, each)
    return report


def _copy_of(member: FederationMember) -> FederationMember:
    made = FederationMember.__new__(FederationMember)
    made.__dict__.update(member.__dict__)
    return made


def _titled(function: str | None) -> str:
    return f"the function {function}" if function else "a function"
