"""The canonical form of trees: lifting and parsing give the same tree for the same meaning."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polycast.filters.tree import nodes
from polycast.filters.tree.constants import constant

if TYPE_CHECKING:
    from collections.abc import Callable

JOINTS = (nodes.And, nodes.Or)
CHANGED = frozenset({nodes.And, nodes.Or, nodes.Sign, nodes.Display})


def canonical(tree: nodes.Node) -> nodes.Node:
    """`(a and b) and c` is `a and b and c`; a display of constants is a constant."""
    return made_canonical(tree, {*map(type, nodes.everything(tree)[1:])})


def made_canonical(tree: nodes.Node, below: set[type[nodes.Node]]) -> nodes.Node:
    """The canonical form, given the types of the nodes below the root."""
    if CHANGED.isdisjoint(below) and (type(tree) not in CHANGED or _is_flat(tree)):
        return tree
    return _canonical(tree)


def _is_flat(tree: nodes.Node) -> bool:
    """Most filters are one `and` of comparisons."""
    return type(tree) in JOINTS and len(tree.parts) > 1  # type: ignore[attr-defined]


def _canonical(node: nodes.Node) -> nodes.Node:
    found = rebuilt(node, _canonical)
    match found:
        case nodes.And(parts) | nodes.Or(parts):
            kind = type(found)
            if len(parts) > 1 and not any(isinstance(part, kind) for part in parts):
                return found
            flat: list[nodes.Node] = []
            for part in parts:
                flat.extend(part.parts if isinstance(part, kind) else (part,))
            return flat[0] if len(flat) == 1 else kind(tuple(flat))
        case nodes.Sign("-", nodes.Constant(value)) if type(value) in (int, float):
            return nodes.Constant(-value)
        case nodes.Display(kind, elements):
            return _constant(found, kind, elements)
    return found


def on_topic(node: nodes.Node, topic: str | None) -> nodes.Node:
    """The tree with the topic bound in the parts that ask for it."""
    if isinstance(node, nodes.Opaque):
        return node.on(topic)
    return rebuilt(node, lambda part: on_topic(part, topic))


def _constant(display: nodes.Display, kind: type, elements: tuple[nodes.Node, ...]) -> nodes.Node:
    values = [element.value for element in elements if isinstance(element, nodes.Constant)]
    if len(values) < len(elements):
        return display
    try:
        return nodes.Constant(constant(kind(values)))
    except TypeError:
        return display


def rebuilt(node: nodes.Node, change: Callable[[nodes.Node], nodes.Node]) -> nodes.Node:
    """The same node with its parts changed."""
    if not node.children():
        return node

    def changed(value: Any) -> Any:
        if isinstance(value, nodes.Node):
            return change(value)
        if type(value) is not tuple:
            return value
        found = tuple(map(changed, value))
        return value if all(map(operator.is_, value, found)) else found

    names: tuple[str, ...] = node.__slots__
    before = [getattr(node, name) for name in names]
    after = [changed(value) for value in before]
    if all(map(operator.is_, before, after)):  # it stays itself, and takes no more room
        return node
    return replace(node, **dict(zip(names, after, strict=True)))  # type: ignore[type-var]
