"""Values that a target does not accept: why, and what would mend it."""

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


class TypeMismatch(Exception):
    """The target does not accept a value."""

    def __init__(
        self, why: str, *, function: tuple[Any, Any] | None = None, may_be_mapped: bool = False
    ) -> None:
        super().__init__(why)
        self.function = function
        """The argument and result of a rule that would help; None if no rule can."""
        self.may_be_mapped = may_be_mapped
        """Whether a mapping for the type of the value would help."""


def why_of(lost: Sequence[TypeMismatch]) -> str:
    """Why a target does not accept the values, each reason once."""
    return "; ".join(dict.fromkeys(map(str, _general(lost))))


def _general(lost: Sequence[TypeMismatch]) -> list[TypeMismatch]:
    """Without those of subtypes, which are mended with their supertype."""
    return [mismatch for mismatch in lost if not any(_covers(other, mismatch) for other in lost)]


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
    """What would bring everything that an attribute holds to the target."""
    ways = []
    lost = _general(lost)
    functions = [mismatch.function for mismatch in lost]
    if all(functions):
        forms = dict.fromkeys(functions)
        pattern = pattern_text(node, name, types)
        rules = _rules(pattern, forms, types.shapes(node.met)[name])
        ways += [" and ".join(rules)] if rules else []
    if all(mismatch.may_be_mapped for mismatch in lost):
        ways.append("a mapping for what it holds")
    return ways


def _rules(pattern: str, forms: Iterable[tuple[Any, Any] | None], held: ValueShape) -> list[str]:
    """One rule for everything held; if only some of its classes do not fit, one for each."""
    given = [form for form in forms if form is not None]
    classes = set(held.all_classes())
    if classes.issuperset(one for one, _ in given) and len(classes) > 1:
        return [
            f"a rule for {pattern}({one.__name__}) with f(x: {one.__name__}) -> {hint_text(other)}"
            for one, other in given
        ]
    if len(given) > 1:
        return []  # one function would have to convert all of them
    ((one, other),) = given
    return [f"a rule for {pattern} with f(x: {hint_text(one)}) -> {hint_text(other)}"]


def whole_text(mapping: Mapping | None) -> list[str]:
    """The statement of a function for the whole target, if there is a mapping."""
    if mapping is None:
        return []
    source, target = mapping.source.__name__, mapping.target.__name__
    return [f"context.whole({source}, f) with f(x: {source}) -> {target}"]


def pattern_text(node: PathNode, name: str, types: KnownTypes) -> str:
    """The pattern for an attribute, narrowed where only a subtype has the next one."""
    path = node.path
    text, owner = path.types[0].__name__, path.types[0]
    for attribute, met in zip(path.attributes, path.types[1:], strict=True):
        declared = set(types.shapes(owner)[attribute].all_classes())
        text += f".{attribute}" if met in declared else f".{attribute}({met.__name__})"
        owner = met
    return f"{text}.{name}"
