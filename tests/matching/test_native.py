"""The kernel in C: it says what every filter says, and is never needed."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import tracemalloc
from abc import ABC
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.backends import interpreter
from polycast.filters.tree import nodes
from polycast.matching.native import available, use
from polycast.matching.native.native_index import KernelLimits, NativeIndex

ROOT = Path(__file__).parents[2]
LONG = os.environ.get("POLYCAST_STRESS") == "long"
needs_kernel = pytest.mark.skipif(available() is None, reason="the kernel is not built")
SMALL = KernelLimits(few=0, cuts=40, codes=12, quick=50)


def test_the_kernel_is_there_where_it_is_required() -> None:
    if os.environ.get("POLYCAST_NATIVE") == "require":
        assert pc.Matcher().engine.startswith("native")


def test_without_the_kernel_everything_is_matched_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POLYCAST_NATIVE", "off")
    m: pc.Matcher[str] = pc.Matcher()
    m.add("few", Trade, lambda t: t.size < 10)
    assert m.engine == "python"
    assert m.match(Trade("A", 3, 1.0)) == ["few"]


def test_a_choice_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYCAST_NATIVE", "sometimes")
    with pytest.raises(pc.BadOptionError, match=r"POLYCAST_NATIVE='sometimes'.*auto, require, off"):
        pc.Matcher()


def test_a_build_without_a_compiler_is_a_build_without_the_kernel(tmp_path: Path) -> None:
    setup = [sys.executable, "setup.py", "--quiet", "build_ext"]
    places = ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    without = {**os.environ, "CC": "false"}
    done = subprocess.run(
        [*setup, *places, "--force"], cwd=ROOT, env=without, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not list((tmp_path / "lib").rglob("*.so"))


# -- agreeing with every filter --------------------------------------------------------------------


@dataclass(slots=True)
class Trade:
    name: Any
    size: Any
    price: Any


NAMES = ["", "A", "AB", "ABC", "B", "BA", "é", "Z" * 9, "Z" * 9 + "a", "ABCDEFGHIJ"]
EVENT = nodes.Event()


def comparison(draw: random.Random, name: str, value: Any) -> nodes.Node:
    term = nodes.Attribute(EVENT, name)
    sign = draw.choice(["==", "!=", "<", "<=", ">", ">="])
    return nodes.Compare(term, ((sign, nodes.Constant(value)),))


def predicate(draw: random.Random) -> nodes.Node:
    values: dict[str, Callable[[], Any]] = {
        "name": lambda: draw.choice(NAMES),
        "size": lambda: draw.randrange(60),
        "price": lambda: draw.choice([draw.randrange(9), draw.random() * 9]),
    }
    name = draw.choice([*values])
    if draw.random() < 0.4:
        several = tuple(values[name]() for _ in range(draw.randint(1, 9)))
        term = nodes.Attribute(EVENT, name)
        return nodes.Compare(
            term, ((draw.choice(["in", "in", "not in"]), nodes.Constant(several)),)
        )
    if name == "name" and draw.random() < 0.4:
        term = nodes.Attribute(EVENT, name)
        return nodes.Call(term, "startswith", (nodes.Constant(draw.choice(NAMES)),))
    return comparison(draw, name, values[name]())


def trees(draw: random.Random, count: int) -> list[nodes.Node]:
    return [
        nodes.And(tuple(predicate(draw) for _ in range(draw.randint(2, 6)))) for _ in range(count)
    ]


def trade(draw: random.Random) -> Trade:
    strange = [None, 2**63 - 1, 2**80, Decimal(5), Fraction(7, 2), True, float("nan"), "A", []]
    return Trade(
        draw.choice([*NAMES, "ABD", "z", None]),
        draw.choice([draw.randrange(70), draw.randrange(70), draw.choice(strange)]),
        draw.choice([draw.random() * 9, draw.randrange(9), draw.choice(strange)]),
    )


def expected(wanted: dict[int, nodes.Node], event: Any) -> list[int]:
    return sorted(key for key, tree in wanted.items() if interpreter.matches(tree, event))


@pytest.fixture(params=["scalar", "avx2"])
def scan(request: pytest.FixtureRequest) -> Iterator[str]:
    if available() is None:
        pytest.skip("the kernel is not built")
    try:
        yield use(request.param)
    except pc.BadOptionError:
        pytest.skip("this processor has no such instructions")
    finally:
        use("best")


@pytest.mark.parametrize("limits", [None, SMALL], ids=["as it is", "small"])
@settings(
    max_examples=100 if LONG else 8,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_hundreds_of_filters_are_matched_as_one_by_one(
    scan: str, limits: KernelLimits | None, seed: int
) -> None:
    draw = random.Random(seed)
    index = NativeIndex(threading.RLock(), available(), limits=limits)
    wanted = dict(enumerate(trees(draw, 250)))
    for key, tree in wanted.items():
        index.add(tree, key)
    for number in range(40):
        event = trade(draw)
        assert sorted(index.match(event)) == expected(wanted, event)
        if number % 8 == 7:  # some go, some come
            for key in draw.sample(sorted(wanted), 30):
                index.remove(wanted.pop(key), key)
            for key, tree in enumerate(trees(draw, 20), 1_000 * (number + 1)):
                wanted[key] = tree
                index.add(tree, key)
    events = [trade(draw) for _ in range(20)]
    assert list(map(sorted, index.match_batch(events))) == [expected(wanted, e) for e in events]


@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"threads": 2, "share": "filters"}])
def test_columns_are_matched_as_objects_are(scan: str, options: dict[str, Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    draw = random.Random(5)
    m: pc.Matcher[Any] = pc.Matcher(native=True)
    wanted = dict(enumerate(trees(draw, 400)))
    for key, tree in wanted.items():
        m.add(key, Trade, pc.Filter(tree))
    opaque = {"odd": lambda t: t.size % 2 and t.name.startswith("A")}
    events = [
        Trade(
            draw.choice([*NAMES, None]),
            draw.choice([None, draw.randrange(70), 2**63 - 1]),
            draw.choice([None, draw.random() * 9, float("nan")]),
        )
        for _ in range(300)
    ]
    columns = {name: [getattr(e, name) for e in events] for name in ("name", "size", "price")}
    kinds = {"name": pa.string(), "size": pa.int64(), "price": pa.float64()}
    batch = pa.record_batch({k: pa.array(v, kinds[k]) for k, v in columns.items()})
    for key, where in [(None, None), *opaque.items()]:
        if where is not None:
            m.add(key, Trade, where)
        offsets, keys = m.match_batch(batch, of=Trade, **options)
        found = [sorted(map(str, keys[a:b])) for a, b in pairwise(offsets)]
        assert found == [sorted(map(str, m.match(event))) for event in events]


def test_how_threads_share_is_checked() -> None:
    pa = pytest.importorskip("pyarrow")
    m: pc.Matcher[int] = pc.Matcher()
    batch = pa.record_batch({"name": ["a"], "size": [1], "price": [1.0]})
    with pytest.raises(pc.BadOptionError, match="threads=0"):
        m.match_batch(batch, of=Trade, threads=0)
    with pytest.raises(pc.BadOptionError, match="share='rows'"):
        m.match_batch(batch, of=Trade, threads=2, share="rows")  # type: ignore[call-overload]


# -- reading events --------------------------------------------------------------------------------


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Struct(msgspec.Struct):
    value: Any


class Computed:
    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        return self._value


class Dynamic:
    def __init__(self, value: Any) -> None:
        self._kept = value

    def __getattr__(self, name: str) -> Any:
        if name == "value":
            return self._kept
        raise AttributeError(name)


@needs_kernel
@pytest.mark.parametrize("cls", [Plain, Slotted, Struct, Computed, Dynamic])
def test_an_attribute_is_read_as_getattr_reads_it(cls: type) -> None:
    m: pc.Matcher[int] = pc.Matcher(native=True)
    for number in range(60):
        m.add(number, cls, lambda e, number=number: e.value == number)
    for value in (5, 5.0, "x", None, 59):
        expected = [value] if isinstance(value, (int, float)) else []
        assert [m.match(cls(value)) for _ in range(3)] == [expected] * 3


@needs_kernel
def test_a_class_that_is_changed_is_read_anew() -> None:
    class Changing:
        __slots__ = ("kept", "value")

        def __init__(self, value: int) -> None:
            self.value = self.kept = value

    m: pc.Matcher[str] = pc.Matcher(native=True)
    m.add("five", Changing, lambda e: e.value == 5)
    event = Changing(5)
    assert [m.match(event), m.match(event)] == [["five"], ["five"]]
    del event.value
    assert m.match(event) == []
    Changing.value = property(lambda self: self.kept)  # type: ignore[assignment, method-assign]
    assert m.match(event) == ["five"]


@needs_kernel
def test_reading_that_is_interrupted_is_interrupted() -> None:
    class Rude:
        @property
        def value(self) -> int:
            raise KeyboardInterrupt

    m: pc.Matcher[str] = pc.Matcher(native=True)
    m.add("five", Rude, lambda e: e.value == 5)
    with pytest.raises(KeyboardInterrupt):
        m.match(Rude())


@needs_kernel
def test_who_is_found_changes_with_registrations_and_topics() -> None:
    class Shape(ABC):  # noqa: B024
        pass

    m: pc.Matcher[str] = pc.Matcher(native=True)
    m.add("plain", Plain, lambda e: e.value > 1)
    m.add("shape", Shape, lambda e: e.value > 2)
    assert [m.match(Plain(3)) for _ in range(2)] == [["plain"]] * 2
    Shape.register(Plain)
    assert sorted(m.match(Plain(3))) == ["plain", "shape"]
    m.add("topic", pc.topic("/a"), lambda e: e.value > 2)
    assert sorted(m.match(Plain(3))) == ["plain", "shape"]
    assert sorted(m.match(Plain(3), topic="/a")) == ["plain", "shape", "topic"]
    m.remove("plain")
    assert m.match(Plain(3)) == ["shape"]


# -- changing --------------------------------------------------------------------------------------


@needs_kernel
def test_what_is_removed_is_freed() -> None:
    draw = random.Random(1)
    index = NativeIndex(threading.RLock(), available(), limits=SMALL)
    event = Trade("A", 5, 1.5)
    many = trees(draw, 3_000)
    index.add(many[0], 0)
    index.match(event)
    gc.collect()
    tracemalloc.start()
    before = held(index)
    for key, tree in enumerate(many[1:], 1):
        index.add(tree, key)
    index.match(event)
    full = held(index)
    for key, tree in enumerate(many[1:], 1):
        index.remove(tree, key)
    settled(index)
    index.match(event)
    gc.collect()
    after = held(index)
    tracemalloc.stop()
    assert len(index) == 1
    assert after - before < (full - before) / 5


def held(index: NativeIndex) -> int:
    return tracemalloc.get_traced_memory()[0] + int(index.kernel.bytes)


@needs_kernel
def test_memory_can_be_traced_and_not_while_segments_are_merged_aside() -> None:
    many = trees(random.Random(2), 2_000)
    for _ in range(5):
        index = NativeIndex(threading.RLock(), available(), limits=SMALL)
        for key, tree in enumerate(many):
            index.add(tree, key)
        index.match(Trade("A", 5, 1.5))
        tracemalloc.start()
        for key, tree in enumerate(many[:1_000]):
            index.remove(tree, key)
        tracemalloc.stop()
        settled(index)
    assert len(index) > 0


def settled(index: NativeIndex) -> None:
    """Wait for what is merged aside."""
    while aside := [each for each in threading.enumerate() if each.name == "polycast-matching"]:
        aside[0].join(60)


@needs_kernel
def test_numbers_are_given_again_and_mean_who_has_them_now() -> None:
    draw = random.Random(2)
    index = NativeIndex(threading.RLock(), available(), limits=SMALL)
    wanted: dict[int, nodes.Node] = {}
    for turn in range(12):
        for key in list(wanted)[: len(wanted) // 2 + 1]:
            index.remove(wanted.pop(key), key)
        for key, tree in enumerate(trees(draw, 250), 1_000 * turn):
            wanted[key] = tree
            index.add(tree, key)
        event = trade(draw)
        assert sorted(index.match(event)) == expected(wanted, event)
        settled(index)
    assert index.kernel.bytes < 3_000 * 1_000


@needs_kernel
def test_who_stays_is_found_by_all_threads_while_others_come_and_go() -> None:
    pa = pytest.importorskip("pyarrow")
    m: pc.Matcher[int] = pc.Matcher(native=True)
    draw = random.Random(3)
    for number in range(200):
        m.add(number, Trade, lambda t, number=number: t.size == number % 20 and t.price >= 0)
    batch = pa.record_batch({"name": ["a"] * 20, "size": list(range(20)), "price": [1.0] * 20})
    over = threading.Event()

    def change(base: int) -> None:
        some = [pc.Filter[Trade](tree) for tree in trees(random.Random(base), 60)]
        while not over.is_set():
            for number, each in enumerate(some):
                m.add(base + number, Trade, each)
            for number in range(len(some)):
                m.remove(base + number)

    def ask() -> None:
        while not over.is_set():
            offsets, keys = m.match_batch(batch, of=Trade, threads=2)
            for size, (begin, end) in enumerate(pairwise(offsets)):
                assert stayed(keys[begin:end].tolist()) == list(range(size, 200, 20))

    works = [partial(change, 1_000), partial(change, 2_000), ask]
    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(work) for work in works]
        try:
            for _ in range(20_000 if LONG else 1_500):
                size = draw.randrange(20)
                assert stayed(m.match(Trade("a", size, 1.0))) == list(range(size, 200, 20))
        finally:
            over.set()
    for each in running:
        each.result()


def stayed(found: list[int]) -> list[int]:
    assert len(set(found)) == len(found)
    return sorted(key for key in found if key < 200)


@needs_kernel
def test_a_matcher_that_nobody_has_is_collected() -> None:
    class Key:
        pass

    key = Key()
    m: pc.Matcher[Any] = pc.Matcher(native=True)
    m.add(key, Trade, lambda t: t.size == 1)
    m.add("other", Trade, lambda t: t.match)
    m.match(Trade("a", 1, 1))
    seen = len([each for each in gc.get_objects() if isinstance(each, Key)])
    del m, key
    gc.collect()
    assert seen == 1
    assert not [each for each in gc.get_objects() if isinstance(each, Key)]
