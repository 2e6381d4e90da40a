"""From a Python expression's syntax tree to a filter's tree."""

from __future__ import annotations

import ast
import decimal
import enum
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType, WrapperDescriptorType
from typing import Any, get_args

from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import FilterLanguage
from polycast.filters.tree.nodes import SCALARS, constant_value
from polycast.filters.tree.operators import BUILTINS, reach

COMPARISONS: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
ARITHMETIC: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
SIGNS: dict[type, str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
DISPLAYS: dict[type, type] = {ast.Tuple: tuple, ast.List: list, ast.Set: set}
CONTAINERS = (tuple, list, set, frozenset)
DEEPEST = 60  # the compiler takes 200 brackets in each other, and evaluating nests, too
# A constant list or set is one object for all events: only what leaves it alone may be called.
HARMLESS = (
    *("copy", "count", "index", "isdisjoint", "issubset", "issuperset"),
    *("difference", "intersection", "symmetric_difference", "union"),
)


MADE = tuple(kind for kind in SCALARS if kind not in (type(None), bool, int, str, bytes))


class Unliftable(Exception):
    """A part of an expression that has no node, and why."""


@dataclass(frozen=True, slots=True)
class Live:
    """A value of the running program that a name stands for."""

    value: Any


class ExpressionTranslator:
    """Translates one expression. `names` finds what a name stands for, or raises Unliftable.

    `opaque` makes a node of a part that cannot be looked into; without it that is an error.
    """

    def __init__(
        self,
        parameter: str,
        names: Callable[[str], Any],
        opaque: Callable[[ast.expr, str], nodes.Node] | None,
    ) -> None:
        self._parameter, self._names, self._opaque = parameter, names, opaque
        self._variables: list[str] = []  # of the quantifiers around, the innermost last
        self._depth = 0

    def translate(self, expression: ast.expr) -> nodes.Node:
        """The tree of an expression; parts of `and` and `or` may be opaque by themselves."""
        if isinstance(expression, ast.BoolOp) and not self._variables:
            return _joined(expression, self.translate)
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
            return nodes.Not(self.translate(expression.operand))
        depth = self._depth
        try:
            return self._node(expression)
        except Unliftable as reason:
            if self._opaque is None or self._variables:
                raise
            self._depth = depth
            return self._opaque(expression, str(reason))

    def _node(self, expression: ast.expr) -> nodes.Node:
        found = self._either(expression)
        if isinstance(found, nodes.Node):
            return found
        return nodes.Constant(_constant_of(found, expression))

    def _either(self, expression: ast.expr) -> nodes.Node | Live:
        method = _METHODS.get(type(expression))
        if method is None:
            raise Unliftable(f"{ast.unparse(expression)}: this kind of expression has no node")
        if self._depth >= DEEPEST:
            raise Unliftable("it is nested too deeply")
        self._depth += 1
        found: nodes.Node | Live = method(self, expression)
        self._depth -= 1
        return found

    # -- leaves ----------------------------------------------------------------------------------

    def _name(self, expression: ast.Name) -> nodes.Node | Live:
        if expression.id in self._variables:
            return nodes.Variable(self._variables[::-1].index(expression.id))
        if expression.id == self._parameter:
            return nodes.Event()
        return Live(self._names(expression.id))

    def _attribute(self, expression: ast.Attribute) -> nodes.Node | Live:
        if expression.attr.startswith("__") and not expression.attr.endswith("__"):
            raise Unliftable(f"{expression.attr}: a private name")
        of = self._either(expression.value)
        if isinstance(of, nodes.Node):
            return nodes.Attribute(of, expression.attr)
        if self._opaque is None:  # a text from outside does not look into this process
            raise Unliftable(f"{expression.attr}: only the event has attributes")
        return Live(_plain_attribute(of.value, expression.attr))

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, expression: ast.Call) -> nodes.Node | Live:
        if (made := self._made(expression)) is not None:
            return made
        if expression.keywords or any(isinstance(e, ast.Starred) for e in expression.args):
            raise Unliftable(f"{ast.unparse(expression)}: only plain arguments have a node")
        if isinstance(expression.func, ast.Attribute):
            return self._method_call(expression.func, expression.args)
        function = self._either(expression.func)
        if isinstance(function, nodes.Node):
            raise Unliftable(f"{ast.unparse(expression)}: what is called is part of the event")
        return self._function_call(function.value, expression)

    def _made(self, expression: ast.Call) -> Live | None:
        """A constant that is written as a call: `date(2024, 1, 1)`, `dt.timedelta(days=1)`."""
        root = expression.func
        while isinstance(root, ast.Attribute):
            root = root.value
        known = isinstance(root, ast.Name) and root.id not in (self._parameter, *self._variables)
        if self._opaque is None or not known:
            return None
        arguments = [*expression.args, *(keyword.value for keyword in expression.keywords)]
        if not all(isinstance(argument, ast.Constant | ast.UnaryOp) for argument in arguments):
            return None
        try:
            function = self._either(expression.func)
            if not isinstance(function, Live) or function.value not in MADE:
                return None
            values = [self._node(argument).value for argument in expression.args]  # type: ignore[attr-defined]
            named = {
                str(keyword.arg): self._node(keyword.value).value  # type: ignore[attr-defined]
                for keyword in expression.keywords
            }
            return Live(function.value(*values, **named))
        except Exception:  # it fails for each event, too
            return None

    def _method_call(self, method: ast.Attribute, arguments: list[ast.expr]) -> nodes.Node:
        of = self._either(method.value)
        if isinstance(of, Live) and isinstance(of.value, FilterLanguage):
            of.value.check_call(method.attr, len(arguments))
            parts = tuple(self._node(argument) for argument in arguments)
            return nodes.Applied(of.value.name, method.attr, parts)
        if isinstance(of, Live):
            of = nodes.Constant(_constant_of(of, method.value))
        if method.attr.startswith("__") and not method.attr.endswith("__"):
            raise Unliftable(f"{method.attr}: a private name")
        if _may_be_mutable(of) and method.attr not in HARMLESS:
            raise Unliftable(f"{method.attr}: may change a constant")
        return nodes.Call(of, method.attr, tuple(self._node(argument) for argument in arguments))

    def _function_call(self, function: Any, expression: ast.Call) -> nodes.Node:
        arguments = expression.args
        if function is isinstance and len(arguments) == 2:
            return nodes.InstanceOf(self._node(arguments[0]), self._classes(arguments[1]))
        if (function is any or function is all) and len(arguments) == 1:
            return self._quantified(function.__name__, arguments[0])
        if function is reach and len(arguments) == 2:
            return self._reach(*arguments)
        for name, known in BUILTINS.items():
            if function is known:
                parts = tuple(self._node(argument) for argument in arguments)
                if name != "len":
                    _check_order(*parts)
                return nodes.Function(name, parts)
        name = getattr(function, "__qualname__", type(function).__name__)
        raise Unliftable(f"{ast.unparse(expression)}: {name} cannot be looked into")

    def _reach(self, of: ast.expr, name: ast.expr) -> nodes.Node:
        step = name.value if isinstance(name, ast.Constant) else None
        if not isinstance(step, str) or not step.isidentifier():
            raise Unliftable(f"reach(..., {ast.unparse(name)}): not the name of an attribute")
        return nodes.Reach(self._node(of), step)

    def _classes(self, expression: ast.expr) -> tuple[type, ...]:
        if isinstance(expression, ast.Tuple):
            return tuple(cls for element in expression.elts for cls in self._classes(element))
        if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.BitOr):
            return (*self._classes(expression.left), *self._classes(expression.right))
        found = self._either(expression)
        classes = found.value if isinstance(found, Live) else None
        if isinstance(classes, types.UnionType):
            classes = get_args(classes)
        if isinstance(expression, ast.Constant) and expression.value is None:
            classes = type(None)
        flat = classes if isinstance(classes, tuple) else (classes,)
        if not all(isinstance(cls, type) for cls in flat):
            raise Unliftable(f"{ast.unparse(expression)}: not a class")
        return flat

    def _quantified(self, kind: str, argument: ast.expr) -> nodes.Node:
        if not isinstance(argument, ast.GeneratorExp) or len(argument.generators) != 1:
            raise Unliftable(f"{kind}(...): only one plain generator has a node")
        [generator] = argument.generators
        if generator.is_async or not isinstance(generator.target, ast.Name):
            raise Unliftable(f"{kind}(...): only one plain variable has a node")
        over = self._node(generator.iter)
        _check_order(over)
        self._variables.append(generator.target.id)
        try:
            conditions = tuple(self.translate(condition) for condition in generator.ifs)
            return nodes.Quantified(kind, over, conditions, self.translate(argument.elt))
        finally:
            self._variables.pop()

    # -- operators -------------------------------------------------------------------------------

    def _compare(self, expression: ast.Compare) -> nodes.Node:
        signs = [COMPARISONS[type(op)] for op in expression.ops]
        first = left = self._node(expression.left)
        rest = tuple(zip(signs, map(self._node, expression.comparators), strict=True))
        for sign, right in rest:
            if not _comparable(left, sign, right):
                raise Unliftable(f"{ast.unparse(expression)}: asks for the identity of a constant")
            left = right
        return nodes.Compare(first, rest)

    def _unaryop(self, expression: ast.UnaryOp) -> nodes.Node:
        operand = self._node(expression.operand)
        if isinstance(expression.op, ast.Not):
            return nodes.Not(operand)
        sign = SIGNS[type(expression.op)]
        number = isinstance(operand, nodes.Constant) and type(operand.value) in (int, float)
        if sign == "-" and number:
            return nodes.Constant(-operand.value)  # type: ignore[attr-defined]
        return nodes.Sign(sign, operand)

    def _binop(self, expression: ast.BinOp) -> nodes.Node:
        sign = ARITHMETIC.get(type(expression.op))
        if sign is None:
            raise Unliftable(f"{ast.unparse(expression)}: this operator has no node")
        return nodes.Arithmetic(sign, self._node(expression.left), self._node(expression.right))

    def _subscript(self, expression: ast.Subscript) -> nodes.Node:
        if isinstance(expression.slice, ast.Slice):
            raise Unliftable(f"{ast.unparse(expression)}: a slice has no node")
        of, key = self._node(expression.value), self._node(expression.slice)
        if isinstance(of, nodes.Display) or (isinstance(of, nodes.Constant) and _is_single(of)):
            raise Unliftable(f"{ast.unparse(expression)}: an item of what was just written down")
        return nodes.Item(of, key)

    def _display(self, expression: Any) -> nodes.Node | Live:
        kind = DISPLAYS[type(expression)]
        parts = tuple(self._node(element) for element in expression.elts)
        if all(isinstance(part, nodes.Constant) for part in parts):
            try:
                return Live(kind([part.value for part in parts]))  # type: ignore[attr-defined]
            except TypeError as error:
                raise Unliftable(f"{ast.unparse(expression)}: {error}") from None
        return nodes.Display(kind, parts)


