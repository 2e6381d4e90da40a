"""A filter as one generated Python function (TPS section 6: static filters from dynamic ones).

The source is the expression itself, with attributes accessed directly. Values of users go in by
reference, as numbered names; names of attributes and methods are identifiers, which nodes check.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import getitem
from types import CodeType, FunctionType
from typing import Any

from polycast.errors import FilterError
from polycast.errors.failures import failures_here
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import language_of
from polycast.filters.tree.operators import BUILTINS, answered, answering, is_users, reach

QUIET = "<polycast filter>"  # the file name under which nothing is warned about
IGNORED = ("ignore", None, Warning, re.compile(QUIET), 0)  # as `warnings` keeps it


def compile_quietly(source: str | ast.Module | ast.Expression) -> CodeType:
    """Compile without the warnings that the first compilation gave."""
    silence_warnings()
    mode = "eval" if isinstance(source, ast.Expression) else "exec"
    compiled: CodeType = compile(source, QUIET, mode, 0, True)
    return compiled


def silence_warnings() -> None:
    """Suppress warnings for the file name of generated code."""
    # A filter for a name of our own need not be taken back: catch_warnings is not for threads.
    if not warnings.filters or warnings.filters[0] != IGNORED:
        warnings.filterwarnings("ignore", module=QUIET)


# -- generated functions ---------------------------------------------------------------------------


INLINE = (int, bool, type(None))  # constants whose literal is exactly the value, if short


class Generated:
    """The source of a function, the values its names stand for, and the function."""

    def __init__(self, source: str, names: dict[str, Any]) -> None:
        self.source, self.names = source, names
        module = compile_quietly(source)
        code = next(const for const in module.co_consts if isinstance(const, CodeType))
        self.function: Callable[[Any], object] = FunctionType(
            code, {"__builtins__": {}, **names}, "where"
        )

    def values(self) -> tuple[str, ...]:
        """What the names in the source stand for, as text."""
        return tuple(f"{name} = {_shown(value)}" for name, value in self.names.items())


def _shown(value: object) -> str:
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else f"{value!r:.60}"


def generate(node: nodes.Node, *, cls: type | None = None) -> Generated:
    """The function of a tree: it returns what the expression returns, or raises what it raises."""
    writer = SourceWriter(cls=cls, local=True)
    expression = writer.write(node)
    return Generated(f"def where(event):\n    return {expression}\n", writer.names)


def passes(function: Callable[[Any], object], event: Any) -> bool:
    """Whether a function says yes to an event; one that fails does not."""
    try:
        return bool(function(event))
    except failures_here():
        return False


class SourceWriter:
    """Writes expressions as Python text; `names` collects the values they need."""

    def __init__(
        self, prefix: str = "value", *, cls: type | None = None, local: bool = False
    ) -> None:
        self.names: dict[str, Any] = {}
        self.cls = cls  # of all events that the expression is for, if it is known
        self._local = local  # whether the expression stands in a function of its own names
        self._locals = 0
        self._known: dict[int, str] = {}  # by the identity of the value
        self._prefix = prefix
        self.depth = 0  # quantifiers around

    def write(self, node: nodes.Node) -> str:
        """An expression, in parentheses where it needs them."""
        rule = _RULES.get(type(node))
        if rule is None:
            raise FilterError(f"{type(node).__name__} has no Python form")
        return rule(node, self)

    def listed(self, several: tuple[nodes.Node, ...]) -> str:
        """Expressions with commas between them."""
        return ", ".join(map(self.write, several))

    def reference(self, value: Any) -> str:
        """A name for a value."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"{self._prefix}_{len(self.names)}"
            self.names[name] = value
        return name

    def local(self) -> str | None:
        """A new local name for an intermediate value; None where an expression cannot have one."""
        if not self._local or self.depth:
            return None
        self._locals += 1
        return f"{self._prefix}_found_{self._locals}"

    @contextmanager
    def without_locals(self) -> Iterator[None]:
        """Write without local names inside this block."""
        was, self._local = self._local, False
        yield
        self._local = was

    def owner(self, node: nodes.Node) -> str:
        """The operand before a dot or a bracket, where a literal would raise a SyntaxWarning."""
        return self.reference(node.value) if isinstance(node, nodes.Constant) else self.write(node)

    def sides(self, node: nodes.Node) -> str:
        """An operand of `is`, where a literal would raise a warning unless it is a singleton."""
        singleton = isinstance(node, nodes.Constant) and _is_singleton(node.value)
        return self.write(node) if singleton else self.owner(node)


