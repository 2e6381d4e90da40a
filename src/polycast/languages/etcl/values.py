"""Simple values in ETCL: their kinds, strict comparison, exact arithmetic, what may be looked up.

What does not go together is an error, which no `!=` and no `not` turns into true. An index looks up
values among the constants of strict comparisons; others do not compare, so that nothing is true of
them, and values that compare in their own way raise `Unindexable`.
"""

from __future__ import annotations

import decimal
import enum
import numbers
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from polycast.filters.normal_form import ordered_domains
from polycast.filters.normal_form.ordered_domains import ABSENT, Domain, Unindexable
from polycast.filters.tree import nodes

MOST_BITS = 1 << 16  # of a product: a filter makes nothing much bigger than the event
NUMBERS = frozenset({int, float, bool})
WHOLE = frozenset({int, bool})
TEXTS = frozenset({str})
SEQUENCES = (list, tuple)
SETS = (set, frozenset)


class AbsentError(LookupError):
    """Raised where a path leads nowhere: a member, element or property is absent or inactive."""


class Mismatch(TypeError):
    """Raised for values that an operator does not take, or that have no such part."""


class Character(str):
    """A literal of one character, which counts as a number where one is wanted; or a union's tag.

    An event's own text never does, however short it is.
    """

    __slots__ = ()


