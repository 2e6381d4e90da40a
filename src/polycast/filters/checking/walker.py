"""The walk over a tree that finds what certainly fails, whatever the event."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of, of_value
from polycast.filters.checking.visits import MEMBER_VISITS, OPERATOR_VISITS, visit_elements
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import rebuilt
from polycast.filters.tree.language_registry import language_of
from polycast.typesystem import is_interface

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.filters.checking.classes import Classes, ClassMember

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
        # `DEBUG and ...`, `isinstance(...) == True and ...`: what follows from it is not known.
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
    walker.narrowed = {_within_quantifier(path): kinds for path, kinds in outer.items()}
    walker.scope.append(elements)
    walker.in_turn((*node.conditions, node.each), going=True)
    walker.scope.pop()
    walker.narrowed = outer
    return _BOOL


_VISITS: dict[type, Callable[[Walker, Any], Kinds]] = {
    nodes.Event: _event,
    nodes.Variable: _variable,
    nodes.Constant: lambda walker, node: of_value(node.value),
    nodes.Opaque: _opaque,
    nodes.Applied: _applied,
    nodes.And: lambda walker, node: walker.in_turn(node.parts, going=True),
    nodes.Or: lambda walker, node: walker.in_turn(node.parts, going=False),
    nodes.Not: _not,
    nodes.InstanceOf: _instance_of,
    nodes.Quantified: _quantified,
    **MEMBER_VISITS,
    **OPERATOR_VISITS,
}


# -- what is known of paths after a condition was true, or false -----------------------------------


Narrowed = dict[nodes.Node, Kinds]
DEEPEST = 5  # each `and` in an `or` doubles the cases


def is_path(node: nodes.Node) -> bool:
    """Whether an expression leads from the event, or an element, to something it holds."""
    match node:
        case nodes.Event() | nodes.Variable() | nodes.Constant():
            return True
        case nodes.Attribute(of) | nodes.Reach(of):
            return is_path(of)
        case nodes.Call(of, _, arguments):
            return is_path(of) and all(map(is_path, arguments))
        case nodes.Item(of, key):
            return is_path(of) and is_path(key)
    return False


def _within_quantifier(path: nodes.Node) -> nodes.Node:
    """A path as it is called within one more quantifier."""
    if isinstance(path, nodes.Variable):
        return nodes.Variable(path.depth + 1)
    return rebuilt(path, _within_quantifier)


class Assumptions:
    """Narrows what a walker knows of paths by the truth of a condition."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._depth = 0

    def after(self, node: nodes.Node, *, truth: bool) -> Narrowed:
        """What is known of paths once a condition is true, or false."""
        match node:
            case nodes.Not(operand):
                return self.after(operand, truth=not truth)
            case nodes.And(parts) | nodes.Or(parts):
                return self._connected(parts, truth=truth, all_of_them=isinstance(node, nodes.And))
            case nodes.InstanceOf(of, classes):
                return self._with(of, lambda kinds: _of_classes(kinds, classes, truth=truth))
            case nodes.Compare(first, ((sign, second),)) if sign in _NONE_TESTS:
                return self._compared(first, sign, second, truth=truth)
        return self._with(node, _without_none) if truth and is_path(node) else self._known()

    def _known(self) -> Narrowed:
        return self._walker.narrowed

    def _connected(
        self, parts: tuple[nodes.Node, ...], *, truth: bool, all_of_them: bool
    ) -> Narrowed:
        if self._depth >= DEEPEST:
            self._walker.guarded = True
            return self._known()
        self._depth += 1
        outer = self._known()
        if all_of_them is truth:  # `and` is true, or `or` is false: every part is
            for part in parts:
                self._walker.narrowed = self.after(part, truth=truth)
            found = self._known()
        else:  # one of them, after all before it were the opposite
            cases = []
            for part in parts:
                cases.append(self.after(part, truth=truth))
                self._walker.narrowed = self.after(part, truth=not truth)
            self._walker.narrowed = outer
            found = self._either(cases)
        self._walker.narrowed = outer
        self._depth -= 1
        return found

    def _either(self, cases: list[Narrowed]) -> Narrowed:
        found = dict(self._known())
        for path in {path for case in cases for path in case}:
            usual = self._walker.quietly(path)
            found[path] = joined(case.get(path, usual) for case in cases)
        return found

    def _with(self, path: nodes.Node, change: _Change) -> Narrowed:
        if not is_path(path):
            self._walker.guarded = True
            return self._known()
        kinds = self._walker.quietly(path)
        changed = change(kinds) if kinds is not None else None
        return self._known() if changed == kinds else {**self._known(), path: changed}

    def _compared(
        self, first: nodes.Node, sign: str, second: nodes.Node, *, truth: bool
    ) -> Narrowed:
        if _is_none(first):
            first, second = second, first
        if not _is_none(second) or not is_path(first):
            return self._known()
        if (sign in ("is not", "!=")) is truth:
            return self._with(first, _without_none)
        return self._with(first, _only_none) if sign in ("is", "is not") else self._known()


if TYPE_CHECKING:
    from collections.abc import Callable

    _Change = Callable[[tuple[Kind, ...]], Kinds]

_NONE_TESTS = ("is", "is not", "==", "!=")


def _is_none(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Constant) and node.value is None


def _without_none(kinds: tuple[Kind, ...]) -> Kinds:
    return joined([tuple(kind for kind in kinds if kind.ref() is not NoneType)])


def _only_none(kinds: tuple[Kind, ...]) -> Kinds:
    return joined([tuple(kind for kind in kinds if kind.ref() is NoneType)])


def _of_classes(kinds: tuple[Kind, ...], classes: tuple[type, ...], *, truth: bool) -> Kinds:
    if not truth:
        return joined([tuple(kind for kind in kinds if not _is_of(kind, classes))])
    return joined([_both(kind, cls) for cls in classes for kind in kinds])


def _is_of(kind: Kind, classes: tuple[type, ...]) -> bool:
    bases = [base for cls in kind.classes() for base in cls.__mro__]
    return any(cls in bases for cls in classes)


def _both(kind: Kind, cls: type) -> Kinds:
    """What is of this kind and of that class; nothing, if they exclude each other."""
    own = kind.classes()
    if not own or _is_of(kind, (cls,)):
        return (kind,) if own else None
    if own == (object,):
        # Whatever implements an interface may be of any class.
        return None if is_interface(cls) else kinds_of(cls)
    if own[0] in cls.__mro__ and not kind.also:
        return (Kind(weakref.ref(cls), kind.elements, kind.values),)
    single = kinds_of(cls)
    if kind.operand() is not None and single is not None and single[0].operand() is not None:
        return ()
    return (Kind(kind.ref, kind.elements, kind.values, (*kind.also, weakref.ref(cls))),)
