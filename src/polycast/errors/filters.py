"""Filters that are wrong, or cannot be asked where they should."""

from __future__ import annotations

from collections.abc import Iterable

from polycast.errors.root import PolycastError

__all__ = [
    "FilterError",
    "FilterMistakeError",
    "FilterSyntaxError",
    "FilterTooCostlyError",
    "FilterTypeError",
    "NoSparkFormError",
    "NoSparkTypeError",
    "NotRoutableError",
]

SHOWN = 60  # characters of a text on each side of a mistake


class FilterError(PolycastError):
    """The root of the filters' errors."""


class FilterMistakeError(FilterError):
    """A filter that names what its type cannot have, or does what its type cannot do."""

    def __init__(self, problems: Iterable[object], types: str) -> None:
        self.problems, self.types = tuple(problems), types
        listed = "\n".join(map(str, self.problems))
        super().__init__(f"the filter cannot be right for {types}:\n{listed}")


class FilterTooCostlyError(FilterError):
    """A filter from outside with a part whose cost has no bound in the size of the event."""

    def __init__(self, what: str, why: str, *, accepted: str) -> None:
        self.what, self.why, self.accepted = what, why, accepted
        text = f"{what} in a filter from outside is refused: {why}"
        super().__init__(f"{text}; accepted: {accepted}" if accepted else text)


class _Misplaced(FilterError):
    """Something wrong at a place of a text, which is shown with a caret under it."""

    def __init__(
        self, text: str, *, language: str, position: int, problem: str, accepted: str
    ) -> None:
        self.text, self.language, self.position = text, language, position
        self.problem, self.accepted = problem, accepted
        super().__init__(
            f"{language}, character {position + 1}: {problem}. Accepted: {accepted}\n"
            f"{_pointed(text, position)}"
        )


class FilterSyntaxError(_Misplaced):
    """A text that is no filter of its language; it shows where."""


class FilterTypeError(_Misplaced):
    """A filter that puts together what can never go together, such as a number and a text."""


def _pointed(text: str, position: int) -> str:
    """The part of a text around a position, on one line, and a caret under the position."""
    begin, end = max(0, position - SHOWN), position + SHOWN
    before, after = text[begin:position], text[position:end]
    left = "... " if begin else ""
    line = "".join(char if char.isprintable() else " " for char in f"{left}{before}{after}")
    return f"  {line}{' ...' if end < len(text) else ''}\n  {' ' * (len(left) + len(before))}^"


class NoSparkFormError(FilterError):
    """A part of a filter that no Spark column can compute exactly."""

    def __init__(self, part: str, *, node: object, why: str, accepted: str) -> None:
        self.part, self.node, self.why, self.accepted = part, node, why, accepted
        super().__init__(
            f"`{part}` has no exact Spark form: {why}. Accepted: {accepted}. "
            f"It still works in Python"
        )


class NotRoutableError(FilterError):
    """A filter of which the pipeline could ask nothing."""

    def __init__(self, where: object, *, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(
            f"engine='spark' cannot route by {where}: {why}. Accepted: a filter of which at least "
            f"one part after `and` can be looked into, or a function of a module, which the "
            f"pipeline imports if its imports= names that module. engine='direct' takes any filter"
        )


class NoSparkTypeError(FilterError):
    """An annotation that no Spark column can hold exactly."""

    def __init__(self, where: str, *, why: str, accepted: str) -> None:
        self.where, self.why, self.accepted = where, why, accepted
        super().__init__(f"{where} has no Spark type: {why}. Accepted: {accepted}")
