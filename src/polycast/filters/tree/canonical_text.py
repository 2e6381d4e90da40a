"""The canonical text of a tree: a Python expression over `event`, and back again.

Nothing in a text is ever run. It is parsed, and only what has a node is accepted.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import enum
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from polycast.errors import FilterError
from polycast.filters.lifting.ast_translator import ExpressionTranslator, Unliftable
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import languages
from polycast.filters.tree.operators import BUILTINS, reach
from polycast.typesystem import Registry, wire_name

LONGEST = 100_000  # characters
LONG = 2_000  # bits
NAMES = {**BUILTINS, "any": any, "all": all, "isinstance": isinstance, "reach": reach}


def render(node: nodes.Node, depth: int = 0) -> str:
    """The text of a tree, or of a part inside so many quantifiers."""
    rule = _RULES.get(type(node))
    if rule is None:
        raise FilterError(f"{type(node).__name__} has no text")
    return rule(node, depth)


def _display(node: nodes.Display, depth: int) -> str:
    parts = "".join(f"{render(element, depth)}, " for element in node.elements).rstrip(" ")
    if node.kind is tuple:
        return f"({parts})"
    return f"[{parts}]" if node.kind is list else f"{{{parts}}}"


def _compare(node: nodes.Compare, depth: int) -> str:
    rest = " ".join(f"{sign} {_operand(operand, depth)}" for sign, operand in node.rest)
    return f"{_operand(node.first, depth)} {rest}"


def _instance_of(node: nodes.InstanceOf, depth: int) -> str:
    classes = ", ".join(f"kind({wire_name(cls)!r})" for cls in node.classes)
    inner = classes if len(node.classes) == 1 else f"({classes})"
    return f"isinstance({render(node.of, depth)}, {inner})"


def _quantified(node: nodes.Quantified, depth: int) -> str:
    over, inner = _operand(node.over, depth), depth + 1
    conditions = "".join(f" if {_operand(condition, inner)}" for condition in node.conditions)
    return f"{node.kind}({render(node.each, inner)} for each{inner} in {over}{conditions})"


_RULES: dict[type, Callable[[Any, int], str]] = {
    nodes.Event: lambda node, depth: "event",
    nodes.Variable: lambda node, depth: f"each{depth - node.depth}",
    nodes.Constant: lambda node, depth: _literal(node.value),
    nodes.Opaque: lambda node, depth: f"opaque({node.why!r})",
    nodes.Attribute: lambda node, depth: f"{_owner(node.of, depth)}.{node.name}",
    nodes.Call: lambda node, depth: (
        f"{_owner(node.of, depth)}.{node.method}({_list(node.arguments, depth)})"
    ),
    nodes.Reach: lambda node, depth: f"reach({render(node.of, depth)}, {node.name!r})",
    nodes.Function: lambda node, depth: f"{node.name}({_list(node.arguments, depth)})",
    nodes.Applied: lambda node, depth: (
        f"{node.language}.{node.name}({_list(node.arguments, depth)})"
    ),
    nodes.Item: lambda node, depth: f"{_owner(node.of, depth)}[{render(node.key, depth)}]",
    nodes.Display: _display,
    nodes.Compare: _compare,
    nodes.And: lambda node, depth: " and ".join(_operand(part, depth) for part in node.parts),
    nodes.Or: lambda node, depth: " or ".join(_operand(part, depth) for part in node.parts),
    nodes.Not: lambda node, depth: f"not {_operand(node.operand, depth)}",
    nodes.Arithmetic: lambda node, depth: (
        f"{_operand(node.left, depth)} {node.operator} {_operand(node.right, depth)}"
    ),
    nodes.Sign: lambda node, depth: f"{node.operator}{_operand(node.operand, depth)}",
    nodes.InstanceOf: _instance_of,
    nodes.Quantified: _quantified,
}
_COMPOUND = {nodes.Compare, nodes.And, nodes.Or, nodes.Not, nodes.Arithmetic, nodes.Sign}


def _operand(node: nodes.Node, depth: int) -> str:
    text = render(node, depth)
    negative = isinstance(node, nodes.Constant) and text[0] == "-"
    return f"({text})" if negative or type(node) in _COMPOUND else text


def _owner(node: nodes.Node, depth: int) -> str:
    """What stands before a dot or a bracket: `(3).real`."""
    text = render(node, depth)
    alone = isinstance(node, nodes.Constant) or type(node) in _COMPOUND
    return f"({text})" if alone else text


def _list(arguments: tuple[nodes.Node, ...], depth: int) -> str:
    return ", ".join(render(argument, depth) for argument in arguments)


# -- constants -------------------------------------------------------------------------------------


def _literal(value: Any) -> str:
    kind = type(value)
    if isinstance(value, enum.Enum):
        return f"member({wire_name(kind)!r}, {_member_name(value)})"
    if kind is float and (value != value or value in (float("inf"), float("-inf"))):
        return f"float({str(value)!r})"
    if kind in (tuple, list, set, frozenset):
        return _container(value, kind)
    if kind in _WRITTEN:
        return f"{kind.__name__}({_WRITTEN[kind](value)})"
    if kind is int and value.bit_length() > LONG:
        return hex(value)  # Python refuses to write so long a number in tens
    return repr(value)


def _container(value: Any, kind: type) -> str:
    parts = [_literal(element) for element in value]
    if kind in (set, frozenset):
        return f"{kind.__name__}([{', '.join(sorted(parts))}])"
    if kind is tuple:
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return f"[{', '.join(parts)}]"


def _written_time(value: Any) -> str:
    """A time with the name of its zone, if it has one: the offset alone is not the zone."""
    zone = value.tzinfo.key if isinstance(value.tzinfo, zoneinfo.ZoneInfo) else None
    plain = value.replace(tzinfo=None) if zone else value
    named = f", {zone!r}" if zone else ""
    text = repr(plain.isoformat())
    return f"{text}, {value.fold}{named}" if zone or value.fold else text


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except Exception:
        raise ValueError(f"there is no time zone {str(name)[:40]!r}") from None


def _read_time(kind: Any) -> Any:
    def read(text: str, fold: int = 0, zone: str | None = None) -> Any:
        found = kind.fromisoformat(text).replace(fold=fold)
        return found if zone is None else found.replace(tzinfo=_zone(zone))

    return read


_WRITTEN: dict[type, Any] = {
    datetime.datetime: _written_time,
    datetime.date: lambda v: repr(v.isoformat()),
    datetime.time: _written_time,
    datetime.timedelta: lambda v: f"{v.days}, {v.seconds}, {v.microseconds}",
    decimal.Decimal: lambda v: repr(str(v)),
    uuid.UUID: lambda v: repr(str(v)),
}


def _member_name(value: enum.Enum) -> str:
    """A combination of flags is written as its number."""
    flags = isinstance(value, enum.Flag) and value.name not in type(value).__members__
    return repr(value.value if flags else value.name)


def _class_here(name: str) -> type | None:
    return Registry().resolve(name)


_READ: dict[str, Any] = {
    "float": float,
    "datetime": _read_time(datetime.datetime),
    "date": datetime.date.fromisoformat,
    "time": _read_time(datetime.time),
    "timedelta": datetime.timedelta,
    "Decimal": decimal.Decimal,
    "UUID": lambda text: uuid.UUID(str(text)),
    "set": set,
    "frozenset": frozenset,
}


# -- parsing ---------------------------------------------------------------------------------------


def parse(text: str, class_named: Callable[[str], type | None] = _class_here) -> nodes.Node:
    """The tree of a text; FilterError says where and what is wrong."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise FilterError(f"a filter is a text of at most {LONGEST} characters")
    try:
        expression = ast.parse(text.strip(), mode="eval").body
        expression = _Constants(class_named).visit(expression)
        return ExpressionTranslator("event", _meaning, None).translate(expression)
    except SyntaxError as error:
        raise FilterError(_pointed(text.strip(), error)) from None
    except (
        Unliftable,
        ValueError,
        TypeError,
        ArithmeticError,
        LookupError,
        AttributeError,
    ) as error:
        raise FilterError(f"{text.strip()[:200]!r} is no filter: {error}") from None
    except (RecursionError, MemoryError):
        raise FilterError("the filter is nested too deeply") from None


