"""Who wants an event: keys by type and filter."""

from __future__ import annotations

import enum
import gc
import itertools
import random
import threading
import uuid
import weakref
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

import pytest
from linear_matcher import LinearMatcher

import polycast as pc
from polycast.filters.tree import nodes
from polycast.matching import matcher, selector_for
from polycast.matching.index import filter_index as filters
from polycast.matching.index import index_codegen as generated

pytestmark = pytest.mark.usefixtures("engine")


@dataclass
class Talk:
    speaker: str = "Ada"
    stars: int = 3
    price: float = 1.0
    room: str | None = None


@dataclass
class Keynote(Talk):
    fee: int = 0


@dataclass
class Lecture:
    speaker: str = "Bob"


class HasFee(Protocol):
    fee: int


def test_keys_are_found_by_type_and_filter() -> None:
    m: pc.Matcher[str] = pc.Matcher()
    m.add("all", Talk)
    m.add("good", Talk, lambda t: t.stars > 3)
    m.add("key", Keynote, lambda t: t.fee > 10)
    m.add("either", Talk | Lecture, lambda t: t.speaker == "Bob")
    m.add("fee", HasFee)
    m.add("exact", pc.all_of(Talk, HasFee))
    assert m.match(Talk()) == ["all"]
    assert set(m.match(Talk(stars=4))) == {"all", "good"}
    assert set(m.match(Keynote("Bob", fee=11))) == {"all", "key", "either", "fee", "exact"}
    assert m.match(Lecture()) == ["either"]
    assert m.match(3) == []


def test_topics_are_part_of_what_is_wanted() -> None:
    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, "/chat/**")
    m.add(2, pc.topic("/chat/a", Talk), lambda t: t.stars > 3)
    m.add(3, Talk)
    assert m.match(Talk(stars=4)) == [3]
    assert sorted(m.match(Talk(stars=4), topic="/chat/a")) == [1, 2, 3]
    assert sorted(m.match(Talk(stars=4), topic="/chat/b")) == [1, 3]
    assert [sorted(each) for each in m.match_batch([Talk(), 3], topic="/chat/a")] == [[1, 3], [1]]


def test_removed_keys_are_found_no_more() -> None:
    m: pc.Matcher[str] = pc.Matcher()
    m.add("a", Talk, lambda t: t.stars == 3)
    m.add("b", Talk, lambda t: t.stars == 3)
    assert sorted(m.match(Talk())) == ["a", "b"]
    m.remove("a")
    assert m.match(Talk()) == ["b"]
    m.add("a", Talk, lambda t: t.stars == 4)
    assert m.match(Talk()) == ["b"]
    assert m.match(Talk(stars=4)) == ["a"]
    assert (len(m), list(m), "a" in m, "c" in m) == (2, ["b", "a"], True, False)


def test_a_key_is_added_once_and_removed_once() -> None:
    m: pc.Matcher[str] = pc.Matcher()
    m.add("a", Talk)
    with pytest.raises(pc.BadOptionError, match="`remove` it first"):
        m.add("a", Talk)
    with pytest.raises(pc.BadOptionError, match=r"'b'.*was added"):
        m.remove("b")
    with pytest.raises(pc.NotATypeError):
        m.add("c", "no topic")
    with pytest.raises(pc.BadOptionError, match="where"):
        m.add("c", Talk, 3)  # type: ignore[call-overload]
    assert list(m) == ["a"]


@pytest.mark.parametrize("count", [1, 10, 60, 500])
def test_equal_filters_and_getters_are_asked_once_for_an_event(count: int) -> None:
    calls: list[str] = []

    class Sensor:
        def reading(self) -> int:
            calls.append("reading")
            return 5

        def noise(self) -> int:
            calls.append("noise")
            return 1

        @property
        def site(self) -> str:
            calls.append("site")
            return "x"

    m: pc.Matcher[int] = pc.Matcher()
    for number in range(count):
        m.add(number, Sensor, pc.lift(lambda s: s.reading() > 3 and s.site == "x"))
        m.add(-1 - number, Sensor, pc.conditions.Equals("/noise", number))
    matched = m.match(Sensor())
    assert sorted(matched) == sorted([*range(count), *([-2] if count > 1 else [])])
    assert len(calls) <= 3


