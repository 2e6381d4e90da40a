"""The attributes of the event that a filter reads, and the slots of terms.

A slot is where events of one class hold the value of a term, so that nothing has to be called: an
attribute; or a key, and the attributes whose dictionaries are asked for it in turn: none, if the
event itself is the dictionary. Whoever reads it there has to ask the term itself if such an
attribute is no plain dictionary, or if the value is `msgspec.UNSET`.
"""

from __future__ import annotations

from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of


def attributes_read(tree: nodes.Node) -> frozenset[str] | None:
    """The attributes of the event itself that a tree reads; None if it may read any.

    Whoever takes the event as a whole may ask for anything: a comparison with it, `isinstance`, a
    method of it, a function that nobody can look into, and names that belong to Python.
    """
    names: set[str] = set()
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, nodes.Attribute | nodes.Reach) and isinstance(node.of, nodes.Event):
            if node.name.startswith("__"):
                return None
            names.add(node.name)
        elif isinstance(node, nodes.Applied) and any(
            isinstance(argument, nodes.Event) for argument in node.arguments
        ):
            asked = insight_of(node).attributes(node)
            if asked is None:
                return None
            names |= asked
        elif isinstance(node, nodes.Event | nodes.Opaque):
            return None
        else:
            left += node.children()
    return frozenset(names)


# -- where a term of the event lies ----------------------------------------------------------------

Slot = str | tuple[str, ...]


def slot_of(term: nodes.Node, cls: type) -> Slot | None:
    """The slot of a term in events of exactly one class; None if it has none."""
    match term:
        case nodes.Attribute(nodes.Event(), name):
            return name
        case nodes.Item(nodes.Attribute(nodes.Event(), name), nodes.Constant(key)) if (
            type(key) is str
        ):
            return (key, name)
        case nodes.Item(nodes.Event(), nodes.Constant(key)) if type(key) is str and cls is dict:
            return (key,)
        case nodes.Applied(_, _, (nodes.Event(), *_)):
            return insight_of(term).slot(term, cls)
    return None
