"""Random scenarios, in which constants and values lie next to each other on purpose."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from agreement import Add, Ask, Learn, Remove, Scenario, Step
from agreement_lambdas import LAMBDAS
from agreement_values import value_of

__all__ = ["scenario"]

BASES = [0, 0, 0, 1, 2, 7, 127, 255, 2**24, 2**31, 2**53, 2**53, 2**63, 2**63, 2**64, 10**30]
TINY = ["5e-324", "-5e-324", "2.2250738585072014e-308", "1e-300", "-0.0", "0.0"]
HUGE = ["float('inf')", "float('-inf')", "1.7976931348623157e+308", "-1e+300"]
BOOLS = ["True", "False"]
WORDS = ["", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\x00", "b", "é", "a\U0010ffff", "\x00"]
DATES = [f"date('2024-0{month}-{day}')" for month in (2, 3) for day in ("01", "28", "10")]
TIMES = [
    "datetime('2024-02-28T12:00:00')", "datetime('2024-02-28T12:00:00.000001')",
    "datetime('2024-02-28T11:59:59.999999')", "datetime('2024-02-28T00:00:00')",
]  # fmt: skip
SPANS = [
    "timedelta(0, 0, 1)",
    "timedelta(0, 0, 0)",
    "timedelta(1, 0, 0)",
    "timedelta(-1, 86399, 0)",
]
MEMBERS = [
    "member('Level', 'ZERO')", "member('Level', 'ONE')", "member('Level', 'TWO')",
    "member('Colour', 'RED')", "member('Colour', 'BLUE')",
]  # fmt: skip
OTHERS = [
    "None", "float('nan')", "Decimal('NaN')", "Decimal('sNaN')", "Decimal('Infinity')", "b'a'",
    "b''", "datetime('2024-02-28T12:00:00+00:00')",
]  # fmt: skip
FOREIGN = [
    "Contrary(1)", "Broken()", "[]", "[1]", "()", "(1,)", "Fraction(1, 2)", "Word('ab')",
    "'\\ud800'", "float32(0.5)", "float32(0.1)", "int64(1)", "uint64(18446744073709551615)",
]  # fmt: skip
ORDERS = ["<", "<=", ">", ">="]
SIGNS = [*ORDERS, *ORDERS, "==", "!="]
NAMES = ["p", "p", "p", "q", "q", "r"]
TERMS = ["event.part.p", "-event.p", "event.p + event.q", "len(event.p)", "abs(event.q)"]
INTEGERS = {
    "int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint8": 8, "uint16": 16, "uint32": 32,
    "uint64": 64,
}  # fmt: skip
OF_KIND = {"string": WORDS, "large_string": WORDS, "bool": [True, False]}


def _around(base: int) -> list[str]:
    """A whole number, its neighbours, and the floats and decimals between them."""
    near = [base - 1, base, base + 1, -base]
    floats = [float(each) for each in near]
    floats += [math.nextafter(floats[1], way) for way in (math.inf, -math.inf)]
    if base < 2**52:
        floats += [base + 0.5, base - 0.5, base + 0.25]
    return [*map(repr, near), *map(repr, floats)]


def _wrapped(draw: Random, number: str) -> str:
    """The same number in another class."""
    if "float" in number or number in BOOLS:
        return number
    if "." in number or "e" in number:
        return draw.choice([f"Decimal('{number}')", f"Real({number})", f"float64({number})"])
    return draw.choice([f"Decimal('{number}')", f"Whole({number})", f"Fraction({number}, 1)"])


class Pool:
    """What the constants and the values of one scenario are taken from."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        near = [_around(draw.choice(BASES)) for _ in range(draw.choice([1, 1, 2, 3]))]
        self.numbers = [text for each in near for text in each]
        self.numbers += draw.sample([*TINY, *HUGE, *BOOLS], draw.randint(0, 5))
        self.whole = [each for each in self.numbers if each.lstrip("-").isdigit()]
        kinds = [WORDS_AS_TEXT, DATES, TIMES, SPANS, MEMBERS, OTHERS]
        self.others = [text for each in draw.sample(kinds, draw.randint(0, 2)) for text in each]
        self._share = draw.choice([0.0, 0.1, 0.5])
        self.integral = draw.random() < 0.5  # constants are integers, whatever the values are

    def constant(self) -> str:
        draw = self._draw
        if self.others and draw.random() < self._share:
            return draw.choice(self.others)
        if self.integral:
            return draw.choice(self.whole)
        number = draw.choice(self.numbers)
        plain = "'" not in number and number not in BOOLS
        return f"Decimal('{number}')" if plain and draw.random() < 0.05 else number

    def pair(self) -> tuple[str, str]:
        """Two constants: often neighbours, between which others lie."""
        draw = self._draw
        if draw.random() < 0.4:
            return self.constant(), self.constant()
        among = self.whole if self.integral else self.numbers
        ordered = sorted(among, key=value_of)
        low = draw.randrange(len(ordered) - 1)
        return ordered[low], ordered[low + 1]

    def value(self) -> str:
        draw = self._draw
        chance = draw.random()
        if self.others and chance < self._share:
            return draw.choice(self.others)
        if chance > 0.95:
            return draw.choice([*FOREIGN, *OTHERS])
        number = draw.choice(self.numbers)
        return _wrapped(draw, number) if chance > 0.85 else number

    def event(self) -> str:
        """Attributes may be missing."""
        draw = self._draw
        given = [f"{name}={self.value()}" for name in "pqr" if draw.random() < 0.93]
        if draw.random() < 0.2:
            given.append(f"part=Item(p={self.value()})")
        return f"{draw.choice(['Item', 'Item', 'Slotted'])}({', '.join(given)})"


