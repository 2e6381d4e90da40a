"""What the checker says of attributes and methods: whether they are there, and what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.filters.checking.classes import ClassMember
from polycast.filters.checking.inference import Kind, Kinds, is_data, joined, kinds_of
from polycast.filters.checking.samples import attribute_type, returned_type
from polycast.filters.tree import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.checking.classes import Classes
    from polycast.filters.checking.walker import Walker

__all__ = ["MEMBER_VISITS", "members_named"]


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
    result = returned_type(cls, name) if method else attribute_type(cls, name)
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
