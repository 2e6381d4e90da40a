"""Condition objects (DAC 4.2): constraints as values, which combine and compare.

`Equals("/get_text/find", -1, args=[[], ["Bob"]], result=False)` is true for events whose
`get_text().find("Bob")` is not -1. A step of a path is a method or an attribute. As in DAC A.3, an
accessor that yields None does not match, whatever result is required.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from polycast.errors import BadOptionError
from polycast.filters.backends.interpreter import matches
from polycast.filters.lifting.function import lift_function
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import canonical
from polycast.filters.tree.canonical_text import render
from polycast.registered_names import placed_at


class Condition:
    """A constraint on events. Your own subclass says `matches`, or what tree it means."""

    def matches(self, event: Any, topic: str | None = None, /) -> bool:
        """Whether an event satisfies it; called for each event, so the result may change."""
        tree = self.tree()
        if tree is None:
            raise TypeError(f"{type(self).__name__} says neither matches() nor tree()")
        return matches(tree, event)

    def tree(self) -> nodes.Node | None:
        """What it means as a tree; None if only `matches` knows."""
        return None

    def node(self) -> nodes.Node:
        """Its tree, opaque if it has none."""
        tree = self.tree()
        if tree is not None:
            if not isinstance(tree, nodes.Node):
                raise BadOptionError(
                    "tree", tree, accepted="a node of polycast.filters.tree.nodes, or None"
                )
            return tree
        if type(self).matches is Condition.matches:
            accepted = "a Condition that says `matches` or `tree`"
            raise BadOptionError("where", self, accepted=accepted)
        why = f"{type(self).__name__} has no tree"
        return nodes.Opaque(self.matches, why, ("own", id(self)), topical=True)

    def __call__(self, event: Any, /) -> bool:
        """Test an event: a condition can stand wherever a filter can."""
        return self.matches(event)

    def __and__(self, other: Callable[[Any], object]) -> And:
        return And(self, other)

    def __rand__(self, other: Callable[[Any], object]) -> And:
        return And(other, self)

    def __or__(self, other: Callable[[Any], object]) -> Or:
        return Or(self, other)

    def __ror__(self, other: Callable[[Any], object]) -> Or:
        return Or(other, self)

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a condition has no truth of its own; combine conditions with &, | and ~")

    def __repr__(self) -> str:
        tree = self.tree()
        return f"{type(self).__name__}({render(tree) if isinstance(tree, nodes.Node) else ''})"

    def __eq__(self, other: object) -> bool:
        if self.tree() is None or not isinstance(other, Condition) or other.tree() is None:
            return self is other
        return canonical(self.node()) == canonical(other.node())

    def __hash__(self) -> int:
        return id(self) if self.tree() is None else hash(canonical(self.node()))


class Invoke:
    """An accessor: the event, or what methods and attributes of it yield, one after another."""

    def __init__(
        self, path: str | Callable[..., Any], args: Any = None, *, of: Invoke | None = None
    ) -> None:
        if of is not None and not isinstance(of, Invoke):
            raise BadOptionError("of", of, accepted="an Invoke")
        self.cls: type | None = None if of is None else of.cls
        self.tree: nodes.Node = nodes.Event() if of is None else of.tree
        if isinstance(path, str):
            self.tree = _path(self.tree, path, args)
        else:
            owner = _owner(path)
            self.cls = owner if of is None else of.cls
            self.tree = _step(self.tree, path.__name__, args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Invoke) and (self.tree, self.cls) == (other.tree, other.cls)

    def __hash__(self) -> int:
        return hash(self.tree)

    def __repr__(self) -> str:
        return f"Invoke({render(self.tree)})"


def _path(tree: nodes.Node, path: str, args: Any) -> nodes.Node:
    steps = [step for step in path.strip("/").split("/") if step]
    lists = [None] * len(steps) if args is None else _listed(args)
    if len(lists) != len(steps):
        accepted = f"one list of arguments for each of the {len(steps)} steps of {path!r}"
        raise BadOptionError("args", args, accepted=accepted)
    for step, arguments in zip(steps, lists, strict=True):
        tree = _step(tree, step, arguments)
    return tree


def _listed(args: Any) -> list[Any]:
    if not isinstance(args, list | tuple):
        raise BadOptionError("args", args, accepted="lists of arguments, one for each step")
    return list(args)


def _step(tree: nodes.Node, name: str, args: Any) -> nodes.Node:
    if not name.isidentifier():
        raise BadOptionError("path", name, accepted="names of methods or attributes, as '/a/b'")
    arguments = [] if args is None else _listed(args)
    if not arguments:
        return nodes.Reach(tree, name)
    return nodes.Call(tree, name, tuple(_value(argument) for argument in arguments))


def _value(value: object) -> nodes.Node:
    try:
        return nodes.Constant(nodes.constant_value(value))
    except TypeError:
        return nodes.Opaque(lambda event: value, "a value that is no plain data", _Value(value))


class _Value:
    """A value of any class, the same as another if that is equal."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