WORDS_AS_TEXT = [repr(each) for each in WORDS]


# -- filters ---------------------------------------------------------------------------------------


def _term(draw: Random) -> str:
    return draw.choice(TERMS) if draw.random() < 0.1 else f"event.{draw.choice(NAMES)}"


def _leaf(draw: Random, pool: Pool) -> str:
    term, (one, two) = _term(draw), pool.pair()
    order, other = draw.choice(ORDERS), draw.choice(ORDERS)
    match draw.randrange(12):
        case 0 | 1:
            return f"{one} {order} {term} {order[0]}{draw.choice(['', '='])} {two}"
        case 2:
            return f"{one} {order} {term} {other} {two}"
        case 3 | 4:
            return f"{term} {draw.choice(SIGNS)} {one}"
        case 5:
            return f"{one} {draw.choice(SIGNS)} {term}"
        case 6:
            values = ", ".join(_element(pool) for _ in range(draw.randint(1, 4)))
            kind = draw.choice(["({},)", "[{}]", "frozenset([{}])"])
            return f"{term} {draw.choice(['in', 'in', 'not in'])} {kind.format(values)}"
        case 7:
            return f"{term} {order} {one} and {term} {other} {two}"
        case 8:
            return f"{term} {draw.choice(SIGNS)} {_term(draw)}"
        case 9:
            return f"{one} {order} {term} {other} {_term(draw)} {draw.choice(SIGNS)} {two}"
        case 10:
            return draw.choice([f"{term} is None", f"{term} is not None", term])
        case _:
            return f"{term}.startswith({draw.choice(WORDS_AS_TEXT)})"


def _element(pool: Pool) -> str:
    """A NaN among others is refused."""
    found = pool.constant()
    return "0" if "nan" in found.lower() else found


def _filter(draw: Random, pool: Pool, depth: int) -> str:
    chance = draw.random()
    if depth == 0 or chance < 0.35:
        return _leaf(draw, pool)
    if chance < 0.5:
        return f"not ({_filter(draw, pool, depth - 1)})"
    joint = " and " if chance < 0.8 else " or "
    parts = (_filter(draw, pool, depth - 1) for _ in range(draw.randint(2, 3)))
    return joint.join(f"({each})" for each in parts)


def _in_language(draw: Random, pool: Pool) -> str:
    """In ETCL or XPath, which compare in their own way."""
    plain = [each for each in pool.pair() if "'" not in each and each[-1].isdigit()]
    numbers = [each for each in plain if abs(value_of(each)) < 1e300] or ["0", "1"]
    language, joint = draw.choice(["etcl", "xpath"]), draw.choice([" and ", " or "])
    parts = [_compared(draw, language, draw.choice(numbers)) for _ in range(draw.randint(1, 3))]
    return f"{language}: {joint.join(parts)}"


