"""Which recipes give immutable objects, so that all readers in a context may share one.

That is decided when code is generated: checking each event would take as long as translating it. It
holds as long as recipes meet only classes that they name, and functions return objects of exactly
the annotated classes; from then on, each event is checked. An attribute with a built-in type is
taken at its word, as it is when it is translated.
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
