"""One scenario, matched in every way there is: all of them say what calling the filters says.

Filters come and go and events are asked about: one by one and in batches, as objects and as columns
of Arrow, in C and in Python; each filter among the others, and some alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from agreement_lambdas import lambda_of
from agreement_values import CLASSES, Item, python_function, value_of

import polycast as pc
from polycast.filters.backends import interpreter
from polycast.filters.backends.python import generate
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical_text import parse
from polycast.matching.index import Index, lanes, layout
from polycast.matching.index import filter_index as filters
from polycast.matching.native import available, use
from polycast.matching.native.native_index import KernelLimits, NativeIndex

__all__ = [
    "Add",
    "Ask",
    "Disagreement",
    "Learn",
    "Remove",
    "Rivals",
    "Scenario",
    "Step",
    "asked",
    "disagreement",
]

SMALL = KernelLimits(few=0, cuts=6, codes=3)
MOST_ALONE = 3  # filters that are also asked alone
SHARED: list[dict[str, Any]] = [{}, {"threads": 2}, {"threads": 2, "share": "filters"}]


class Add(NamedTuple):
    """A filter comes: a text; after @ a function of the table, after a language and : its text."""

    key: int
    text: str


class Remove(NamedTuple):
    """It goes."""

    key: int


class Learn(NamedTuple):
    """Events are matched again and again, and nobody looks."""

    times: int
    events: tuple[str, ...]


class Ask(NamedTuple):
    """Events are matched, and everybody is asked; with types, as columns of Arrow."""

    events: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] = ()


Step = Add | Remove | Learn | Ask


class Scenario(NamedTuple):
    """What happens to an index; with `small` limits a few filters do all that many do."""

    limits: str  # usual, small
    scan: str  # best, scalar
    steps: tuple[Step, ...]


class Disagreement(NamedTuple):
    """A way that does not say what calling the filters says."""

    way: str
    step: int
    expected: list[list[int]]
    found: list[list[int]]

    def __str__(self) -> str:
        pairs = enumerate(zip(self.expected, self.found, strict=True))
        wrong = [f"event {n}: {a}, and it says {b}" for n, (a, b) in pairs if a != b]
        return f"{self.way}, step {self.step}: calling the filters gives {'; '.join(wrong)}"


Answer = tuple[str, list[list[int]]]


@dataclass
class Wanted:
    """A filter, in the forms that are asked."""

    tree: nodes.Node
    call: Callable[[Any], object]
    compiled: Callable[[Any], object]

    @classmethod
    def of(cls, text: str) -> Wanted:
        if text.startswith("@"):
            where = lambda_of(text[1:])
            tree = pc.lift(Item, where).tree
            return cls(tree, where, generate(tree).function)
        language, _, rest = text.partition(": ")
        if language in ("etcl", "xpath"):  # the interpreter says what these mean
            tree = pc.parse_filter(rest, language).tree
            meaning = partial(interpreter.evaluate, tree, scope=())
            return cls(tree, meaning, generate(tree).function)
        tree = parse(text, CLASSES.get)
        return cls(tree, python_function(text), generate(tree).function)


@dataclass
class Rivals:
    """Everything that matches, side by side."""

    limits: KernelLimits | None
    wanted: dict[int, Wanted] = field(default_factory=dict)
    indexes: dict[str, Index | NativeIndex] = field(default_factory=dict)
    matchers: dict[str, pc.Matcher[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A matcher has an index with the usual limits."""
        if self.limits is not None:
            self.indexes = self._indexes()
        self.matchers["matcher in Python"] = pc.Matcher(native=False)
        if available() is not None:
            self.matchers["matcher in C"] = pc.Matcher(native=True)

    def _indexes(self) -> dict[str, Index | NativeIndex]:
        found: dict[str, Index | NativeIndex] = {"index": Index()}
        if available() is not None:
            found["kernel"] = NativeIndex(threading.RLock(), available(), limits=self.limits)
        return found

    def add(self, key: int, text: str) -> None:
        made = self.wanted[key] = Wanted.of(text)
        for index in self.indexes.values():
            index.add(made.tree, key)
        for matcher in self.matchers.values():
            matcher.add(key, object, pc.Filter(made.tree))

    def remove(self, key: int) -> None:
        gone = self.wanted.pop(key, None)
        if gone is not None:
            for index in self.indexes.values():
                index.remove(gone.tree, key)
            for matcher in self.matchers.values():
                matcher.remove(key)

    def learn(self, events: list[Any]) -> None:
        for event in events:
            for index in self.indexes.values():
                index.match(event)
            for matcher in self.matchers.values():
                matcher.match(event)

    def expected(self, events: list[Any]) -> list[list[int]]:
        return self._one_by_one(events, lambda each: each.call)

    def _one_by_one(
        self, events: list[Any], form: Callable[[Wanted], Callable[[Any], object]]
    ) -> list[list[int]]:
        forms = {key: form(each) for key, each in self.wanted.items()}
        return [sorted(key for key, ask in forms.items() if _says(ask, e)) for e in events]

    def answers(self, events: list[Any]) -> Iterator[Answer]:
        yield "interpreter", self._one_by_one(events, _interpreted)
        yield "compiled function", self._one_by_one(events, lambda each: each.compiled)
        for name, each in [*self.indexes.items(), *self.matchers.items()]:
            yield f"{name}, one by one", [sorted(each.match(event)) for event in events]
            yield f"{name}, in a batch", list(map(sorted, each.match_batch(events)))
            yield f"{name}, after the batch", [sorted(each.match(event)) for event in events]

    def alone(self, events: list[Any]) -> Iterator[tuple[str, int, list[list[int]]]]:
        for key in list(self.wanted)[-MOST_ALONE:]:
            for name, index in self._indexes().items():
                index.add(self.wanted[key].tree, key)
                yield f"{name}, {key} alone", key, [index.match(event) for event in events]
                batch = index.match_batch(events)
                yield f"{name}, {key} alone in a batch", key, batch

    def of_columns(self, batch: Any) -> Iterator[Answer]:
        for name, matcher in self.matchers.items():
            for options in SHARED if name.endswith("C") else [{}]:
                offsets, keys = matcher.match_batch(batch, of=Item, **options)
                found = [sorted(map(int, keys[a:b])) for a, b in pairwise(offsets)]
                yield f"{name}, columns {options}", found


