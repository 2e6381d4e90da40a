"""The slow, obvious evaluation that judges every other: it walks the tree for each event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polycast.errors.failures import failures_here
from polycast.filters.tree import nodes, operators
from polycast.filters.tree.language_registry import language_of

Scope = tuple[Any, ...]  # the elements of the quantifiers around, the innermost first


def matches(node: nodes.Node, event: Any) -> bool:
    """Whether an event passes; an evaluation that fails does not match."""
    try:
        return bool(evaluate(node, event, ()))
    except failures_here():
        return False


def evaluate(node: nodes.Node, event: Any, scope: Scope) -> Any:
    """The value of an expression, or what it raises."""
    rule = RULES.get(type(node))
    if rule is None:
        raise TypeError(f"{type(node).__name__} is no expression")
    return rule(node, event, scope)


def _values(several: tuple[nodes.Node, ...], event: Any, scope: Scope) -> list[Any]:
    return [evaluate(node, event, scope) for node in several]


def _call(node: nodes.Call, event: Any, scope: Scope) -> Any:
    method = getattr(evaluate(node.of, event, scope), node.method)
    return operators.answered(method(*_values(node.arguments, event, scope)))


def _applied(node: nodes.Applied, event: Any, scope: Scope) -> Any:
    function = language_of(node).functions[node.name]
    return function(*_values(node.arguments, event, scope))


def _compare(node: nodes.Compare, event: Any, scope: Scope) -> Any:
    left = evaluate(node.first, event, scope)
    for sign, operand in node.rest[:-1]:
        right = evaluate(operand, event, scope)
        result = operators.COMPARISONS[sign](left, right)
        if not result:
            return result
        left = right
    sign, operand = node.rest[-1]
    return operators.COMPARISONS[sign](left, evaluate(operand, event, scope))


def _and(node: nodes.And, event: Any, scope: Scope) -> Any:
    for part in node.parts[:-1]:
        value = evaluate(part, event, scope)
        if not value:
            return value
    return evaluate(node.parts[-1], event, scope)


def _or(node: nodes.Or, event: Any, scope: Scope) -> Any:
    for part in node.parts[:-1]:
        value = evaluate(part, event, scope)
        if value:
            return value
    return evaluate(node.parts[-1], event, scope)


def _quantified(node: nodes.Quantified, event: Any, scope: Scope) -> Any:
    for element in evaluate(node.over, event, scope):
        inner = (element, *scope)
        if not all(evaluate(condition, event, inner) for condition in node.conditions):
            continue
        if bool(evaluate(node.each, event, inner)) is (node.kind == "any"):
            return node.kind == "any"
    return node.kind == "all"


RULES: dict[type, Callable[[Any, Any, Scope], Any]] = {
    nodes.Event: lambda node, event, scope: event,
    nodes.Variable: lambda node, event, scope: scope[node.depth],
    nodes.Constant: lambda node, event, scope: node.value,
    nodes.Opaque: lambda node, event, scope: operators.answering(node.on(None).function)(event),
    nodes.Attribute: lambda node, event, scope: getattr(evaluate(node.of, event, scope), node.name),
    nodes.Call: _call,
    nodes.Reach: lambda node, event, scope: operators.reach(
        evaluate(node.of, event, scope), node.name
    ),
    nodes.Function: lambda node, event, scope: operators.BUILTINS[node.name](
        *_values(node.arguments, event, scope)
    ),
    nodes.Applied: _applied,
    nodes.Item: lambda node, event, scope: evaluate(node.of, event, scope)[
        evaluate(node.key, event, scope)
    ],
    nodes.Display: lambda node, event, scope: node.kind(_values(node.elements, event, scope)),
    nodes.Compare: _compare,
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: lambda node, event, scope: not evaluate(node.operand, event, scope),
    nodes.Arithmetic: lambda node, event, scope: operators.ARITHMETIC[node.operator](
        evaluate(node.left, event, scope), evaluate(node.right, event, scope)
    ),
    nodes.Sign: lambda node, event, scope: operators.SIGNS[node.operator](
        evaluate(node.operand, event, scope)
    ),
    nodes.InstanceOf: lambda node, event, scope: isinstance(
        evaluate(node.of, event, scope), node.classes
    ),
    nodes.Quantified: _quantified,
}
