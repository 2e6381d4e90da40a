"""The types that a context knows, by name, and their subtypes."""

from __future__ import annotations

import difflib
from functools import cached_property
from typing import TYPE_CHECKING

from polycast.contexts.resolve.attribute_shapes import attribute_hints, has_attributes, shape_of
from polycast.typesystem import wire_name
from polycast.typesystem.describe import supertypes_of
from polycast.typesystem.standard_types import STANDARD, is_machinery, is_standard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.contexts.resolve.attribute_shapes import ValueShape

_BUILT_IN: dict[str, type] = {cls.__name__: cls for cls in STANDARD.values()}


class KnownTypes:
    """The listed types, with all that their attributes and supertypes lead to."""

    def __init__(self, listed: Iterable[type]) -> None:
        types: dict[type, None] = {}
        waiting = list(listed)
        for cls in waiting:
            if cls not in types and not is_machinery(cls):
                types[cls] = None
                waiting += supertypes_of(cls)
                shapes = map(shape_of, attribute_hints(cls).values())
                waiting += [held for shape in shapes for held in shape.all_classes()]
        self.types = tuple(types)
        self._shapes: dict[type, dict[str, ValueShape]] = {}
        self._subtypes: dict[type, tuple[type, ...]] = {}
        self._looked_into: dict[type, bool] = {}

    def shapes(self, cls: type) -> dict[str, ValueShape]:
        """The attributes of a class with their shapes."""
        shapes = self._shapes.get(cls)
        if shapes is None:
            hints = attribute_hints(cls)
            shapes = self._shapes[cls] = {name: shape_of(hint) for name, hint in hints.items()}
        return shapes

    def has_attributes(self, cls: type) -> bool:
        """Whether rules reach inside objects of a class."""
        is_looked_into = self._looked_into.get(cls)
        if is_looked_into is None:
            is_looked_into = self._looked_into[cls] = has_attributes(cls)
        return is_looked_into

    def subtypes(self, cls: type) -> tuple[type, ...]:
        """The types that can be met where a class is declared: it, and its known subtypes."""
        if is_standard(cls):
            return (cls,)
        subtypes = self._subtypes.get(cls)
        if subtypes is None:
            below = [known for known in self.types if cls in known.__mro__ and known is not cls]
            subtypes = self._subtypes[cls] = (cls, *below)
        return subtypes

    def named(self, name: str) -> list[type]:
        """The types of a name: that of the class, with or without module, or that on the wire."""
        types = self._names.get(name, [])
        if not types and name in _BUILT_IN:
            return [_BUILT_IN[name]]
        return types

    def full_names(self, cls: type) -> str:
        """The name that no other type has."""
        return f"{cls.__module__}.{cls.__qualname__}"

    def alike(self, name: str) -> list[str]:
        """Names like a misspelled one."""
        return difflib.get_close_matches(name, self._names, n=3)

    @cached_property
    def _names(self) -> dict[str, list[type]]:
        names: dict[str, list[type]] = {}
        for cls in self.types:
            for name in dict.fromkeys((cls.__name__, self.full_names(cls), wire_name(cls))):
                names.setdefault(name, []).append(cls)
        return names

    def reached(self, types: Iterable[type]) -> set[type]:
        """All types that can be met inside objects of some types, at any depth."""
        seen: set[type] = set()
        waiting = list(types)
        for cls in waiting:
            for shape in self.shapes(cls).values():
                for declared in shape.all_classes():
                    new = [met for met in self.subtypes(declared) if met not in seen]
                    seen.update(new)
                    waiting += new
        return seen
