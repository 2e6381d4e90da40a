"""What the checker says of operators, functions, items, attributes and methods."""

from __future__ import annotations

import itertools
import operator
from types import NoneType
from typing import TYPE_CHECKING, Any

from polycast.filters.checking import inference
from polycast.filters.checking.classes import Classes, ClassMember
from polycast.filters.checking.inference import Kind, Kinds, is_data, joined, kinds_of
from polycast.filters.tree import nodes
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.checking.walker import Walker

_ORDERINGS = frozenset(("<", "<=", ">", ">="))
_CONTAINERS = ("__contains__", "__iter__", "__getitem__")
_BOOL = kinds_of(bool)

Operand = tuple[nodes.Node, Kinds]


def _outcome(function: Callable[..., Any], *operands: Kinds) -> tuple[bool, frozenset[type] | None]:
    """Whether it always fails, and the types of what it gives, if they are known."""
    types: list[set[type]] = []
    for kinds in operands:
        if kinds is None:
            return False, None
        classes = {kind.operand() for kind in kinds}
        if None in classes:
            return False, None
        types.append(classes)  # type: ignore[arg-type]
    outcomes = {inference.results(function, *classes) for classes in itertools.product(*types)}
    if len(outcomes) == 1:  # mostly
        [given] = outcomes
        return given is None, given or None
    known = (outcome for outcome in outcomes if outcome is not None)
    return False, frozenset().union(*known) or None


def _compare(walker: Walker, node: nodes.Compare) -> Kinds:
    left, kinds = node.first, walker.visit(node.first)
    plain = True
    for sign, right in node.rest:
        others = walker.visit(right)
        plain = plain and _pair(walker, sign, (left, kinds), (right, others))
        left, kinds = right, others
    return _BOOL if plain else None


def _pair(walker: Walker, sign: str, left: Operand, right: Operand) -> bool:
    """Whether the comparison gives a bool; it is reported if it fails always."""
    if sign in ("is", "is not"):
        return True
    contains = sign in ("in", "not in")
    if contains and not is_data(right[1]):
        walker.guarded = True  # `"stars" in t and ...`
    if sign in _ORDERINGS or contains:
        fails, given = _outcome(COMPARISONS[sign], left[1], right[1])
        if fails or (contains and _outcome(_check_container, right[1])[0]):
            code = "no-container" if contains else "never-comparable"
            walker.report(code, left[0], sign, left, right, last=right[0])
            return False
        return contains or given is not None
    return is_data(left[1]) and is_data(right[1])


def _check_container(value: object) -> None:
    """Refuse what `in` can never look into, whatever is looked for."""
    if not any(hasattr(type(value), name) for name in _CONTAINERS):
        raise TypeError(value)


def _arithmetic(walker: Walker, node: nodes.Arithmetic) -> Kinds:
    left, right = walker.visit(node.left), walker.visit(node.right)
    fails, given = _outcome(ARITHMETIC[node.operator], left, right)
    if fails:
        operands = ((node.left, left), (node.right, right))
        walker.report("bad-operand", node, node.operator, *operands)
    # A power of integers may be a float, or complex.
    return kinds_of(*given) if given is not None and node.operator != "**" else None


def _sign(walker: Walker, node: nodes.Sign) -> Kinds:
    kinds = walker.visit(node.operand)
    fails, given = _outcome(SIGNS[node.operator], kinds)
    if fails:
        walker.report("bad-operand", node, node.operator, (node.operand, kinds))
    return kinds_of(*given) if given is not None else None


def _function(walker: Walker, node: nodes.Function) -> Kinds:
    operands = [(argument, walker.visit(argument)) for argument in node.arguments]
    if node.name in ("len", "abs") and len(operands) == 1:
        fails, given = _outcome(BUILTINS[node.name], operands[0][1])
        if fails:
            code = "no-length" if node.name == "len" else "bad-operand"
            walker.report(code, node, node.name, *operands)
        return kinds_of(*given) if given is not None else None
    if node.name in ("min", "max"):
        return _extreme(walker, node, operands)
    return None


def _extreme(walker: Walker, node: nodes.Function, operands: list[Operand]) -> Kinds:
    if len(operands) == 1:
        visit_elements(walker, node, *operands[0])
        return None
    compared = operator.lt if node.name == "min" else operator.gt
    for at in range(1, len(operands)):
        before = joined(kinds for _, kinds in operands[:at])
        if _outcome(compared, operands[at][1], before)[0]:
            other = (operands[0][0], before)
            walker.report("never-comparable", node, node.name, operands[at], other)
            return None
    return joined(kinds for _, kinds in operands)


# -- containers ------------------------------------------------------------------------------------


def visit_elements(walker: Walker, node: nodes.Node, over: nodes.Node, kinds: Kinds) -> Kinds:
    """What iterating gives; it is reported if nothing can be iterated over."""
    if _outcome(iter, kinds)[0]:
        walker.report("not-iterable", node, "", (over, kinds))
        return None
    held = [kind.elements for kind in kinds or () if kind.ref() is not NoneType]
    return joined(held) if kinds is not None else None


