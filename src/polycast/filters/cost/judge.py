"""What a tree costs at most, in steps by the size of the event; what cannot be bounded is refused.

A step is about what the interpreter takes for one node. Without a description of the event's class,
what its attributes are is not known: then `*` and `%` are taken for those of numbers, and whoever
runs the filter for a class asks again with its description.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polycast.errors import FilterTooCostlyError
from polycast.filters.cost import amounts
from polycast.filters.cost import operation_costs as costs
from polycast.filters.cost.amounts import ALL, INT, LIST, NOTHING, OTHER, TEXT, UNKNOWN, steps
from polycast.filters.cost.operation_costs import BYTE, SMALL, Judged, total
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from polycast.typesystem.type_expressions import TypeExpression

NODE = steps(1.0)
PLAIN = frozenset(
    {nodes.Event, nodes.Attribute, nodes.Constant, nodes.Compare, nodes.And, nodes.Or, nodes.Not}
)
FEW, SHORT = 64, 4_096  # nodes of a plain filter, and bytes of a constant in it


Fields = Callable[[str], "TypeExpression | None"]


def cost_of(tree: nodes.Node, *, fields: Fields | None = None) -> amounts.Amount:
    """The steps for an event of a size, at most; `FilterTooCostlyError` names what has no bound.

    `fields` tells what a field of a name may be, in any class that events and their parts are of.
    """
    return CostJudge(fields).of(tree).cost


def is_plain(tree: nodes.Node) -> bool:
    """Whether it compares a few fields with constants, or with each other: that costs little."""
    several = list(nodes.walk(tree))
    if len(several) > FEW:
        return False
    return all(type(node) in PLAIN and _is_short(node) for node in several)


def _is_short(node: nodes.Node) -> bool:
    return not isinstance(node, nodes.Constant) or costs.size_of(node.value) <= SHORT


class CostJudge:
    """The costs of one tree; what is known of its event, and the quantifiers around a node."""

    def __init__(self, fields: Fields | None) -> None:
        self._fields = fields
        self.elements: list[Judged] = []  # of the quantifiers around, the outermost first

    def of(self, node: nodes.Node) -> Judged:
        """What a node costs, and what is known of its value."""
        rule = _RULES.get(type(node))
        if rule is None:
            name = type(node).__name__
            raise FilterTooCostlyError(name, "nobody can say what it costs", accepted="")
        judged = rule(self, node)
        return judged._replace(cost=judged.cost + NODE)

    def all(self, several: tuple[nodes.Node, ...]) -> list[Judged]:
        """What each of several nodes costs."""
        return [self.of(node) for node in several]

    def anything(self, size: amounts.Amount, declared: TypeExpression | None) -> Judged:
        """A part of the event."""
        if self._fields is None:
            return Judged(NOTHING, size, UNKNOWN)
        small = amounts.is_small(declared)
        return Judged(NOTHING, SMALL if small else size, amounts.kind_of_type(declared), declared)

    def field(self, name: str) -> TypeExpression | None:
        """What a field of a name is declared as, where that is known."""
        return None if self._fields is None else self._fields(name)

    def unknown(self) -> amounts.ValueKind:
        """The kinds that a value may have of which nothing is known."""
        return UNKNOWN if self._fields is None else ALL


# -- parts -------------------------------------------------------------------------------------


def _attribute(judge: CostJudge, node: nodes.Attribute) -> Judged:
    of = judge.of(node.of)
    return judge.anything(of.size, judge.field(node.name))._replace(cost=of.cost)


def _item(judge: CostJudge, node: nodes.Item) -> Judged:
    of, key = judge.all((node.of, node.key))
    found = judge.anything(of.size, amounts.element_of(of.type))
    if TEXT in of.kind and of.kind is not UNKNOWN:
        found = found._replace(kind=found.kind | TEXT)
    return found._replace(cost=of.cost + key.cost + costs.hashed(of, key))


def _display(judge: CostJudge, node: nodes.Display) -> Judged:
    parts = judge.all(node.elements)
    kind = LIST if node.kind in (list, tuple) else OTHER
    size = total(part.size for part in parts) + steps(len(parts))
    cost = total(part.cost for part in parts)
    return Judged(cost + size.times(BYTE) if kind is OTHER else cost, size, kind)


# -- calls -------------------------------------------------------------------------------------


def _reach(judge: CostJudge, node: nodes.Reach) -> Judged:
    """A field, or what a method without arguments gives."""
    of = judge.of(node.of)
    declared = judge.field(node.name)
    if declared is not None:
        return judge.anything(of.size, declared)._replace(cost=of.cost)
    return _called(judge, node.name, (node.of,))


def _called(judge: CostJudge, name: str, parts: tuple[nodes.Node, ...]) -> Judged:
    costs.check_method(name, parts)
    judged = judge.all(parts)
    cost = total(operand.cost for operand in judged)
    method = costs.METHODS.get(name)
    if method is None:  # a getter; of the classes that are made here none has any
        return Judged(cost, total(operand.size for operand in judged), judge.unknown())
    return Judged(
        cost + costs.method_work(name, method, judged), *costs.method_result(method, judged)
    )


def _function(judge: CostJudge, node: nodes.Function) -> Judged:
    parts = judge.all(node.arguments)
    cost = total(part.cost for part in parts)
    if node.name == "len":
        return Judged(cost, SMALL, INT)
    size = total(part.size for part in parts)
    kind = costs.either(parts)
    if node.name == "abs":
        return Judged(cost + size.times(BYTE), size, costs.computed(kind))
    elements = kind if LIST not in kind and TEXT not in kind else judge.unknown()
    return Judged(cost + size, size, kind | elements)


def _applied(judge: CostJudge, node: nodes.Applied) -> Judged:
    parts = judge.all(node.arguments)
    cost = total(part.cost for part in parts)
    work, size, kind = costs.call_cost(node, [part.size for part in parts])
    return Judged(cost + work, size, judge.unknown() if kind is ALL else kind)


# -- operators ---------------------------------------------------------------------------------


def _compare(judge: CostJudge, node: nodes.Compare) -> Judged:
    parts = node.children()
    operands = judge.all(parts)
    cost = total(operand.cost for operand in operands)
    for at, (sign, _) in enumerate(node.rest):
        constant = costs.met_at_once(sign, parts[at], parts[at + 1])
        cost += costs.comparing(sign, *operands[at : at + 2]) if constant is None else constant
    return Judged(cost, SMALL, INT)


def _joined(judge: CostJudge, node: nodes.And | nodes.Or) -> Judged:
    parts = judge.all(node.parts)
    cost = total(part.cost for part in parts)
    return Judged(cost, total(part.size for part in parts), costs.either(parts))


def _sign(judge: CostJudge, node: nodes.Sign) -> Judged:
    operand = judge.of(node.operand)
    cost = operand.cost + operand.size.times(BYTE)
    return Judged(cost, operand.size, costs.computed(operand.kind))


def _arithmetic(judge: CostJudge, node: nodes.Arithmetic) -> Judged:
    left, right = judge.all((node.left, node.right))
    cost, both = left.cost + right.cost, left.size + right.size
    if node.operator == "*":
        factor = costs.repeated(node, left, right)
        size = both if factor is None else factor
    elif node.operator == "**":  # its right side is a small constant
        size = left.size.times(costs.power_of(node.right))
    else:
        size = both + SMALL
    if node.operator == "%" and TEXT in left.kind:
        why = "with a text on its left it formats, to any length"
        raise FilterTooCostlyError("%", why, accepted=costs.NUMBERS)
    cost += size.times(BYTE) + costs.digits(node.operator, left, right, size)
    return Judged(cost, size, costs.computed_by(node.operator, left.kind, right.kind))


def _quantified(judge: CostJudge, node: nodes.Quantified) -> Judged:
    over = judge.of(node.over)
    source = len(judge.elements) + 1
    size = over.size if over.size.is_constant else amounts.Amount(linear={source: 1.0})
    element = judge.anything(size, amounts.element_of(over.type))
    if TEXT in over.kind and over.kind is not UNKNOWN:
        element = element._replace(kind=element.kind | TEXT | INT)
    judge.elements.append(element)
    try:
        body = total(part.cost for part in judge.all((*node.conditions, node.each))) + NODE
    finally:
        judge.elements.pop()
    try:
        steps_taken = body.over(over.size + steps(1.0), source)
    except amounts.TooMuch:
        why = "for each element it goes over something that is not in the element"
        accepted = (
            "one over a list of the event, that asks about its element: "
            "any(each.price > 3 for each in event.items), also in each other: "
            "any(any(tag == 'new' for tag in each.tags) for each in event.items)"
        )
        raise FilterTooCostlyError(f"{node.kind}()", why, accepted=accepted) from None
    return Judged(over.cost + steps_taken, SMALL, INT)


_RULES: dict[type, Callable[[CostJudge, Any], Judged]] = {
    nodes.Event: lambda judge, node: Judged(
        NOTHING, amounts.Amount(linear={amounts.EVENT: 1.0}), OTHER
    ),
    nodes.Variable: lambda judge, node: judge.elements[-1 - node.depth]._replace(cost=NOTHING),
    nodes.Constant: lambda judge, node: Judged(
        NOTHING, steps(costs.size_of(node.value)), amounts.kind_of_value(node.value)
    ),
    nodes.Opaque: lambda judge, node: Judged(
        NOTHING, amounts.Amount(linear={amounts.EVENT: 1.0}), ALL
    ),
    nodes.Attribute: _attribute,
    nodes.Item: _item,
    nodes.Display: _display,
    nodes.Call: lambda judge, node: _called(judge, node.method, (node.of, *node.arguments)),
    nodes.Reach: _reach,
    nodes.Function: _function,
    nodes.Applied: _applied,
    nodes.Compare: _compare,
    nodes.And: _joined,
    nodes.Or: _joined,
    nodes.Not: lambda judge, node: Judged(judge.of(node.operand).cost, SMALL, INT),
    nodes.InstanceOf: lambda judge, node: Judged(
        judge.of(node.of).cost + steps(len(node.classes)), SMALL, INT
    ),
    nodes.Sign: _sign,
    nodes.Arithmetic: _arithmetic,
    nodes.Quantified: _quantified,
}