def test_opaque_conditions_are_asked_each_time() -> None:
    class Switch(pc.conditions.Condition):
        on = False

        def matches(self, event: Any, topic: str | None = None, /) -> bool:
            return self.on

    switch = Switch()
    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, Talk, switch)
    assert m.match(Talk()) == []
    switch.on = True
    assert m.match(Talk()) == [1]


def test_a_filter_that_was_removed_is_not_asked_any_more() -> None:
    asked: list[int] = []

    def opaque(talk: Talk) -> bool:
        asked.append(talk.stars)
        return True

    m: pc.Matcher[int] = pc.Matcher()
    for number in range(300):
        m.add(number, Talk, lambda t, number=number: t.stars == number)
    m.add(-1, Talk, opaque)
    assert m.match(Talk(stars=3)) == [3, -1]
    m.remove(-1)
    asked.clear()
    for _ in range(100):
        assert m.match(Talk(stars=3)) == [3]
    assert m.match_batch([Talk(stars=3)] * 100) == [[3]] * 100
    assert asked == []


def test_values_of_other_classes_are_asked_themselves() -> None:
    class Own:
        def __lt__(self, other: object) -> bool:
            return True

        def startswith(self, text: str) -> bool:
            return True

        def __eq__(self, other: object) -> bool:
            return other == 5

        def __hash__(self) -> int:
            return 1

    m: pc.Matcher[str] = pc.Matcher()
    for number in range(200):  # so many that there is an index
        m.add(f"other {number}", Talk, lambda t, number=number: t.stars == -number - 1)
    m.add("<", Talk, lambda t: t.stars < 3)
    m.add("not <", Talk, lambda t: not t.stars < 3)
    m.add("in", Talk, lambda t: t.stars in (4, 5))
    m.add("or", Talk, lambda t: t.stars == 5 or t.stars == 7)
    m.add("starts", Talk, lambda t: t.stars.startswith("x"))  # type: ignore[attr-defined]
    wanted = {"<", "in", "or", "starts"}
    assert set(m.match(Talk(stars=Own()))) == wanted  # type: ignore[arg-type]
    batch = m.match_batch([Talk(stars=Own()), Talk(stars=1)] * 50)  # type: ignore[arg-type]
    assert set(batch[0]) == wanted
    assert batch[1] == ["<"]
    assert set(m.match(Talk(stars=Decimal("5")))) == {"not <", "in", "or"}  # type: ignore[arg-type]


def test_what_is_not_a_list_of_events_is_refused() -> None:
    m: pc.Matcher[int] = pc.Matcher()
    for events in ("abc", b"abc", {"a": 1}):
        with pytest.raises(pc.BadOptionError, match="a list of events"):
            m.match_batch(events)
    for topic in (5, [], "no topic"):
        with pytest.raises(pc.BadTopicError):
            m.match(Talk(), topic=topic)  # type: ignore[arg-type]


def test_a_class_registered_later_is_seen() -> None:
    class Priced(ABC):  # noqa: B024
        pass

    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, Priced)
    assert m.match(Talk()) == []
    Priced.register(Talk)
    assert m.match(Talk()) == [1]


