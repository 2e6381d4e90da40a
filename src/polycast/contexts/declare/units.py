"""Units of attributes: numbers are converted where the ends of a mapping name different ones."""

from __future__ import annotations

import functools
import operator
import typing
from dataclasses import dataclass
from decimal import Context as Arithmetic
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typing_extensions

from polycast.contexts.check.assignability import class_fits
from polycast.contexts.check.findings import Finding
from polycast.contexts.declare.patterns import Pattern, Qualifier
from polycast.contexts.declare.rule_functions import RuleFunction, identity
from polycast.contexts.declare.statements import DIRECTIONS, Direction, Rule, SourceLocation
from polycast.contexts.resolve.attribute_shapes import ValueShape
from polycast.contexts.resolve.resolution import (
    EventPath,
    PathNode,
    Resolver,
    TooManyPaths,
    strength,
)
from polycast.errors import BadContextError, NotAvailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.contexts.resolve.inheritance import SettledContext

    _Units = tuple[tuple[str, ...], tuple[str, ...]]  # of the source, and of the target

_NUMBERS: tuple[type, ...] = (int, float, Decimal)
_EXACT = Arithmetic(prec=400)
Number = int | float | Decimal


@dataclass(frozen=True)
class Unit:
    """The unit of an attribute: `weight: Annotated[float, pc.Unit("kg")]`."""

    name: str

    def __post_init__(self) -> None:
        given: object = self.name
        if not isinstance(given, str) or not given.strip():
            raise BadContextError("a unit", given, accepted="its name, such as 'kg' or 'USD'")

    def __repr__(self) -> str:
        return f"Unit({self.name!r})"


class NoConversion(Exception):
    """Numbers cannot be converted from one unit to another."""


@dataclass(frozen=True)
class Scaling:
    """`x * factor + offset`: the conversion between two units, decided ahead."""

    source: str
    target: str
    factor: Number
    offset: Number

    def __call__(self, value: Any) -> Any:
        """A number in the other unit."""
        scaled = value * self.factor
        return scaled + self.offset if self.offset else scaled

    def __str__(self) -> str:
        return f"{self.source} to {self.target}"


def units_in(hint: Any) -> tuple[str, ...]:
    """The units that an annotation names, in containers and unions too."""
    units: dict[str, None] = {}
    waiting: list[Any] = [hint]
    aliases: list[Any] = []
    for part in waiting:
        if typing.get_origin(part) is typing.Annotated:
            metadata = part.__metadata__
            units.update({note.name: None for note in metadata if isinstance(note, Unit)})
            waiting.append(part.__origin__)
        elif stands_for := _stands_for(part):
            if not any(part is alias for alias in aliases):  # aliases may name each other
                aliases.append(part)
                waiting += stands_for
        else:
            waiting += typing.get_args(part)
    return tuple(units)


def _stands_for(hint: Any) -> tuple[Any, ...]:
    """The annotation behind an alias or a NewType."""
    if isinstance(hint, typing_extensions.TypeAliasType):
        return (hint.__value__,)
    if isinstance(hint, typing.NewType):
        return (hint.__supertype__,)
    return ()


def conversion(source: str, target: str, given: ValueShape, wanted: ValueShape) -> RuleFunction:
    """The function that converts an attribute to another unit; `NoConversion` if there is none."""
    classes = _numbers(given)
    kind = _arithmetic(classes, _numbers(wanted))
    call = _scaling(source, target, kind)
    argument: Any = functools.reduce(operator.or_, sorted(classes, key=_NUMBERS.index))
    return RuleFunction(call, argument, kind, str(call))


@functools.cache
def _scaling(source: str, target: str, kind: type) -> Scaling:
    factor, offset = _linear(source, target)
    if kind is Decimal:
        return Scaling(source, target, _decimal(factor), _decimal(offset))
    if kind is float:
        return Scaling(source, target, float(factor), float(offset))
    if factor.denominator != 1 or offset.denominator != 1:
        why = f"from {source} to {target} a whole number would not stay one, and int is wanted"
        raise NoConversion(why)
    return Scaling(source, target, int(factor), int(offset))


def _arithmetic(given: set[type], wanted: set[type]) -> type:
    """The type of numbers to calculate with."""
    if Decimal in given and float in given:
        raise NoConversion("float and Decimal are not reckoned with together")
    if Decimal in given or (Decimal in wanted and given == {int}):
        return Decimal
    return int if given == {int} and wanted == {int} else float


def _numbers(shape: ValueShape) -> set[type]:
    numbers: set[type] = set()
    for cls in shape.all_classes():
        base = next((number for number in _NUMBERS if issubclass(cls, number)), None)
        if base is None:
            raise NoConversion(f"{cls.__name__} is no number; int, float and Decimal are converted")
        numbers.add(base)
    if not numbers:
        raise NoConversion("nobody knows what it holds; int, float and Decimal are converted")
    return numbers


def _decimal(number: Fraction) -> Decimal:
    quotient = _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
    if Fraction(quotient) != number:
        why = f"the factor {number} has no end as a Decimal, so it would be rounded"
        raise NoConversion(why)
    return quotient.normalize(_EXACT)


@functools.cache
def _linear(source: str, target: str) -> tuple[Fraction, Fraction]:
    """The factor and the offset between two units, exactly."""
    pint, registry = _registry()
    for name in (source, target):
        try:
            registry.Unit(name)
        except Exception:  # it parses names, and says in many ways that it cannot
            raise NoConversion(f"{name!r} is no unit that pint knows") from None
    try:
        at = [registry.Quantity(Fraction(x), source).to(target).magnitude for x in range(3)]
        factor, offset = Fraction(at[1] - at[0]), Fraction(at[0])
    except pint.DimensionalityError as error:
        kinds = f"{source} is {error.dim1 or '[]'}, {target} {error.dim2 or '[]'}"
        raise NoConversion(" ".join(kinds.replace("(", "").replace(")", "").split())) from None
    except Exception as error:  # logarithms, for instance
        raise NoConversion(f"pint does not convert them exactly ({error})") from None
    if 2 * factor + offset != at[2]:
        raise NoConversion("one is no multiple of the other")
    return factor, offset


@functools.cache
def _registry() -> tuple[Any, Any]:
    try:
        import pint
    except ImportError:
        raise NotAvailableError(
            "conversion of units",
            why="pint is not installed",
            instead="Install it: pip install 'polycast[units]'; or write the rules by hand",
        ) from None
    return pint, pint.UnitRegistry(non_int_type=Fraction)


# -- rules where the ends of a mapping name different units ----------------------------------------

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
