"""Dotted names of functions and classes, for those that have one."""

from __future__ import annotations

import sys
from typing import Any

from polycast.contexts.functions import Marked

__all__ = ["NoName", "name_by_which"]


class NoName(Exception):
    """Why something has no name by which another process could find it."""


def name_by_which(found: Any) -> tuple[str, str]:
    """The module of a function or class, and its name in there."""
    module = getattr(found, "__module__", None) or ""
    space = sys.modules.get(module)
    name = getattr(found, "__qualname__", None) or ""
    if space is not None and _is_at(space, name, found):
        return module, name
    for each, value in vars(space).items() if space is not None else ():
        if value is found and not each.startswith("__"):
            return module, each  # a lambda, or a function that was marked, with a name
    raise NoName(_why(found, module, name))


def _is_at(space: Any, name: str, found: Any) -> bool:
    value = space
    for word in name.split("."):
        value = getattr(value, word, None)
    # A bound method is made anew each time.
    return value is found or (
        value is not None and _function(value) is _function(found) is not None
    )


def _function(value: Any) -> Any:
    return getattr(value, "__func__", None) if hasattr(value, "__self__") else None


def _why(found: Any, module: str, name: str) -> str:
    if isinstance(found, Marked):
        return f"{found!r} is not in {module} under a name of its own"
    if "<lambda>" in name:
        return "it is a lambda without a name"
    if "<locals>" in name:
        return f"{name.replace('<locals>.', '')} is local to another function"
    if not name:
        return f"a {type(found).__name__} has no name"
    return f"{module} has no {name}"