@pytest.mark.parametrize("in_advance", [False, True])
def test_many_filters_of_one_type_have_an_index_of_their_own(
    monkeypatch: pytest.MonkeyPatch, *, in_advance: bool
) -> None:
    monkeypatch.setattr(matcher, "MANY", 20)
    monkeypatch.setattr(filters, "WAITING", 5)
    m: pc.Matcher[int] = pc.Matcher()
    reference: LinearMatcher[int] = LinearMatcher()
    draw = random.Random(1)
    events = [Talk(stars=n) for n in range(6)] + [Keynote(stars=n, fee=n) for n in range(6)]
    for step in range(300):
        cls = draw.choice([Talk, Keynote, Talk | Lecture, Lecture])
        if draw.random() < 0.6:
            tree = nodes.Compare(
                nodes.Attribute(nodes.Event(), "stars"),
                ((draw.choice(["<", "==", "!="]), nodes.Constant(draw.randrange(6))),),
            )
            m.add(step, cls, pc.Filter(tree))
            if in_advance:
                m.prepare(selector_for(cls))
            reference.add(step, cls, pc.Filter(tree))
        elif len(m):
            gone = draw.choice(list(m))
            m.remove(gone)
            reference.remove(gone)
        event = draw.choice(events)
        assert sorted(m.match(event)) == sorted(reference.match(event))
    batch = [sorted(each) for each in m.match_batch(events * 20)]
    assert batch == [sorted(reference.match(event)) for event in events * 20]


def test_what_no_index_looks_up_comes_and_goes_between_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generated, "LONGEST_FUNCTION", 10)
    m: pc.Matcher[int] = pc.Matcher()
    reference: LinearMatcher[int] = LinearMatcher()
    stars = nodes.Attribute(nodes.Event(), "stars")
    for number in range(400):
        product = nodes.Arithmetic("*", stars, nodes.Constant(number))
        where = pc.Filter(nodes.Compare(product, (("<", nodes.Constant(900)),)))
        m.add(number, Talk, where)
        reference.add(number, Talk, where)
        if number % 9 == 0:
            m.remove(number)
            reference.remove(number)
        for event in (Talk(stars=number % 7), Talk(stars=None)):  # type: ignore[arg-type]
            assert sorted(m.match(event)) == sorted(reference.match(event))


def test_it_holds_neither_events_nor_classes() -> None:
    m: pc.Matcher[int] = pc.Matcher()
    for number in range(100):
        m.add(
            number, object, pc.Filter(nodes.Compare(ATTRIBUTE, (("==", nodes.Constant(number)),)))
        )

    def publish() -> tuple[Any, Any]:
        @dataclass
        class Local:
            stars: Any

        event = Local(Local(3))
        assert m.match(event) == []
        assert m.match(Local(3)) == [3]
        assert m.match_batch([Local(7)] * 100) == [[7]] * 100
        return weakref.ref(event), weakref.ref(Local)

    event, cls = publish()
    gc.collect()
    assert event() is None
    assert cls() is None


ATTRIBUTE = nodes.Attribute(nodes.Event(), "stars")


def test_what_is_removed_is_let_go() -> None:
    m: pc.Matcher[Any] = pc.Matcher()

    class Key:
        pass

    keys = [Key() for _ in range(500)]
    seen = [weakref.ref(key) for key in keys]
    for number, key in enumerate(keys):
        m.add(key, Talk, pc.Filter(nodes.Compare(ATTRIBUTE, (("==", nodes.Constant(number)),))))
    for number in range(600):
        m.match(Talk(stars=number))
    for key in keys:
        m.remove(key)
    keys.clear()
    del key
    gc.collect()
    assert [each for each in seen if each() is not None] == []
    assert m.match(Talk()) == []


def test_it_is_asked_while_it_is_changed(in_thread: Callable[..., Any]) -> None:
    m: pc.Matcher[int] = pc.Matcher()
    for number in range(200):
        m.add(
            number, Talk, pc.Filter(nodes.Compare(ATTRIBUTE, (("==", nodes.Constant(number % 7)),)))
        )
    steady = [[n for n in range(200) if n % 7 == stars] for stars in range(7)]
    stop = threading.Event()
    wrong: list[Any] = []

    def ask() -> None:
        draw = random.Random()
        while not stop.is_set():
            stars = draw.randrange(7)
            found = m.match(Talk(stars=stars))
            if sorted(n for n in found if n < 200) != steady[stars] or len(set(found)) < len(found):
                wrong.append(found)
            batch = m.match_batch([Talk(stars=stars), Talk(stars=99)] * 70)
            if any(batch[1::2]):
                wrong.append(batch)
            batch = batch[::2]
            if any(sorted(n for n in each if n < 200) != steady[stars] for each in batch):
                wrong.append(batch)

    threads = [in_thread(ask) for _ in range(2)]
    for number in range(200, 1_500):
        tree = nodes.Compare(ATTRIBUTE, (("in", nodes.Constant((number % 7, number))),))
        m.add(number, Talk, pc.Filter(tree))
        if number % 3:
            m.remove(number)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert wrong == []


