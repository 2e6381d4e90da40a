"""The slow, obvious evaluation that judges every other: it walks the tree for each event."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from polycast.errors.failures import FAILURES
from polycast.filters.backends.answers import answered, answering
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import languages
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS, reach

__all__ = ["evaluate", "matches"]

Scope = tuple[Any, ...]  # the elements of the quantifiers around, the innermost first


def matches(node: nodes.Node, event: Any) -> bool:
    """Whether an event passes; an evaluation that fails does not match."""
    try:
        return bool(evaluate(node, event, ()))
    except FAILURES:
        return False


@singledispatch
def evaluate(node: nodes.Node, event: Any, scope: Scope) -> Any:
    """The value of an expression, or what it raises."""
    raise TypeError(f"{type(node).__name__} is no expression")


@evaluate.register
def _(node: nodes.Event, event: Any, scope: Scope) -> Any:
    return event


@evaluate.register
def _(node: nodes.Variable, event: Any, scope: Scope) -> Any:
    return scope[node.depth]


@evaluate.register
def _(node: nodes.Constant, event: Any, scope: Scope) -> Any:
    return node.value


@evaluate.register
def _(node: nodes.Opaque, event: Any, scope: Scope) -> Any:
    return answering(node.on(None).function)(event)


@evaluate.register
def _(node: nodes.Attribute, event: Any, scope: Scope) -> Any:
    return getattr(evaluate(node.of, event, scope), node.name)


@evaluate.register
def _(node: nodes.Call, event: Any, scope: Scope) -> Any:
    method = getattr(evaluate(node.of, event, scope), node.method)
    return answered(method(*(evaluate(each, event, scope) for each in node.arguments)))


@evaluate.register
def _(node: nodes.Reach, event: Any, scope: Scope) -> Any:
    return reach(evaluate(node.of, event, scope), node.name)


@evaluate.register
def _(node: nodes.Function, event: Any, scope: Scope) -> Any:
    return BUILTINS[node.name](*(evaluate(each, event, scope) for each in node.arguments))


@evaluate.register
def _(node: nodes.Applied, event: Any, scope: Scope) -> Any:
    function = languages()[node.language].functions[node.name]
    return function(*(evaluate(each, event, scope) for each in node.arguments))


@evaluate.register
def _(node: nodes.Item, event: Any, scope: Scope) -> Any:
    return evaluate(node.of, event, scope)[evaluate(node.key, event, scope)]


@evaluate.register
def _(node: nodes.Display, event: Any, scope: Scope) -> Any:
    return node.kind([evaluate(each, event, scope) for each in node.elements])


@evaluate.register
def _(node: nodes.Compare, event: Any, scope: Scope) -> Any:
    left = evaluate(node.first, event, scope)
    for sign, operand in node.rest[:-1]:
        right = evaluate(operand, event, scope)
        result = COMPARISONS[sign](left, right)
        if not result:
            return result
        left = right
    sign, operand = node.rest[-1]
    return COMPARISONS[sign](left, evaluate(operand, event, scope))


@evaluate.register
def _(node: nodes.And, event: Any, scope: Scope) -> Any:
    for part in node.parts[:-1]:
        value = evaluate(part, event, scope)
        if not value:
            return value
    return evaluate(node.parts[-1], event, scope)


@evaluate.register
def _(node: nodes.Or, event: Any, scope: Scope) -> Any:
    for part in node.parts[:-1]:
        value = evaluate(part, event, scope)
        if value:
            return value
    return evaluate(node.parts[-1], event, scope)


@evaluate.register
def _(node: nodes.Not, event: Any, scope: Scope) -> Any:
    return not evaluate(node.operand, event, scope)


@evaluate.register
def _(node: nodes.Arithmetic, event: Any, scope: Scope) -> Any:
    left = evaluate(node.left, event, scope)
    return ARITHMETIC[node.operator](left, evaluate(node.right, event, scope))


@evaluate.register
def _(node: nodes.Sign, event: Any, scope: Scope) -> Any:
    return SIGNS[node.operator](evaluate(node.operand, event, scope))


@evaluate.register
def _(node: nodes.InstanceOf, event: Any, scope: Scope) -> Any:
    return isinstance(evaluate(node.of, event, scope), node.classes)


@evaluate.register
def _(node: nodes.Quantified, event: Any, scope: Scope) -> Any:
    for element in evaluate(node.over, event, scope):
        inner = (element, *scope)
        if not all(evaluate(each, event, inner) for each in node.conditions):
            continue
        if bool(evaluate(node.each, event, inner)) is (node.kind == "any"):
            return node.kind == "any"
    return node.kind == "all"
