"""The attributes of the event that a filter reads."""

from __future__ import annotations

from polycast.filters.tree.language_registry import insight_of
from polycast.filters.tree.nodes import Applied, Attribute, Event, Node, Opaque, Reach

__all__ = ["attributes_read"]


def attributes_read(tree: Node) -> frozenset[str] | None:
    """The attributes of the event itself that a tree reads; None if it may read any.

    Whoever takes the event as a whole may ask for anything: a comparison with it, `isinstance`, a
    method of it, a function that nobody can look into, and names that belong to Python.
    """
    names: set[str] = set()
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Attribute | Reach) and isinstance(node.of, Event):
            if node.name.startswith("__"):
                return None
            names.add(node.name)
        elif isinstance(node, Applied) and any(
            isinstance(argument, Event) for argument in node.arguments
        ):
            asked = insight_of(node).attributes(node)
            if asked is None:
                return None
            names |= asked
        elif isinstance(node, Event | Opaque):
            return None
        else:
            left += node.children()
    return frozenset(names)
