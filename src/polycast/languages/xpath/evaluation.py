"""The evaluation of any expression over any event, node by node, as XPath 1.0 defines it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from polycast.languages.xpath import syntax
from polycast.languages.xpath.core_library import (
    ARITHMETIC,
    FUNCTIONS,
    number_from,
    number_of,
    string_of,
    truth_of,
)
from polycast.languages.xpath.virtual_document import StepBudget, VirtualNode, document

Nodes = list[VirtualNode]
Value = Nodes | float | str | bool


class EvaluationContext(NamedTuple):
    """Where an expression is evaluated: the node, its place among how many, and the document."""

    node: VirtualNode
    position: int
    size: int
    root: VirtualNode


def is_true(expression: syntax.Expression, event: Any) -> bool:
    """What the expression says about an event, as `boolean()`."""
    return truth_of(evaluate(expression, event))


def evaluate(expression: syntax.Expression, event: Any) -> Value:
    """The value of an expression; the context node is the root element."""
    root = document(event, StepBudget())
    return _value(expression, EvaluationContext(root.children()[0], 1, 1, root))


def _value(node: syntax.Expression, context: EvaluationContext) -> Value:
    context.root.budget.spend(1)
    return _VALUES[type(node)](node, context)


# -- paths -----------------------------------------------------------------------------------------


def _path(path: syntax.LocationPath, context: EvaluationContext) -> Nodes:
    if path.absolute:
        nodes = [context.root]
    elif path.start is None:
        nodes = [context.node]
    else:
        nodes = _set(path.start, context)
    for step in path.way:
        nodes = _stepped(step, nodes, context.root)
    return nodes


def _set(node: syntax.Expression, context: EvaluationContext) -> Nodes:
    found = _value(node, context)
    assert isinstance(found, list)  # the parser knows
    return found


def _stepped(step: syntax.LocationStep, nodes: Nodes, root: VirtualNode) -> Nodes:
    if step.axis in ("self", "child"):  # these give different nodes for different ones, in order
        reach = _AXES[step.axis]
        several = [_picked(step, reach(node), root) for node in nodes]
        found = [node for item in several for node in item]
        return found if step.axis == "self" or len(nodes) < 2 else _in_order(found, nodes)
    if step.positional:
        return _distinct([n for node in nodes for n in _picked(step, _AXES[step.axis](node), root)])
    return _picked(step, _all_below(nodes, _AXES[step.axis]), root)


def _picked(step: syntax.LocationStep, nodes: Nodes, root: VirtualNode) -> Nodes:
    """The nodes that pass the test and the predicates, in the order of the axis."""
    root.budget.spend(len(nodes))
    test = step.test
    if test == "text()":
        nodes = [node for node in nodes if node.name == "#text"]
    elif test == "*":
        nodes = [node for node in nodes if node.is_element]
    elif test != "node()":
        nodes = [node for node in nodes if node.name == test]
    return _filtered(step.predicates, nodes, root)


def _filtered(predicates: tuple[syntax.Expression, ...], nodes: Nodes, root: VirtualNode) -> Nodes:
    for predicate in predicates:
        size = len(nodes)
        nodes = [
            node
            for place, node in enumerate(nodes, 1)
            if _passes(_value(predicate, EvaluationContext(node, place, size, root)), place)
        ]
    return nodes


def _passes(value: Value, place: int) -> bool:
    if isinstance(value, float):
        return value == place
    return truth_of(value)


def _all_below(nodes: Nodes, axis: Callable[[VirtualNode], Nodes]) -> Nodes:
    """The descendants of several ordered nodes, without duplicates and in document order."""
    found: Nodes = []
    seen: set[VirtualNode] = set()
    for node in nodes:
        if node in seen:  # below one that came before, so all that is below it is there
            continue
        reached = axis(node)
        found += reached
        seen.update(reached)
    return found


def _in_order(found: Nodes, nodes: Nodes) -> Nodes:
    """Children of nodes in order are in order, unless one of these is below another."""
    levels = {len(node.place()) for node in nodes}
    return found if len(levels) == 1 else _sorted(found)


def _sorted(nodes: Nodes) -> Nodes:
    return sorted(nodes, key=VirtualNode.place)


def _distinct(nodes: Nodes) -> Nodes:
    return _sorted(list(dict.fromkeys(nodes)))


_AXES: Mapping[str, Callable[[VirtualNode], Nodes]] = {
    "self": lambda node: [node],
    "child": VirtualNode.children,
    "descendant": VirtualNode.descendants,
    "descendant-or-self": lambda node: [node, *node.descendants()],
}


# -- operators -------------------------------------------------------------------------------------


def _joined(node: syntax.Connective, context: EvaluationContext) -> Value:
    if node.operator == "|":
        return _distinct([found for part in node.parts for found in _set(part, context)])
    ends = node.operator == "or"
    for part in node.parts:
        if truth_of(_value(part, context)) is ends:
            return ends
    return not ends


def _binary(node: syntax.Binary, context: EvaluationContext) -> Value:
    left, right = _value(node.left, context), _value(node.right, context)
    if node.operator in ARITHMETIC:
        return ARITHMETIC[node.operator](number_of(left), number_of(right))
    return compared(node.operator, left, right)


def compared(sign: str, left: Value, right: Value) -> bool:
    """A comparison (XPath 1.0, 3.4): of nodes, one that holds is enough."""
    if isinstance(left, list) and isinstance(right, list):
        return _sets_compared(sign, left, right)
    if isinstance(left, list) and not isinstance(right, bool):
        return any(_scalars_compared(sign, item.string(), right) for item in left)
    if isinstance(right, list) and not isinstance(left, bool):
        return any(_scalars_compared(sign, left, other.string()) for other in right)
    return _scalars_compared(sign, _scalar(left), _scalar(right))


def _scalar(value: Value) -> Any:
    """Beside a boolean, nodes count as whether there are any."""
    return bool(value) if isinstance(value, list) else value


def _scalars_compared(sign: str, left: Any, right: Any) -> bool:
    if sign in ("=", "!="):
        kinds = (type(left), type(right))
        if bool in kinds:
            same = truth_of(left) is truth_of(right)
        elif float in kinds:
            one, other = number_of(left), number_of(right)
            return one == other if sign == "=" else one != other
        else:
            same = left == right
        return same if sign == "=" else not same
    return bool(_ORDERS[sign](number_of(left), number_of(right)))


def _sets_compared(sign: str, left: Nodes, right: Nodes) -> bool:
    """Compare two node-sets: whether the comparison holds for some pair of nodes."""
    one, other = {node.string() for node in left}, {node.string() for node in right}
    if sign == "=":
        return not one.isdisjoint(other)
    if sign == "!=":
        return bool(one and other) and (len(one) > 1 or one != other)
    few = [number for text in one if (number := number_from(text)) == number]
    many = [number for text in other if (number := number_from(text)) == number]
    if not few or not many:
        return False
    if sign in ("<", "<="):
        return bool(_ORDERS[sign](min(few), max(many)))
    return bool(_ORDERS[sign](max(few), min(many)))


_ORDERS: Mapping[str, Callable[[float, float], object]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# -- functions -------------------------------------------------------------------------------------


def _called(call: syntax.FunctionCall, context: EvaluationContext) -> Value:
    function = FUNCTIONS[call.name]
    result: Value
    if function.takes == "context":
        result = function.call(context)
        return result
    values = [_value(argument, context) for argument in call.arguments] or [[context.node]]
    if function.takes == "string":
        texts = [string_of(value) for value in values]
        context.root.budget.spend(sum(map(len, texts)) // 64)
        result = function.call(*texts)
    elif function.takes == "number":
        result = function.call(number_of(values[0]))
    else:
        result = function.call(*values)
    return result


_VALUES: Mapping[type, Callable[[Any, EvaluationContext], Value]] = {
    syntax.Number: lambda node, context: node.value,
    syntax.Literal: lambda node, context: node.value,
    syntax.LocationPath: _path,
    syntax.Filtered: lambda node, context: _filtered(
        node.predicates, _set(node.of, context), context.root
    ),
    syntax.Connective: _joined,
    syntax.Binary: _binary,
    syntax.Negative: lambda node, context: -number_of(_value(node.of, context)),
    syntax.FunctionCall: _called,
}
