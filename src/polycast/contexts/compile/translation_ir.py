"""Recipes: how a value is translated. They are compiled, listed, and turned into columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polycast.contexts.compile.object_makers import is_unchangeable, stays
from polycast.contexts.resolve.attribute_shapes import ValueShape, attribute_hints, shape_of
from polycast.events.isolation import is_frozen

if TYPE_CHECKING:
    from polycast.contexts.check.assignability import ExpectedResult
    from polycast.contexts.declare.rule_functions import RuleFunction
    from polycast.contexts.declare.statements import Mapping, Rule
    from polycast.contexts.resolve.resolution import PathNode
    from polycast.typesystem.attributes import Default


@dataclass(frozen=True)
class Keep:
    """The value itself: it is immutable."""


@dataclass(frozen=True)
class Duplicate:
    """A deep copy, unless all of the value is immutable."""


@dataclass(frozen=True)
class Missing:
    """No value that the target accepts: its attribute takes the default."""


@dataclass(frozen=True, eq=False)
class Otherwise:
    """A value, or the default of the attribute where part of it is missing."""

    inner: Recipe
    default: Default


@dataclass(frozen=True, eq=False)
class Apply:
    """The result of a rule's function, which gets a copy of a mutable value."""

    rule: Rule
    before: Recipe
    result: ExpectedResult
    """What the function has to return."""

    @property
    def function(self) -> RuleFunction:
        """What is called."""
        assert self.rule.function is not None
        return self.rule.function


@dataclass(eq=False)
class Build:
    """An object of a class, built attribute by attribute; it may contain itself."""

    source: type
    target: type
    parts: dict[str, Recipe] = field(default_factory=dict)
    """The recipes by attribute; the class has defaults for the others, or computes them."""
    lost: dict[str, str] = field(default_factory=dict)
    """Attributes of which the target does not accept all values of the source, and why."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Attributes with values out of reach, and the rules that are not applied there."""
    mapping: Mapping | None = None
    """The mapping that applies; None if objects keep their class."""
    recursive: bool = False


@dataclass(frozen=True, eq=False)
class Whole:
    """The result of a function for whole events; no rule, unit or mapping applies."""

    mapping: Mapping
    function: RuleFunction
    before: Recipe
    result: ExpectedResult


@dataclass(frozen=True, eq=False)
class Each:
    """Every element of a container; of a dict, every value."""

    kind: type
    inner: Recipe


@dataclass(frozen=True, eq=False)
class Choice:
    """A recipe chosen by the class of the value."""

    node: PathNode
    attribute: str
    shape: ValueShape
    """What the source declares."""
    wanted: ValueShape
    """What the target declares."""
    cases: dict[type, Recipe]
    containers: tuple[tuple[type, Recipe], ...] = ()
    """Kinds of containers, with their recipes."""
    none: Recipe | None = None
    """The recipe for None, if the source allows it."""
    lenient: bool = False
    """Whether a value that the target does not accept is missing, or an error."""

    def recipes(self) -> list[Recipe]:
        """All recipes that it chooses from."""
        containers = [recipe for _, recipe in self.containers]
        none = [] if self.none is None else [self.none]
        return [*self.cases.values(), *containers, *none]


Recipe = Keep | Duplicate | Missing | Otherwise | Apply | Build | Whole | Each | Choice


# -- immutable results -----------------------------------------------------------------------------

# All readers in a context may share an immutable object. Which recipes give one is decided when
# code is generated: checking each event would take as long as translating it. It holds as long as
# recipes meet only classes that they name, and functions return objects of exactly the annotated
# classes; from then on, each event is checked. An attribute with a built-in type is taken at its
# word, as it is when it is translated.


def gives_fixed(recipe: Recipe) -> bool:
    """Whether a recipe gives immutable objects, if it meets only classes that it names."""
    waiting, seen = [recipe], {id(recipe)}
    while waiting:
        inner = _within(waiting.pop())
        if inner is None:
            return False
        new = [part for part in inner if id(part) not in seen]
        seen.update(map(id, new))
        waiting += new
    return True


def _within(recipe: Recipe) -> list[Recipe] | None:
    """The recipes of an object's parts; None if the object itself is mutable."""
    match recipe:
        case Keep():
            return []
        case Apply() | Whole():
            return [] if _is_sure(recipe.result) else None
        case Each():
            return [recipe.inner] if recipe.kind in (tuple, frozenset) else None
        case Choice():
            return recipe.recipes()
        case Build():
            return [*recipe.parts.values()] if _is_closed(recipe) else None
        case _:
            return None


def _is_closed(build: Build) -> bool:
    """Whether the target is frozen, with the attributes that are left to its class."""
    left = [h for name, h in attribute_hints(build.target).items() if name not in build.parts]
    return is_frozen(build.target) and all(stays(shape_of(hint)) for hint in left)


def _is_sure(result: ExpectedResult) -> bool:
    """Whether a function returns immutable objects of known classes."""
    if not result.sure or result.shape.containers or result.shape.places:
        return False
    return all(map(is_unchangeable, result.sure))
