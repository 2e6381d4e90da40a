"""A predicate on events of one type."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Generic, TypeVar

from polycast.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Filter"]

T_contra = TypeVar("T_contra", contravariant=True)


class Filter(Generic[T_contra]):
    """A predicate on events: callable, comparable, and what fails does not match.

    Two filters are equal if they run the same code over the same captured values.
    """

    __slots__ = ("_key", "function")

    def __init__(self, function: Callable[[T_contra], object]) -> None:
        if not callable(function):
            raise BadOption("where", function, accepted="a callable that takes the event, or None")
        self.function: Callable[[T_contra], object] = (
            function.function if isinstance(function, Filter) else function
        )
        _check_shape(self.function)
        self._key = _identity(self.function)

    def __call__(self, event: T_contra, /) -> object:
        """What the predicate says, or raises."""
        return self.function(event)

    def matches(self, event: T_contra, /) -> bool:
        """Whether the event passes; an evaluation that fails does not match."""
        try:
            return bool(self.function(event))
        except Exception:
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key[0])

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        code = getattr(self.function, "__code__", None)
        where = f" (line {code.co_firstlineno})" if code is not None else ""
        return f"{name}{where}"

    def __repr__(self) -> str:
        return f"Filter({self})"


def _check_shape(function: object) -> None:
    """Refuse at once what could never answer about an event."""
    accepted = "a plain function that takes the event"
    if inspect.iscoroutinefunction(function):
        raise BadOption("where", function, accepted=f"{accepted}; this one is async")
    try:
        inspect.signature(function).bind(object())  # type: ignore[arg-type]
    except TypeError as error:
        raise BadOption("where", function, accepted=f"{accepted}: {error}") from error
    except ValueError:  # some built-ins tell nothing about themselves
        pass


def _identity(function: object) -> tuple[object, ...]:
    """What makes two callables the same filter: code, owner, captured values, defaults."""
    code = getattr(function, "__code__", None)
    if code is None:
        return (function if _hashable(function) else id(function),)
    cells = getattr(function, "__closure__", None) or ()
    captured = tuple(_contents(cell) for cell in cells)
    owner = getattr(function, "__self__", None)
    return (code, owner, captured, getattr(function, "__defaults__", None))


def _contents(cell: object) -> object:
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # a name that is not bound yet
        return cell


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