def test_small_and_large_batches_and_none() -> None:
    m: pc.Matcher[int] = pc.Matcher()
    assert m.match_batch([]) == []
    assert m.match_batch([Talk()]) == [[]]
    m.add(1, Talk, lambda t: t.stars > 2)
    m.add(2, Lecture)
    events: list[Any] = [Talk(), Lecture(), Talk(stars=1), 3] * 50
    assert m.match_batch(iter(events)) == [[1], [2], [], []] * 50


def test_batches_do_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "_has_numpy", lambda: False)
    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, Talk, lambda t: t.stars > 2)
    assert m.match_batch([Talk(), Talk(stars=1)] * 50) == [[1], []] * 50


# -- columns of Arrow ------------------------------------------------------------------------------


class Status(enum.Enum):
    OPEN = 1
    PAID = 2


@dataclass
class Line:
    price: Decimal
    tags: tuple[str, ...] = ()


@dataclass
class Order:
    id: uuid.UUID
    total: float | None
    count: int
    note: str | None
    status: Status
    line: Line
    lines: list[Line] = field(default_factory=list)

    def is_large(self) -> bool:
        return self.count > 5


def orders(count: int) -> list[Order]:
    draw = random.Random(3)
    return [
        Order(
            uuid.UUID(int=draw.randrange(5)),
            draw.choice([None, float("nan"), draw.random(), 1.0]),
            draw.choice([draw.randrange(10), 2**53, 2**53 + 1, -(2**63), 2**63 - 1]),
            draw.choice([None, "", "a", "ab", "b\U0001f600", "é"]),
            draw.choice(list(Status)),
            Line(Decimal(draw.randrange(4)), ("x",) * draw.randrange(3)),
            [Line(Decimal(draw.randrange(4)))] * draw.randrange(3),
        )
        for _ in range(count)
    ]


def as_columns(events: list[Order]) -> Any:
    pa = pytest.importorskip("pyarrow")

    def line(each: Line) -> dict[str, Any]:
        return {"price": each.price, "tags": list(each.tags)}

    kind = pa.struct([("price", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))])
    return pa.record_batch(
        {
            "id": pa.array([str(each.id) for each in events]),
            "total": pa.array([each.total for each in events], pa.float64()),
            "count": pa.array([each.count for each in events], pa.int64()),
            "note": pa.array([each.note for each in events]),
            "status": pa.array([each.status.name for each in events]).dictionary_encode(),
            "line": pa.array([line(each.line) for each in events], kind),
            "lines": pa.array([[line(x) for x in each.lines] for each in events], pa.list_(kind)),
        }
    )


FILTERS: list[Callable[[Order], object]] = [
    lambda o: o.total is None,
    lambda o: o.total > 0.5,
    lambda o: not o.total < 0.5,
    lambda o: o.count == 2**53 + 1,
    lambda o: o.count == float(2**53),
    lambda o: o.count > 2.5,
    lambda o: o.count >= 10**30,
    lambda o: o.count > -(10**30),
    lambda o: o.note == "a",
    lambda o: o.note.startswith("a"),
    lambda o: o.note != "a",
    lambda o: o.note > "b",
    lambda o: o.note in ("a", "é"),
    lambda o: o.status == Status.PAID,
    lambda o: o.status is Status.PAID,
    lambda o: o.id == uuid.UUID(int=2),
    lambda o: o.line.price >= 2 and o.count > 3,
    lambda o: len(o.line.tags) == 2,
    lambda o: any(x.price == 3 for x in o.lines),
    lambda o: o.is_large(),
    lambda o: o.is_large() and o.total > 0.2,
    lambda o: isinstance(o, Order) and isinstance(o.line, Line),
    lambda o: o.missing == 3,  # type: ignore[attr-defined]
    lambda o: True,
]


