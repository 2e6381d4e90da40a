"""What an expression costs, before any event is seen: steps for an event of a hundred nodes.

A step of a path looks at every node at most once for each time that it is begun at a node. Paths in
a predicate are begun for each node before it: those along `child` then reach other nodes each time,
those that begin at the root the same ones again, and those along `descendant` reach a node from all
that are above it.
"""

from __future__ import annotations

from polycast.filters.xpath.expressions import Expression, Filtered, Path, Step, children

__all__ = ["MOST", "cost"]

NODES = 100
LEVELS = 10
MOST = 1_000_000


def cost(node: Expression) -> int:
    """The steps that evaluating an expression takes at most, for an event of 100 nodes."""
    return _cost(node, 1, 1)


def _cost(node: Expression | Step, times: int, again: int) -> int:
    """Of so many evaluations, at most `again` of them at one node."""
    match node:
        case Path(absolute, start, steps):
            begun = 0 if start is None else _cost(start, times, again)
            return begun + _steps(steps, times, times if absolute or start is not None else again)
        case Filtered(of, predicates):
            inner = sum(_cost(each, times * NODES, times) for each in predicates)
            return _cost(of, times, again) + times * NODES + inner
        case _:
            return times + sum(_cost(each, times, again) for each in children(node))


def _steps(steps: tuple[Step, ...], times: int, again: int) -> int:
    total = 0
    for step in steps:
        reached = again * LEVELS if step.axis.startswith("descendant") else again
        total += reached * NODES
        total += sum(_cost(each, reached * NODES, reached) for each in step.predicates)
        again = min(reached, times)  # in one evaluation, a node is reached once
    return total