def _interpreted(wanted: Wanted) -> Callable[[Any], object]:
    return lambda event: interpreter.matches(wanted.tree, event)


def _says(function: Callable[[Any], object], event: Any) -> bool:
    """A filter that fails does not match."""
    try:
        return bool(function(event))
    except Exception:
        return False


@contextmanager
def _limits(name: str) -> Iterator[KernelLimits | None]:
    """What makes a few filters many."""
    if name != "small":
        yield None
        return
    with pytest.MonkeyPatch.context() as patch:
        for module, constant, value in [
            (layout, "FEW", 0), (lanes, "COARSE", 2), (lanes, "WIDE", 1),
            (filters, "WAITING", 0), (filters, "SAMPLE", 3), (filters, "WORTH", 0.0),
            (filters, "SMALL_BATCH", 0), (filters, "SMALL", 0),
        ]:  # fmt: skip
            patch.setattr(module, constant, value)
        yield SMALL


def disagreement(scenario: Scenario) -> Disagreement | None:
    """The first answer that is wrong, if any is."""
    with _limits(scenario.limits) as limits:
        if available() is not None:
            use(scenario.scan)
        try:
            return _played(scenario.steps, Rivals(limits))
        finally:
            if available() is not None:
                use("best")


def _played(steps: tuple[Step, ...], rivals: Rivals) -> Disagreement | None:
    for number, step in enumerate(steps):
        match step:
            case Add(key, text):
                rivals.add(key, text)
            case Remove(key):
                rivals.remove(key)
            case Learn(times, texts):
                events = list(map(value_of, texts))
                rivals.learn([events[turn % len(events)] for turn in range(times)])
            case Ask(texts, columns):
                wrong = asked(rivals, number, texts, columns)
                if wrong is not None:
                    return wrong
    return None


def asked(
    rivals: Rivals, step: int, texts: tuple[str, ...], columns: tuple[tuple[str, str], ...]
) -> Disagreement | None:
    events = list(map(value_of, texts))
    answers: Iterator[Answer]
    if columns:
        batch = pa.record_batch(
            {name: pa.array([getattr(e, name) for e in events], _TYPES[of]) for name, of in columns}
        )
        events = [Item(**row) for row in batch.to_pylist()]
        answers = rivals.of_columns(batch)
    else:
        answers = rivals.answers(events)
    expected = rivals.expected(events)
    for way, found in answers:
        if found != expected:
            return Disagreement(way, step, expected, found)
    for way, key, found in () if columns else rivals.alone(events):
        mine = [[key] if key in each else [] for each in expected]
        if found != mine:
            return Disagreement(way, step, mine, found)
    return None


_TYPES: dict[str, Any] = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float32": pa.float32(), "float64": pa.float64(), "string": pa.string(),
    "large_string": pa.large_string(), "bool": pa.bool_(), "date32": pa.date32(),
    "decimal": pa.decimal128(38, 3), "timestamp": pa.timestamp("us"), "binary": pa.binary(),
}  # fmt: skip
