"""Records as a context sees them: the root, one that the store keeps, or one that is tried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.contexts import Context
from polycast.contexts.declare.context_state import read_state, state_of
from polycast.errors import BadContextError, BadOptionError, ContextRefusedError
from polycast.routing.context_versions import ContextHistory
from polycast.stores import ContextVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.contexts.declare.context_state import ContextState, FunctionState
    from polycast.events import Record
    from polycast.stores import View
    from polycast.typesystem import Registry

__all__ = ["IMPURE", "Outlook", "Tried", "check_pure", "tried"]

IMPURE = "per_batch"
Tried = tuple[str, ...]
"""A context and those above it, each as data; the first is it."""


def tried(context: object) -> tuple[str | None, Tried]:
    """The name of a context, and what it is if it is not to be as the store has it."""
    if context is None or isinstance(context, str):
        return context, ()
    if not isinstance(context, Context):
        accepted = "a pc.Context, or the name of one that the store has"
        raise BadOptionError("context", context, accepted=accepted)
    if context.root is context:
        return None, ()
    errors = context.check().errors
    if errors:
        raise ContextRefusedError(context.name, errors)
    return context.name, tuple(state_of(each).decode() for each in context.lineage())


def functions_of(state: ContextState) -> list[FunctionState]:
    """All functions that a context names."""
    named = [*(each.function for each in state.rules), *(each.function for each in state.wholes)]
    return [each for each in named if each.name != "-"]


def check_pure(name: str, states: list[ContextState], impure: str | None) -> None:
    """Refuse a context that may give another result each time, unless that is wanted."""
    if impure not in (None, IMPURE):
        raise BadOptionError.choice("impure", impure, (IMPURE,))
    found = [each.name for state in states for each in functions_of(state) if each.impure]
    if found and impure is None:
        raise BadOptionError(
            "context",
            name,
            why=f"{', '.join(found)} may give something else each time",
            accepted=f"contexts without pc.impure(), or impure={IMPURE!r}: Spark may ask twice",
        )


class Outlook:
    """From where records are looked at. `None` is the root."""

    def __init__(
        self,
        registry: Registry,
        function: Callable[[str], Callable[..., object] | None],
        context: str | None,
        states: Tried = (),
    ) -> None:
        self.context, self._is_tried = context, bool(states)
        self._history = ContextHistory(registry, function)
        if states:
            versions = [
                ContextVersion(number, read_state(state.encode()).name, state.encode(), 0)
                for number, state in enumerate(states, 1)
            ]
            self._history.learn(versions)

    def look(self, view: View) -> None:
        """See what contexts the store has."""
        if self.context is not None and not self._is_tried:
            self._history.learn(view.contexts(), revision=view.revision())

    def check(self, position: int, impure: str | None, imports: Iterable[str] = ()) -> None:
        """Refuse a context that is not known, or cannot be used by workers."""
        if self.context is None:
            return
        kept = self._history.kept(self.context, position)
        if kept is None:
            accepted = ", ".join(self._history.names()) or "a pc.Context: the store has none"
            raise BadContextError("a context of the store", self.context, accepted=accepted)
        states = self._history.states(self.context, position)
        check_pure(self.context, states, impure)
        if not kept.is_whole:
            named = {
                each.name.partition(":")[0] for state in states for each in functions_of(state)
            }
            given = list(imports)
            missing = sorted(named - {"", "builtins", "polycast", *given})
            raise BadOptionError(
                "imports",
                given,
                why=f"whoever looks needs the functions and types of context {self.context!r}",
                accepted=f"the modules that have them: {missing or 'those of its types'}",
            )

    def needs_translation(self, record: Record) -> bool:
        """Whether a record is what it is here only after a translation."""
        return self.context is not None and record.context != self.context

    def record(self, record: Record) -> Record | None:
        """The record as it is in this context, or in the root; None if it does not get there."""
        return record if record.context == self.context else record.rooted()

    def becomes(self, cls: type, position: int) -> type | None:
        """What a class of the root is here."""
        if self.context is None:
            return cls
        kept = self._history.kept(self.context, position)
        return None if kept is None else kept.member.incoming.becomes(cls)

    def translator(self, position: int) -> Callable[[Any], Any]:
        """What makes of an event of the root what it is here."""
        assert self.context is not None
        kept = self._history.kept(self.context, position)
        assert kept is not None
        return kept.member.incoming.translate

    def classes_here(self, cls: type) -> set[type]:
        """What a class of the root is, or was, here."""
        assert self.context is not None
        found = (kept.member.incoming.becomes(cls) for kept in self._history.every(self.context))
        return {each for each in found if each is not None}
