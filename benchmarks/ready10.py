"""The workload `ready10`: events of ten attributes, and many subscriptions that few of them match.

A subscription is a conjunction of 2 to 4 predicates on distinct attributes. Everything comes from a
seed, so two runs have the same events and subscriptions.

python benchmarks/ready10.py         # checks that all forms of the workload agree
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

import polycast as pc
from polycast.filters.tree import nodes

STREAM = 1_000_000  # events that the counter `seq` runs through
CARDINALITIES = {"tens": 10, "hundreds": 100, "thousands": 1_000, "myriads": 10_000}
DOUBLES = ("alpha", "beta", "gamma", "delta")
NAMES = ("sym", "seq", *CARDINALITIES, *DOUBLES)
COMPILED_AT_ONCE = 1_000  # lambdas; the compiler's time grows faster than a long text


@dataclass(slots=True)
class Quote10:
    """An event with ten attributes."""

    sym: str
    seq: int
    tens: int
    hundreds: int
    thousands: int
    myriads: int
    alpha: float
    beta: float
    gamma: float
    delta: float


@dataclass(frozen=True, slots=True)
class Mix:
    """What subscriptions are drawn from; chosen so that they match at about this rate."""

    name: str
    rate: float  # of all pairs of an event and a subscription
    narrowest: float  # ranges are of log-uniform width, from this part of all values ...
    widest: float  # ... to this one
    exact: float  # how often `==`, `in` and prefix are taken where a range would do
    predicates: tuple[int, int] = (2, 4)


MIXES = {
    mix.name: mix
    for mix in (
        Mix("0.026 %", 0.00026, narrowest=0.0001, widest=0.1, exact=0.6),
        Mix("0.11 %", 0.0011, narrowest=0.001, widest=0.3, exact=0.6),
        Mix("6.8 %", 0.068, narrowest=0.13, widest=1.0, exact=0.1),
    )
}
RARE, USUAL, FREQUENT = MIXES.values()


def _symbols() -> tuple[str, ...]:
    draw, found = random.Random(500), set[str]()
    while len(found) < 500:
        found.add("".join(draw.choices(string.ascii_uppercase, k=4)))
    return tuple(sorted(found))


SYMBOLS = _symbols()


# -- events ----------------------------------------------------------------------------------------


def events(count: int, *, seed: int = 1) -> list[Quote10]:
    """So many events, taken at equal distances from a stream of a million."""
    draw = random.Random(seed)
    return [_event(draw, number * STREAM // count) for number in range(count)]


def _event(draw: random.Random, seq: int) -> Quote10:
    return Quote10(
        draw.choice(SYMBOLS),
        seq,
        *(draw.randrange(size) for size in CARDINALITIES.values()),
        *(draw.random() for _ in DOUBLES),
    )


def record_batch(of: Sequence[Quote10]) -> Any:
    """The same events as columns of Arrow."""
    import pyarrow as pa  # here, because the scan and matching one by one do without

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = {
        field.name: pa.array([getattr(event, field.name) for event in of], kinds[str(field.type)])
        for field in fields(Quote10)
    }
    return pa.record_batch(columns)


# -- subscriptions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Equal:
    """`event.name == value`."""

    name: str
    value: int | str

    def node(self) -> nodes.Node:
        return nodes.Compare(_attribute(self.name), (("==", nodes.Constant(self.value)),))

    def text(self) -> str:
        return f"event.{self.name} == {self.value!r}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """`event.name in values`."""

    name: str
    values: tuple[int | str, ...]

    def node(self) -> nodes.Node:
        return nodes.Compare(_attribute(self.name), (("in", nodes.Constant(self.values)),))

    def text(self) -> str:
        return f"event.{self.name} in {self.values!r}"


@dataclass(frozen=True, slots=True)
class Prefix:
    """`event.name.startswith(prefix)`."""

    name: str
    prefix: str

    def node(self) -> nodes.Node:
        return nodes.Call(_attribute(self.name), "startswith", (nodes.Constant(self.prefix),))

    def text(self) -> str:
        return f"event.{self.name}.startswith({self.prefix!r})"


@dataclass(frozen=True, slots=True)
class Range:
    """`low <= event.name < high`, or only one of the two."""

    name: str
    low: float | None
    high: float | None

    def node(self) -> nodes.Node:
        attribute = _attribute(self.name)
        if self.low is None:
            return nodes.Compare(attribute, (("<", nodes.Constant(self.high)),))
        if self.high is None:
            return nodes.Compare(attribute, ((">=", nodes.Constant(self.low)),))
        low, high = nodes.Constant(self.low), nodes.Constant(self.high)
        return nodes.Compare(low, (("<=", attribute), ("<", high)))

    def text(self) -> str:
        if self.low is None:
            return f"event.{self.name} < {self.high!r}"
        if self.high is None:
            return f"event.{self.name} >= {self.low!r}"
        return f"{self.low!r} <= event.{self.name} < {self.high!r}"


Predicate = Equal | OneOf | Prefix | Range
Subscription = tuple[Predicate, ...]


def _attribute(name: str) -> nodes.Node:
    return nodes.Attribute(nodes.Event(), name)


def subscriptions(count: int, mix: Mix = USUAL, *, seed: int = 2) -> list[Subscription]:
    """So many subscriptions; the first thousand of 100,000 are those of a thousand."""
    return list(islice(drawn(mix, seed), count))


def drawn(mix: Mix, seed: int) -> Iterator[Subscription]:
    draw = random.Random(seed)
    while True:
        names = draw.sample(NAMES, draw.randint(*mix.predicates))
        yield tuple(_predicate(draw, name, mix) for name in names)


def _predicate(draw: random.Random, name: str, mix: Mix) -> Predicate:
    if name == "sym":
        return _on_symbol(draw, mix)
    if name in CARDINALITIES and draw.random() < mix.exact:
        return _on_values(draw, name, range(CARDINALITIES[name]))
    return _range(draw, name, mix)


def _on_symbol(draw: random.Random, mix: Mix) -> Predicate:
    if draw.random() < 0.4 or draw.random() >= mix.exact:
        return Prefix("sym", draw.choice(SYMBOLS)[: draw.randint(1, 2)])
    return _on_values(draw, "sym", SYMBOLS)


def _on_values(draw: random.Random, name: str, values: Sequence[int | str]) -> Predicate:
    if draw.random() < 0.5:
        return Equal(name, draw.choice(values))
    return OneOf(name, tuple(draw.sample(values, draw.randint(2, 8))))


def _range(draw: random.Random, name: str, mix: Mix) -> Range:
    part = mix.narrowest * (mix.widest / mix.narrowest) ** draw.random()
    size, width = (1.0, part) if name in DOUBLES else _whole(name, part)
    low = draw.random() * (size - width)
    low = low if name in DOUBLES else round(low)
    bounds = (low, low + width), (None, width), (size - width, None)
    return Range(name, *draw.choices(bounds, (2, 1, 1))[0])


def _whole(name: str, part: float) -> tuple[int, int]:
    """How many values there are, and how many of them are meant: never none."""
    size = CARDINALITIES.get(name, STREAM)
    return size, max(1, round(part * size))


# -- subscriptions in three forms ------------------------------------------------------------------


def tree(subscription: Subscription) -> nodes.Node:
    """What lifting the lambda would give."""
    return nodes.And(tuple(each.node() for each in subscription))


def filters(of: Iterable[Subscription]) -> list[pc.Filter[Quote10]]:
    """As polycast takes them."""
    return [pc.Filter(tree(each)) for each in of]


def text(subscription: Subscription) -> str:
    """The source of a lambda, as a person would write it."""
    return f"lambda event: {' and '.join(each.text() for each in subscription)}"


def etcl_text(subscription: Subscription, component: str = "$.") -> str:
    """The same in ETCL, which has neither lists of values nor prefixes."""
    return " and ".join(_in_etcl(each, f"{component}{each.name}") for each in subscription)


def _in_etcl(predicate: Predicate, at: str) -> str:
    match predicate:
        case Equal(_, value):
            return f"{at} == {value!r}"
        case OneOf(_, values):
            return f"({' or '.join(f'{at} == {value!r}' for value in values)})"
        case Prefix(_, prefix):
            after = prefix[:-1] + chr(ord(prefix[-1]) + 1)
            # Symbols have four letters; a text of one is a character in ETCL.
            return f"{at} >= '{prefix:A<2}' and {at} < '{after:A<2}'"
        case Range(_, low, high):
            bounds = [(">=", low), ("<", high)]
            return " and ".join(
                f"{at} {sign} {_number(bound)}" for sign, bound in bounds if bound is not None
            )
    raise AssertionError(predicate)


def _number(value: float) -> str:
    """Without an exponent that Python would write."""
    return f"{value:.20f}" if isinstance(value, float) else str(value)


def functions(of: Sequence[Subscription]) -> list[Callable[[Quote10], object]]:
    """Plain compiled lambdas: what matching is compared with."""
    found: list[Callable[[Quote10], object]] = []
    for start in range(0, len(of), COMPILED_AT_ONCE):
        lines = [text(each) for each in of[start : start + COMPILED_AT_ONCE]]
        module = compile("\n".join(lines), "<ready10>", "exec")
        codes = [const for const in module.co_consts if isinstance(const, CodeType)]
        found += [FunctionType(code, {"__builtins__": {}}) for code in codes]
    if len(found) != len(of):
        raise AssertionError("there is a function for each subscription")
    return found


def scan(tests: Sequence[Callable[[Quote10], object]], event: Quote10) -> list[int]:
    """The numbers of the subscriptions that an event matches, each asked in turn."""
    return [number for number, test in enumerate(tests) if test(event)]


# -- do they agree? --------------------------------------------------------------------------------


def measured_rate(mix: Mix, *, subscribed: int = 5_000, published: int = 1_000) -> float:
    """Which part of all pairs match, in a sample."""
    tests, sample = functions(subscriptions(subscribed, mix)), events(published)
    return sum(len(scan(tests, event)) for event in sample) / (subscribed * published)


def check(mix: Mix) -> None:
    """Trees, lambdas, ETCL and columns are the same workload, and it matches at its rate."""
    wanted, sample = subscriptions(500, mix), events(200)
    tests = functions(wanted)
    for number, made in enumerate(filters(wanted)):
        if made != pc.Filter(pc.Filter.from_json(made.to_json()).tree):
            raise AssertionError(f"{made} does not survive as text")
        etcl = pc.parse_filter(etcl_text(wanted[number]), "etcl")
        for event in sample:
            expected = bool(tests[number](event))
            if made.matches(event) is not expected or etcl.matches(event) is not expected:
                raise AssertionError(f"{made} and {text(wanted[number])} differ on {event}")
    if [Quote10(**row) for row in record_batch(sample).to_pylist()] != sample:
        raise AssertionError("columns hold the same events")
    rate = measured_rate(mix)
    if not 0.8 < rate / mix.rate < 1.25:
        raise AssertionError(f"the rate is {rate:.4%}, not {mix.rate:.4%}")
    print(f"{mix.name}: trees, lambdas, ETCL and columns agree; measured rate {rate:.4%}")


def main() -> None:
    for mix in MIXES.values():
        check(mix)


if __name__ == "__main__":
    main()
