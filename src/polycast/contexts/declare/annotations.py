"""Mappings and rules that classes declare by annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from polycast.contexts.declare.statements import DIRECTIONS, Mapping, SourceLocation
from polycast.errors import BadContextError, BadOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.contexts.declare.context import Context
    from polycast.contexts.declare.statements import Direction

T = TypeVar("T")

# In the class's own dictionary: a subclass does not inherit the annotations.
_MAPS_TO = "__polycast_maps_to__"
_TRANSFORM_WITH = "__polycast_transform_with__"


def maps_to(other: type, direction: Direction) -> Callable[[type[T]], type[T]]:
    """Let the contexts that list a class map it: `?` is other => class, `!` is class => other."""
    if not isinstance(other, type):
        raise BadContextError("the type of @maps_to", other, accepted="a class of the root")
    if direction not in DIRECTIONS:
        raise BadOptionError.choice("direction", direction, DIRECTIONS)

    def note(cls: type[T]) -> type[T]:
        _note(cls, _MAPS_TO, ((other, direction), *vars(cls).get(_MAPS_TO, ())))
        return cls

    return note


def transform_with(function: Callable[[Any], Any]) -> Callable[[type[T]], type[T]]:
    """Let the contexts that know a class apply a function wherever an attribute holds it."""
    given: object = function
    if not callable(given):
        accepted = "a function, as in f(x: Money) -> Money"
        raise BadContextError("the function of @transform_with", function, accepted=accepted)

    def note(cls: type[T]) -> type[T]:
        _note(cls, _TRANSFORM_WITH, (function,))
        return cls

    return note


def _note(cls: object, name: str, value: object) -> None:
    if not isinstance(cls, type):
        raise BadContextError("what is annotated", cls, accepted="a class")
    try:
        setattr(cls, name, value)
    except TypeError:
        raise BadContextError("what is annotated", cls, accepted="a class of yours") from None


def annotated_mappings(context: Context) -> list[Mapping]:
    """The mappings by the annotations of a context's types, unless it declares others itself."""
    place = SourceLocation(context.name)
    written = {(line.source, line.direction) for line in context.mapping_lines}
    mappings = []
    for cls in context.types:
        for other, direction in vars(cls).get(_MAPS_TO, ()):
            source, target = (other, cls) if direction == "?" else (cls, other)
            if (source, direction) not in written:
                mappings.append(Mapping(source, target, direction, place))
    return mappings


def annotated_functions(types: Iterable[type]) -> Iterator[tuple[type, Callable[[Any], Any]]]:
    """The types annotated with a function, each with the function."""
    for cls in types:
        for function in vars(cls).get(_TRANSFORM_WITH, ()):
            yield cls, function
