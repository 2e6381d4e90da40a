"""The types that a context knows, by name; and which of them can be met where one is declared."""

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

__all__ = ["KnownTypes"]

_BUILT_IN: dict[str, type] = {cls.__name__: cls for cls in STANDARD.values()}


class KnownTypes:
    """All types that some types lead to: through attributes, and up to their supertypes."""

    def __init__(self, listed: Iterable[type]) -> None:
        found: dict[type, None] = {}
        waiting = list(listed)
        for cls in waiting:
            if cls not in found and not is_machinery(cls):
                found[cls] = None
                waiting += supertypes_of(cls)
                shapes = map(shape_of, attribute_hints(cls).values())
                waiting += [each for shape in shapes for each in shape.all_classes()]
        self.types = tuple(found)
        self._shapes: dict[type, dict[str, ValueShape]] = {}
        self._subtypes: dict[type, tuple[type, ...]] = {}
        self._looked_into: dict[type, bool] = {}

    def shapes(self, cls: type) -> dict[str, ValueShape]:
        """The attributes of a class, each with what it holds."""
        found = self._shapes.get(cls)
        if found is None:
            hints = attribute_hints(cls)
            found = self._shapes[cls] = {name: shape_of(hint) for name, hint in hints.items()}
        return found

    def has_attributes(self, cls: type) -> bool:
        """Whether objects of a class are looked into."""
        found = self._looked_into.get(cls)
        if found is None:
            found = self._looked_into[cls] = has_attributes(cls)
        return found

    def subtypes(self, cls: type) -> tuple[type, ...]:
        """The types that can be met where a class is declared: it, and the subtypes known."""
        if is_standard(cls):
            return (cls,)
        found = self._subtypes.get(cls)
        if found is None:
            below = [each for each in self.types if cls in each.__mro__ and each is not cls]
            found = self._subtypes[cls] = (cls, *below)
        return found

    def named(self, name: str) -> list[type]:
        """The types of a name: the class's own, or a full one (its module's, or the wire's)."""
        found = self._names.get(name, [])
        if not found and name in _BUILT_IN:
            return [_BUILT_IN[name]]
        return found

    def full_names(self, cls: type) -> str:
        """The name that no other type has."""
        return f"{cls.__module__}.{cls.__qualname__}"

    def alike(self, name: str) -> list[str]:
        """Names that one may have meant."""
        return difflib.get_close_matches(name, self._names, n=3)

    @cached_property
    def _names(self) -> dict[str, list[type]]:
        names: dict[str, list[type]] = {}
        for cls in self.types:
            full = (f"{cls.__module__}.{cls.__qualname__}", wire_name(cls))
            for name in dict.fromkeys((cls.__name__, *full)):
                names.setdefault(name, []).append(cls)
        return names

    def reached(self, types: Iterable[type]) -> set[type]:
        """All types that can be met at some depth inside objects of some types."""
        seen: set[type] = set()
        waiting = list(types)
        for cls in waiting:
            for shape in self.shapes(cls).values():
                for declared in shape.all_classes():
                    new = [met for met in self.subtypes(declared) if met not in seen]
                    seen.update(new)
                    waiting += new
        return seen
