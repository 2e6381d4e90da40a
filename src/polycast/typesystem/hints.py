"""Annotations, resolved as far as they can be."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from typing import Any

__all__ = ["annotated_names", "hints_of", "own_hints", "returned_hint"]


def hints_of(cls: type) -> dict[str, Any]:
    """The annotations of a class over its bases; one that cannot be resolved is `Any`."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        hints |= own_hints(base, names=_names_of(cls))
    return hints


def own_hints(cls: type, *, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of one class body."""
    space = _space(cls) | (names or _names_of(cls))
    return {key: _resolved(hint, cls.__module__, space) for key, hint in _annotations(cls).items()}


def annotated_names(cls: type) -> list[str]:
    """The names one class body annotates."""
    return list(_annotations(cls))


def returned_hint(function: Any, owner: type) -> Any:
    """The annotation of what a function returns, or `Signature.empty` if it has none."""
    hint = _annotations(function).get("return", inspect.Signature.empty)
    if hint is inspect.Signature.empty:
        return inspect.Signature.empty
    module = getattr(function, "__module__", None) or owner.__module__
    return _resolved(hint, module, _space(owner) | _names_of(owner))


def _annotations(holder: Any) -> dict[str, Any]:
    try:
        return inspect.get_annotations(holder)
    except Exception:  # deferred annotations may name what does not exist
        return {}


def _names_of(cls: type) -> dict[str, Any]:
    # A class local to a function is not in its module: its own bases are known all the same.
    return {base.__name__: base for base in reversed(cls.__mro__)}


def _space(cls: type) -> dict[str, Any]:
    # Only classes: a field `date: date = None` must not hide the class `date`.
    return {key: value for key, value in vars(cls).items() if isinstance(value, type)}


def _resolved(hint: Any, module: str, space: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    names = vars(sys.modules[module]) if module in sys.modules else {}
    try:
        return typing.get_type_hints(holder, names, space, include_extras=True)["hint"]
    except Exception:  # a forward reference to nowhere, or an annotation that is no type
        return Any
