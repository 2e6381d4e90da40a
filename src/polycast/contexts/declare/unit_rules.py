"""The rules that units stand for: where the ends of a mapping name different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.contexts.check.assignability import class_fits
from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.patterns import Pattern, Qualifier
from polycast.contexts.declare.rule_functions import RuleFunction, identity
from polycast.contexts.declare.statements import DIRECTIONS, Rule, SourceLocation
from polycast.contexts.declare.units import NoConversion, conversion, units_in
from polycast.contexts.resolve.attribute_shapes import ValueShape
from polycast.contexts.resolve.priorities import strength
from polycast.contexts.resolve.resolution import Resolver, TooManyPaths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.contexts.declare.statements import Direction
    from polycast.contexts.resolve.inheritance import SettledContext
    from polycast.contexts.resolve.priorities import EventPath
    from polycast.contexts.resolve.resolution import PathNode

    _Units = tuple[tuple[str, ...], tuple[str, ...]]  # of the source, and of the target

_IDENTITY = RuleFunction(identity, Any, Any, "identity")


def unit_rules(settled: SettledContext) -> list[Rule]:
    """Rules for attributes whose unit differs in the target; findings go to `settled`."""
    held = (shape for cls in settled.types.types for shape in settled.types.shapes(cls).values())
    if not any(units_in(shape.hint) for shape in held):
        return []
    generated = _UnitRules(settled)
    for direction in DIRECTIONS:
        generated.add(direction)
    return generated.rules


class _UnitRules:
    def __init__(self, settled: SettledContext) -> None:
        self._settled, self._types = settled, settled.types
        # With the written rules only; however many paths there are, each may get a rule.
        self._resolver = Resolver(settled.rules, settled.types, few=None)
        self.rules: list[Rule] = []
        self._direction: Direction = "?"
        self._where = ""

    def add(self, direction: Direction) -> None:
        """Add the rules of one direction."""
        self._direction = direction
        # Supertypes first: a subtype needs a rule of its own only if it differs.
        for cls in _supertypes_first(self._types.types):
            mapping = self._settled.mapping_for(cls, direction)
            by_attribute = mapping is not None and mapping.source not in self._settled.wholes
            if mapping is not None and by_attribute and self._types.has_attributes(cls):
                self._where = mapping.where
                try:
                    self._walk(self._resolver.root(cls), mapping.target)
                except TooManyPaths as error:
                    text = f"{cls.__name__}: {error}, each of which may need its unit converted"
                    self._settled.findings.append(Finding("too-many-paths", text, self._where))

    def _walk(self, node: PathNode, target: type) -> None:
        given = self._types.shapes(node.met)
        for name, wanted in self._types.shapes(target).items():
            if name in given:
                self._attribute(node, target, name, wanted)
                self._inside(node, name, given[name], wanted)

    def _inside(self, node: PathNode, name: str, shape: ValueShape, wanted: ValueShape) -> None:
        """Go on inside the objects that an attribute holds."""
        takes = ValueShape(
            None, tuple(wanted.all_classes()), opaque=wanted.unknown, unknown=wanted.unknown
        )
        for declared in dict.fromkeys(shape.all_classes()):
            for met in _supertypes_first(self._types.subtypes(declared)):
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
            self._report(node, target, name, units, error)
            function = None
        if function is None:
            if not all(units):
                self._report(node, target, name, units, None)
            function = _IDENTITY
        known = self._strongest(node.path.to(name, next(shape.all_classes(), object)))
        if (known or _IDENTITY) != function:
            pattern, place = self._pattern(node, name, shape), SourceLocation(self._settled.name)
            self.rules.append(Rule(pattern, function, place, generated=True))

    def _function(
        self, units: _Units, shape: ValueShape, wanted: ValueShape
    ) -> RuleFunction | None:
        for names in units:
            if len(names) > 1:
                raise NoConversion(f"an attribute has one unit, not {_named(names)}")
        if not all(units) or units[0] == units[1]:
            return None
        return conversion(units[0][0], units[1][0], shape, wanted)

    def _strongest(self, path: EventPath) -> RuleFunction | None:
        keys = [
            (key, rule.function)
            for rule in self.rules
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
        self, node: PathNode, target: type, name: str, units: _Units, error: NoConversion | None
    ) -> None:
        shape = self._types.shapes(node.met)[name]
        if any(node.child(name, cls).winner is not None for cls in shape.all_classes()):
            return  # a written rule converts it
        ends = [
            f"{cls.__name__}.{name} {f'is in {_named(unit)}' if unit else 'has no unit'}"
            for cls, unit in zip((node.met, target), units, strict=True)
        ]
        pattern = self._pattern(node, name, shape).text
        text = f"{ends[0]}, and {ends[1]}"
        if error is None:
            code = "one-unit"
            text += f"; it is copied as it is, unless both have one, or there is a rule {pattern!r}"
        else:
            code = "units-differ"
            text += f": {error}; a rule {pattern!r} would say how"
        self._settled.findings.append(Finding(code, text, self._where))


def _named(units: tuple[str, ...]) -> str:
    return " and ".join(units)


def _supertypes_first(types: Iterable[type]) -> list[type]:
    return sorted(types, key=lambda cls: len(cls.__mro__))
