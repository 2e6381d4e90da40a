"""The statements of a context: lines as they are declared, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
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
