"""What a tree asks of an event in XPath's way: a value at a path of constant names, or anything.

The names of the members of a struct are all different. So a path like
`/struct/member[name="price"]/value` leads to one value or to none, and looking it up in a dict or
an object gives just what walking the document would. A path is a tuple: a string is the member of
that name, an int the item at that place, from 1 on. `kind` is the element that the value must be
in; "" is any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.formats.xmlrpc.value_forms import (
    MISSING,
    filterable,
    form_of,
    item_at,
    items_of,
    member_of,
    member_reader,
)
from polycast.languages.xpath.core_library import NAN, number_from
from polycast.languages.xpath.evaluation import is_true
from polycast.languages.xpath.parser import parse
from polycast.languages.xpath.virtual_document import string_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Steps = tuple[str | int, ...]
TEXTS = frozenset({str})
TEXTUAL = ("", "string")  # the elements that a text may be asked for in
DOUBLE, WHOLE = ("", "double"), ("", "int")  # the same of a float and of an int
FINITE = 10**300  # ints that surely are doubles


# -- values that were found ------------------------------------------------------------------------


def _text(value: Any, kind: str) -> str | None:
    """The string-value, or None."""
    if type(value) is str and kind in TEXTUAL:
        return value
    if value is MISSING:
        return None
    found, plain = form_of(value)
    return string_value(found, plain) if kind in ("", found) else None


def _string(value: Any, kind: str) -> str:
    """The same as `string()` gives it: "" if nothing is there."""
    return _text(value, kind) or ""


def _number(value: Any, kind: str) -> float:
    """As a number; NaN if it is none, or if nothing is there."""
    cls = type(value)
    if cls is float and kind in DOUBLE:
        return value if value - value == 0 else NAN  # `inf` is no number in XPath
    if cls is int and kind in WHOLE and -FINITE < value < FINITE:
        return float(value)
    if value is MISSING:
        return NAN
    found, plain = form_of(value)
    return number_from(string_value(found, plain)) if kind in ("", found) else NAN


def _kind(value: Any, kind: str) -> str | None:
    """The element that the value is in, or None."""
    if value is MISSING:
        return None
    found, _ = form_of(value)
    return found if kind in ("", found) else None


def _differs(value: Any, kind: str, number: float) -> bool:
    """Whether something is there and is not that number."""
    return _kind(value, kind) is not None and _number(value, kind) != number


def _includes(value: Any, kind: str, text: str) -> bool:
    """Whether an array is there, and the string-value of one of its items is that text."""
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


# -- where they are found --------------------------------------------------------------------------


def _at(event: Any, path: Steps) -> Any:
    value = filterable(event)
    for step in path:
        value = member_of(value, step) if type(step) is str else item_at(value, step)  # type: ignore[arg-type]
        if value is MISSING:
            return value
    return value


def text_at(event: Any, path: Steps, kind: str) -> str | None:
    """The string-value of what is there, or None."""
    return _text(_at(event, path), kind)


def string_at(event: Any, path: Steps, kind: str) -> str:
    """The same as `string()` gives it."""
    return _string(_at(event, path), kind)


def number_at(event: Any, path: Steps, kind: str) -> float:
    """What is there as a number."""
    return _number(_at(event, path), kind)


def differs_at(event: Any, path: Steps, kind: str, number: float) -> bool:
    """Whether something is there and is not that number."""
    return _differs(_at(event, path), kind, number)


def includes_at(event: Any, path: Steps, kind: str, text: str) -> bool:
    """Whether an array is there that has an item with that text."""
    return _includes(_at(event, path), kind, text)


def kind_at(event: Any, path: Steps, kind: str) -> str | None:
    """The element that the value is in, or None."""
    return _kind(_at(event, path), kind)


def _looking(path: Steps) -> Callable[[Any], Any]:
    """A function that returns what is at a path in an event."""
    if not path or type(path[0]) is not str:
        return lambda event: _at(event, path)
    first, rest = member_reader(path[0]), path[1:]
    if not rest:
        return first

    def look(event: Any) -> Any:
        value = first(event)
        for step in rest:
            if value is MISSING:
                return value
            value = member_of(value, step) if type(step) is str else item_at(value, step)  # type: ignore[arg-type]
        return value

    return look


def reader(name: str, path: Steps, kind: str, *more: Any) -> Callable[[Any], Any]:
    """One of these functions, specialised for one path."""
    look, judge = _looking(path), JUDGES[name]
    if name == "text_at" and kind in TEXTUAL:
        return lambda event: value if type(value := look(event)) is str else _text(value, kind)
    if more:
        [last] = more
        return lambda event: judge(look(event), kind, last)
    return lambda event: judge(look(event), kind)


def holds(event: Any, text: str) -> bool:
    """What any expression says, evaluated node by node."""
    return is_true(parse(text), event)


class Prepared:
    """`holds` for one text, which is parsed once."""

    __slots__ = ("_expression", "_text")

    def __init__(self, text: str) -> None:
        self._text, self._expression = text, parse(text)

    def __call__(self, event: Any) -> bool:
        """Whether it is true of an event."""
        return is_true(self._expression, event)

    def __repr__(self) -> str:
        return f"holds {self._text!r}"


JUDGES: Mapping[str, Callable[..., Any]] = {
    "differs_at": _differs,
    "includes_at": _includes,
    "kind_at": _kind,
    "number_at": _number,
    "string_at": _string,
    "text_at": _text,
}
LOCATED: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (differs_at, includes_at, kind_at, number_at, string_at, text_at)
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {**LOCATED, "holds": holds}
