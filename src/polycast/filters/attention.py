"""What a filter looks at in an event: some of its attributes, or all of it."""

from __future__ import annotations

from polycast.filters.nodes import Applied, Attribute, Constant, Event, Node, Opaque, Reach
from polycast.filters.xpath.terms import LOCATED

__all__ = ["attributes_asked"]


def attributes_asked(tree: Node) -> frozenset[str] | None:
    """The attributes of the event itself that a tree asks for; None if it may ask for anything.

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
        elif isinstance(node, Applied) and (name := _member_asked(node)) is not None:
            names.add(name)
        elif isinstance(node, Event | Opaque):
            return None
        else:
            left += node.children()
    return frozenset(names)


def _member_asked(node: Applied) -> str | None:
    """The attribute at which a look-up by XPath begins."""
    if node.language != "xpath" or node.name not in LOCATED:
        return None
    match node.arguments:
        case (Event(), Constant((str(name), *_)), *_) if not name.startswith("__"):
            return name
    return None
