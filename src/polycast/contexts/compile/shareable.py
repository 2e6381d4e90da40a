"""Which recipes give only what nobody can change, so that all in a context may have one object.

That is settled when code is made, because looking at each event would take as long as translating
it. It holds as long as no class is met that the recipe does not name and functions give objects of
the very classes that they say; then events are looked at. What an attribute with a built-in type
holds is taken at its word, as translating does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.compile.object_makers import is_unchangeable, stays
from polycast.contexts.compile.translation_ir import Apply, Build, Choice, Each, Keep, Whole
from polycast.contexts.resolve.attribute_shapes import attribute_hints, shape_of
from polycast.events.isolation import is_frozen

if TYPE_CHECKING:
    from polycast.contexts.compile.translation_ir import Recipe
    from polycast.contexts.run.result_checks import ExpectedResult

__all__ = ["gives_fixed"]


def gives_fixed(recipe: Recipe) -> bool:
    """Whether nobody can change what a recipe gives, if it meets only classes that it names."""
    waiting, seen = [recipe], {id(recipe)}
    while waiting:
        inner = _within(waiting.pop())
        if inner is None:
            return False
        new = [each for each in inner if id(each) not in seen]
        seen.update(map(id, new))
        waiting += new
    return True


def _within(recipe: Recipe) -> list[Recipe] | None:
    """The recipes of all that an object is made of; None if it can itself be changed."""
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
    """Whether the target is frozen; attributes that are left to the class are as that says."""
    left = [h for name, h in attribute_hints(build.target).items() if name not in build.parts]
    return is_frozen(build.target) and all(stays(shape_of(hint)) for hint in left)


def _is_sure(result: ExpectedResult | None) -> bool:
    """Whether a function gives objects of classes that are told apart, and nobody can change."""
    if result is None or not result.sure or result.shape.containers or result.shape.places:
        return False
    return all(map(is_unchangeable, result.sure))
