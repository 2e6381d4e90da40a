"""What the methods of built-in values cost: every one of them has its line here.

A filter from outside calls methods by name, and a name may be the method of any class. So each name
that a built-in value has is judged once, by the worst that it means. A name that no built-in value
has is a getter of an event class; where such a class is not there, it fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from polycast.filters.cost.amounts import Amount, steps
from polycast.filters.cost.value_kinds import ALL, INT, LIST, TEXT, ValueKind
from polycast.filters.tree.language_registry import language_of

if TYPE_CHECKING:
    from polycast.filters.tree import nodes


T = TypeVar("T")


class Method(NamedTuple):
    """What calling it takes, for each byte of what it is given, and how large its result is."""

    steps: float = 0.0
    growth: float = 0.0
    """0: a number, a date, or whether something is so; 1: no larger than what it is given."""
    kind: ValueKind = ALL


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
    kind: ValueKind = INT
    grows: bool = False  # whether its value is as large as its arguments; else it is a truth
    most: Amount | None = None  # how large its value is, whatever its arguments


def whole(node: nodes.Applied, sizes: Sequence[Amount]) -> Amount:
    """All of what it is given, once."""
    del node
    return sum(sizes, Amount())


def call_cost(node: nodes.Applied, sizes: Sequence[Amount]) -> tuple[Amount, Amount, ValueKind]:
    """What calling a function takes, how large its value is, and what that may be."""
    cost = language_of(node).costs[node.name]
    size = cost.most or (sum(sizes, TRUTH) if cost.grows else TRUTH)
    return cost.work(node, sizes), size, cost.kind
