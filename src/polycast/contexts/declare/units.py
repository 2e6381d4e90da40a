"""Units of attributes, and the conversion of numbers between them."""

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

from polycast.contexts.declare.rule_functions import RuleFunction
from polycast.errors import BadContextError, NotAvailableError

if TYPE_CHECKING:
    from polycast.contexts.resolve.attribute_shapes import ValueShape

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
