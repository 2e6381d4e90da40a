"""Random events of all forms, and random expressions that have something to do with them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from polycast import StructuredEvent, TaggedUnion


class Color(enum.Enum):
    """An enumeration whose values are not its positions."""

    RED = "r"
    GREEN = "g"
    BLUE = "b"


class Level(enum.IntEnum):
    """One whose members are numbers in Python, and are not in ETCL."""

    LOW = 5
    HIGH = 7


@dataclass(frozen=True)
class Quote:
    """A typed event."""

    price: Any = 0
    symbol: Any = ""
    flag: Any = False
    several: Any = field(default_factory=list)
    inner: Any = None
    u: Any = None


@dataclass(frozen=True)
class Order:
    """An event whose annotations may be wrong: a guess is made of them, and never trusted."""

    price: int = 0
    symbol: str = ""
    flag: bool = False
    several: list[str] = field(default_factory=list)
    inner: Quote = field(default_factory=Quote)
    u: Order | None = None
    next: Order = None  # type: ignore[assignment]


NAMES = ("price", "symbol", "flag", "several", "inner", "u")
NUMBERS = st.sampled_from(
    [0, 1, 2, 3, -7, 5, 72, 2.5, 5.0, -0.0, 10**17 + 1, 2**70, True, False, float("nan")]
)
TEXTS = st.sampled_from(["", "H", "hello", "ell", "RED", "a'b", "x\\y", "é"])
ENUMS = st.sampled_from([*Color, *Level])
SCALARS = NUMBERS | TEXTS | ENUMS | st.none()
TAGS = st.sampled_from([0, 1, 2, True, "c", Color.RED, Color.BLUE])
LABELS = {"price": (0, 2), "symbol": (1, "c"), "flag": (True,)}


@st.composite
def unions(draw: st.DrawFn, values: Any) -> TaggedUnion:
    """A union, now and then with its default member active."""
    member = draw(st.sampled_from(["price", "symbol", "other"]))
    default = draw(st.sampled_from([None, "other", "price"]))
    if member == "other" and default != "other":
        default = "other"
    labels = draw(st.sampled_from([{}, LABELS])) if member != "other" else LABELS
    known = labels or {member: ()}
    if draw(st.integers(0, 4)) == 0:  # the tag names no member
        return TaggedUnion(draw(TAGS), labels=known, default_member=default)
    return TaggedUnion(draw(TAGS), member, draw(values), labels=known, default_member=default)


def _compound(values: Any) -> Any:
    return (
        st.lists(values, max_size=3)
        | st.lists(values, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
        | st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=3)
        | unions(values)
        | st.builds(Quote, values, values, values)
        | st.builds(SimpleNamespace, name=st.sampled_from(NAMES), value=values)
    )


VALUES = st.recursive(SCALARS, _compound, max_leaves=6)
LISTS = st.lists(NUMBERS, max_size=3) | st.lists(TEXTS, max_size=3) | VALUES
QUOTES = st.builds(
    Quote,
    NUMBERS | VALUES,
    TEXTS | SCALARS,
    st.booleans() | SCALARS,
    LISTS,
    VALUES,
    unions(SCALARS),
)
PROPERTIES = st.dictionaries(st.sampled_from(NAMES), SCALARS | VALUES, max_size=5)
WORDS = st.sampled_from(["", "H", "hello", "Telecom"])
STRUCTURED = st.builds(StructuredEvent, WORDS, WORDS, WORDS, PROPERTIES, PROPERTIES, VALUES)
_ORDERS = st.builds(Order, *(NUMBERS | SCALARS, TEXTS | SCALARS, st.booleans() | SCALARS, LISTS))
_INNER = st.builds(Quote, NUMBERS | VALUES, TEXTS | VALUES, st.booleans() | VALUES) | VALUES
ORDERS = st.builds(
    Order,
    *(NUMBERS | VALUES, TEXTS | SCALARS, st.booleans() | SCALARS, LISTS),
    _INNER,
    next=_ORDERS | VALUES,
)
EVENTS = QUOTES | QUOTES | STRUCTURED | VALUES

LITERALS = st.one_of(
    st.sampled_from([0, 1, 2, 3, -7, 5, 72, 2.5, 5.0, 10**17 + 1, 2**70, True, False]),
    st.sampled_from(["", "H", "hello", "ell", "RED", "a'b", "x\\y", "c"]),
).map(lambda value: ("literal", value))
LABEL = st.sampled_from([*("RED", "BLUE", "LOW", "in", "Min")]).map(lambda name: ("label", name))
TAG_STEPS = st.sampled_from(
    [
        *(("tag", "number", 0), ("tag", "number", 1), ("tag", "number", 2), ("default",)),
        *(("tag", "character", "c"), ("tag", "label", "RED"), ("tag", "boolean", True)),
    ]
)
NAMED = st.sampled_from([*NAMES, "name", "value", "missing"])
STEPS = st.one_of(
    NAMED.map(lambda name: ("member", name)),
    st.integers(0, 3).map(lambda n: ("position", n)),
    st.integers(0, 2).map(lambda n: ("element", n)),
    NAMED.map(lambda name: ("property", name)),
    TAG_STEPS,
)
TOPS = st.sampled_from(
    [
        (("member", "filterable_data"),),
        (("member", "remainder_of_body"),),
        (("member", "header"), ("member", "variable_header")),
        (("position", 0), ("position", 0), ("position", 0), ("position", 1)),
        *((("variable", name),) for name in ("domain_name", "type_name", "event_name")),
        *((("variable", name),) for name in ("event_type", "header", "filterable_data")),
        (),
    ]
)
SHORT = NAMED.map(lambda name: (("variable", name),)) | NAMED.map(lambda name: (("member", name),))
BEGUN = SHORT | SHORT | SHORT | TOPS
ENDS = st.sampled_from([(), (), (), (("_length",),), (("_d",),)])


@st.composite
def paths(draw: st.DrawFn) -> tuple[Any, ...]:
    """The steps of a component."""
    if draw(st.booleans()):
        return tuple(draw(SHORT))
    middle = draw(st.lists(STEPS, max_size=2))
    return (*draw(BEGUN), *middle, *draw(ENDS))


UNIONS = paths().map(lambda steps: (*(s for s in steps if s[0] not in ("_d", "_length")), ("_d",)))
COMPONENTS = paths().map(lambda steps: ("component", steps))
EXISTS = paths().map(lambda steps: ("exist", steps)) | UNIONS.map(lambda steps: ("default", steps))
OPERANDS = LITERALS | COMPONENTS | COMPONENTS | LABEL
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
COMPARISONS = st.tuples(st.just("compare"), SIGNS, OPERANDS, OPERANDS)


def _larger(inner: Any) -> Any:
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("compare"), SIGNS, inner, inner),
        st.tuples(st.just("in"), inner, paths()),
        st.tuples(st.just("~"), inner, inner),
        st.tuples(st.just("compute"), st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
    )


EXPRESSIONS = st.recursive(OPERANDS | COMPARISONS | EXISTS, _larger, max_leaves=8)


# -- what goes together most of the time -----------------------------------------------------------

SOUND = {
    "price": NUMBERS,
    "symbol": TEXTS,
    "flag": st.booleans(),
    "several": st.lists(NUMBERS, max_size=3),
    "inner": st.sampled_from(Color),
    "u": unions(NUMBERS),
}
SOUND_EVENTS = st.builds(Quote, **SOUND) | st.fixed_dictionaries(SOUND).flatmap(
    lambda data: st.builds(StructuredEvent, WORDS, WORDS, filterable_data=st.just(data))
)


def _read(*steps: Any) -> Any:
    return st.just(("component", (("variable", steps[0]), *steps[1:])))


TEXT = st.sampled_from(["H", "hello", "ell", ""]).map(lambda value: ("literal", value))
SOUND_TEXT = _read("symbol") | TEXT
NUMBER = st.sampled_from([0, 1, 2, 3, 5, 72, 2.5, True, 2**70, -7]).map(lambda n: ("literal", n))
SOUND_NUMBER = st.recursive(
    _read("price") | _read("price") | NUMBER | _read("several", ("_length",)),
    lambda inner: st.tuples(
        st.just("compute"), st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner
    ),
    max_leaves=3,
)
EQUALS = st.sampled_from(["==", "!="])
SOUND_TEST = st.one_of(
    st.tuples(st.just("compare"), SIGNS, SOUND_NUMBER, SOUND_NUMBER),
    st.tuples(st.just("compare"), SIGNS, SOUND_TEXT, SOUND_TEXT),
    st.tuples(st.just("~"), SOUND_TEXT, SOUND_TEXT),
    st.tuples(st.just("in"), SOUND_NUMBER, st.just((("variable", "several"),))),
    st.tuples(st.just("compare"), EQUALS, _read("inner"), st.just(("label", "RED"))),
    st.tuples(st.just("compare"), EQUALS, _read("u", ("default",)), NUMBER),
    st.tuples(st.just("compare"), EQUALS, _read("u", ("_d",)), NUMBER),
    _read("flag"),
    EXISTS,
)
_DEEP = st.tuples(st.sampled_from(["next", "inner"]), st.sampled_from(NAMES[:3])).map(
    lambda names: ("component", (("variable", names[0]), ("member", names[1])))
)
DEEP_EXPRESSIONS = st.recursive(
    st.tuples(st.just("compare"), SIGNS, _DEEP | _read("price"), NUMBER | TEXT)
    | st.tuples(st.just("in"), TEXT | NUMBER, st.just((("variable", "several"),)))
    | _DEEP,
    lambda inner: (
        st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner)
    ),
    max_leaves=3,
)
SOUND_EXPRESSIONS = st.recursive(
    SOUND_TEST,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner), st.tuples(st.just("not"), inner)
    ),
    max_leaves=4,
)
