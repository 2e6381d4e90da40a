"""Filters that are wrong, or cannot be asked where they should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors.root import PolycastError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FilterError", "FilterMistake", "NoSparkForm", "NoSparkType", "NotRoutable"]


class FilterError(PolycastError):
    """The root of the filters' errors."""


class FilterMistake(FilterError):
    """A filter that names what its type cannot have, or does what its type cannot do."""

    def __init__(self, problems: Iterable[object], types: str) -> None:
        self.problems, self.types = tuple(problems), types
        listed = "\n".join(map(str, self.problems))
        super().__init__(f"the filter cannot be right for {types}:\n{listed}")


class NoSparkForm(FilterError):
    """A part of a filter that no Spark column can compute exactly."""

    def __init__(self, part: str, *, node: object, why: str, accepted: str) -> None:
        self.part, self.node, self.why, self.accepted = part, node, why, accepted
        super().__init__(
            f"`{part}` has no exact Spark form: {why}. Accepted: {accepted}. "
            f"It still works in Python"
        )


class NotRoutable(FilterError):
    """A filter of which the pipeline could ask nothing."""

    def __init__(self, where: object, *, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(
            f"engine='spark' cannot route by {where}: {why}. Accepted: a filter of which at least "
            f"one part after `and` can be looked into, or a function of a module, which the "
            f"pipeline imports if its imports= names that module. engine='direct' takes any filter"
        )


class NoSparkType(FilterError):
    """An annotation that no Spark column can hold exactly."""

    def __init__(self, where: str, *, why: str, accepted: str) -> None:
        self.where, self.why, self.accepted = where, why, accepted
        super().__init__(f"{where} has no Spark type: {why}. Accepted: {accepted}")
