"""What the operators of a tree do: Python's own functions, by their signs."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from decimal import Decimal
from functools import wraps
from typing import Any

from polycast.errors.failures import check_has_run, failures_here

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
    "is": operator.is_,
    "is not": operator.is_not,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The sign of a comparison whose sides are exchanged."""
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The sign of an order that is not to hold."""
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
SIGNS: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
}


def reach(value: Any, name: str) -> Any:
    """One step of an accessor: an attribute, or what a method without arguments returns."""
    found = getattr(value, name)
    return found() if callable(found) else found


BUILTINS: dict[str, Callable[..., Any]] = {"len": len, "abs": abs, "min": min, "max": max}


# -- results of functions --------------------------------------------------------------------------


_PLAIN = (bool, int, type(None), str, float)  # what nearly every function answers
_BUILTIN = (str, bytes, int, float, complex, list, dict, set, Decimal)
_KNOWN = {name for cls in (*_BUILTIN, datetime.datetime, datetime.timedelta) for name in dir(cls)}


def is_users(method: str) -> bool:
    """Whether no built-in class has a method of that name."""
    return method not in _KNOWN


def answered(said: object) -> object:
    """The result of a call; fails if it is a coroutine that has yet to run."""
    if type(said) not in _PLAIN:
        check_has_run("a filter", said)
    return said


def answering(function: Callable[[Any], object]) -> Callable[[Any], object]:
    """The same function, failing where it returns a coroutine that has yet to run."""

    @wraps(function)
    def answer(event: Any) -> object:
        try:
            said = function(event)
        except failures_here():
            raise
        except BaseException as error:  # such as the time-outs of some libraries: it has failed
            if isinstance(error, KeyboardInterrupt):
                raise
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        if type(said) not in _PLAIN:
            check_has_run("a filter", said)
        return said

    if not hasattr(function, "__qualname__"):
        answer.__qualname__ = f"{function!r:.60}"
    return answer
