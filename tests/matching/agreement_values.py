"""Values, events and filters of scenarios as text, and what Python itself says about them.

Nothing here is run as code: texts are parsed, and names are looked up in the tables of this module.
"""

from __future__ import annotations

import ast
import datetime
import enum
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["CLASSES", "Item", "Slotted", "python_function", "value_of"]


class Item:
    """An event; an attribute may be missing."""

    p: Any
    q: Any
    r: Any
    part: Any

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    """The same, read in another way."""

    __slots__ = ("p", "part", "q", "r")

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


class Level(enum.IntEnum):
    ZERO = 0
    ONE = 1
    TWO = 2


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Whole(int):
    """An int that compares as ints do."""


class Real(float):
    """A float that compares as floats do."""


class Word(str):
    """A string that compares as strings do."""


class Contrary(int):
    """An int that does not compare as ints do."""

    def _yes(self, other: object) -> bool:
        return True

    __lt__ = __gt__ = __eq__ = _yes  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Broken:
    """Raises whenever it is asked anything."""

    def _fail(self, *others: object) -> bool:
        raise OSError("broken")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __bool__ = _fail  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


CLASSES: dict[str, type] = {"Level": Level, "Colour": Colour}
_MADE: dict[str, Callable[..., Any]] = {
    "float": float,
    "Decimal": Decimal,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "timedelta": datetime.timedelta,
    "member": lambda name, member: CLASSES[name][member],  # type: ignore[index]
    "set": set,
    "frozenset": frozenset,
    "Item": Item,
    "Slotted": Slotted,
    "Fraction": Fraction,
    "Whole": Whole,
    "Real": Real,
    "Word": Word,
    "Contrary": Contrary,
    "Broken": Broken,
    "float32": np.float32,
    "float64": np.float64,
    "int64": np.int64,
    "uint64": np.uint64,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"len": len, "abs": abs}
_METHODS = {"startswith", "endswith", "upper"}
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_COMPUTED: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}

Meaning = Callable[[Any], Any]


def value_of(text: str) -> Any:
    """The value, or event, that a text describes."""
    return python_function(text)(None)


@lru_cache(4096)
def python_function(text: str) -> Meaning:
    """What Python says about an expression over `event`: the judge of all others."""
    return _meaning(ast.parse(text, mode="eval").body)


def _meaning(node: ast.expr) -> Meaning:
    match node:
        case ast.Constant(value):
            return lambda event: value
        case ast.Name("event"):
            return lambda event: event
        case ast.Attribute(of, name):
            owner = _meaning(of)
            return lambda event: getattr(owner(event), name)
        case ast.BoolOp(ast.And(), parts):
            return _joined([_meaning(each) for each in parts], until=False)
        case ast.BoolOp(ast.Or(), parts):
            return _joined([_meaning(each) for each in parts], until=True)
        case ast.UnaryOp(sign, operand):
            return _called(_COMPUTED[type(sign)], [operand])
        case ast.BinOp(left, sign, right):
            return _called(_COMPUTED[type(sign)], [left, right])
        case ast.Compare(first, signs, others):
            asked = [_COMPARED[type(sign)] for sign in signs]
            return _chain(_meaning(first), asked, [_meaning(each) for each in others])
    return _composed(node)


def _composed(node: ast.expr) -> Meaning:
    match node:
        case ast.Tuple(elements) | ast.List(elements) | ast.Set(elements):
            kind = {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)]
            return _called(lambda *values: kind(values), elements)
        case ast.Call(ast.Name(name), arguments, keywords):
            function = _MADE.get(name) or _FUNCTIONS[name]
            names = [each.arg or "" for each in keywords]
            plain = len(arguments)
            return _called(
                lambda *values: function(
                    *values[:plain], **dict(zip(names, values[plain:], strict=True))
                ),
                [*arguments, *(each.value for each in keywords)],
            )
        case ast.Call(ast.Attribute(of, method), arguments) if method in _METHODS:
            return _called(lambda on, *values: getattr(on, method)(*values), [of, *arguments])
    raise ValueError(f"{ast.unparse(node)} has no meaning in a scenario")


def _called(function: Callable[..., Any], arguments: list[ast.expr]) -> Meaning:
    meanings = [_meaning(each) for each in arguments]
    return lambda event: function(*(each(event) for each in meanings))


def _joined(parts: list[Meaning], *, until: bool) -> Meaning:
    def ask(event: Any) -> Any:
        for part in parts[:-1]:
            value = part(event)
            if bool(value) is until:
                return value
        return parts[-1](event)

    return ask


def _chain(
    first: Meaning, signs: list[Callable[[Any, Any], Any]], others: list[Meaning]
) -> Meaning:
    def ask(event: Any) -> Any:
        left, verdict = first(event), None
        for number, (sign, other) in enumerate(zip(signs, others, strict=True)):
            right = other(event)
            verdict = sign(left, right)
            if number < len(signs) - 1 and not verdict:
                return verdict
            left = right
        return verdict

    return ask
