"""A context in a federation, compiled; and how a change of contexts is compiled aside."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from polycast.contexts.resolve.inheritance import settle
from polycast.contexts.run.translator import Translator
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable

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
