"""Relaxed filters: they match every event that another filter matches, and evaluate less.

Where a part cannot be asked, the rest still keeps most events away; the part itself is asked by
who can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from polycast.filters.filter import Filter
from polycast.filters.tree.nodes import And, Constant, Node, Opaque, Or, walk

TRUE = Constant(True)
EVERYTHING: Filter[Any] = Filter(TRUE)


def is_open(node: Node) -> bool:
    """Whether a tree has no opaque part."""
    return not any(isinstance(part, Opaque) for part in walk(node))


def all_open(filters: Iterable[Filter[Any] | None]) -> bool:
    """Whether no filter has an opaque part, which is a function that may do anything."""
    return all(where is None or is_open(where.tree) for where in filters)


def relaxed(tree: Node, can_ask: Callable[[Node], bool]) -> Node:
    """The tree without the parts that cannot be evaluated; it matches at least the same events."""
    if not isinstance(tree, And):
        return _more(tree, can_ask)
    # What fails here does not match, and did not match before.
    return _all([_more(part, can_ask) for part in tree.parts])


def _more(node: Node, can_ask: Callable[[Node], bool]) -> Node:
    """A condition that is true wherever the node is, and fails nowhere else.

    Of what is joined by `and` only the beginning is left: what came after the missing part was not
    asked unless that was true, and might fail.
    """
    if can_ask(node):
        return node
    if isinstance(node, And):
        asked = list(takewhile(can_ask, node.parts))
        return _all([*asked, _more(node.parts[len(asked)], can_ask)])
    if isinstance(node, Or):
        parts = [_more(part, can_ask) for part in node.parts]
        return TRUE if TRUE in parts else Or(tuple(parts))
    return TRUE


def _all(parts: list[Node]) -> Node:
    left = [part for part in parts if part != TRUE]
    return And(tuple(left)) if len(left) > 1 else left[0] if left else TRUE
