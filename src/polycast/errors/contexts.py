"""Contexts: what was declared and cannot be, and events that cannot cross."""

from __future__ import annotations

from collections.abc import Iterable

from polycast.errors.root import PolycastError, shown

__all__ = [
    "BadContextError",
    "BadResultError",
    "ContextConflictError",
    "ContextError",
    "ContextFrozenError",
    "ContextRefusedError",
    "EventTooDeepError",
    "NotTranslatedError",
]


class ContextError(PolycastError):
    """A context that cannot be used as asked."""


class BadContextError(ContextError, ValueError):
    """What was given is no context, or no part of one."""

    def __init__(
        self,
        what: str,
        given: object,
        *,
        accepted: str,
        where: str = "",
        errors: Iterable[object] = (),
    ) -> None:
        self.what, self.given, self.accepted, self.where = what, given, accepted, where
        self.errors = tuple(errors)
        place = f"{where}: " if where else ""
        lines = "".join(f"\n  {error}" for error in self.errors)
        super().__init__(f"{place}{what} was {shown(given)}; accepted: {accepted}{lines}")


class ContextRefusedError(ContextError):
    """A check found errors; what was there before goes on."""

    def __init__(self, context: str, errors: Iterable[object]) -> None:
        self.context, self.errors = context, tuple(errors)
        lines = "".join(f"\n  {error}" for error in self.errors)
        count = len(self.errors)
        super().__init__(
            f"context {context!r} has {count} error{'s' if count > 1 else ''} and is refused; "
            f"what was in effect before stays in effect{lines}"
        )


class ContextFrozenError(ContextError):
    """A context is in a federation; others may rely on it."""

    def __init__(self, context: str, operation: str) -> None:
        self.context, self.operation = context, operation
        super().__init__(
            f"{operation} on context {context!r}, which is in a federation and does not change; "
            f"make a new one and give it to federation.replace(), or copy it: context.copy()"
        )


class NotTranslatedError(ContextError):
    """An event that cannot be brought from one context to another."""

    def __init__(self, event: object, *, source: str, target: str, why: str) -> None:
        self.event, self.source, self.target, self.why = event, source, target, why
        super().__init__(
            f"an event of {shown(type(event))} cannot get from context {source!r} to {target!r}: "
            f"{why}"
        )


class BadResultError(ContextError, TypeError):
    """A function of a context gave something else than its annotation, or its target, says."""

    def __init__(self, function: str, given: object, *, where: str, wanted: str) -> None:
        self.function, self.given, self.where, self.wanted = function, given, where, wanted
        kind = "" if given is None else f", a {type(given).__name__}"
        super().__init__(
            f"{function} was called at {where} and gave {shown(given)}{kind}; accepted: {wanted}"
        )


class EventTooDeepError(ContextError, ValueError):
    """An event that holds itself, or is nested deeper than anybody can follow."""

    def __init__(self, event: object, *, cycle: str | None) -> None:
        self.event, self.cycle = event, cycle
        what = "is nested too deep" if cycle is None else f"holds itself at {cycle}"
        super().__init__(
            f"an event of {shown(type(event))} {what}, so it cannot be translated; accepted: data "
            "that comes to an end, with a name or a number in place of what it would hold again"
        )


class ContextConflictError(ContextError):
    """A store has another declaration under the name of a context."""

    def __init__(self, context: str, differences: Iterable[str]) -> None:
        self.context, self.differences = context, tuple(differences)
        lines = "".join(f"\n  {difference}" for difference in self.differences)
        super().__init__(
            f"context {context!r} is declared otherwise in the store; accepted: the same "
            "declaration, another name, or replace=True, which is in effect for all from the next "
            f"event on. The differences:{lines}"
        )
