"""One form for trees that mean the same in an obvious way, as lifting and reading text give it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polycast.filters import nodes
from polycast.filters.constants import constant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["canonical", "on_topic"]


def canonical(node: nodes.Node) -> nodes.Node:
    """`(a and b) and c` is `a and b and c`; a display of constants is a constant."""
    found = _rebuilt(node, canonical)
    match found:
        case nodes.And(parts) | nodes.Or(parts):
            kind = type(found)
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
    """With the topic given to the parts that ask for it."""
    if isinstance(node, nodes.Opaque):
        return node.on(topic)
    return _rebuilt(node, lambda part: on_topic(part, topic))


def _constant(display: nodes.Display, kind: type, elements: tuple[nodes.Node, ...]) -> nodes.Node:
    values = [each.value for each in elements if isinstance(each, nodes.Constant)]
    if len(values) < len(elements):
        return display
    try:
        return nodes.Constant(constant(kind(values)))
    except TypeError:
        return display


def _rebuilt(node: nodes.Node, change: Callable[[nodes.Node], nodes.Node]) -> nodes.Node:
    """The same node with its parts changed."""
    if not node.children():
        return node

    def changed(value: Any) -> Any:
        if isinstance(value, nodes.Node):
            return change(value)
        return tuple(map(changed, value)) if type(value) is tuple else value

    names: tuple[str, ...] = node.__slots__
    return replace(node, **{name: changed(getattr(node, name)) for name in names})  # type: ignore[type-var]
