"""What has no exact Spark form is refused by name, never approximated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import NoSparkFormError
from polycast.filters.tree.canonical_text import render

if TYPE_CHECKING:
    from polycast.filters.tree import nodes

__all__ = ["NoColumnError", "no_form"]


class NoColumnError(Exception):
    """Why a part has no column; whoever knows the part adds it to the message."""

    def __init__(self, why: str, *, accepted: str) -> None:
        self.why, self.accepted = why, accepted
        super().__init__(f"{why}; accepted: {accepted}")


def no_form(node: nodes.Node, *, why: str, accepted: str) -> NoSparkFormError:
    """The error for a part of a filter."""
    try:
        part = render(node)
    except RecursionError:
        part = f"{type(node).__name__}(...)"
    return NoSparkFormError(part, node=node, why=why, accepted=accepted)
