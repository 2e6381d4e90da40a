"""Constant folding: a filter for events of exactly one class has less to evaluate.

`isinstance(event, C)` is decided for events of exactly one class, and `and`, `or`, `not` and
comparisons of constants with it. What is left means the same for these events.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

from polycast.filters.backends.interpreter import evaluate
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of


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