def _item(walker: Walker, node: nodes.Item) -> Kinds:
    kinds, keys = walker.visit(node.of), walker.visit(node.key)
    if _outcome(_check_subscripts, kinds)[0]:
        walker.report("no-subscript", node, "[]", (node.of, kinds))
        return None
    if _outcome(operator.getitem, kinds, keys)[0]:
        walker.report("bad-operand", node, "[]", (node.of, kinds), (node.key, keys))
        return None
    held = [kind.values for kind in kinds or () if kind.ref() is not NoneType]
    return joined(held) if kinds is not None else None


def _check_subscripts(value: object) -> None:
    """Refuse what has no items, whatever the key."""
    if not hasattr(type(value), "__getitem__"):
        raise TypeError(value)


def _display(walker: Walker, node: nodes.Display) -> Kinds:
    inner = joined([walker.visit(element) for element in node.elements])
    container = kinds_of(node.kind)
    return container and (Kind(container[0].ref, inner, inner),)


OPERATOR_VISITS: dict[type, Callable[[Walker, Any], Kinds]] = {
    nodes.Compare: _compare,
    nodes.Arithmetic: _arithmetic,
    nodes.Sign: _sign,
    nodes.Function: _function,
    nodes.Item: _item,
    nodes.Display: _display,
}


# -- attributes and methods ------------------------------------------------------------------------


def members_named(walker: Walker, kinds: Kinds, name: str) -> list[ClassMember] | None:
    """What the name is for each alternative that has it; None if one may have anything."""
    if name.startswith(("_", "model_")):  # `"x" in t.__dict__ and ...`
        walker.guarded = True
    if kinds is None:
        return None
    found: list[ClassMember] = []
    for kind in kinds:
        members = _members_of(walker.classes, kind, name)
        if members is None:
            return None
        found += members
    return found


def _members_of(known: Classes, kind: Kind, name: str) -> list[ClassMember] | None:
    classes = kind.classes()
    held = [known.names(cls) for cls in classes]
    if not classes or None in held or (name[:2] == name[-2:] == "__"):
        return None
    built_in = kind.operand()
    if built_in is not None and built_in in classes:
        return [_built_in(built_in, name)] if hasattr(built_in, name) else []
    having = [cls for cls, names in zip(classes, held, strict=True) if name in names]  # type: ignore[operator]
    return [known.member(cls, name) for cls in having]


def _built_in(cls: type, name: str) -> ClassMember:
    method = callable(getattr(cls, name))
    result = inference.returned_type(cls, name) if method else inference.attribute_type(cls, name)
    kinds = None if result is None else kinds_of(result)
    return ClassMember(is_method=method, is_attribute=not method, kinds=kinds)


def _members(
    walker: Walker, node: nodes.Node, of: nodes.Node, name: str
) -> list[ClassMember] | None:
    """What the name is for each alternative that has it; None if nothing is known."""
    kinds = walker.visit(of)
    members = members_named(walker, kinds, name)
    if members == []:
        walker.report("no-attribute", node, name, (of, kinds))
    return members or None


def _attribute(walker: Walker, node: nodes.Attribute) -> Kinds:
    members = _members(walker, node, node.of, node.name)
    if members is None:
        return None
    return joined(m.kinds if m.is_attribute else None for m in members)


def _reach(walker: Walker, node: nodes.Reach) -> Kinds:
    members = _members(walker, node, node.of, node.name)
    if members is None:
        return None
    if all(m.is_method and m.least > 0 for m in members):
        operand = (node.of, walker.quietly(node.of))
        walker.report("bad-arguments", node, node.name, operand, member=members[0])
        return None
    return joined(
        m.kinds if m.is_method or _is_value(walker.classes, m.kinds) else None for m in members
    )


def _is_value(classes: Classes, kinds: Kinds) -> bool:
    """Whether none of its alternatives can be called."""
    held = [classes.names(cls) for kind in kinds or () for cls in kind.classes()]
    return kinds is not None and all(n is not None and "__call__" not in n for n in held)


def _call(walker: Walker, node: nodes.Call) -> Kinds:
    members = _members(walker, node, node.of, node.method)
    for argument in node.arguments:
        walker.visit(argument)
    if members is None:
        return None
    given = len(node.arguments)
    if all(m.is_method and not m.least <= given <= m.most for m in members):
        operand = (node.of, walker.quietly(node.of))
        walker.report("bad-arguments", node, node.method, operand, member=members[0])
        return None
    if all(m.is_attribute and is_data(m.kinds) for m in members):
        walker.report("not-callable", node, node.method, (node, joined(m.kinds for m in members)))
        return None
    return joined(m.kinds if m.is_method else None for m in members)


MEMBER_VISITS: dict[type, Callable[[Walker, Any], Kinds]] = {
    nodes.Attribute: _attribute,
    nodes.Reach: _reach,
    nodes.Call: _call,
}
