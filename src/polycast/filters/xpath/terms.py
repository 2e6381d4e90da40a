"""What a tree asks of an event in XPath's way: a value at a path of constant names, or anything.

The names of the members of a struct are all different. So a path like
`/struct/member[name="price"]/value` leads to one value or to none, and looking it up in a dict or
an object gives just what walking the document would. A path is a tuple: a string is the member of
that name, an int the item at that place, from 1 on. `kind` is the element that the value must be
in; "" is any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.events.xmlrpc.values import MISSING, filterable, form_of, item_at, items_of, member_of
from polycast.filters.xpath.evaluation import is_true
from polycast.filters.xpath.functions import NAN, number_from
from polycast.filters.xpath.parser import parse
from polycast.filters.xpath.virtual import string_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FUNCTIONS", "LOCATED", "PREPARED"]

Steps = tuple[str | int, ...]
TEXTS = frozenset({str})
TEXTUAL = ("", "string")  # the elements that a text may be asked for in
FINITE = 10**300  # ints that surely are doubles


def text_at(event: Any, path: Steps, kind: str) -> str | None:
    """The string-value of what is there, or None."""
    value = _at(event, path)
    if type(value) is str and kind in ("", "string"):
        return value
    if value is MISSING:
        return None
    found, plain = form_of(value)
    return string_value(found, plain) if kind in ("", found) else None


def string_at(event: Any, path: Steps, kind: str) -> str:
    """The same as `string()` gives it: "" if nothing is there."""
    return text_at(event, path, kind) or ""


def number_at(event: Any, path: Steps, kind: str) -> float:
    """What is there as a number; NaN if it is none, or if nothing is there."""
    value = _at(event, path)
    cls = type(value)
    if cls is float and kind in ("", "double"):
        return value if value - value == 0 else NAN  # `inf` is no number in XPath
    if cls is int and kind in ("", "int") and -FINITE < value < FINITE:
        return float(value)
    if value is MISSING:
        return NAN
    found, plain = form_of(value)
    return number_from(string_value(found, plain)) if kind in ("", found) else NAN


def differs_at(event: Any, path: Steps, kind: str, number: float) -> bool:
    """Whether something is there and is not that number."""
    return kind_at(event, path, kind) is not None and number_at(event, path, kind) != number


def includes_at(event: Any, path: Steps, kind: str, text: str) -> bool:
    """Whether an array is there, and the string-value of one of its items is that text."""
    value = _at(event, path)
    cls = type(value)
    if (cls is list or cls is tuple) and kind in TEXTUAL and TEXTS.issuperset(map(type, value)):
        return text in value
    if value is MISSING:
        return False
    found, plain = form_of(value)
    if found != "array":
        return False
    forms = map(form_of, items_of(plain))
    return any(string_value(*form) == text for form in forms if kind in ("", form[0]))


def kind_at(event: Any, path: Steps, kind: str) -> str | None:
    """The element that the value is in, or None."""
    value = _at(event, path)
    if value is MISSING:
        return None
    found, _ = form_of(value)
    return found if kind in ("", found) else None


def holds(event: Any, text: str) -> bool:
    """What any expression says, evaluated node by node."""
    return is_true(parse(text), event)


class _Prepared:
    """`holds` for one text, which is parsed once."""

    __slots__ = ("_expression", "_text")

    def __init__(self, text: str) -> None:
        self._text, self._expression = text, parse(text)

    def __call__(self, event: Any) -> bool:
        return is_true(self._expression, event)

    def __repr__(self) -> str:
        return f"holds {self._text!r}"


def _at(event: Any, path: Steps) -> Any:
    value = filterable(event)
    for step in path:
        value = member_of(value, step) if type(step) is str else item_at(value, step)  # type: ignore[arg-type]
        if value is MISSING:
            return value
    return value


LOCATED: Mapping[str, Callable[..., Any]] = {
    "differs_at": differs_at,
    "includes_at": includes_at,
    "kind_at": kind_at,
    "number_at": number_at,
    "string_at": string_at,
    "text_at": text_at,
}
PREPARED: Mapping[str, Callable[..., Callable[[Any], Any]]] = {"holds": _Prepared}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {**LOCATED, "holds": holds}
