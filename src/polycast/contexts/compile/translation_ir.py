"""How a value is made from another: what is compiled, shown, and turned into columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.declare.statements import Mapping, Rule
    from polycast.contexts.resolve.attribute_shapes import ValueShape
    from polycast.contexts.resolve.resolution import PathNode
    from polycast.contexts.run.result_checks import ExpectedResult
    from polycast.typesystem.attributes import Default

__all__ = [
    "Apply",
    "Build",
    "Choice",
    "Duplicate",
    "Each",
    "Keep",
    "Missing",
    "Otherwise",
    "Recipe",
    "Whole",
]


@dataclass(frozen=True)
class Keep:
    """The value itself: nobody can change it."""


@dataclass(frozen=True)
class Duplicate:
    """A deep copy, unless nobody can change anything in the value."""


@dataclass(frozen=True)
class Missing:
    """Nothing that the target takes: its attribute has the default."""


@dataclass(frozen=True, eq=False)
class Otherwise:
    """A value, or the default of the attribute where part of it is missing."""

    inner: Recipe
    default: Default


@dataclass(frozen=True, eq=False)
class Apply:
    """What a rule's function makes of the value; it is given a copy of what can be changed."""

    rule: Rule
    before: Recipe
    result: ExpectedResult | None = None
    """What it has to give; None if that may be anything."""

    @property
    def function(self) -> RuleFunction:
        """What is called."""
        assert self.rule.function is not None
        return self.rule.function


@dataclass(eq=False)
class Build:
    """An object of a class, attribute by attribute. One that contains itself is met again."""

    source: type
    target: type
    parts: dict[str, Recipe] = field(default_factory=dict)
    """What is not here is left to the class: it has a default, or computes it."""
    lost: dict[str, str] = field(default_factory=dict)
    """Attributes of which the target does not take all that the source holds, and why."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Attributes that hold what is not looked into, and the rules that are not applied there."""
    mapping: Mapping | None = None
    """What says so; None if objects stay of their class."""
    recursive: bool = False


@dataclass(frozen=True, eq=False)
class Whole:
    """What a function of whole events makes of the source; no rule applies, no unit, no mapping."""

    mapping: Mapping
    function: RuleFunction
    before: Recipe
    result: ExpectedResult | None


@dataclass(frozen=True, eq=False)
class Each:
    """Every element of a container; of a dict, every value."""

    kind: type
    inner: Recipe


@dataclass(frozen=True, eq=False)
class Choice:
    """What is done with a value depends on what it is."""

    node: PathNode
    attribute: str
    shape: ValueShape
    """What the source says that it holds."""
    wanted: ValueShape
    """What the target says that it holds."""
    cases: dict[type, Recipe]
    containers: tuple[tuple[type, Recipe], ...] = ()
    """Kinds of containers, and what is done with them."""
    none: Recipe | None = None
    """What is done with None, if it may be there."""
    lenient: bool = False
    """Whether a value that the target does not accept is missing, or an error."""

    def recipes(self) -> list[Recipe]:
        """All recipes that it chooses from."""
        containers = [recipe for _, recipe in self.containers]
        none = [] if self.none is None else [self.none]
        return [*self.cases.values(), *containers, *none]


Recipe = Keep | Duplicate | Missing | Otherwise | Apply | Build | Whole | Each | Choice
