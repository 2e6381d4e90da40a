"""A federation: contexts at work, added and replaced while events flow."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

from polycast.contexts.declare.context import Context
from polycast.contexts.declare.rule_functions import registered
from polycast.contexts.resolve.inheritance import from_above
from polycast.contexts.run.member import EventCounts, FederationMember, PendingMembers, Statistics
from polycast.contexts.run.translator import Translator, check_depth
from polycast.errors import BadContextError, ContextRefusedError, NotTranslatedError
from polycast.errors.failures import failures_here
from polycast.plain_text import log_of
from polycast.runtime import shared_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    from polycast.contexts.check.findings import Finding, Report

_log = log_of("polycast.contexts")


class Federation:
    """The root, and the contexts of all parties.

    Readers see all of a change or nothing of it: what they read is replaced in one step and never
    changed. Where a store has contexts as they were before, they may name the functions of those in
    here, what the modules in `imports` define, and `functions` by their names: no others.
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
        self._counts = EventCounts(self._lock)
        self.overriding: set[str] = set()
        """The contexts that stand in place of what a store has under their names."""
        self.renewed: frozenset[str] = frozenset()
        """The contexts that the change under way is about."""
        self.findings: list[tuple[str, Finding]] = []
        """What was found wrong with types that were met while events flowed, by context."""

    # -- contexts ----------------------------------------------------------------------------------

    def add(self, context: Context, *, replace: bool = False) -> Report:
        """Check a context, and let events flow through it; its parents come with it.

        With `replace`, it stands in place of one of its name, here or in the store of a bus.
        """
        with self._lock:
            _check_belongs(context, self.root)
            new = [above for above in from_above(context) if not self._has(above)]
            for added in new:
                if added.name in self.members and not replace:
                    accepted = "a new name, federation.replace(), or replace=True"
                    if added is not context:
                        accepted = f"a parent that is in: federation.member({added.name!r}).context"
                    raise BadContextError("the name of a context", added.name, accepted=accepted)
            reports = {added: _accepted(added) for added in new or [context]}
            changed = new or [context] if replace else new
            self._put(changed, frozenset([context.name]), overriding=replace)
            return reports[context]

    def replace(self, context: Context) -> Report:
        """Put a context in place of the one with its name; those below it follow."""
        with self._lock:
            _check_belongs(context, self.root)
            if context.name not in self.members:
                raise _unknown(context.name, self.members)
            report = _accepted(context)
            for parent in context.parents:
                if not self._has(parent):
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
                raise _unknown(name, self.members)
            children = [member.name for member in self.members.values() if name in member.parents]
            if children:
                accepted = f"one that has no children; it has {', '.join(children)}"
                raise BadContextError("a context to remove", name, accepted=accepted)
            self._swap({key: member for key, member in self.members.items() if key != name})
            self._counts.forget(name)
            self.overriding = self.overriding - {name}

    def _has(self, context: Context) -> bool:
        """Whether a context itself is in, not another one of its name."""
        if context is self.root:
            return True
        member = self.members.get(context.name)
        return member is not None and member.context is context

    def _put(self, contexts: list[Context], asked: frozenset[str], *, overriding: bool) -> None:
        """Compile contexts and all below them aside, then put them into effect in one step."""
        before, overridden = self.members, self.overriding
        pending = PendingMembers(self.root, before, self._report)
        self.renewed = asked.union(context.name for context in contexts)
        if overriding:
            self.overriding = overridden | self.renewed
        try:
            for context in contexts:
                pending.put(context)
            self._swap(pending.members)
        except BaseException:
            self.overriding = overridden
            pending.undo()
            raise
        finally:
            self.renewed = frozenset()
        self._accepted.update(contexts)
        for name in pending.members.keys() - before.keys():
            self._counts.forget(name)  # of one of its name that was taken out
        for name, member in before.items():
            if pending.members[name].incoming is not member.incoming:
                self._counts.keep(member)

    def _swap(self, members: dict[str, FederationMember]) -> None:
        """Put a change into effect; if a guard or a watcher raises, nothing of it."""
        for guard in self._guards:
            if (check := guard()) is not None:
                check(members)
        before, self.members = self.members, members
        called: list[Callable[[], None]] = []
        alive = [(watcher, on_change) for watcher in self._watchers if (on_change := watcher())]
        self._watchers = [watcher for watcher, _ in alive]
        try:
            for _, on_change in alive:
                called.append(on_change)
                on_change()
        except BaseException:
            self.members = before
            for on_change in called:
                with contextlib.suppress(Exception):  # the first error is raised already
                    on_change()
            raise

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a method after each change, as long as its object lives."""
        with self._lock:
            self._watchers = [*self._watchers, weakref.WeakMethod(changed)]

    def guard(self, check: Callable[[dict[str, FederationMember]], None]) -> None:
        """Call a method before each change, as long as its object lives; it may raise."""
        with self._lock:
            self._guards = [*self._guards, weakref.WeakMethod(check)]

    def knows(self, context: Context) -> bool:
        """Whether a context is here, or was before it was replaced."""
        if context is self.root:
            return True
        return context.name in self.members and context in self._accepted

    def report(self, name: str, finding: Finding) -> None:
        """Keep and log a finding about a context at work, once."""
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
        member = self.members.get(name)
        if member is None:
            raise _unknown(name, (self.root.name, *self.members))
        return member

    def becomes(
        self, cls: type, *, source: Context | str | None, target: Context | str | None
    ) -> type | None:
        """The class of events of a class in another context; None if they do not get there."""
        outer, inner = self.member(source), self.member(target)
        if outer is inner:
            return cls
        in_root = cls if outer is None else outer.outgoing.becomes(cls)
        if in_root is None or inner is None:
            return in_root
        return inner.incoming.becomes(in_root)

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
            raise _not_translated(event, member, way, self.root.name)
        try:
            translated = run(event)
        except RecursionError as error:
            self._counts.failed(member, way, cls, error)
            check_depth(event)
            raise
        except failures_here() as error:
            self._counts.failed(member, way, cls, error)
            raise
        way.counts[cls] = way.counts.get(cls, 0) + 1
        return translated

    # -- statistics --------------------------------------------------------------------------------

    def count_dropped(self, context: str, cls: type) -> None:
        """Count an event that did not leave its context: no mapping, or no such context."""
        self._counts.dropped(context, cls, is_member=context in self.members)

    def problems(self) -> list[str]:
        """The contexts that lose events, as they are gone, or as functions keep failing."""
        with self._lock:
            return self._counts.problems(self.members)

    def statistics(self) -> dict[str, Statistics]:
        """What each context has done since it was added, by its name."""
        with self._lock:
            return self._counts.statistics(self.members)


def _check_belongs(context: object, root: Context) -> None:
    if not isinstance(context, Context):
        raise BadContextError("a context", context, accepted="a pc.Context")
    if context is root or not context.parents:
        accepted = f"a context below the root {root.name!r}"
        raise BadContextError("a context to add", context.name, accepted=accepted)
    if context.root is not root:
        accepted = f"a context below {root.name!r}, the root of this federation"
        if context.root.name == root.name:
            accepted += "; this one is below another context of that name"
        raise BadContextError("the root of a context", context.root.name, accepted=accepted)


def _unknown(name: object, known: Iterable[str]) -> BadContextError:
    accepted = " or ".join(known) or "none yet: add() brings one in, and the root stays"
    return BadContextError("a context of this federation", name, accepted=accepted)


def _accepted(context: Context) -> Report:
    """The report of a context without errors."""
    report = context.check()
    if report.errors:
        raise ContextRefusedError(context.name, report.errors)
    for warning in report.warnings:
        _log.warning("context %r: %s", context.name, warning)
    return report


def _not_translated(
    event: Any, member: FederationMember, way: Translator, root: str
) -> NotTranslatedError:
    """Why an event cannot get out of its context, or into another."""
    if way is member.outgoing:
        why = "it is a local type, and no '!' mapping lets it out"
        return NotTranslatedError(event, source=member.name, target=root, why=why)
    why = "it is a type of that context, and no event of the root"
    return NotTranslatedError(event, source=root, target=member.name, why=why)
