"""Slower ways to translate the events of `contexts_shapes.py`, to judge the generated code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from contexts_shapes import SHAPES, Translate

import polycast as pc
from polycast.contexts.compile.translation_ir import Apply, Build, Choice, Each, Keep, Recipe
from polycast.contexts.resolve.inheritance import settle

sys.path.append(str(Path(__file__).parents[1] / "tests" / "contexts"))


def compiled(federation: pc.Federation, event: Any) -> Translate:
    """The generated function for events like this one; classes met in it are known then."""
    incoming = federation.members["us"].incoming
    incoming.translate(event)
    return incoming.functions[type(event)]


def reflective(us: pc.Context) -> Translate:
    """The same rules, decided anew for each value, by the reference of the tests."""
    from reflective import reflect

    settled = settle(us)
    return lambda event: reflect(settled, "?", event)


def interpreted(federation: pc.Federation, event: Any) -> Translate:
    """By reflection, with all decisions made before: the best that can be had without code."""
    recipe = federation.members["us"].incoming.recipe(type(event))
    return lambda event: _follow(recipe, event)


def _follow(recipe: Recipe, value: Any) -> Any:
    match recipe:
        case Keep():
            return value
        case Apply():
            return recipe.function.call(_follow(recipe.before, value))
        case Build():
            parts = {
                name: _follow(each, getattr(value, name)) for name, each in recipe.parts.items()
            }
            return recipe.target(**parts)
        case Each():
            return recipe.kind([_follow(recipe.inner, each) for each in value])
        case Choice():
            chosen = recipe.cases.get(type(value)) or recipe.containers[0][1]
            return _follow(chosen, value)
    raise TypeError(recipe)


def use_reflection(federation: pc.Federation, us: pc.Context) -> None:
    """Let a bus translate by reflection."""
    incoming = federation.members["us"].incoming
    slow = reflective(us)
    for shape in SHAPES:
        incoming.functions[type(shape.event)] = slow