class EnumLabel:
    """The label of a member of an enumeration, written as a bare name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


LABELLED = (enum.Enum, EnumLabel)


def character(text: str, /) -> Character:
    """The literal `'H'`."""
    if type(text) is not str or len(text) != 1:
        raise Mismatch(f"{text!r:.40} is not one character")
    return Character(text)


def label(name: str, /) -> EnumLabel:
    """The bare name of a member of an enumeration."""
    if type(name) is not str:
        raise Mismatch(f"{name!r:.40} is no label")
    return EnumLabel(name)


# -- kinds -----------------------------------------------------------------------------------------


def number_of(value: Any) -> Any:
    """The number that a value counts as, or None."""
    kind = type(value)
    if kind in NUMBERS or kind is Decimal:
        return value
    if kind is Character:
        return ord(value)
    if isinstance(value, enum.Enum) or not isinstance(value, numbers.Number):
        return None
    if isinstance(value, int):
        return int.__add__(value, 0)
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, Decimal):
        return Decimal(value)
    if isinstance(value, numbers.Integral):  # numpy's
        return int(value)
    return float(value) if kind.__module__ == "numpy" and isinstance(value, numbers.Real) else None


def text_of(value: Any) -> str | None:
    """The text that a value is, or None."""
    if type(value) is str:
        return value
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return str.__getitem__(value, slice(None))
    return None


def is_simple(value: Any) -> bool:
    """Whether a value is a number, a text, or of an enumeration."""
    labelled = isinstance(value, LABELLED)
    return labelled or text_of(value) is not None or number_of(value) is not None


def _number(value: Any) -> Any:
    found = number_of(value)
    if found is None:
        raise Mismatch(f"a {type(value).__name__} is no number")
    return found


def _whole(value: Any) -> int:
    found = _number(value)
    if type(found) not in WHOLE:
        raise Mismatch(f"a {type(value).__name__} is no whole number")
    return int(found)


def _text(value: Any) -> str:
    found = text_of(value)
    if found is None:
        raise Mismatch(f"a {type(value).__name__} is no string")
    return found


def truth(value: Any, /) -> bool:
    """The value of a component where a boolean is wanted: nothing else counts as one."""
    if type(value) is bool:
        return value
    raise Mismatch(f"a {type(value).__name__} is no boolean")


# -- comparisons -----------------------------------------------------------------------------------


def _pair(left: Any, right: Any) -> tuple[Any, Any]:
    """Two values as what they are compared as: both texts, or both numbers."""
    texts = text_of(left), text_of(right)
    if None not in texts:
        return texts
    several = number_of(left), number_of(right)
    if several[0] is None or several[1] is None:
        kinds = f"{type(left).__name__} and {type(right).__name__}"
        raise Mismatch(f"{kinds} do not compare")
    return several


def _same_label(left: Any, right: Any) -> bool:
    if isinstance(left, enum.Enum) and isinstance(right, enum.Enum):
        if type(left) is not type(right):
            raise Mismatch(f"{type(left).__name__} and {type(right).__name__} do not compare")
        return left is right
    sides = left, right
    if not all(isinstance(side, LABELLED) for side in sides):
        raise Mismatch(f"{type(left).__name__} and {type(right).__name__} do not compare")
    return bool(left.name == right.name)


def equal(left: Any, right: Any, /) -> bool:
    """`left == right`."""
    if type(left) in NUMBERS and type(right) in NUMBERS:
        return bool(left == right)
    if type(left) is str is type(right):
        return bool(left == right)
    if isinstance(left, LABELLED) or isinstance(right, LABELLED):
        return _same_label(left, right)
    one, other = _pair(left, right)
    return bool(one == other)


def differs(left: Any, right: Any, /) -> bool:
    """`left != right`: what does not compare is not different, but an error."""
    return not equal(left, right)


def _ordered(compare: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any, /) -> bool:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return bool(compare(left, right))
        if type(left) is str is type(right):
            return bool(compare(left, right))
        return bool(compare(*_pair(left, right)))

    ordered.__qualname__ = ordered.__name__ = name
    return ordered


ORDERED = {"less": "<", "at_most": "<=", "greater": ">", "at_least": ">="}
less = _ordered(operator.lt, "less")
at_most = _ordered(operator.le, "at_most")
greater = _ordered(operator.gt, "greater")
at_least = _ordered(operator.ge, "at_least")


def contains(part: Any, whole: Any, /) -> bool:
    """`part ~ whole`: the left text stands somewhere in the right one."""
    part, whole = _text(part), _text(whole)
    return part in whole


def within(value: Any, several: Any, /) -> bool:
    """`value in several`: an element of another kind is an error, none at all is no match."""
    if type(value) is str and type(several) in SEQUENCES and TEXTS.issuperset(map(type, several)):
        return value in several  # the usual case: all of them compare
    if not is_simple(value):
        raise Mismatch(f"a {type(value).__name__} is no simple value")
    if isinstance(several, SETS):  # in no order: whatever does not compare is an error
        return True in [equal(value, item) for item in several]
    return any(equal(value, element) for element in elements_of(several))


def elements_of(value: Any) -> Any:
    """The elements of an array or sequence."""
    if isinstance(value, SEQUENCES):
        return value
    found = getattr(type(value), "__etcl_elements__", None)
    if found is None:
        raise Mismatch(f"a {type(value).__name__} is no sequence")
    return found(value)


# -- arithmetic ------------------------------------------------------------------------------------


def _operands(left: Any, right: Any) -> tuple[Any, Any]:
    """Two numbers that can be computed with: a Decimal meets a float as a float."""
    left, right = _number(left), _number(right)
    if type(left) is Decimal and type(right) is float:
        return float(left), right
    if type(right) is Decimal and type(left) is float:
        return left, float(right)
    return left, right


def plus(left: Any, right: Any, /) -> Any:
    """`left + right`."""
    left, right = _operands(left, right)
    return left + right


def minus(left: Any, right: Any, /) -> Any:
    """`left - right`."""
    left, right = _operands(left, right)
    return left - right


def times(left: Any, right: Any, /) -> Any:
    """`left * right`, exact for whole numbers of any sensible size."""
    left, right = _operands(left, right)
    if type(left) in WHOLE and type(right) in WHOLE:
        bits = int(left).bit_length() + int(right).bit_length()
        if bits > MOST_BITS:
            raise OverflowError(f"a product of more than {MOST_BITS} bits")
    return left * right


def divided(left: Any, right: Any, /) -> Any:
    """`left / right`: whole numbers are cut towards zero; zero on the right is an error."""
    left, right = _operands(left, right)
    if type(left) in WHOLE and type(right) in WHOLE:
        found = abs(left) // abs(right)
        return found if (left < 0) == (right < 0) else -found
    return left / right


def remainder(left: Any, right: Any, /) -> int:
    """`left % right` of whole numbers: what division leaves, with the sign of the left one."""
    whole, by = _whole(left), _whole(right)
    found = abs(whole) % abs(by)
    return -found if whole < 0 else found


# -- wildcards -------------------------------------------------------------------------------------


def fits(name: str, pattern: str, /) -> bool:
    """Whether a name is one that a pattern means: `*` is any characters, also none."""
    if not isinstance(name, str):
        raise TypeError("a name is a text")
    first, *middle, last = pattern.split("*") if "*" in pattern else (pattern, "")
    if "*" not in pattern:
        return name == pattern
    if len(name) < len(first) + len(last) or not name.startswith(first):
        return False
    if not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:  # the earliest place leaves most for the others
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


# -- which values may be looked up among constants -------------------------------------------------


class _Strict(Domain):
    """Values that compare with each other and with nothing else; not those of an enumeration."""

    def coerce(self, value: Any) -> Any:
        kind = type(value)
        if kind in self.exact and (self._usable is None or self._usable(value)):
            return value
        if kind in self.never or issubclass(kind, enum.Enum):
            return ABSENT
        raise Unindexable


class _Labels(_Strict):
    """Members of enumerations, by their names."""

    def coerce(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return value.name if type(value.name) is str else ABSENT
        return super().coerce(value)


class _Characters(_Strict):
    """Texts, and the numbers of characters as these characters."""

    def coerce(self, value: Any) -> Any:
        if type(value) not in (int, float, bool):
            return super().coerce(value)
        whole = value == value and abs(value) <= 0x10FFFF and value == int(value)
        return chr(int(value)) if whole and value >= 0 else ""  # nothing that is one character


STRICT_NUMBERS, STRICT_BIG_NUMBERS = (
    _Strict(
        name,
        (int, float, bool, decimal.Decimal),
        fast=(float, int),
        strange=(decimal.Decimal,),
        numeric=True,
        usable=ordered_domains.is_comparable,
    )
    for name in ("strict number", "strict big number")
)
STRICT_TEXTS = _Strict("strict text", (str,))
BOOLEANS = _Strict("strict boolean", (bool,))
CHARACTERS = _Characters("character", (str,), strange=(decimal.Decimal,))
LABELS = _Labels("label", (), fast=())


def constant_of(node: nodes.Node) -> tuple[Domain, Any] | None:
    """The domain of a literal, and the literal as it stands there; None if there is none."""
    match node:
        case nodes.Constant(value) if type(value) is str:
            return STRICT_TEXTS, value
        case nodes.Constant(value) if type(value) in (bool, int, float) and value == value:
            big = type(value) is int and abs(value) > ordered_domains.SMALL
            return (STRICT_BIG_NUMBERS if big else STRICT_NUMBERS), value
        case nodes.Applied("etcl", "character", (nodes.Constant(value),)):
            return (CHARACTERS, value) if type(value) is str and len(value) == 1 else None
        case nodes.Applied("etcl", "label", (nodes.Constant(value),)):
            return (LABELS, value) if type(value) is str else None
    return None