_METHODS: dict[type, Callable[[ExpressionTranslator, Any], nodes.Node | Live]] = {
    ast.Attribute: ExpressionTranslator._attribute,
    ast.BinOp: ExpressionTranslator._binop,
    ast.BoolOp: lambda translator, expression: _joined(expression, translator._node),
    ast.Call: ExpressionTranslator._call,
    ast.Compare: ExpressionTranslator._compare,
    ast.Constant: lambda translator, expression: Live(expression.value),
    ast.List: ExpressionTranslator._display,
    ast.Name: ExpressionTranslator._name,
    ast.Set: ExpressionTranslator._display,
    ast.Subscript: ExpressionTranslator._subscript,
    ast.Tuple: ExpressionTranslator._display,
    ast.UnaryOp: ExpressionTranslator._unaryop,
}


def _joined(expression: ast.BoolOp, translate: Callable[[ast.expr], nodes.Node]) -> nodes.Node:
    """`(a and b) and c` is `a and b and c`."""
    kind = nodes.And if isinstance(expression.op, ast.And) else nodes.Or
    flat: list[nodes.Node] = []
    for part in map(translate, expression.values):
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return kind(tuple(flat))


# -- constants that are copies ---------------------------------------------------------------------


def _constant_of(live: Live, expression: ast.expr) -> object:
    try:
        value = constant_value(live.value)
    except TypeError as error:
        raise Unliftable(f"{ast.unparse(expression)}: {error}") from None
    if isinstance(value, CONTAINERS) and any(map(_is_nan, value)):
        raise Unliftable(f"{ast.unparse(expression)}: a NaN in it is only equal to itself")
    return value


