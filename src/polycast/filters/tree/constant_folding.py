"""Constant folding: a filter for events of exactly one class has less to evaluate.

`isinstance(event, C)` is decided for events of exactly one class, and `and`, `or`, `not` and
comparisons of constants with it. What is left means the same for these events.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import singledispatch
from typing import Any

from polycast.filters.backends.interpreter import evaluate
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import insight_of

__all__ = ["folded"]


def folded(node: nodes.Node, cls: type) -> nodes.Node:
    """The same expression for events of exactly that class."""
    return _fold(node, cls)


@singledispatch
def _fold(node: nodes.Node, cls: type) -> nodes.Node:
    return node


@_fold.register
def _(node: nodes.InstanceOf, cls: type) -> nodes.Node:
    if isinstance(node.of, nodes.Event) and _is_plain(cls, node.classes):
        return nodes.Constant(issubclass(cls, node.classes))
    return node


@_fold.register
def _(node: nodes.Not, cls: type) -> nodes.Node:
    operand = _fold(node.operand, cls)
    if isinstance(operand, nodes.Constant):
        return nodes.Constant(not operand.value)
    return nodes.Not(operand)


@_fold.register
def _(node: nodes.Compare, cls: type) -> nodes.Node:
    parts = (node.first, *(operand for _, operand in node.rest))
    if not all(isinstance(part, nodes.Constant) for part in parts):
        return node
    try:
        found = evaluate(node, None, ())
    except Exception:  # it fails for every event
        return node
    return nodes.Constant(found) if isinstance(found, bool) else node


@_fold.register
def _(node: nodes.Applied, cls: type) -> nodes.Node:
    arguments = tuple(_fold(argument, cls) for argument in node.arguments)
    same = all(map(operator.is_, arguments, node.arguments))
    applied = node if same else replace(node, arguments=arguments)
    return insight_of(node).folded(applied, cls)


@_fold.register
def _(node: nodes.And, cls: type) -> nodes.Node:
    return _joined(nodes.And, [_fold(part, cls) for part in node.parts], ends=False)


@_fold.register
def _(node: nodes.Or, cls: type) -> nodes.Node:
    return _joined(nodes.Or, [_fold(part, cls) for part in node.parts], ends=True)


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
