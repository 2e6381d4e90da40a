"""The decorator forms of subscribing."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, get_origin, overload

from polycast.errors import BadCallbackError

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Delivery

T = TypeVar("T")
R = TypeVar("R")


class Registrar(Protocol[T]):
    """What `bus.on(T)` returns: it subscribes a function and gives it back as it was."""

    @overload
    def __call__(self, function: Callable[[T], R], /) -> Callable[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[T, Delivery], R], /) -> Callable[[T, Delivery], R]: ...


@dataclass(frozen=True, slots=True)
class Annotated:
    """A type that was read from a function."""

    type: Any


def annotated_type(what: object) -> Annotated | None:
    """If `what` is a function, the annotation of its first parameter."""
    if not _is_callback(what):
        return None
    try:
        parameters = list(inspect.signature(what, eval_str=True).parameters.values())
    except (ValueError, TypeError, NameError) as error:
        raise BadCallbackError(what, why=f"its annotations cannot be read: {error}") from error
    if not parameters or parameters[0].annotation is inspect.Parameter.empty:
        raise BadCallbackError(
            what,
            why="plain @bus.on reads the type from the annotation of the first parameter, "
            "and there is none; annotate it or say @bus.on(Type)",
        )
    return Annotated(parameters[0].annotation)


def _is_callback(what: object) -> TypeGuard[Callable[..., object]]:
    """A function or callable object, and not one of the callables that stand for a type."""
    return callable(what) and not isinstance(what, type) and get_origin(what) is None