def _check_order(*parts: nodes.Node) -> None:
    """A copied set may have another order, and the order decides what is asked first."""
    for part in parts:
        if isinstance(part, nodes.Constant) and isinstance(part.value, set | frozenset):
            raise Unliftable("the order of a set is not part of it")


def _comparable(left: nodes.Node, sign: str, right: nodes.Node) -> bool:
    """Whether a comparison is the same for copies of its constants as for the constants."""
    if sign in ("in", "not in"):
        return not (isinstance(left, nodes.Constant) and _is_nan(left.value))
    if sign not in ("is", "is not"):
        return True
    return any(map(_is_single, (left, right))) or (_is_path(left) and _is_path(right))


def _is_nan(value: Any) -> bool:
    if isinstance(value, CONTAINERS):
        return any(map(_is_nan, value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()  # asking a signalling one whether it differs fails
    return isinstance(value, float) and value != value


def _is_single(node: nodes.Node) -> bool:
    """Whether it is a constant of which there is only one."""
    if not isinstance(node, nodes.Constant):
        return False
    return node.value is None or isinstance(node.value, bool | enum.Enum)


def _is_path(node: nodes.Node) -> bool:
    """Whether it yields the event or an object that the event leads to."""
    while not isinstance(node, nodes.Event | nodes.Variable):
        steps = nodes.Attribute | nodes.Reach | nodes.Item | nodes.Call
        if not isinstance(node, steps) or (isinstance(node, nodes.Call) and node.arguments):
            return False
        node = node.of
    return True


def _may_be_mutable(node: nodes.Node) -> bool:
    """Whether it may yield a list or set that is, or is in, a constant."""
    if isinstance(node, nodes.And | nodes.Or):
        return any(map(_may_be_mutable, node.parts))
    if isinstance(node, nodes.Item) and isinstance(node.of, nodes.Constant):
        inner = node.of.value
        return isinstance(inner, list | tuple) and any(isinstance(e, list | set) for e in inner)
    return isinstance(node, nodes.Constant) and isinstance(node.value, list | set)


# -- attributes of captured objects ----------------------------------------------------------------


def _plain_attribute(value: Any, name: str) -> Any:
    """An attribute that can be read without running code of its class."""
    if not isinstance(type(value).__getattribute__, WrapperDescriptorType):
        raise Unliftable(f"{name}: {type(value).__name__} finds attributes in its own way")
    if type(value) is ModuleType:
        space: Mapping[str, Any] = vars(value)
        if name in space:
            return space[name]
        raise Unliftable(f"{value.__name__}.{name}: not there")
    try:
        found = inspect.getattr_static(value, name)
        if inspect.ismemberdescriptor(found) and not isinstance(value, type):
            return getattr(value, name)  # a slot
    except AttributeError:
        raise Unliftable(f"{name}: not there, or not plain") from None
    if isinstance(value, enum.EnumMeta) and name in value.__members__:
        return value.__members__[name]
    if isinstance(value, enum.Enum) and found is vars(enum.Enum).get(name):
        return getattr(value, name)  # its name or value
    if hasattr(type(found), "__get__"):
        raise Unliftable(f"{name}: not a plain attribute")
    return found
