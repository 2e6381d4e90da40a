"""The rules that units stand for: where both ends of a mapping name one, and not the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.contexts.check.assignability import class_fits
from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.patterns import Pattern, Qualifier
from polycast.contexts.declare.rule_functions import RuleFunction, identity
from polycast.contexts.declare.statements import DIRECTIONS, Rule, SourceLocation
from polycast.contexts.declare.units import NoConversion, conversion, units_in
from polycast.contexts.resolve.attribute_shapes import ValueShape
from polycast.contexts.resolve.priorities import EventPath, strength
from polycast.contexts.resolve.resolution import Resolver, TooManyPaths

if TYPE_CHECKING:
    from polycast.contexts.declare.statements import Direction
    from polycast.contexts.resolve.inheritance import SettledContext
    from polycast.contexts.resolve.resolution import PathNode

__all__ = ["unit_rules"]

_IDENTITY = RuleFunction(identity, Any, Any, "identity")


def unit_rules(settled: SettledContext) -> list[Rule]:
    """Rules for attributes whose unit is another at the other end; findings go to `settled`."""
    held = (shape for cls in settled.types.types for shape in settled.types.shapes(cls).values())
    if not any(units_in(shape.hint) for shape in held):
        return []
    converting = _Converting(settled)
    for direction in DIRECTIONS:
        converting.go(direction)
    return converting.rules()


class _Made(NamedTuple):
    pattern: Pattern
    function: RuleFunction


class _Converting:
    def __init__(self, settled: SettledContext) -> None:
        self._settled, self._types = settled, settled.types
        # What is written, not generated; a rule is made for each path, however many there are.
        self._resolver = Resolver(settled.rules, settled.types, few=None)
        self._made: list[_Made] = []
        self._direction: Direction = "?"
        self._where = ""

    def go(self, direction: Direction) -> None:
        self._direction = direction
        # The general ones first: a type below needs a rule only if it is to be treated otherwise.
        for cls in sorted(self._types.types, key=lambda known: len(known.__mro__)):
            mapping = self._settled.mapping_for(cls, direction)
            by_attribute = mapping is not None and mapping.source not in self._settled.wholes
            if mapping is not None and by_attribute and self._types.has_attributes(cls):
                self._where = mapping.where
                try:
                    self._walk(self._resolver.root(cls), mapping.target)
                except TooManyPaths as error:
                    text = f"{cls.__name__}: {error}, each of which may need its unit converted"
                    self._settled.findings.append(Finding("too-many-paths", text, self._where))

    def rules(self) -> list[Rule]:
        place = SourceLocation(self._settled.name)
        return [Rule(rule.pattern, rule.function, place, generated=True) for rule in self._made]

    def _walk(self, node: PathNode, target: type) -> None:
        given = self._types.shapes(node.met)
        for name, wanted in self._types.shapes(target).items():
            if name in given:
                self._attribute(node, target, name, wanted)
                self._inside(node, name, given[name], wanted)

    def _inside(self, node: PathNode, name: str, shape: ValueShape, wanted: ValueShape) -> None:
        """Go on where what an attribute holds is rebuilt."""
        takes = ValueShape(
            None, tuple(wanted.all_classes()), opaque=wanted.unknown, unknown=wanted.unknown
        )
        for declared in dict.fromkeys(shape.all_classes()):
            for met in sorted(
                self._types.subtypes(declared), key=lambda subtype: len(subtype.__mro__)
            ):
                if not self._types.has_attributes(met) or met in node.path.types:
                    continue
                child = node.child(name, met)
                if child.winner is not None:  # that ends the descent
                    continue
                target = self._target(met, takes)
                if target is not None:
                    self._walk(child, target)

    def _target(self, met: type, takes: ValueShape) -> type | None:
        for mapping in self._settled.mappings_for(met, self._direction):
            if class_fits(mapping.target, takes):
                return None if mapping.source in self._settled.wholes else mapping.target
        return met if class_fits(met, takes) else None

    # -- one attribute -----------------------------------------------------------------------------

    def _attribute(self, node: PathNode, target: type, name: str, wanted: ValueShape) -> None:
        shape = self._types.shapes(node.met)[name]
        units = (units_in(shape.hint), units_in(wanted.hint))
        if not any(units):
            return
        try:
            function = self._function(units, shape, wanted)
        except NoConversion as error:
            self._report(node, target, name, "units-differ", units, str(error))
            function = None
        if function is None:
            if not all(units):
                self._report(node, target, name, "one-unit", units, "")
            function = _IDENTITY
        path = EventPath(node.path.types, node.path.attributes).to(name, _some_class(shape))
        known = self._strongest(path)
        if (known or _IDENTITY) != function:
            self._made.append(_Made(self._pattern(node, name, shape), function))

    def _function(
        self, units: tuple[tuple[str, ...], tuple[str, ...]], shape: ValueShape, wanted: ValueShape
    ) -> RuleFunction | None:
        for names in units:
            if len(names) > 1:
                raise NoConversion(f"an attribute has one unit, not {' and '.join(names)}")
        if not all(units) or units[0] == units[1]:
            return None
        return conversion(units[0][0], units[1][0], shape, wanted)

    def _strongest(self, path: EventPath) -> RuleFunction | None:
        keys = [
            (key, rule.function)
            for rule in self._made
            if (key := strength(rule.pattern, path)) is not None
        ]
        return min(keys, key=lambda pair: pair[0])[1] if keys else None

    def _pattern(self, node: PathNode, name: str, shape: ValueShape) -> Pattern:
        head, qualifiers = node.path.types[0], []
        text, owner = head.__name__, head
        for attribute, met in zip(node.path.attributes, node.path.types[1:], strict=True):
            qualifiers.append(Qualifier(attribute, (met,)))
            declared = set(self._types.shapes(owner)[attribute].all_classes())
            narrow = "" if declared == {met} else f"({met.__name__})"
            text, owner = f"{text}.{attribute}{narrow}", met
        classes = tuple(dict.fromkeys(shape.all_classes())) or (object,)
        qualifiers.append(Qualifier(name, classes))
        return Pattern(head, tuple(qualifiers), f"{text}.{name}")

    def _report(
        self,
        node: PathNode,
        target: type,
        name: str,
        code: str,
        units: tuple[tuple[str, ...], tuple[str, ...]],
        why: str,
    ) -> None:
        shape = self._types.shapes(node.met)[name]
        if any(node.child(name, cls).winner is not None for cls in shape.all_classes()):
            return  # a rule that somebody wrote sees to it
        ends = [
            f"{cls.__name__}.{name} {f'is in {_named(unit)}' if unit else 'has no unit'}"
            for cls, unit in zip((node.met, target), units, strict=True)
        ]
        pattern = self._pattern(node, name, shape).text
        text = f"{ends[0]}, and {ends[1]}"
        if code == "one-unit":
            text += f"; it is copied as it is, unless both have one, or there is a rule {pattern!r}"
        else:
            text += f": {why}; a rule {pattern!r} would say how"
        self._settled.findings.append(Finding(code, text, self._where))


def _named(units: tuple[str, ...]) -> str:
    return " and ".join(units)


def _some_class(shape: ValueShape) -> type:
    return next(shape.all_classes(), object)