def _constant(node: nodes.Constant, writer: SourceWriter) -> str:
    value = node.value
    literal = type(value) in INLINE and (type(value) is not int or abs(value) < 10**15)
    return f"({value!r})" if literal else writer.reference(value)


def _call(node: nodes.Call, writer: SourceWriter) -> str:
    arguments = writer.listed(node.arguments)
    call = f"{writer.owner(node.of)}.{node.method}({arguments})"
    return f"{writer.reference(answered)}({call})" if is_users(node.method) else call


def _reach(node: nodes.Reach, writer: SourceWriter) -> str:
    step = writer.reference(reach)
    return f"{step}({writer.write(node.of)}, {writer.reference(node.name)})"


def _function(node: nodes.Function, writer: SourceWriter) -> str:
    arguments = writer.listed(node.arguments)
    return f"{writer.reference(BUILTINS[node.name])}({arguments})"


def _applied(node: nodes.Applied, writer: SourceWriter) -> str:
    language = language_of(node)
    known = language.insight.written(node, writer)
    if known is not None:
        return known
    arguments = writer.listed(node.arguments)
    return f"{writer.reference(language.functions[node.name])}({arguments})"


def _item(node: nodes.Item, writer: SourceWriter) -> str:
    if isinstance(node.of, nodes.Constant | nodes.Display):  # a literal looks like a mistake there
        item = writer.reference(getitem)
        return f"{item}({writer.write(node.of)}, {writer.write(node.key)})"
    return f"{writer.owner(node.of)}[{writer.write(node.key)}]"


def _display(node: nodes.Display, writer: SourceWriter) -> str:
    parts = "".join(f"{writer.write(element)}, " for element in node.elements)
    if node.kind is tuple:
        return f"({parts})"
    return f"[{parts}]" if node.kind is list else f"{{{parts}}}"


def _compare(node: nodes.Compare, writer: SourceWriter) -> str:
    same = any(sign.startswith("is") for sign, _ in node.rest)
    write = writer.sides if same else writer.write
    rest = " ".join(f"{sign} {write(operand)}" for sign, operand in node.rest)
    return f"({write(node.first)} {rest})"


def _instance_of(node: nodes.InstanceOf, writer: SourceWriter) -> str:
    test = writer.reference(isinstance)
    return f"{test}({writer.write(node.of)}, {writer.reference(node.classes)})"


def _quantified(node: nodes.Quantified, writer: SourceWriter) -> str:
    with writer.without_locals():  # Python allows none there
        over = writer.write(node.over)
    writer.depth += 1
    conditions = "".join(f" if {writer.write(condition)}" for condition in node.conditions)
    body = writer.write(node.each)
    name = f"each_{writer.depth}"
    writer.depth -= 1
    quantifier = writer.reference(any if node.kind == "any" else all)
    return f"{quantifier}({body} for {name} in {over}{conditions})"


_RULES: dict[type, Callable[[Any, SourceWriter], str]] = {
    nodes.Event: lambda node, writer: "event",
    nodes.Variable: lambda node, writer: f"each_{writer.depth - node.depth}",
    nodes.Constant: _constant,
    nodes.Opaque: lambda node, writer: (
        f"{writer.reference(answering(node.on(None).function))}(event)"
    ),
    nodes.Attribute: lambda node, writer: f"{writer.owner(node.of)}.{node.name}",
    nodes.Call: _call,
    nodes.Reach: _reach,
    nodes.Function: _function,
    nodes.Applied: _applied,
    nodes.Item: _item,
    nodes.Display: _display,
    nodes.Compare: _compare,
    nodes.And: lambda node, writer: f"({' and '.join(map(writer.write, node.parts))})",
    nodes.Or: lambda node, writer: f"({' or '.join(map(writer.write, node.parts))})",
    nodes.Not: lambda node, writer: f"(not {writer.write(node.operand)})",
    nodes.Arithmetic: lambda node, writer: (
        f"({writer.write(node.left)} {node.operator} {writer.write(node.right)})"
    ),
    nodes.Sign: lambda node, writer: f"({node.operator}{writer.write(node.operand)})",
    nodes.InstanceOf: _instance_of,
    nodes.Quantified: _quantified,
}


def _is_singleton(value: object) -> bool:
    return value is None or value is True or value is False