def _meaning(name: str) -> object:
    if name in NAMES:
        return NAMES[name]
    if name in languages():
        return languages()[name]
    raise Unliftable(f"{name}: only `event` and {', '.join(sorted(NAMES))} are known")


def _pointed(text: str, error: SyntaxError) -> str:
    lines = text.splitlines() or [""]
    line = lines[min(error.lineno or 1, len(lines)) - 1]
    at = error.offset - 1 if error.offset else len(line)  # none where the text ends too soon
    caret = " " * at + "^"
    return f"not an expression: {error.msg}\n  {line}\n  {caret}"


class _Constants(ast.NodeTransformer):
    """Replaces calls that write a constant, such as `date(...)`, by the constant."""

    def __init__(self, class_named: Callable[[str], type | None]) -> None:
        self._class_named = class_named
        self._read = {**_READ, "member": self._member, "kind": self._class}

    def _class(self, name: str) -> type:
        found = self._class_named(name) if isinstance(name, str) else None
        if found is None:
            raise ValueError(f"this process has no class {name!r}")
        return found

    def _member(self, name: str, member: object) -> object:
        cls = self._class(name)
        if issubclass(cls, enum.Flag) and type(member) is int:
            return cls(member)
        if not issubclass(cls, enum.Enum) or member not in cls.__members__:
            raise ValueError(f"{name} has no member {member}")
        return cls.__members__[str(member)]

    def visit_Call(self, call: ast.Call) -> ast.AST:
        self.generic_visit(call)
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in self._read or call.keywords:
            return call
        value = self._read[name](*(_plain(argument) for argument in call.args))
        return ast.copy_location(ast.Constant(value), call)


def _plain(expression: ast.expr) -> object:
    """A constant argument, containers included."""
    node = ExpressionTranslator("event", _meaning, None).translate(expression)
    if not isinstance(node, nodes.Constant):
        raise ValueError(f"{ast.unparse(expression)} is no constant")
    return nodes.constant_value(node.value)
