"""The walk over a tree that finds what certainly fails, whatever the event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.filters.checking.assumptions import Assumptions, is_path
from polycast.filters.checking.inference import Kinds, joined, kinds_of, of_value
from polycast.filters.checking.member_visits import MEMBER_VISITS
from polycast.filters.checking.operator_visits import OPERATOR_VISITS, visit_elements
from polycast.filters.checking.places import deeper
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import language_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.checking.classes import Classes, ClassMember

__all__ = ["CertainFailure", "Walker"]

_BOOL = kinds_of(bool)
_CONNECTIVES = (nodes.And, nodes.Or, nodes.Not, nodes.InstanceOf)


@dataclass(frozen=True, slots=True, eq=False)
class CertainFailure:
    """A part that always fails: its nodes, the condition it is in, and what its operands are."""

    code: str
    first: nodes.Node
    last: nodes.Node
    condition: nodes.Node
    operands: tuple[tuple[nodes.Node, Kinds], ...]
    what: str  # the attribute, or the operator
    member: ClassMember | None = None
    before: str = ""  # the part of a component that leads to the operand


class Walker:
    """Walks once over a tree; `failures` has what certainly fails."""

    def __init__(self, event: Kinds, classes: Classes, *, needed: frozenset[int]) -> None:
        self.event, self.classes = event, classes
        self.needed = needed  # calls of languages that are reported if they lead nowhere
        self.failures: list[CertainFailure] = []
        self.narrowed: dict[nodes.Node, Kinds] = {}  # paths of which something was asked before
        self.guarded = False  # something was asked that cannot be followed
        self.asks = False  # something was asked of the event at all
        self.tests = 0  # isinstance
        self.scope: list[Kinds] = []  # elements of the quantifiers around, the innermost last
        self._condition: nodes.Node = nodes.Event()

    def visit(self, node: nodes.Node) -> Kinds:
        """What an expression may be."""
        if self.narrowed and is_path(node) and node in self.narrowed:
            self.asks = True
            return self.narrowed[node]
        method = _VISITS.get(type(node))
        if method is None:  # a kind of node with rules of its own
            self.guarded = self.asks = True
            return None
        return method(self, node)

    def quietly(self, node: nodes.Node) -> Kinds:
        """What an expression may be, without reporting failures."""
        kept = self.failures, self.guarded, self.asks, self.tests, self._condition
        self.failures = []
        kinds = self.visit(node)
        self.failures, self.guarded, self.asks, self.tests, self._condition = kept
        return kinds

    def condition(self, node: nodes.Node) -> Kinds:
        """A part that decides whether what follows is asked at all."""
        before = self._condition, self.tests, self.asks
        self._condition, self.asks = node, False
        kinds = self.visit(node)
        # `DEBUG and ...`, `isinstance(...) == True and ...`: who knows what follows from it.
        hidden = not self.asks or self.tests != before[1]
        if hidden and not isinstance(node, _CONNECTIVES):
            self.guarded = True
        self._condition, self.asks = before[0], self.asks or before[2]
        return kinds

    def in_turn(self, parts: tuple[nodes.Node, ...], *, going: bool) -> Kinds:
        """Parts of which each is asked only if those before it are all true, or all false."""
        outer, before = self.narrowed, self.guarded
        self.guarded = False
        results: list[Kinds] = []
        for part in parts:
            results.append(None if self.guarded else self.condition(part))
            if not self.guarded:
                self.narrowed = Assumptions(self).after(part, truth=going)
        self.narrowed, self.guarded = outer, self.guarded or before
        return joined(results)

    def report(
        self,
        code: str,
        node: nodes.Node,
        what: str,
        *operands: tuple[nodes.Node, Kinds],
        last: nodes.Node | None = None,
        member: ClassMember | None = None,
        before: str = "",
    ) -> None:
        """Add a failure of a part: of a node, or from there to the last one."""
        self.failures.append(
            CertainFailure(
                code, node, last or node, self._condition, operands, what, member, before
            )
        )


# -- leaves, functions of languages, and what joins conditions -------------------------------------


def _event(walker: Walker, node: nodes.Event) -> Kinds:
    walker.asks = True
    return walker.event


def _variable(walker: Walker, node: nodes.Variable) -> Kinds:
    walker.asks = True
    return walker.scope[-1 - node.depth]


def _constant(walker: Walker, node: nodes.Constant) -> Kinds:
    return of_value(node.value)


def _opaque(walker: Walker, node: nodes.Opaque) -> Kinds:
    walker.guarded = walker.asks = True
    return None


def _applied(walker: Walker, node: nodes.Applied) -> Kinds:
    """Another language decides for itself what its functions take."""
    component = language_of(node).component(node)
    if component is not None:
        return component.kinds(walker)
    for argument in node.arguments:
        walker.visit(argument)
    return None


def _and(walker: Walker, node: nodes.And) -> Kinds:
    return walker.in_turn(node.parts, going=True)


def _or(walker: Walker, node: nodes.Or) -> Kinds:
    return walker.in_turn(node.parts, going=False)


def _not(walker: Walker, node: nodes.Not) -> Kinds:
    walker.condition(node.operand)
    return _BOOL


def _instance_of(walker: Walker, node: nodes.InstanceOf) -> Kinds:
    walker.visit(node.of)
    walker.tests += 1
    return _BOOL


def _quantified(walker: Walker, node: nodes.Quantified) -> Kinds:
    elements = visit_elements(walker, node, node.over, walker.visit(node.over))
    outer = walker.narrowed
    walker.narrowed = {deeper(path): kinds for path, kinds in outer.items()}
    walker.scope.append(elements)
    walker.in_turn((*node.conditions, node.each), going=True)
    walker.scope.pop()
    walker.narrowed = outer
    return _BOOL


_VISITS: dict[type, Callable[[Walker, Any], Kinds]] = {
    nodes.Event: _event,
    nodes.Variable: _variable,
    nodes.Constant: _constant,
    nodes.Opaque: _opaque,
    nodes.Applied: _applied,
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.InstanceOf: _instance_of,
    nodes.Quantified: _quantified,
    **MEMBER_VISITS,
    **OPERATOR_VISITS,
}