def _compared(draw: Random, language: str, number: str) -> str:
    name, sign = draw.choice(NAMES), draw.choice(SIGNS)
    if language == "etcl":
        found = f"$.{name} {sign} {number}"
        return f"not ({found})" if draw.random() < 0.2 else found
    number = f"{value_of(number):.20f}".rstrip("0").rstrip(".")  # there are no exponents
    path = f"/struct/member[name='{name}']/value"
    return f"{path} {'=' if sign == '==' else sign} {number}"


def _where(draw: Random, pool: Pool) -> str:
    if draw.random() < 0.1:
        return _in_language(draw, pool)
    if draw.random() < 0.3:
        low, high = pool.pair()
        return f"@{draw.choice([*LAMBDAS])}({low}, {high})"
    return _filter(draw, pool, draw.choice([0, 1, 1, 2]))


# -- what happens ----------------------------------------------------------------------------------


def _columns(draw: Random, pool: Pool) -> Ask:
    """Events whose attributes have a type of Arrow each."""
    kinds = {
        name: draw.choice([*INTEGERS, "float64", "float64", "float32", *OF_KIND]) for name in "pqr"
    }
    rows = [
        ", ".join(f"{name}={_of_kind(draw, pool, kind)}" for name, kind in kinds.items())
        for _ in range(draw.choice([1, 6, 12]))
    ]
    return Ask(tuple(f"Item({each})" for each in rows), tuple(kinds.items()))


def _of_kind(draw: Random, pool: Pool, kind: str) -> str:
    if draw.random() < 0.1:
        return "None"
    if kind in OF_KIND:
        return repr(draw.choice(OF_KIND[kind]))  # type: ignore[arg-type]
    if kind.startswith("float"):
        floats = [each for each in pool.numbers if each not in pool.whole and each not in BOOLS]
        return draw.choice([*floats, "float('nan')"])
    bits = INTEGERS[kind]
    least = 0 if kind.startswith("u") else -(2**bits)
    fitting = [each for each in map(int, pool.whole) if least <= each < 2**bits]
    return repr(draw.choice([*fitting, 2**bits - 1, least]))


def _crowd(draw: Random) -> int:
    return draw.choice([1, 1, 1, 2, 2, 3, 5, 8, 12, 60 if draw.random() < 0.2 else 4])


def scenario(draw: Random) -> Scenario:
    """Filters come and go, and events are asked about in between."""
    pool = Pool(draw)
    steps: list[Step] = []
    present: list[int] = []
    for round_ in range(draw.choice([1, 1, 2, 3])):
        for key in range(100 * round_, 100 * round_ + _crowd(draw)):
            steps.append(Add(key, _where(draw, pool)))
            present.append(key)
        if round_ and draw.random() < 0.7:
            gone = draw.sample(present, draw.randint(1, len(present)))
            steps += map(Remove, gone)
            present = [key for key in present if key not in gone]
        if draw.random() < 0.05:
            steps.append(_learn(draw, pool))
        for _ in range(draw.choice([1, 2])):
            steps.append(_ask(draw, pool))
    return Scenario(draw.choice(["usual", "small"]), draw.choice(["best", "scalar"]), tuple(steps))


def _learn(draw: Random, pool: Pool) -> Learn:
    """So many that anchors are chosen by them; often all of them are integers."""
    names: list[Any] = ["p", "q", "r"]
    if draw.random() < 0.5:
        events = [pool.event() for _ in range(5)]
    else:
        values = [[draw.choice(pool.whole) for _ in names] for _ in range(5)]
        events = [
            f"Item({', '.join(f'{n}={v}' for n, v in zip(names, each, strict=True))})"
            for each in values
        ]
    return Learn(300, tuple(events))


def _ask(draw: Random, pool: Pool) -> Ask:
    if draw.random() < 0.25:
        return _columns(draw, pool)
    return Ask(tuple(pool.event() for _ in range(draw.choice([1, 6, 12]))))
