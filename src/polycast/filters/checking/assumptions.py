"""What is known of paths after a condition was true, or false."""

from __future__ import annotations

import weakref
from types import NoneType
from typing import TYPE_CHECKING

from polycast.filters.checking.inference import Kind, Kinds, joined, kinds_of
from polycast.filters.tree import nodes
from polycast.typesystem import is_interface

if TYPE_CHECKING:
    from polycast.filters.checking.walker import Walker

__all__ = ["Assumptions", "is_path"]

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
