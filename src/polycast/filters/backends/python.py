"""A filter as one generated Python function (TPS section 6: static filters from dynamic ones).

The source is the expression itself, with attributes accessed directly. Values of users go in by
reference, as numbered names; names of attributes and methods are identifiers, which nodes check.
"""

from __future__ import annotations

from functools import singledispatchmethod
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from polycast.errors import FilterError
from polycast.filters import nodes
from polycast.filters.operators import BUILTINS, reach

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Generated", "generate"]

INLINE = (int, bool, type(None))  # constants whose literal is exactly the value, if short


class Generated:
    """The source of a function, the values its names stand for, and the function."""

    def __init__(self, source: str, names: dict[str, Any]) -> None:
        self.source, self.names = source, names
        module = compile(source, "<polycast filter>", "exec")
        code = next(const for const in module.co_consts if isinstance(const, CodeType))
        self.function: Callable[[Any], object] = FunctionType(
            code, {"__builtins__": {}, **names}, "where"
        )


def generate(node: nodes.Node) -> Generated:
    """The function of a tree: it returns what the expression returns, or raises what it raises."""
    writer = Writer()
    expression = writer.write(node)
    return Generated(f"def where(event):\n    return {expression}\n", writer.names)


class Writer:
    """Writes expressions as Python text; `names` collects the values they need."""

    def __init__(self, prefix: str = "value") -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}  # by the identity of the value
        self._prefix = prefix
        self._depth = 0  # quantifiers around

    @singledispatchmethod
    def write(self, node: nodes.Node) -> str:
        """An expression, in parentheses where it needs them."""
        raise FilterError(f"{type(node).__name__} has no Python form")

    def reference(self, value: Any) -> str:
        """A name for a value."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"{self._prefix}_{len(self.names)}"
            self.names[name] = value
        return name

    def _owner(self, node: nodes.Node) -> str:
        """What stands before a dot, a bracket or `is`; a literal looks like a mistake there."""
        if isinstance(node, nodes.Constant) and not _is_singleton(node.value):
            return self.reference(node.value)
        return self.write(node)

    @write.register
    def _(self, node: nodes.Event) -> str:
        return "event"

    @write.register
    def _(self, node: nodes.Variable) -> str:
        return f"each_{self._depth - node.depth}"

    @write.register
    def _(self, node: nodes.Constant) -> str:
        value = node.value
        literal = type(value) in INLINE and (type(value) is not int or abs(value) < 10**15)
        return f"({value!r})" if literal else self.reference(value)

    @write.register
    def _(self, node: nodes.Opaque) -> str:
        return f"{self.reference(node.function)}(event)"

    @write.register
    def _(self, node: nodes.Attribute) -> str:
        return f"{self._owner(node.of)}.{node.name}"

    @write.register
    def _(self, node: nodes.Call) -> str:
        arguments = ", ".join(self.write(each) for each in node.arguments)
        return f"{self._owner(node.of)}.{node.method}({arguments})"

    @write.register
    def _(self, node: nodes.Reach) -> str:
        step = self.reference(reach)
        return f"{step}({self.write(node.of)}, {self.reference(node.name)})"

    @write.register
    def _(self, node: nodes.Function) -> str:
        arguments = ", ".join(self.write(each) for each in node.arguments)
        return f"{self.reference(BUILTINS[node.name])}({arguments})"

    @write.register
    def _(self, node: nodes.Item) -> str:
        return f"{self._owner(node.of)}[{self.write(node.key)}]"

    @write.register
    def _(self, node: nodes.Display) -> str:
        parts = "".join(f"{self.write(each)}, " for each in node.elements)
        if node.kind is tuple:
            return f"({parts})"
        return f"[{parts}]" if node.kind is list else f"{{{parts}}}"

    @write.register
    def _(self, node: nodes.Compare) -> str:
        same = any(sign.startswith("is") for sign, _ in node.rest)
        write = self._owner if same else self.write
        rest = " ".join(f"{sign} {write(operand)}" for sign, operand in node.rest)
        return f"({write(node.first)} {rest})"

    @write.register
    def _(self, node: nodes.And) -> str:
        return f"({' and '.join(self.write(part) for part in node.parts)})"

    @write.register
    def _(self, node: nodes.Or) -> str:
        return f"({' or '.join(self.write(part) for part in node.parts)})"

    @write.register
    def _(self, node: nodes.Not) -> str:
        return f"(not {self.write(node.operand)})"

    @write.register
    def _(self, node: nodes.Arithmetic) -> str:
        return f"({self.write(node.left)} {node.operator} {self.write(node.right)})"

    @write.register
    def _(self, node: nodes.Sign) -> str:
        return f"({node.operator}{self.write(node.operand)})"

    @write.register
    def _(self, node: nodes.InstanceOf) -> str:
        test = self.reference(isinstance)
        return f"{test}({self.write(node.of)}, {self.reference(node.classes)})"

    @write.register
    def _(self, node: nodes.Quantified) -> str:
        over = self.write(node.over)
        self._depth += 1
        conditions = "".join(f" if {self.write(each)}" for each in node.conditions)
        body = self.write(node.each)
        name = f"each_{self._depth}"
        self._depth -= 1
        quantifier = self.reference(any if node.kind == "any" else all)
        return f"{quantifier}({body} for {name} in {over}{conditions})"


def _is_singleton(value: object) -> bool:
    return value is None or value is True or value is False
