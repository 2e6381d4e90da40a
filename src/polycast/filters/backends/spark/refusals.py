"""What has no exact Spark form is refused by name, never approximated.

FilterError
├── NoSparkType     an annotation that no column can hold exactly
└── NoSparkForm     a part of a filter that no column can compute exactly
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import FilterError
from polycast.filters.text import render

if TYPE_CHECKING:
    from polycast.filters import nodes

__all__ = ["NoSparkForm", "NoSparkType", "Refusal"]


class Refusal(Exception):
    """Why a part is refused; the part itself is added by who knows it."""

    def __init__(self, why: str, *, accepted: str) -> None:
        self.why, self.accepted = why, accepted
        super().__init__(f"{why}; accepted: {accepted}")


class NoSparkType(FilterError):
    """An annotation that no column can hold exactly."""

    def __init__(self, where: str, *, why: str, accepted: str) -> None:
        self.where, self.why, self.accepted = where, why, accepted
        super().__init__(f"{where} has no Spark type: {why}. Accepted: {accepted}")


def _text(node: nodes.Node) -> str:
    try:
        return render(node)
    except RecursionError:
        return f"{type(node).__name__}(...)"


class NoSparkForm(FilterError):
    """A part of a filter that no column can compute exactly."""

    def __init__(self, node: nodes.Node, *, why: str, accepted: str) -> None:
        self.node, self.why, self.accepted = node, why, accepted
        self.part = _text(node)
        super().__init__(
            f"`{self.part}` has no exact Spark form: {why}. Accepted: {accepted}. "
            f"The filter itself still works in Python"
        )
