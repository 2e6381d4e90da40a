"""XPath's core library over strings and numbers (XPath 1.0, sections 4.2 to 4.4)."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def truth_of(value: Any) -> bool:
    """`boolean()` of a number, a string, a boolean or the nodes of a set."""
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
NUMERIC: Mapping[str, Callable[[float], float]] = {
    "floor": _floor,
    "ceiling": _ceiling,
    "round": _round,
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


def substring(text: str, first: float, length: float | None) -> str:
    """The characters at places from the first on, counted from 1, rounded as XPath does."""
    begin = _round(first)
    end = math.inf if length is None else begin + _round(length)
    if begin != begin or end != end:
        return ""
    low = max(begin - 1.0, 0.0)
    high = min(end - 1.0, float(len(text)))
    return text[int(low) : int(high)] if low < high else ""


TEXTUAL: Mapping[str, Callable[..., Any]] = {
    "concat": lambda *texts: "".join(texts),
    "contains": lambda text, part: part in text,
    "normalize-space": _normalized,
    "starts-with": str.startswith,
    "string-length": lambda text: float(len(text)),
    "substring-after": _after,
    "substring-before": _before,
    "translate": _translated,
}
