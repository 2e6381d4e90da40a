"""XPath's core library (XPath 1.0, section 4): what each function takes, gives and does.

A value is a number, a string, a boolean, or a list of nodes, which are asked for their name and
their string-value alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

NAN = float("nan")
# A double of Python may be written with an exponent; libxml2 reads that, too.
_NUMBER = re.compile(
    r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]*))?[ \t\r\n]*"
)
_SPACES = re.compile("[ \t\r\n]+")
_EXACT = 2.0**52  # beyond, every double is whole


def number_from(text: str) -> float:
    """The number that a text is, or NaN."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return NAN
    exponent = found[2] or ""
    return float(f"{found[1]}e{exponent}") if exponent.strip("+-") else float(found[1])


def text_from(value: float) -> str:
    """A number as text: without exponents, and a whole one without a point."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def string_of(value: Any) -> str:
    """`string()`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return value[0].string() if value else ""
    return text_from(value)


def number_of(value: Any) -> float:
    """`number()`."""
    if isinstance(value, bool):
        return 1.0 if value else 0.0
    if isinstance(value, float):
        return value
    return number_from(string_of(value))


def truth_of(value: Any) -> bool:
    """`boolean()`."""
    return bool(value) and not (isinstance(value, float) and value != value)


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    if left != left or right != right or not left:
        return NAN
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: float, right: float) -> float:
    if not right or math.isinf(left):
        return NAN
    return math.fmod(left, right)


def _floor(value: float) -> float:
    if not abs(value) < _EXACT:
        return value
    return math.copysign(float(math.floor(value)), value)


def _ceiling(value: float) -> float:
    if not abs(value) < _EXACT:
        return value
    return math.copysign(float(math.ceil(value)), value)


def _round(value: float) -> float:
    """To the nearest whole number; of two, to the greater."""
    if not abs(value) < _EXACT:
        return value
    if -0.5 <= value < 0.5:
        return math.copysign(0.0, value)
    low = math.floor(value)
    return float(low + 1 if value - low >= 0.5 else low)


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": float.__add__,
    "-": float.__sub__,
    "*": float.__mul__,
    "div": _divided,
    "mod": _remainder,
}


def _before(text: str, sign: str) -> str:
    place = text.find(sign)
    return text[:place] if place >= 0 else ""


def _after(text: str, sign: str) -> str:
    place = text.find(sign)
    return text[place + len(sign) :] if place >= 0 else ""


def _translated(text: str, these: str, those: str) -> str:
    table: dict[int, str | None] = {}
    for place, character in enumerate(these):
        table.setdefault(ord(character), those[place] if place < len(those) else None)
    return text.translate(table)


def _normalized(text: str) -> str:
    return _SPACES.sub(" ", text).strip(" ")


def _substring(value: Any, begin: Any, count: Any = None) -> str:
    """The characters at places from the first on, counted from 1, rounded as XPath does."""
    text, first = string_of(value), _round(number_of(begin))
    end = math.inf if count is None else first + _round(number_of(count))
    if first != first or end != end:
        return ""
    low = max(first - 1.0, 0.0)
    high = min(end - 1.0, float(len(text)))
    return text[int(low) : int(high)] if low < high else ""


def _name_of(nodes: Any) -> str:
    return nodes[0].name if nodes and nodes[0].is_element else ""


def _sum(nodes: Any) -> float:
    total = 0.0
    for node in nodes:
        total += number_from(node.string())
    return total


class LibraryFunction(NamedTuple):
    """How many arguments a function takes, what they are made into, what it gives and does."""

    gives: str
    takes: str  # "string", "number", "node-set", "any", or "context": where it is asked
    least: int
    most: int
    call: Callable[..., Any]

    @property
    def arity(self) -> str:
        """How many arguments, in words."""
        if self.least == self.most:
            return f"{self.least}"
        return f"{self.least} to {self.most}" if self.most < 100 else f"{self.least} or more"


FUNCTIONS: Mapping[str, LibraryFunction] = {
    "boolean": LibraryFunction("boolean", "any", 1, 1, truth_of),
    "ceiling": LibraryFunction("number", "number", 1, 1, _ceiling),
    "concat": LibraryFunction("string", "string", 2, 1_000, lambda *texts: "".join(texts)),
    "contains": LibraryFunction("boolean", "string", 2, 2, lambda text, part: part in text),
    "count": LibraryFunction("number", "node-set", 1, 1, lambda nodes: float(len(nodes))),
    "false": LibraryFunction("boolean", "context", 0, 0, lambda context: False),
    "floor": LibraryFunction("number", "number", 1, 1, _floor),
    "last": LibraryFunction("number", "context", 0, 0, lambda context: float(context.size)),
    "local-name": LibraryFunction("string", "node-set", 0, 1, _name_of),
    "name": LibraryFunction("string", "node-set", 0, 1, _name_of),
    "normalize-space": LibraryFunction("string", "string", 0, 1, _normalized),
    "not": LibraryFunction("boolean", "any", 1, 1, lambda value: not truth_of(value)),
    "number": LibraryFunction("number", "any", 0, 1, number_of),
    "position": LibraryFunction("number", "context", 0, 0, lambda context: float(context.position)),
    "round": LibraryFunction("number", "number", 1, 1, _round),
    "starts-with": LibraryFunction("boolean", "string", 2, 2, str.startswith),
    "string": LibraryFunction("string", "any", 0, 1, string_of),
    "string-length": LibraryFunction("number", "string", 0, 1, lambda text: float(len(text))),
    "substring": LibraryFunction("string", "any", 2, 3, _substring),
    "substring-after": LibraryFunction("string", "string", 2, 2, _after),
    "substring-before": LibraryFunction("string", "string", 2, 2, _before),
    "sum": LibraryFunction("number", "node-set", 1, 1, _sum),
    "translate": LibraryFunction("string", "string", 3, 3, _translated),
    "true": LibraryFunction("boolean", "context", 0, 0, lambda context: True),
}
