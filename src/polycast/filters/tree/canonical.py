"""Trees made simpler: the canonical form of any tree, and less to evaluate for one class.

Lifting and parsing give the same tree for the same meaning. For events of exactly one class,
`isinstance(event, C)` is decided, and `and`, `or`, `not` and comparisons of constants with it. What
is left means the same for these events.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from polycast.filters.backends.interpreter import evaluate
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of

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
        return nodes.Constant(nodes.constant_value(kind(values)))
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


# -- constant folding ------------------------------------------------------------------------------


def folded(node: nodes.Node, cls: type) -> nodes.Node:
    """The same expression for events of exactly that class."""
    match node:
        case nodes.InstanceOf(nodes.Event(), classes) if _is_plain(cls, classes):
            return nodes.Constant(issubclass(cls, classes))
        case nodes.Not(operand):
            return _negated(folded(operand, cls))
        case nodes.Compare():
            return _compared(node)
        case nodes.Applied(_, _, arguments):
            new = tuple(folded(argument, cls) for argument in arguments)
            same = all(map(operator.is_, new, arguments))
            return insight_of(node).folded(node if same else replace(node, arguments=new), cls)
        case nodes.And(parts):
            return _joined(nodes.And, [folded(part, cls) for part in parts], ends=False)
        case nodes.Or(parts):
            return _joined(nodes.Or, [folded(part, cls) for part in parts], ends=True)
    return node


def _negated(operand: nodes.Node) -> nodes.Node:
    if isinstance(operand, nodes.Constant):
        return nodes.Constant(not operand.value)
    return nodes.Not(operand)


def _compared(node: nodes.Compare) -> nodes.Node:
    if not all(isinstance(part, nodes.Constant) for part in node.children()):
        return node
    try:
        verdict = evaluate(node, None, ())
    except Exception:  # it fails for every event
        return node
    return nodes.Constant(verdict) if isinstance(verdict, bool) else node


def _joined(kind: type[Any], parts: list[nodes.Node], *, ends: bool) -> nodes.Node:
    """Drop constants that decide nothing, and everything after one that decides."""
    kept: list[nodes.Node] = []
    for number, part in enumerate(parts):
        if isinstance(part, nodes.Constant):
            if bool(part.value) is ends:
                kept.append(part)
                break
            if number < len(parts) - 1:
                continue
        kept.append(part)
    return kept[0] if len(kept) == 1 else kind(tuple(kept))


def _is_plain(cls: type, classes: tuple[type, ...]) -> bool:
    """Whether `isinstance` runs no code of a user."""
    own = any("__class__" in vars(base) for base in cls.__mro__ if base is not object)
    return not own and all(type(tested) is type for tested in classes)
