"""What an expression costs, before any event is seen: steps for an event of a hundred nodes.

A step of a path looks at every node at most once for each time that it is begun at a node. Paths in
a predicate are begun for each node before it: those along `child` then reach other nodes each time,
those that begin at the root the same ones again, and those along `descendant` reach a node from all
that are above it.
"""

from __future__ import annotations

from polycast.languages.xpath import syntax

NODES = 100
LEVELS = 10
MOST = 1_000_000


def cost(node: syntax.Expression, *, nodes: int = NODES) -> int:
    """The steps that evaluating an expression takes at most, for an event of so many nodes."""
    return _cost(node, 1, 1, nodes)


def grows(node: syntax.Expression) -> float | None:
    """How many steps each node of an event means; None if that grows with their number."""
    few, many = (cost(node, nodes=size) for size in (1_000, 10_000))
    return None if many > 20 * few else many / 10_000


def _cost(node: syntax.Expression | syntax.LocationStep, times: int, again: int, nodes: int) -> int:
    """Of so many evaluations, at most `again` of them at one node."""
    match node:
        case syntax.LocationPath(absolute, start, steps):
            begun = 0 if start is None else _cost(start, times, again, nodes)
            again = times if absolute or start is not None else again
            return begun + _steps(steps, times, again, nodes)
        case syntax.Filtered(of, predicates):
            inner = sum(_cost(predicate, times * nodes, times, nodes) for predicate in predicates)
            return _cost(of, times, again, nodes) + times * nodes + inner
        case _:
            return times + sum(_cost(child, times, again, nodes) for child in syntax.children(node))


def _steps(steps: tuple[syntax.LocationStep, ...], times: int, again: int, nodes: int) -> int:
    total = 0
    for step in steps:
        reached = again * LEVELS if step.axis.startswith("descendant") else again
        total += reached * nodes
        total += sum(
            _cost(predicate, reached * nodes, reached, nodes) for predicate in step.predicates
        )
        again = min(reached, times)  # in one evaluation, a node is reached once
    return total
