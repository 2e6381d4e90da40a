"""What a target does not take of what is there: why, and what would mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.contexts.check.assignability import hint_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from polycast.contexts.declare.local_types import KnownTypes
    from polycast.contexts.declare.statements import Mapping
    from polycast.contexts.resolve.attribute_shapes import ValueShape
    from polycast.contexts.resolve.resolution import PathNode

__all__ = ["TypeMismatch", "alternatives", "mended_by", "whole_text", "why_of"]


class TypeMismatch(Exception):
    """A value that the target does not take."""

    def __init__(
        self, why: str, *, function: tuple[Any, Any] | None = None, may_be_mapped: bool = False
    ) -> None:
        super().__init__(why)
        self.function = function
        """What the function of a rule would have to take and to give; None if no rule can help."""
        self.may_be_mapped = may_be_mapped
        """Whether a mapping for what is there would help."""


def why_of(lost: Sequence[TypeMismatch]) -> str:
    """Why a target does not take what is there, each reason once."""
    return "; ".join(dict.fromkeys(map(str, _general(lost))))


def _general(lost: Sequence[TypeMismatch]) -> list[TypeMismatch]:
    """Without those of subtypes: what helps a type helps them, too."""
    return [each for each in lost if not any(_covers(other, each) for other in lost)]


def _covers(general: TypeMismatch, special: TypeMismatch) -> bool:
    if general.function is None or special.function is None:
        return False
    (above, wanted), (below, also_wanted) = general.function, special.function
    are_classes = isinstance(above, type) and isinstance(below, type)
    return are_classes and above is not below and above in below.__mro__ and wanted == also_wanted


def alternatives(ways: Sequence[str]) -> str:
    """`a, b, or c`."""
    *others, last = ways
    return f"{', '.join(others)}, or {last}" if others else last


def mended_by(
    node: PathNode, name: str, lost: Sequence[TypeMismatch], types: KnownTypes
) -> list[str]:
    """What would bring all of what an attribute holds to the target, not only some of it."""
    found = []
    lost = _general(lost)
    functions = [each.function for each in lost]
    if all(functions):
        forms = dict.fromkeys(functions)
        pattern = pattern_text(node, name, types)
        rules = _rules(pattern, forms, types.shapes(node.met)[name])
        found += [" and ".join(rules)] if rules else []
    if all(each.may_be_mapped for each in lost):
        found.append("a mapping for what it holds")
    return found


def _rules(pattern: str, forms: Iterable[tuple[Any, Any] | None], held: ValueShape) -> list[str]:
    """A rule for all that is there; if only some of its classes do not fit, one for each."""
    given = [each for each in forms if each is not None]
    classes = set(held.all_classes())
    if classes.issuperset(one for one, _ in given) and len(classes) > 1:
        return [
            f"a rule for {pattern}({one.__name__}) with f(x: {one.__name__}) -> {hint_text(other)}"
            for one, other in given
        ]
    if len(given) > 1:
        return []  # one function would have to do it all
    ((one, other),) = given
    return [f"a rule for {pattern} with f(x: {hint_text(one)}) -> {hint_text(other)}"]


def whole_text(mapping: Mapping | None) -> list[str]:
    """A function that makes the whole target, where there is a mapping to do so."""
    if mapping is None:
        return []
    source, target = mapping.source.__name__, mapping.target.__name__
    return [f"context.whole({source}, f) with f(x: {source}) -> {target}"]


def pattern_text(node: PathNode, name: str, types: KnownTypes) -> str:
    """The pattern for an attribute, narrowed where a subtype has what comes next."""
    path = node.path
    text, owner = path.types[0].__name__, path.types[0]
    for attribute, met in zip(path.attributes, path.types[1:], strict=True):
        declared = set(types.shapes(owner)[attribute].all_classes())
        text += f".{attribute}" if met in declared else f".{attribute}({met.__name__})"
        owner = met
    return f"{text}.{name}"
