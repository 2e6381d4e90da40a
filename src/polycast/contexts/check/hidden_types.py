"""Rules and mappings for types that are held where neither reaches, reported for each path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.check.assignability import hint_text
from polycast.contexts.resolve.derivation import is_subtype
from polycast.typesystem import conforms
from polycast.typesystem.class_kinds import is_protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polycast.contexts.declare.statements import Direction, Mapping, Rule
    from polycast.contexts.resolve.attribute_shapes import ValueShape
    from polycast.contexts.resolve.inheritance import SettledContext
    from polycast.contexts.resolve.resolution import PathNode, Resolver

__all__ = ["HiddenTypes"]


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
            is_plain = self._plain[id(shape)] = _is_plain(shape)
        hidden = None if is_plain else self._hidden(node, name, shape)
        if hidden is None:
            return
        inside = self._types.reached(hidden) if hidden else set()
        lines = {
            str(line): None for cls in (*hidden, *inside) for line in self._lines_for(node, cls)
        }
        at, held = f"{node.path}.{name}", hint_text(shape.hint)
        if lines:
            note = f"{' and '.join(lines)} not applied inside {held}"
            text = f"{at} is {held}, which is not looked into: {', '.join(lines)} not applied there"
            yield "not-looked-into", note, text
        elif shape.holds_unknown() or any(map(self._holds_unknown, (*hidden, *inside))):
            floating = [str(rule) for rule in self._resolver.rules if _is_floating(rule)]
            if floating:
                note = f"nobody knows what it holds, and no rule is applied inside {held}"
                text = f"{at} is {held}: if it holds what {floating[0]} is for, that stays as it is"
                yield "unknown-inside", note, text

    def _hidden(self, node: PathNode, name: str, shape: ValueShape) -> dict[type, None] | None:
        """The types that are held out of reach; None if a rule sees all of the value."""
        if shape.holds_opaque() and node.child(name, object).winner is not None:
            return None
        if shape.opaque:
            hidden = dict.fromkeys(shape.any_classes())
        else:
            held = set(shape.all_classes())
            ruled = {cls for cls in held if node.child(name, cls).winner is not None}
            hidden = dict.fromkeys(shape.hidden_classes(but=ruled))
            hidden |= dict.fromkeys(self._in_disguise(held - ruled))
            if not hidden and held and held == ruled:
                return None
        return hidden | dict.fromkeys(self._in_disguise(hidden))

    def _in_disguise(self, classes: Iterable[type]) -> Iterator[type]:
        """The types that conform to one of the protocols without naming it as a supertype."""
        for protocol in filter(is_protocol, list(classes)):
            for cls in self._types.types:
                if not is_subtype(cls, protocol) and conforms(cls, protocol):
                    yield cls

    def _holds_unknown(self, cls: type) -> bool:
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


def _is_plain(shape: ValueShape) -> bool:
    """Whether it has only classes, which hide nothing."""
    inside = (*shape.containers, *shape.places, *shape.parameters)
    return not (
        inside or shape.holds_unknown() or shape.opaque or any(map(is_protocol, shape.classes))
    )


def _is_floating(rule: Rule) -> bool:
    """Whether a rule is for a type, at whatever attribute."""
    if rule.generated or rule.function is None or rule.function.is_identity:
        return False
    return not rule.pattern.qualifiers or rule.pattern.last.attribute is None