def _owner(method: Callable[..., Any]) -> type | None:
    """The class that a method was taken from."""
    owner: Any = getattr(method, "__objclass__", None)  # of a method of a built-in class
    if owner is None and callable(method) and hasattr(method, "__qualname__"):
        home = inspect.getmodule(method)
        path = method.__qualname__.rpartition(".")[0]
        owner = None if home is None else placed_at(home.__name__, path)
    if not isinstance(owner, type):
        accepted = "a method of a class that can be found by name"
        raise BadOptionError("path", method, accepted=accepted)
    return owner


def _accessor(where: Any, args: Any) -> Invoke:
    if isinstance(where, Invoke):
        if args is not None:
            raise BadOptionError("args", args, accepted="nothing: the Invoke has its arguments")
        return where
    if isinstance(where, str) or callable(where):
        return Invoke(where, args)
    accepted = "a path such as '/get_text/find', a method, an Invoke"
    raise BadOptionError("path", where, accepted=accepted)


def _constrained(accessor: Invoke, test: nodes.Node, *, result: bool) -> nodes.Node:
    """The accessor's class, its not being None, and the test with the result that is required."""
    if not isinstance(result, bool):
        raise BadOptionError("result", result, accepted="True or False")
    parts: list[nodes.Node] = []
    if accessor.cls is not None:
        parts.append(nodes.InstanceOf(nodes.Event(), (accessor.cls,)))
    if not isinstance(accessor.tree, nodes.Event):
        parts.append(nodes.Compare(accessor.tree, (("is not", nodes.Constant(None)),)))
    parts.append(test if result else nodes.Not(test))
    return parts[0] if len(parts) == 1 else nodes.And(tuple(parts))


class _Simple(Condition):
    """A condition that is one tree: a test of what an accessor yields, a filter, a function."""

    def __init__(self, tree: nodes.Node) -> None:
        self._tree = tree

    def tree(self) -> nodes.Node:
        """What it means."""
        return self._tree


class Equals(_Simple):
    """What the accessor yields is equal to a value; the empty path is the event itself."""

    def __init__(self, where: Any, to: object, *, args: Any = None, result: bool = True) -> None:
        accessor = _accessor(where, args)
        test = nodes.Compare(accessor.tree, (("==", _value(to)),))
        super().__init__(_constrained(accessor, test, result=result))


class Compares(_Simple):
    """What the accessor yields is in an order with a value: <, <=, >, >=."""

    def __init__(
        self, where: Any, sign: str, to: object, *, args: Any = None, result: bool = True
    ) -> None:
        if sign not in ("<", "<=", ">", ">="):
            raise BadOptionError.choice("sign", sign, ["<", "<=", ">", ">="])
        accessor = _accessor(where, args)
        test = nodes.Compare(accessor.tree, ((sign, _value(to)),))
        super().__init__(_constrained(accessor, test, result=result))


class InstanceOf(_Simple):
    """What the accessor yields, or the event itself, is of a class."""

    def __init__(
        self, cls: type, where: Any = "", *, args: Any = None, result: bool = True
    ) -> None:
        if not isinstance(cls, type):
            raise BadOptionError("cls", cls, accepted="a class")
        accessor = _accessor(where, args)
        test = nodes.InstanceOf(accessor.tree, (cls,))
        super().__init__(_constrained(accessor, test, result=result))


def _condition(what: Any) -> Condition:
    """Conditions combine with each other, with filters and with functions of the event."""
    if isinstance(what, Condition):
        return what
    tree = getattr(what, "tree", None)
    if isinstance(tree, nodes.Node):
        return _Simple(tree)
    if not callable(what) or isinstance(what, type):
        accepted = "a condition, a filter, or a function that takes the event"
        raise BadOptionError("conditions", what, accepted=accepted)
    return _Simple(lift_function(what))


class _Combined(Condition):
    """Several conditions as one."""

    _kind: type[nodes.And] | type[nodes.Or]

    def __init__(self, *conditions: Callable[[Any], object]) -> None:
        if len(conditions) < 2:
            raise BadOptionError("conditions", conditions, accepted="two conditions or more")
        self._conditions = tuple(map(_condition, conditions))

    def tree(self) -> nodes.Node:
        """All of them, those without a tree as opaque parts."""
        return self._kind(tuple(condition.node() for condition in self._conditions))


class And(_Combined):
    """All of the conditions hold."""

    _kind = nodes.And


class Or(_Combined):
    """One of the conditions holds."""

    _kind = nodes.Or


class Not(Condition):
    """The condition does not hold; where it fails, this fails too."""

    def __init__(self, condition: Callable[[Any], object]) -> None:
        self._condition = _condition(condition)

    def tree(self) -> nodes.Node:
        """What it means."""
        return nodes.Not(self._condition.node())
