"""How a callback wants to be called: with the event, or with the event and its delivery."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polycast.errors import BadCallbackError

if TYPE_CHECKING:
    from collections.abc import Callable

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Callback:
    """A callable with what was found out about it."""

    function: Callable[..., Any]
    wants_delivery: bool
    is_async: bool


def callback_for(function: object) -> Callback:
    """Look at a callable once: only a second parameter without default gets the delivery."""
    if not callable(function):
        raise BadCallbackError(function, why=f"a {type(function).__name__} cannot be called")
    called = _called(function)
    if any(map(inspect.isgeneratorfunction, called)):
        raise BadCallbackError(
            function, why="it is a generator function, which runs only if iterated"
        )
    if any(map(inspect.isasyncgenfunction, called)):
        why = "it is an async generator function, which runs only if iterated"
        raise BadCallbackError(function, why=why)
    is_async = any(map(inspect.iscoroutinefunction, called))
    return Callback(function, _wants_delivery(function), is_async)


def _called(function: object) -> tuple[object, object]:
    """The function that runs in the end: within partials, or the `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, None if isinstance(function, type) else getattr(function, "__call__", None)  # noqa: B004


def _wants_delivery(function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # some built-ins tell nothing about themselves
        return False
    for parameter in parameters:
        if (
            parameter.kind is inspect.Parameter.KEYWORD_ONLY
            and parameter.default is parameter.empty
        ):
            raise BadCallbackError(
                function, why=f"it needs the keyword argument {parameter.name!r}"
            )
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    needed = [parameter for parameter in positional if parameter.default is parameter.empty]
    if not positional and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise BadCallbackError(function, why="it takes no argument")
    if len(needed) > 2:
        names = ", ".join(parameter.name for parameter in needed)
        raise BadCallbackError(function, why=f"it needs {len(needed)} arguments ({names})")
    return len(needed) == 2
