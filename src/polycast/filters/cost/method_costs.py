"""What the methods of built-in values cost: every one of them has its line here.

A filter from outside calls methods by name, and a name may be the method of any class. So each name
that a built-in value has is judged once, by the worst that it means. A name that no built-in value
has is a getter of an event class; where such a class is not there, it fails at once.
"""

from __future__ import annotations

from typing import NamedTuple

from polycast.filters.cost.value_kinds import ALL, INT, LIST, TEXT, ValueKind

__all__ = ["CODECS", "METHODS", "NEEDLES", "REFUSED", "Method"]


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
_TEXT = Method(BYTE, 1.0, TEXT)
_LETTERS = Method(BYTE * 4, LETTERS, TEXT)
_PARTS = Method(1.0, 1.0, LIST)  # one part may be one letter

METHODS: dict[str, Method] = {
    # of numbers, dates and times: what they give is as small as they are
    **dict.fromkeys(
        (
            *("bit_count", "bit_length", "is_integer", "total_seconds", "timestamp", "toordinal"),
            *("weekday", "isoweekday", "utcoffset", "dst"),
        ),
        Method(BYTE, 0.0, INT),
    ),
    **dict.fromkeys(
        (
            *("conjugate", "date", "time", "timetz", "timetuple", "utctimetuple", "isocalendar"),
            *("astimezone", "isoformat", "ctime", "tzname", "canonical", "radix", "adjusted"),
            *("is_canonical", "is_finite", "is_infinite", "is_nan", "is_normal", "is_qnan"),
            *("is_signed", "is_snan", "is_subnormal", "is_zero", "number_class", "same_quantum"),
            *("copy_abs", "copy_negate", "copy_sign", "compare", "compare_signal"),
            *("compare_total", "compare_total_mag", "max_mag", "min_mag", "max", "min"),
        ),
        _EXACT,
    ),
    # of texts
    **dict.fromkeys(
        (
            *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
            *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
        ),
        Method(BYTE * 4, 0.0, INT),
    ),
    **dict.fromkeys(("startswith", "endswith"), _ASKING),
    **dict.fromkeys(("find", "index", "count"), Method(BYTE * 4, 0.0, INT)),
    **dict.fromkeys(("rfind", "rindex"), Method(BYTE, 0.0, INT)),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "removeprefix", "removesuffix"), _TEXT),
    **dict.fromkeys(("lower", "upper", "casefold", "capitalize", "title", "swapcase"), _LETTERS),
    **dict.fromkeys(("partition", "rpartition"), Method(BYTE * 4, 1.0, LIST)),
    **dict.fromkeys(("split", "rsplit", "splitlines"), _PARTS),
    "replace": _TEXT,
    **dict.fromkeys(("encode", "decode"), Method(BYTE * 4, 4.0, TEXT)),
    "hex": Method(BYTE, 3.0, TEXT),
    # of containers
    **dict.fromkeys(("isdisjoint", "issubset", "issuperset"), Method(1.0, 0.0, INT)),
    **dict.fromkeys(("union", "intersection", "difference", "symmetric_difference"), _PARTS),
    **dict.fromkeys(("keys", "values", "items", "copy"), _PARTS),
    "get": _EXACT,
}

NEEDLES = frozenset({"rfind", "rindex", "rpartition", "rsplit", "strip", "lstrip", "rstrip"})
"""For each letter of the text they go over what they look for: that must be a constant."""

CODECS = ("utf-8", "utf8", "ascii", "latin-1")

_BIG = "may make something much bigger than the event"
_CHANGES = "may change something"
_SLOW = "takes more than a step for each byte"
_MAKES = "makes a value of a text or a number, which is not for a filter from outside"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            *("add", "append", "clear", "difference_update", "discard", "extend", "insert"),
            *("intersection_update", "pop", "popitem", "remove", "reverse", "setdefault", "sort"),
            *("symmetric_difference_update", "update", "appendleft", "extendleft", "move_to_end"),
            *("popleft", "send", "subtract", "throw", "write", "writelines", "truncate"),
        ),
        _CHANGES,
    ),
    **dict.fromkeys(
        (
            *("as_integer_ratio", "as_tuple", "center", "expandtabs", "format", "format_map"),
            *("join", "ljust", "rjust", "to_bytes", "translate", "zfill", "strftime"),
        ),
        _BIG,
    ),
    **dict.fromkeys(
        (
            *("exp", "ln", "log10", "logb", "sqrt", "fma", "remainder_near", "scaleb", "shift"),
            *("rotate", "next_minus", "next_plus", "next_toward", "normalize", "quantize"),
            *("logical_and", "logical_invert", "logical_or", "logical_xor", "to_eng_string"),
            *("to_integral", "to_integral_exact", "to_integral_value"),
        ),
        _SLOW,
    ),
    **dict.fromkeys(
        (
            *("combine", "fromhex", "fromisocalendar", "fromisoformat", "fromordinal", "fromkeys"),
            *("fromtimestamp", "from_bytes", "from_float", "maketrans", "now", "strptime"),
            *("today", "utcfromtimestamp", "utcnow", "fromutc"),
            *("from_number", "_from_int"),  # since Python 3.14
        ),
        _MAKES,
    ),
}
