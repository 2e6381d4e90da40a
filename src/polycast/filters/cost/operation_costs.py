"""What operators, methods and functions cost, by their operands' sizes and by what these may be.

A filter from outside calls methods by name, and a name may be the method of any class. So each name
that a built-in value has is judged once, by the worst that it means, and has its line here. A name
that no built-in value has is a getter of an event class; where such a class is not there, it fails
at once.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, TypeVar

from polycast.errors import FilterTooCostlyError
from polycast.filters.cost import amounts
from polycast.filters.cost.amounts import ALL, INT, LIST, NOTHING, TEXT, UNKNOWN, Amount, steps
from polycast.filters.tree import nodes
from polycast.filters.tree.language_registry import language_of

if TYPE_CHECKING:
    from polycast.typesystem.type_expressions import TypeExpression

T = TypeVar("T")


class Method(NamedTuple):
    """What calling it takes, for each byte of what it is given, and how large its result is."""

    steps: float = 0.0
    growth: float = 0.0
    """0: a number, a date, or whether something is so; 1: no larger than what it is given."""
    kind: amounts.ValueKind = ALL


BYTE = 0.25  # steps: searching, comparing, copying
LETTERS = 3.0  # one letter may become three: 'ΐ'.upper()

_EXACT = Method(BYTE, 1.0)
_ASKING = Method(BYTE, 0.0, INT)
_EACH_LETTER = Method(BYTE * 4, 0.0, INT)
_TEXT = Method(BYTE, 1.0, TEXT)
_LETTERS = Method(BYTE * 4, LETTERS, TEXT)
_PARTS = Method(1.0, 1.0, LIST)  # one part may be one letter


def _by_name(rows: Iterable[tuple[str, T]]) -> dict[str, T]:
    return {name: what for names, what in rows for name in names.split()}


METHODS: dict[str, Method] = _by_name(
    (
        # of numbers, dates and times: what they give is as small as they are
        ("bit_count bit_length is_integer total_seconds timestamp toordinal", _ASKING),
        ("weekday isoweekday utcoffset dst startswith endswith rfind rindex", _ASKING),
        ("conjugate date time timetz timetuple utctimetuple isocalendar", _EXACT),
        ("astimezone isoformat ctime tzname canonical radix adjusted", _EXACT),
        ("is_canonical is_finite is_infinite is_nan is_normal is_qnan", _EXACT),
        ("is_signed is_snan is_subnormal is_zero number_class same_quantum", _EXACT),
        ("copy_abs copy_negate copy_sign compare compare_signal", _EXACT),
        ("compare_total compare_total_mag max_mag min_mag max min get", _EXACT),
        # of texts
        ("isalnum isalpha isascii isdecimal isdigit isidentifier islower", _EACH_LETTER),
        ("isnumeric isprintable isspace istitle isupper find index count", _EACH_LETTER),
        ("strip lstrip rstrip removeprefix removesuffix replace", _TEXT),
        ("lower upper casefold capitalize title swapcase", _LETTERS),
        ("partition rpartition", Method(BYTE * 4, 1.0, LIST)),
        ("encode decode", Method(BYTE * 4, 4.0, TEXT)),
        ("hex", Method(BYTE, 3.0, TEXT)),
        # of containers
        ("isdisjoint issubset issuperset", Method(1.0, 0.0, INT)),
        ("union intersection difference symmetric_difference keys values items copy", _PARTS),
        ("split rsplit splitlines", _PARTS),
    )
)

NEEDLES = frozenset({"rfind", "rindex", "rpartition", "rsplit", "strip", "lstrip", "rstrip"})
"""For each letter of the text they go over what they look for: that must be a constant."""

CODECS = ("utf-8", "utf8", "ascii", "latin-1")

_BIG = "may make something much bigger than the event"
_CHANGES = "may change something"
_SLOW = "takes more than a step for each byte"
_MAKES = "makes a value of a text or a number, which is not for a filter from outside"
REFUSED: dict[str, str] = _by_name(
    (
        ("add append clear difference_update discard extend insert intersection_update", _CHANGES),
        ("pop popitem remove reverse setdefault sort symmetric_difference_update", _CHANGES),
        ("update appendleft extendleft move_to_end popleft send subtract throw", _CHANGES),
        ("write writelines truncate", _CHANGES),
        ("as_integer_ratio as_tuple center expandtabs format format_map", _BIG),
        ("join ljust rjust to_bytes translate zfill strftime", _BIG),
        ("exp ln log10 logb sqrt fma remainder_near scaleb shift rotate", _SLOW),
        ("next_minus next_plus next_toward normalize quantize to_eng_string", _SLOW),
        ("logical_and logical_invert logical_or logical_xor", _SLOW),
        ("to_integral to_integral_exact to_integral_value", _SLOW),
        ("combine fromhex fromisocalendar fromisoformat fromordinal fromkeys", _MAKES),
        ("fromtimestamp from_bytes from_float maketrans now strptime", _MAKES),
        ("today utcfromtimestamp utcnow fromutc", _MAKES),
        ("from_number _from_int", _MAKES),  # since Python 3.14
    )
)


# -- functions of other languages ------------------------------------------------------------------


TRUTH = steps(32.0)  # bytes

Work = Callable[["nodes.Applied", Sequence[Amount]], Amount]


class FunctionCost(NamedTuple):
    """What a call takes, by the sizes of its arguments, and what it gives."""

    work: Work
    kind: amounts.ValueKind = INT
    grows: bool = False  # whether its value is as large as its arguments; else it is a truth
    most: Amount | None = None  # how large its value is, whatever its arguments


def whole(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """All of what it is given, once."""
    del node
    return sum(sizes, Amount())


def call_cost(
    node: nodes.Applied, sizes: Sequence[Amount]
) -> tuple[Amount, Amount, amounts.ValueKind]:
    """What calling a function takes, how large its value is, and what that may be."""
    cost = language_of(node).costs[node.name]
    size = cost.most or (sum(sizes, TRUTH) if cost.grows else TRUTH)
    return cost.work(node, sizes), size, cost.kind


# -- operators -------------------------------------------------------------------------------------


SMALL = steps(32.0)  # bytes of a number, a date, a truth
DIGITS = 1 / 1024  # steps for each two bytes of which every digit meets every digit
AT_ONCE = 1 / 32  # steps for a byte of two texts, numbers or members that are compared
SCALARS = (str, bytes, int, float, enum.Enum, type(None), datetime.date, datetime.time, uuid.UUID)
MEETING = frozenset({"*", "//", "%", "**"})  # of whole numbers: each digit meets each
NUMBERS = "numbers, as (event.n - 0) % 2, or a field that is declared as one"
_METHODS_SHOWN = (
    "lower, upper, strip, startswith, endswith, find, count, split and the other methods "
    "that take a step for each byte"
)


class Judged(NamedTuple):
    """What evaluating a node takes, how large its value is, and what that may be."""

    cost: Amount
    size: Amount
    kind: amounts.ValueKind
    type: TypeExpression | None = None


def total(several: object) -> Amount:
    """The sum of amounts."""
    return sum(several, NOTHING)  # type: ignore[call-overload, no-any-return]


def either(parts: list[Judged]) -> amounts.ValueKind:
    """What one of several values may be."""
    found = amounts.ValueKind(0)
    for part in parts:
        found |= part.kind
    return found


def computed(kind: amounts.ValueKind) -> amounts.ValueKind:
    """What a sign gives: it does not take texts and lists."""
    return kind & ~(TEXT | LIST) or amounts.REAL


def computed_by(
    operator: str, left: amounts.ValueKind, right: amounts.ValueKind
) -> amounts.ValueKind:
    """What an operator gives, by what its operands may be."""
    both = left | right
    if operator == "/":
        return amounts.REAL | (
            amounts.DECIMAL if amounts.DECIMAL in both or UNKNOWN in both else amounts.REAL
        )
    if operator in ("+", "*"):
        return both
    return computed(both)


def repeated(node: nodes.Arithmetic, left: Judged, right: Judged) -> Amount | None:
    """How large something becomes that may be repeated; None if both are numbers."""
    for count, what, side in ((left, right, node.left), (right, left, node.right)):
        repeats = INT in count.kind and (TEXT | LIST) & what.kind
        if not repeats and not (INT in count.kind and UNKNOWN in what.kind):
            continue
        if isinstance(side, nodes.Constant) and isinstance(side.value, int):
            return what.size.times(max(1, abs(side.value))) + SMALL
        if repeats:
            why = "a text or list times a number may become of any size"
            accepted = "numbers: fields that are declared as such, or with a float: n * 1.0 * m"
            raise FilterTooCostlyError("*", why, accepted=accepted)
    return None


def power_of(node: nodes.Node) -> int:
    """The exponent, which must be a constant."""
    value = node.value if isinstance(node, nodes.Constant) else None
    if type(value) is not int:
        why = "it may make a number of any size"
        raise FilterTooCostlyError("**", why, accepted="a small constant")
    return max(1, abs(value))


def digits(operator: str, left: Judged, right: Judged, size: Amount) -> Amount:
    """Long numbers: all digits of one meet all digits of the other, which is quadratic.

    A Decimal meets an int by turning it into one, at the same cost.
    """
    mixed = _mixed(left, right)
    whole = _is_whole(left) and _is_whole(right) and operator in MEETING
    several = operator == "**" or not (left.size.is_constant or right.size.is_constant)
    if mixed or (whole and several):
        return size.squared().times(DIGITS)
    return NOTHING


def _is_whole(value: Judged) -> bool:
    return bool((INT | UNKNOWN) & value.kind)


def _mixed(left: Judged, right: Judged) -> bool:
    one = amounts.DECIMAL in left.kind and INT in right.kind and not right.size.is_constant
    return one or (amounts.DECIMAL in right.kind and INT in left.kind and not left.size.is_constant)


def met_at_once(sign: str, left: nodes.Node, right: nodes.Node) -> Amount | None:
    """What comparing takes with constants that are no containers, or with a few of them."""
    if sign in ("is", "is not"):
        return NOTHING
    if sign not in ("in", "not in"):
        alone = [_once(part.value) for part in (left, right) if _is_alone(part)]
        return min(alone, key=lambda amount: amount.constant, default=None)
    several = right.value if isinstance(right, nodes.Constant) else None
    if isinstance(right, nodes.Display) and all(map(_is_alone, right.elements)):
        several = tuple(part.value for part in right.elements)  # type: ignore[attr-defined]
    if isinstance(several, list | tuple) and all(map(_is_scalar, several)):
        return total(map(_once, several))
    return None


def _is_alone(node: nodes.Node) -> TypeGuard[nodes.Constant]:
    return isinstance(node, nodes.Constant) and _is_scalar(node.value)


def _is_scalar(value: object) -> bool:
    """Whether comparing with it looks at no more bytes than it has itself, many of them at once."""
    return isinstance(value, SCALARS) and not isinstance(value, decimal.Decimal)


def _once(value: object) -> Amount:
    return steps(1.0 + size_of(value) * AT_ONCE)


def comparing(sign: str, left: Judged, right: Judged) -> Amount:
    """What one comparison takes."""
    if sign in ("is", "is not"):
        return NOTHING
    if sign in ("in", "not in"):
        return right.size + hashed(right, left)
    met = (left.size + right.size).squared().times(DIGITS) if _mixed(left, right) else NOTHING
    return amounts.one_of(left.size, right.size).times(1.0) + met


def hashed(container: Judged, key: Judged) -> Amount:
    """Sets and dicts take the hash of what is looked up; texts keep theirs."""
    looked_up = amounts.OTHER in container.kind
    return key.size.times(BYTE) if looked_up and key.kind & ~TEXT else NOTHING


def check_method(name: str, parts: tuple[nodes.Node, ...]) -> None:
    """Refuse a method that changes something, or whose cost has no bound."""
    constants = [part.value for part in parts[1:] if isinstance(part, nodes.Constant)]
    known = len(constants) == len(parts) - 1
    if name in REFUSED:
        raise FilterTooCostlyError(f"{name}()", REFUSED[name], accepted=_METHODS_SHOWN)
    if name in ("encode", "decode"):
        plain = not constants or (len(constants) == 1 and constants[0] in CODECS)
        if not known or not plain:
            why = "other codecs take more than a step for each letter"
            shown = ", ".join(f"{name}({codec!r})" for codec in CODECS)
            raise FilterTooCostlyError(f"{name}()", why, accepted=shown)
    if name == "replace" and not _shrinks(constants):
        why = "it may make something much bigger than the event"
        accepted = "constants, of which the second is no longer than the first"
        raise FilterTooCostlyError("replace()", why, accepted=accepted)
    if name in NEEDLES and not known:
        why = "it goes over the text again for each letter of what it looks for"
        raise FilterTooCostlyError(f"{name}()", why, accepted="a constant to look for")


def method_work(name: str, method: Method, judged: list[Judged]) -> Amount:
    """What calling a method takes, beyond its operands."""
    of, *given = judged
    if name in ("startswith", "endswith") and given:
        return given[0].size.times(method.steps)
    if name in NEEDLES and given:
        return of.size.times(method.steps * max(1.0, given[0].size.constant))
    return total(operand.size for operand in judged).times(method.steps)


def method_result(method: Method, judged: list[Judged]) -> tuple[Amount, amounts.ValueKind]:
    """How large the value of a method is, and what that may be."""
    if not method.growth:
        return SMALL, method.kind
    size = total(operand.size for operand in judged).times(method.growth) + SMALL
    unknown = method.kind is ALL and any(UNKNOWN in operand.kind for operand in judged)
    return size, UNKNOWN if unknown else method.kind


def _shrinks(constants: list[object]) -> bool:
    """Whether what is put in is a constant, no longer than the constant it replaces."""
    match constants:
        case [(str() | bytes()) as old, (str() | bytes()) as new, *_]:
            return bool(old) and len(new) <= len(old)
    return False


def size_of(value: object) -> float:
    """Bytes of a constant, about as it would be in an event."""
    if isinstance(value, str | bytes):
        return float(4 * len(value) + 1)
    if isinstance(value, int):
        return float(value.bit_length() // 8 + 8)
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(size_of, value)) + len(value) + 1.0
    return 32.0
