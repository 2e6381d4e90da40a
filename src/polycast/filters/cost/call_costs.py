"""What calling a function of another language costs: each language has a table of such rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from polycast.filters.cost.amounts import Amount, steps
from polycast.filters.cost.value_kinds import INT, ValueKind
from polycast.filters.tree.language_registry import language_of

if TYPE_CHECKING:
    from polycast.filters.tree import nodes

__all__ = ["FunctionCost", "call_cost", "whole"]

TRUTH = steps(32.0)  # bytes

Work = Callable[["nodes.Applied", Sequence[Amount]], Amount]


class FunctionCost(NamedTuple):
    """What a call takes, by the sizes of its arguments, and what it gives."""

    work: Work
    kind: ValueKind = INT
    grows: bool = False  # whether its value is as large as its arguments; else it is a truth
    most: Amount | None = None  # how large its value is, whatever its arguments


def whole(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """All of what it is given, once."""
    del node
    return sum(sizes, Amount())


def call_cost(node: nodes.Applied, sizes: Sequence[Amount]) -> tuple[Amount, Amount, ValueKind]:
    """What calling a function takes, how large its value is, and what that may be."""
    cost = language_of(node).costs[node.name]
    size = cost.most or (sum(sizes, TRUTH) if cost.grows else TRUTH)
    return cost.work(node, sizes), size, cost.kind
