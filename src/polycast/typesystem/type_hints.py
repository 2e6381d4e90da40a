"""Annotations, resolved as far as they can be."""

from __future__ import annotations

import builtins
import inspect
import sys
import types
import typing
from typing import Any


def hints_of(cls: type) -> dict[str, Any]:
    """The annotations of a class over its bases; one that cannot be resolved is `Any`."""
    hints: dict[str, Any] = {}
    names = _names_of(cls)
    for base in reversed(cls.__mro__):
        hints |= own_hints(base, names=names)
    return hints


def own_hints(cls: type, *, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """The annotations of one class body."""
    annotations = _annotations(cls)
    if not annotations:
        return {}
    space = _space(cls) | (names or _names_of(cls))
    return {key: _resolved(hint, cls.__module__, space) for key, hint in annotations.items()}


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


def unresolved(cls: type) -> dict[str, str]:
    """The annotations of a class over its bases that cannot be resolved, as they are written."""
    found: dict[str, str] = {}
    names = _names_of(cls)
    for base in reversed(cls.__mro__):
        space = _space(base) | names
        for key, hint in _annotations(base).items():
            found.pop(key, None)
            if _resolved(hint, base.__module__, space, otherwise=None) is None and hint is not None:
                found[key] = hint if isinstance(hint, str) else repr(hint)
    return {key: text for key, text in found.items() if text.strip() != "None"}


def _resolved(hint: Any, module: str, space: dict[str, Any], *, otherwise: Any = Any) -> Any:
    names = vars(sys.modules[module]) if module in sys.modules else {}
    found = hint
    if isinstance(hint, str):
        scopes = (space, names, vars(builtins))
        found = next((scope[hint] for scope in scopes if hint in scope), None)
    if type(found) is type:  # most of them, and typing takes its time
        return found
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, names, space, include_extras=True)["hint"]
    except Exception:  # a forward reference to nowhere, or an annotation that is no type
        return otherwise
