"""Results that depend on nothing but a class, remembered as long as the class lives."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_NOT_ASKED: Any = object()


def cached_by_class(function: Callable[[type], T]) -> Callable[[type], T]:
    """Let a function of a class be called once for each class."""
    results: weakref.WeakKeyDictionary[type, T] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def cached(cls: type) -> T:
        result: T = results.get(cls, _NOT_ASKED)
        if result is _NOT_ASKED:
            result = results[cls] = function(cls)
        return result

    return cached
