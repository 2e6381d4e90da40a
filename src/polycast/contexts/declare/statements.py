"""The statements of a context: as they are declared, by annotations too, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from polycast.errors import BadContextError, BadOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polycast.contexts.declare.context import Context
    from polycast.contexts.declare.patterns import Pattern
    from polycast.contexts.declare.rule_functions import RuleFunction

Direction = Literal["?", "!"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
DISABLED = "-"  # in place of a function


@dataclass(frozen=True)
class SourceLocation:
    """Where a statement was declared: a line of a file, or a context in a program."""

    context: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return self.context if self.file is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class RuleLine:
    """`pattern > function`."""

    pattern: str
    function: Any
    place: SourceLocation


@dataclass(frozen=True)
class WholeLine:
    """`type > function`: the function makes the whole target of events of the type."""

    source: type
    function: Any
    place: SourceLocation


@dataclass(frozen=True)
class Rule:
    """A rule whose names are resolved; without a function, it disables what it overrides."""

    pattern: Pattern
    function: RuleFunction | None
    place: SourceLocation = field(compare=False)
    generated: bool = False

    def __str__(self) -> str:
        name = DISABLED if self.function is None else self.function.name
        return f"{self.pattern} > {name}"

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.place}, rule {str(self.pattern)!r}"


@dataclass(frozen=True)
class Mapping:
    """`source => target`, incoming (`?`) or outgoing (`!`)."""

    source: type
    target: type
    direction: Direction
    place: SourceLocation = field(compare=False)

    @property
    def ends(self) -> tuple[type, type]:
        """Source and target."""
        return self.source, self.target

    def __str__(self) -> str:
        return f"{self.source.__name__} => {self.target.__name__} {self.direction}"

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.place}, mapping {str(self)!r}"


@dataclass(frozen=True)
class WholeRule:
    """A function that makes the whole target of events of a type."""

    source: type
    function: RuleFunction
    place: SourceLocation = field(compare=False)

    def __str__(self) -> str:
        return f"{self.source.__name__} > {self.function.name}"

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.place}, whole {self.source.__name__!r}"


# -- annotations -----------------------------------------------------------------------------------

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
