"""The walk over a tree that finds what certainly fails, whatever the event."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

from polycast.filters.checking.assumptions import Assumptions, is_path
from polycast.filters.checking.classes import Member
from polycast.filters.checking.etcl_components import visit_component
from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of, of_value
from polycast.filters.checking.places import deeper
from polycast.filters.checking.samples import attribute_type, results, returned_type
from polycast.filters.tree import nodes
from polycast.filters.tree.operators import ARITHMETIC, BUILTINS, COMPARISONS, SIGNS
from polycast.languages.etcl.functions import path_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.checking.classes import Classes

__all__ = ["Finding", "Walker"]

_ORDERINGS = frozenset(("<", "<=", ">", ">="))
_CONTAINERS = ("__contains__", "__iter__", "__getitem__")
_BOOL = kinds_of(bool)
_CONNECTIVES = (nodes.And, nodes.Or, nodes.Not, nodes.InstanceOf)


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """A part that always fails: its nodes, the condition it is in, and what its operands are."""

    code: str
    first: nodes.Node
    last: nodes.Node
    condition: nodes.Node
    operands: tuple[tuple[nodes.Node, Kinds], ...]
    what: str  # the attribute, or the operator
    member: Member | None = None
    before: str = ""  # the part of a component that leads to the operand


class Walker:
    """Walks once over a tree; `findings` has what certainly fails."""

    def __init__(self, event: Kinds, classes: Classes, *, needed: frozenset[int]) -> None:
        self.event, self.classes = event, classes
        self.needed = needed  # components of ETCL that are told if they lead nowhere
        self.findings: list[Finding] = []
        self.narrowed: dict[nodes.Node, Kinds] = {}  # paths of which something was asked before
        self.guarded = False  # something was asked that cannot be followed
        self._asks = False  # something was asked of the event at all
        self._tests = 0  # isinstance
        self._scope: list[Kinds] = []  # elements of the quantifiers around, the innermost last
        self._condition: nodes.Node = nodes.Event()

    def condition(self, node: nodes.Node) -> Kinds:
        """A part that decides whether what follows is asked at all."""
        before = self._condition, self._tests, self._asks
        self._condition, self._asks = node, False
        found = self.visit(node)
        # `DEBUG and ...`, `isinstance(...) == True and ...`: who knows what follows from it.
        hidden = not self._asks or self._tests != before[1]
        if hidden and not isinstance(node, _CONNECTIVES):
            self.guarded = True
        self._condition, self._asks = before[0], self._asks or before[2]
        return found

    def visit(self, node: nodes.Node) -> Kinds:
        """What an expression may be."""
        if self.narrowed and is_path(node) and node in self.narrowed:
            self._asks = True
            return self.narrowed[node]
        method = _VISITS.get(type(node))
        if method is None:  # a kind of node with rules of its own
            self.guarded = self._asks = True
            return None
        return method(self, node)

    def quietly(self, node: nodes.Node) -> Kinds:
        """What an expression may be, without another word about it."""
        kept = self.findings, self.guarded, self._asks, self._tests, self._condition
        self.findings = []
        found = self.visit(node)
        self.findings, self.guarded, self._asks, self._tests, self._condition = kept
        return found

    def _report(
        self, code: str, node: nodes.Node, what: str, *operands: tuple[nodes.Node, Kinds]
    ) -> None:
        found = Finding(code, node, node, self._condition, operands, what)
        self.findings.append(found)

    # -- leaves ----------------------------------------------------------------------------------

    def _event(self, node: nodes.Event) -> Kinds:
        self._asks = True
        return self.event

    def _variable(self, node: nodes.Variable) -> Kinds:
        self._asks = True
        return self._scope[-1 - node.depth]

    def _constant(self, node: nodes.Constant) -> Kinds:
        return of_value(node.value)

    def _opaque(self, node: nodes.Opaque) -> Kinds:
        self.guarded = self._asks = True
        return None

    # -- attributes and methods ------------------------------------------------------------------

    def _attribute(self, node: nodes.Attribute) -> Kinds:
        members = self._members(node, node.of, node.name)
        if members is None:
            return None
        return joined(m.kinds if m.is_attribute else None for m in members)

    def _reach(self, node: nodes.Reach) -> Kinds:
        members = self._members(node, node.of, node.name)
        if members is None:
            return None
        if all(m.is_method and m.least > 0 for m in members):
            return self._wrong_arguments(node, node.of, node.name, members[0])
        return joined(m.kinds if m.is_method or self._is_value(m.kinds) else None for m in members)

    def _is_value(self, kinds: Kinds) -> bool:
        """Whether none of its alternatives can be called."""
        held = [self.classes.names(cls) for kind in kinds or () for cls in kind.classes()]
        return kinds is not None and all(n is not None and "__call__" not in n for n in held)

    def _call(self, node: nodes.Call) -> Kinds:
        members = self._members(node, node.of, node.method)
        for argument in node.arguments:
            self.visit(argument)
        if members is None:
            return None
        given = len(node.arguments)
        if all(m.is_method and not m.least <= given <= m.most for m in members):
            return self._wrong_arguments(node, node.of, node.method, members[0])
        if all(m.is_attribute and _is_data(m.kinds) for m in members):
            kinds = joined(m.kinds for m in members)
            self._report("not-callable", node, node.method, (node, kinds))
            return None
        return joined(m.kinds if m.is_method else None for m in members)

    def _wrong_arguments(
        self, node: nodes.Node, of: nodes.Node, name: str, member: Member
    ) -> Kinds:
        operands = ((of, self.quietly(of)),)
        self.findings.append(
            Finding("bad-arguments", node, node, self._condition, operands, name, member)
        )
        return None

    def _members(self, node: nodes.Node, of: nodes.Node, name: str) -> list[Member] | None:
        """What the name is for each alternative that has it; None if nothing is known."""
        kinds = self.visit(of)
        found = self.members(kinds, name)
        if found == []:
            self._report("no-attribute", node, name, (of, kinds))
        return found or None

    def members(self, kinds: Kinds, name: str) -> list[Member] | None:
        """What the name is for each alternative that has it; None if one may have anything."""
        if name.startswith(("_", "model_")):  # `"x" in t.__dict__ and ...`
            self.guarded = True
        if kinds is None:
            return None
        found: list[Member] = []
        for kind in kinds:
            members = self._members_of(kind, name)
            if members is None:
                return None
            found += members
        return found

    def report_member(
        self, node: nodes.Node, name: str, operand: tuple[nodes.Node, Kinds], *, before: str
    ) -> None:
        """Tell that a component asks for a member that is nowhere."""
        found = Finding(
            *("no-attribute", node, node, self._condition, (operand,), name), before=before
        )
        self.findings.append(found)

    def _members_of(self, kind: Kind, name: str) -> list[Member] | None:
        classes = kind.classes()
        held = [self.classes.names(cls) for cls in classes]
        if not classes or None in held or (name[:2] == name[-2:] == "__"):
            return None
        built_in = kind.operand()
        if built_in is not None and built_in in classes:
            return [_built_in(built_in, name)] if hasattr(built_in, name) else []
        having = [cls for cls, names in zip(classes, held, strict=True) if name in names]  # type: ignore[operator]
        return [self.classes.member(cls, name) for cls in having]

    # -- operators -------------------------------------------------------------------------------

    def _applied(
        self, function: Callable[..., Any], *operands: Kinds
    ) -> tuple[bool, frozenset[type] | None]:
        """Whether it always fails, and the types of what it gives, if they are known."""
        types: list[set[type]] = []
        for kinds in operands:
            if kinds is None:
                return False, None
            found = {kind.operand() for kind in kinds}
            if None in found:
                return False, None
            types.append(found)  # type: ignore[arg-type]
        outcomes = {results(function, *classes) for classes in itertools.product(*types)}
        if len(outcomes) == 1:  # mostly
            [given] = outcomes
            return given is None, given or None
        return False, frozenset().union(*(each for each in outcomes if each is not None)) or None

    def _compare(self, node: nodes.Compare) -> Kinds:
        left, kinds = node.first, self.visit(node.first)
        plain = True
        for sign, right in node.rest:
            others = self.visit(right)
            plain = plain and self._pair(sign, (left, kinds), (right, others))
            left, kinds = right, others
        return _BOOL if plain else None

    def _pair(
        self, sign: str, left: tuple[nodes.Node, Kinds], right: tuple[nodes.Node, Kinds]
    ) -> bool:
        """Whether the comparison gives a bool; it is reported if it fails always."""
        if sign in ("is", "is not"):
            return True
        contains = sign in ("in", "not in")
        if contains and not _is_data(right[1]):
            self.guarded = True  # `"stars" in t and ...`
        if sign in _ORDERINGS or contains:
            fails, given = self._applied(COMPARISONS[sign], left[1], right[1])
            if fails or (contains and self._holds_nothing(right[1])):
                code = "no-container" if contains else "never-comparable"
                found = Finding(code, left[0], right[0], self._condition, (left, right), sign)
                self.findings.append(found)
                return False
            return contains or given is not None
        return _is_data(left[1]) and _is_data(right[1])

    def _holds_nothing(self, kinds: Kinds) -> bool:
        return self._applied(_check_container, kinds)[0]

    def _arithmetic(self, node: nodes.Arithmetic) -> Kinds:
        left, right = self.visit(node.left), self.visit(node.right)
        fails, given = self._applied(ARITHMETIC[node.operator], left, right)
        if fails:
            operands = ((node.left, left), (node.right, right))
            self._report("bad-operand", node, node.operator, *operands)
        # A power of integers may be a float, or complex.
        return kinds_of(*given) if given is not None and node.operator != "**" else None

    def _sign(self, node: nodes.Sign) -> Kinds:
        kinds = self.visit(node.operand)
        fails, given = self._applied(SIGNS[node.operator], kinds)
        if fails:
            self._report("bad-operand", node, node.operator, (node.operand, kinds))
        return kinds_of(*given) if given is not None else None

    def _language(self, node: nodes.Applied) -> Kinds:
        """Another language decides for itself what its functions take."""
        path = path_in(node)
        if path is not None:
            return visit_component(self, node, path)
        for each in node.arguments:
            self.visit(each)
        return None

    def _function(self, node: nodes.Function) -> Kinds:
        operands = [(each, self.visit(each)) for each in node.arguments]
        if node.name in ("len", "abs") and len(operands) == 1:
            fails, given = self._applied(BUILTINS[node.name], operands[0][1])
            if fails:
                code = "no-length" if node.name == "len" else "bad-operand"
                self._report(code, node, node.name, *operands)
            return kinds_of(*given) if given is not None else None
        if node.name in ("min", "max"):
            return self._extreme(node, operands)
        return None

    def _extreme(self, node: nodes.Function, operands: list[tuple[nodes.Node, Kinds]]) -> Kinds:
        if len(operands) == 1:
            self._elements(node, *operands[0])
            return None
        compared = operator.lt if node.name == "min" else operator.gt
        for at in range(1, len(operands)):
            before = joined(kinds for _, kinds in operands[:at])
            if self._applied(compared, operands[at][1], before)[0]:
                other = (operands[0][0], before)
                self._report("never-comparable", node, node.name, operands[at], other)
                return None
        return joined(kinds for _, kinds in operands)

    # -- containers ------------------------------------------------------------------------------

    def _item(self, node: nodes.Item) -> Kinds:
        kinds, keys = self.visit(node.of), self.visit(node.key)
        if self._applied(_check_subscripts, kinds)[0]:
            self._report("no-subscript", node, "[]", (node.of, kinds))
            return None
        if self._applied(operator.getitem, kinds, keys)[0]:
            self._report("bad-operand", node, "[]", (node.of, kinds), (node.key, keys))
            return None
        held = [kind.values for kind in kinds or () if kind.ref() is not NoneType]
        return joined(held) if kinds is not None else None

    def _display(self, node: nodes.Display) -> Kinds:
        inner = joined([self.visit(each) for each in node.elements])
        made = kinds_of(node.kind)
        return made and (Kind(made[0].ref, inner, inner),)

    def _elements(self, node: nodes.Node, over: nodes.Node, kinds: Kinds) -> Kinds:
        if self._applied(iter, kinds)[0]:
            self._report("not-iterable", node, "", (over, kinds))
            return None
        held = [kind.elements for kind in kinds or () if kind.ref() is not NoneType]
        return joined(held) if kinds is not None else None

    def _quantified(self, node: nodes.Quantified) -> Kinds:
        elements = self._elements(node, node.over, self.visit(node.over))
        outer = self.narrowed
        self.narrowed = {deeper(path): kinds for path, kinds in outer.items()}
        self._scope.append(elements)
        self._in_turn((*node.conditions, node.each), going=True)
        self._scope.pop()
        self.narrowed = outer
        return _BOOL

    # -- and, or, not ----------------------------------------------------------------------------

    def _in_turn(self, parts: tuple[nodes.Node, ...], *, going: bool) -> Kinds:
        """Parts of which each is asked only if those before it are all true, or all false."""
        outer, before = self.narrowed, self.guarded
        self.guarded = False
        found: list[Kinds] = []
        for part in parts:
            found.append(None if self.guarded else self.condition(part))
            if not self.guarded:
                self.narrowed = Assumptions(self).after(part, truth=going)
        self.narrowed, self.guarded = outer, self.guarded or before
        return joined(found)

    def _and(self, node: nodes.And) -> Kinds:
        return self._in_turn(node.parts, going=True)

    def _or(self, node: nodes.Or) -> Kinds:
        return self._in_turn(node.parts, going=False)

    def _not(self, node: nodes.Not) -> Kinds:
        self.condition(node.operand)
        return _BOOL

    def _instance_of(self, node: nodes.InstanceOf) -> Kinds:
        self.visit(node.of)
        self._tests += 1
        return _BOOL


def _is_data(kinds: Kinds) -> bool:
    return kinds is not None and all(kind.operand() is not None for kind in kinds)


def _built_in(cls: type, name: str) -> Member:
    method = callable(getattr(cls, name))
    result = returned_type(cls, name) if method else attribute_type(cls, name)
    kinds = None if result is None else kinds_of(result)
    return Member(is_method=method, is_attribute=not method, kinds=kinds)


def _check_container(value: object) -> None:
    """Refuse what `in` can never look into, whatever is looked for."""
    if not any(hasattr(type(value), name) for name in _CONTAINERS):
        raise TypeError(value)


def _check_subscripts(value: object) -> None:
    """Refuse what has no items, whatever the key."""
    if not hasattr(type(value), "__getitem__"):
        raise TypeError(value)


_VISITS: dict[type, Callable[[Any, Any], Kinds]] = {
    nodes.Event: Walker._event,
    nodes.Variable: Walker._variable,
    nodes.Constant: Walker._constant,
    nodes.Opaque: Walker._opaque,
    nodes.Attribute: Walker._attribute,
    nodes.Reach: Walker._reach,
    nodes.Call: Walker._call,
    nodes.Applied: Walker._language,
    nodes.Function: Walker._function,
    nodes.Item: Walker._item,
    nodes.Display: Walker._display,
    nodes.Compare: Walker._compare,
    nodes.And: Walker._and,
    nodes.Or: Walker._or,
    nodes.Not: Walker._not,
    nodes.Arithmetic: Walker._arithmetic,
    nodes.Sign: Walker._sign,
    nodes.InstanceOf: Walker._instance_of,
    nodes.Quantified: Walker._quantified,
}
