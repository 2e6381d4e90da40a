"""Rules and mappings for types that are held where neither reaches, reported for each path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.check.assignability import hint_text
from polycast.contexts.resolve.contents import held_besides
from polycast.contexts.resolve.derivation import is_subtype
from polycast.typesystem import conforms
from polycast.typesystem.class_kinds import is_interface

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polycast.contexts.declare.statements import Direction, Mapping, Rule
    from polycast.contexts.resolve.attribute_shapes import ValueShape
    from polycast.contexts.resolve.inheritance import SettledContext
    from polycast.contexts.resolve.resolution import PathNode, Resolver


class HiddenTypes:
    """Finds the types that one direction of a context does not reach."""

    def __init__(self, settled: SettledContext, resolver: Resolver, direction: Direction) -> None:
        self._settled, self._resolver, self._direction = settled, resolver, direction
        self._types = settled.types
        self._mappings: dict[type, list[Mapping]] = {}
        self._plain: dict[int, bool] = {}  # by shape, which the types keep

    def mappings_for(self, met: type) -> list[Mapping]:
        """The mappings for a type, the most derived first."""
        mappings = self._mappings.get(met)
        if mappings is None:
            mappings = self._mappings[met] = self._settled.mappings_for(met, self._direction)
        return mappings

    def at(self, node: PathNode, name: str, shape: ValueShape) -> Iterator[tuple[str, str, str]]:
        """The code, a note and the text for what is not applied to an attribute's value."""
        is_plain = self._plain.get(id(shape))
        if is_plain is None:
            is_plain = self._plain[id(shape)] = self._is_plain(shape)
        found = None if is_plain else self._hidden(node, name, shape)
        if found is None:
            return
        hidden, whole = found
        hidden |= self._inside([*hidden, *whole])
        lines = {str(line): None for cls in hidden for line in self._lines_for(node, cls)}
        at, held = f"{node.path}.{name}", hint_text(shape.hint)
        if lines:
            note = f"{' and '.join(lines)} not applied inside {held}"
            text = f"{at} is {held}, which is not looked into: {', '.join(lines)} not applied there"
            yield "not-looked-into", note, text
        elif shape.holds_unknown() or any(map(self._holds_unknown, (*hidden, *whole))):
            floating = [str(rule) for rule in self._resolver.rules if _is_floating(rule)]
            if floating:
                note = f"nobody knows what it holds, and no rule is applied inside {held}"
                text = f"{at} is {held}: if it holds what {floating[0]} is for, that stays as it is"
                yield "unknown-inside", note, text

    def _is_plain(self, shape: ValueShape) -> bool:
        """Whether it has only classes, which hide nothing."""
        inside = (*shape.containers, *shape.places, *shape.parameters)
        if inside or shape.holds_unknown() or shape.opaque or any(map(is_interface, shape.classes)):
            return False
        met = (subtype for cls in shape.classes for subtype in self._types.subtypes(cls))
        return all(held_besides(cls) is None for cls in met)

    def _hidden(
        self, node: PathNode, name: str, shape: ValueShape
    ) -> tuple[dict[type, None], list[type]] | None:
        """The types that are held out of reach, and those that are copied as a whole.

        None if a rule sees all of the value.
        """
        if shape.holds_opaque() and node.child(name, object).winner is not None:
            return None
        if shape.opaque:
            hidden = dict.fromkeys(shape.any_classes())
            whole = [cls for cls in hidden if held_besides(cls) is not None]
        else:
            held = set(shape.all_classes())
            ruled = {cls for cls in held if node.child(name, cls).winner is not None}
            hidden = dict.fromkeys(shape.hidden_classes(but=ruled))
            hidden |= dict.fromkeys(self._in_disguise(held - ruled))
            if not hidden and held and held == ruled:
                return None
            whole = list(self._kept_whole(shape, ruled))
        return hidden | dict.fromkeys(self._in_disguise(hidden)), whole

    def _kept_whole(self, shape: ValueShape, ruled: set[type]) -> Iterator[type]:
        """The types whose objects are copied with everything that they do not declare."""
        generic = {cls for cls, _ in shape.parameters}  # their arguments are hidden already
        for declared in shape.classes:
            for cls in self._types.subtypes(declared):
                if cls not in ruled and cls not in generic and held_besides(cls) is not None:
                    yield cls
        for container in shape.containers:
            yield from self._kept_whole(container.inner, ruled)

    def _inside(self, classes: Iterable[type]) -> dict[type, None]:
        """All types that may be met inside objects of some types."""
        inside: dict[type, None] = {}
        waiting = list(classes)
        for cls in waiting:
            besides = held_besides(cls)
            shapes = [*self._types.shapes(cls).values(), *([] if besides is None else [besides])]
            declared = {held for shape in shapes for held in shape.any_classes()}
            new = {met: None for held in declared for met in self._types.subtypes(held)}
            waiting += [met for met in new if met not in inside]
            inside |= new
        return inside | dict.fromkeys(self._in_disguise(inside))

    def _in_disguise(self, classes: Iterable[type]) -> Iterator[type]:
        """The types that conform to one of the interfaces without naming it as a supertype."""
        for interface in filter(is_interface, list(classes)):
            for cls in self._types.types:
                if not is_subtype(cls, interface) and conforms(cls, interface):
                    yield cls

    def _holds_unknown(self, cls: type) -> bool:
        besides = held_besides(cls)
        if besides is not None and besides.holds_unknown():
            return True
        return any(shape.holds_unknown() for shape in self._types.shapes(cls).values())

    def _lines_for(self, node: PathNode, cls: type) -> Iterator[Rule | Mapping]:
        """The rules and mappings for a type, wherever it is met in an event."""
        head = node.path.types[0]
        for rule in self._resolver.rules:
            named = rule.pattern.last.types if rule.pattern.qualifiers else (rule.pattern.head,)
            fits_event = not rule.pattern.qualifiers or is_subtype(head, rule.pattern.head)
            if _is_floating(rule) and fits_event and any(is_subtype(cls, one) for one in named):
                yield rule
        for mapping in self.mappings_for(cls):
            if mapping.target is not cls:
                yield mapping


def _is_floating(rule: Rule) -> bool:
    """Whether a rule is for a type, at whatever attribute."""
    if rule.generated or rule.function is None or rule.function.is_identity:
        return False
    return not rule.pattern.qualifiers or rule.pattern.last.attribute is None