@pytest.mark.parametrize("table", [False, True])
def test_rows_of_arrow_are_matched_as_the_events_they_hold(*, table: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    events = orders(200)
    batch = as_columns(events)
    m: pc.Matcher[str] = pc.Matcher()
    for number, each in enumerate(FILTERS * 3):
        m.add(f"key {number}", Order, each)
    if table:
        batch = pa.Table.from_batches([batch.slice(0, 90), batch.slice(90)])
    offsets, ids = m.match_batch(batch, of=Order)
    found = [list(ids[a:b]) for a, b in itertools.pairwise(offsets)]
    assert [sorted(each) for each in found] == [sorted(m.match(event)) for event in events]


@dataclass
class Stock:
    counts: dict[str, int] | None = None
    lines: dict[str, Line] = field(default_factory=dict)
    words: Any = None


@pytest.mark.parametrize("crowd", [0, 100])
def test_a_map_of_arrow_is_a_dictionary(crowd: int) -> None:
    pa = pytest.importorskip("pyarrow")
    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, Stock, lambda s: s.counts["bolts"] > 2)  # type: ignore[index]
    m.add(2, Stock, lambda s: s.counts.get("nuts", 0) == 0)  # type: ignore[union-attr]
    m.add(3, Stock, lambda s: "nuts" in s.counts)  # type: ignore[operator]
    m.add(4, Stock, lambda s: s.lines["a"].price == 3)
    m.add(5, Stock, lambda s: s.words == [])
    for number in range(crowd):
        m.add(10 + number, Stock, lambda s, n=number: s.counts["bolts"] == 1000 + n)
    counts = [[("bolts", 3)], [("bolts", 1), ("nuts", 5)], [], None]
    line = pa.struct([("price", pa.int64())])
    columns = {
        "counts": pa.array(counts, pa.map_(pa.string(), pa.int64())),
        "lines": pa.array([[("a", {"price": 3})], [], [], []], pa.map_(pa.string(), line)),
        "words": pa.array([[], ["x"], [], []], pa.list_(pa.string())),
    }
    offsets, keys = m.match_batch(pa.record_batch(columns), of=Stock)
    found = [sorted(keys[a:b]) for a, b in itertools.pairwise(offsets)]
    assert found == [[1, 2, 4, 5], [3], [2, 5], [5]]


def test_keys_that_are_numbers_are_an_array_of_numbers() -> None:
    pa = pytest.importorskip("pyarrow")
    m: pc.Matcher[int] = pc.Matcher()
    m.add(7, Talk, lambda t: t.stars > 2)
    m.add(8, Lecture)
    offsets, ids = m.match_batch(pa.record_batch({"stars": [1, 2, 3, None]}), of=Talk)
    assert (offsets.tolist(), ids.tolist(), str(ids.dtype)) == ([0, 0, 0, 1, 1], [7], "int64")


def test_columns_need_their_class() -> None:
    pa = pytest.importorskip("pyarrow")
    m: pc.Matcher[int] = pc.Matcher()
    batch = pa.record_batch({"stars": [1]})
    with pytest.raises(pc.BadOptionError, match="of=Talk"):
        m.match_batch(batch)
    with pytest.raises(pc.BadOptionError, match="RecordBatch"):
        m.match_batch([Talk()], of=Talk)  # type: ignore[call-overload]
    with pytest.raises(pc.BadOptionError, match=r"column starz.*speaker, stars"):
        m.match_batch(pa.record_batch({"starz": [1]}), of=Talk)


def test_who_wants_no_type_at_all_comes_and_goes() -> None:
    m: pc.Matcher[str] = pc.Matcher()
    m.add("nobody", pc.Selector(()))
    assert m.match(Talk()) == []
    m.remove("nobody")
    assert len(m) == 0
