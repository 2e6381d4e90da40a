"""A context in a federation: compiled, recompiled after a change, and what it has done."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polycast.contexts.resolve.inheritance import settle
from polycast.contexts.run.translator import Translator
from polycast.plain_text import log_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from polycast.contexts.check.findings import Finding, Report
    from polycast.contexts.declare.context import Context

_log = log_of("polycast.contexts")


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


class PendingMembers:
    """The members of a federation as they will be, compiled beside those at work."""

    def __init__(
        self,
        root: Context,
        members: dict[str, FederationMember],
        report: Callable[[str, Finding], None],
    ) -> None:
        self.members = dict(members)
        self._root, self._report = root, report
        self._frozen: list[Context] = []

    def put(self, context: Context) -> None:
        """Compile a context, and recompile all below it."""
        if not context.is_frozen:
            self._frozen.append(context)
        context.freeze()
        self.members[context.name] = FederationMember(context, self._report)
        self._recompile_children(context)

    def undo(self) -> None:
        """Thaw the contexts that were frozen for this change."""
        for context in self._frozen:
            context.thaw()

    def _recompile_children(self, parent: Context) -> None:
        """Recompile the contexts below a new parent; one that breaks keeps its old code."""
        for name, member in list(self.members.items()):
            if parent.name not in member.parents:
                continue
            parents = [
                self._root if above is self._root else self.members[above.name].context
                for above in member.context.parents
            ]
            child = member.context.copy(parent=parents)
            report = child.check()
            if report.errors:
                stale = self.members[name] = copy.copy(member)
                stale.stale = report
                _log.warning("context %r is stale: it does not go with its new parent", name)
                continue
            child.freeze()
            self.members[name] = FederationMember(child, self._report)
            self._recompile_children(child)


# -- statistics ------------------------------------------------------------------------------------

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


class EventCounts:
    """The counts of all contexts of a federation; callers hold its lock, but to count events.

    Translators count what they translate; the rest is here, with the counts of replaced contexts.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._counts: dict[str, Statistics] = {}

    def forget(self, name: str) -> None:
        """Drop the counts of a context that was taken out."""
        self._counts.pop(name, None)

    def keep(self, member: FederationMember) -> None:
        """Keep the counts of a context that is replaced, so that its successor continues them."""
        self._counts[member.name] = self._of(member)

    def dropped(self, context: str, cls: type, *, is_member: bool) -> None:
        """Count an event that did not leave its context, and log the first of its type."""
        with self._lock:
            counts = self._counts.setdefault(context, Statistics()).dropped
            counts[cls.__name__] = counts.get(cls.__name__, 0) + 1
            is_first = counts[cls.__name__] == 1
        if is_first:
            why = "it is a local type, and no '!' mapping lets it out"
            why = why if is_member else _TAKEN_OUT
            _log.warning("events of %s do not leave context %r: %s", cls.__name__, context, why)

    def failed(
        self, member: FederationMember, way: Translator, cls: type, error: BaseException
    ) -> None:
        """Count an event that could not be translated."""
        with self._lock:
            counts = self._counts.setdefault(member.name, Statistics()).failed
            counts[cls.__name__] = counts.get(cls.__name__, 0) + 1
            way.failed(cls, error)

    def problems(self, members: Mapping[str, FederationMember]) -> list[str]:
        """The contexts that lose events: they are gone, or their functions keep failing."""
        gone = [
            f"{count} events of {cls} did not leave context {name!r}: {_TAKEN_OUT}"
            for name, statistics in self._counts.items()
            if name not in members
            for cls, count in statistics.dropped.items()
        ]
        failing = [text for member in members.values() for text in _failing(member)]
        return [*gone, *failing]

    def statistics(self, members: Mapping[str, FederationMember]) -> dict[str, Statistics]:
        """What each context has done, by its name."""
        return {name: self._of(member) for name, member in members.items()}

    def _of(self, member: FederationMember) -> Statistics:
        statistics = copy.deepcopy(self._counts.get(member.name, Statistics()))
        statistics.stale = member.stale is not None
        for way, counts in (
            (member.incoming, statistics.incoming),
            (member.outgoing, statistics.outgoing),
        ):
            for cls, count in list(way.counts.items()):
                mapping = way.mapping(cls)
                if mapping is None:
                    statistics.unchanged += count
                else:
                    counts[str(mapping)] = counts.get(str(mapping), 0) + count
        return statistics


def _failing(member: FederationMember) -> Iterator[str]:
    for way, where in ((member.incoming, "into"), (member.outgoing, "out of")):
        for cls, trials in way.vain():
            name = way.culprits.get(cls)
            function = f"the function {name}" if name else "a function"
            yield (
                f"{function} of context {member.name!r} fails, so no {cls.__name__} gets {where} "
                f"it: {trials}"
            )
