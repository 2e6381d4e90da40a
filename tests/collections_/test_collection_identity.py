"""Equality, names and covering of collections; suppliers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polycast as pc
from polycast.testing import Recorder, TestBus


@dataclass
class Talk:
    number: int = 0


@dataclass
class Lecture(Talk):
    pass


@dataclass
class Song:
    number: int = 0


class Numbered(Protocol):
    number: int


# -- equality --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [Talk, "/Chat", Talk | Song, Numbered])
def test_collections_of_the_same_are_equal_whatever_their_class(bus: TestBus, what: Any) -> None:
    one, other = pc.DAStrongSet(what, bus), pc.DAWeakBag(what, bus)
    assert one == other
    assert hash(one) == hash(other)


def test_collections_of_different_types_differ(bus: TestBus) -> None:
    assert pc.DAList(Talk, bus) != pc.DAList(Lecture, bus)


def test_collections_of_different_topics_differ(bus: TestBus) -> None:
    assert pc.DAList("/Chat", bus) != pc.DAList("/Chat/Insomnia", bus)


def test_collections_on_different_buses_differ(bus: TestBus) -> None:
    with TestBus() as other:
        assert pc.DAList(Talk, bus) != pc.DAList(Talk, other)


def test_a_collection_is_not_equal_to_something_else(bus: TestBus) -> None:
    assert pc.DAList(Talk, bus) != Talk


def test_the_root_has_two_names(bus: TestBus) -> None:
    assert pc.DAList("/", bus) == pc.DAList("**", bus)


def test_a_union_is_the_same_in_any_order(bus: TestBus) -> None:
    one, other = pc.DAList(Talk | Song, bus), pc.DAList(Song | Talk, bus)
    assert one == other
    assert hash(one) == hash(other)


def test_removes_of_a_union_form_one_group_in_any_order(bus: TestBus) -> None:
    one: Recorder[Any] = Recorder()
    other: Recorder[Any] = Recorder()
    pc.DAStrongSet(Talk | Song, bus).remove(one)
    pc.DAStrongSet(Song | Talk, bus).remove(other)
    bus.publish(Talk(1))
    bus.run_until_idle()
    assert len(one.events) + len(other.events) == 1


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "name"),
    [("/Chat", "/Chat"), ("/Chat/**", "/Chat/**"), ("/", "/"), ("**", "/")],
)
def test_the_name_of_a_topic_collection_is_its_topic(bus: TestBus, what: str, name: str) -> None:
    assert pc.DAList(what, bus).name == name


def test_the_name_of_a_type_collection_is_its_wire_name(bus: TestBus) -> None:
    @pc.event(name="com.acme.Named")
    @dataclass
    class Named:
        pass

    assert pc.DAList(Named, bus).name == "com.acme.Named"


def test_a_collection_tells_in_its_repr_what_it_promises(bus: TestBus) -> None:
    text = repr(pc.DAStrongSet("/Chat", bus))
    assert all(part in text for part in ("DAStrongSet", "/Chat", "exactly once"))


# -- covering --------------------------------------------------------------------------------------


EVERY: list[Any] = [Talk, Lecture, Talk | Song, Numbered, "/", "/Chat", "/Chat/*", "/Chat/**"]


@pytest.mark.parametrize("what", EVERY)
def test_covering_is_reflexive(bus: TestBus, what: Any) -> None:
    assert pc.DAList(what, bus).covers(pc.DAWeakBag(what, bus))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (Talk, Lecture),
        (object, Talk),
        (Talk | Song, Song),
        (Talk | Song, Lecture),
        (Numbered, Talk),
        ("/", "/Chat"),
        ("/Chat", "/Chat/Insomnia"),
        ("/Chat/**", "/Chat"),
        ("/Chat/*", "/Chat/Insomnia"),
    ],
)
def test_a_collection_covers_what_is_below_and_not_the_other_way(
    bus: TestBus, wide: Any, narrow: Any
) -> None:
    above, below = pc.DAList(wide, bus), pc.DAList(narrow, bus)
    there, back = above.covers(below), below.covers(above)
    assert there
    # "/Chat" means what is below it as well, so these two cover each other.
    assert not back or (wide, narrow) == ("/Chat/**", "/Chat")


@pytest.mark.parametrize(
    ("one", "other"), [(Talk, Song), ("/Chat", "/Chatter"), ("/Chat", "/News"), (Talk, "/Chat")]
)
def test_neither_covers_the_other(bus: TestBus, one: Any, other: Any) -> None:
    first, second = pc.DAList(one, bus), pc.DAList(other, bus)
    assert not first.covers(second)
    assert not second.covers(first)


def test_a_type_and_a_topic_never_cover_each_other(bus: TestBus) -> None:
    assert not pc.DAList(object, bus).covers(pc.DAList("/Chat", bus))
    assert not pc.DAList("/", bus).covers(pc.DAList(Talk, bus))


LEVEL = st.sampled_from(["a", "b", "*", "**"])
PATTERNS = st.lists(LEVEL, min_size=1, max_size=3).map(lambda levels: "/" + "/".join(levels))
TOPICS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda t: "/" + "/".join(t))


@given(wide=PATTERNS, narrow=PATTERNS, topic=TOPICS)
def test_who_covers_gets_all_that_the_other_gets(wide: str, narrow: str, topic: str) -> None:
    with TestBus() as bus:
        above, below = pc.DAList(wide, bus), pc.DAList(narrow, bus)
        got: Recorder[Any] = Recorder()
        missed: Recorder[Any] = Recorder()
        below.contains(got)
        above.contains_all(missed)
        bus.publish(1, topic=topic)
        bus.run_until_idle()
        assert not (above.covers(below) and got.events and not missed.events)


# -- suppliers -------------------------------------------------------------------------------------


def test_a_supplier_is_asked_every_so_often(bus: TestBus) -> None:
    seen: Recorder[Talk] = Recorder()
    talks = pc.DAStrongSet(Talk, bus)
    talks.contains(seen)
    supply = iter([Talk(1), None, Talk(2), Talk(3), None])
    talks.supply(lambda: next(supply, None), every=10)
    got = []
    for _ in range(3):
        bus.advance(10)
        got.append(len(seen.events))
    assert got == [1, 3, 3]


def test_a_supplier_is_not_asked_before_its_time(bus: TestBus) -> None:
    asked: list[int] = []
    pc.DAStrongSet(Talk, bus).supply(lambda: asked.append(1), every=10)
    bus.advance(9)
    assert asked == []


def test_a_supplier_that_fails_is_asked_again(
    bus: TestBus, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []

    def produce() -> Talk | None:
        asked.append(1)
        if len(asked) == 1:
            raise OSError("no")
        return None

    supply = pc.DAStrongSet(Talk, bus).supply(produce, every=1)
    bus.advance(1)
    bus.advance(1)
    assert (len(asked), supply.failures) == (2, 1)


def test_a_supplier_is_asked_no_more_after_cancel(bus: TestBus) -> None:
    asked: list[int] = []
    supply = pc.DAStrongSet(Talk, bus).supply(lambda: asked.append(1), every=1)
    supply.cancel()
    bus.advance(10)
    assert asked == []


def test_a_supplier_is_asked_no_more_after_close() -> None:
    asked: list[int] = []
    bus = TestBus()
    pc.DAStrongSet(Talk, bus).supply(lambda: asked.append(1), every=1)
    bus.close()
    bus.clock.advance(10)
    assert asked == []


@pytest.mark.parametrize("every", [0, -1, "1"])
def test_a_supplier_needs_a_time_between(bus: TestBus, every: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="positive"):
        pc.DAStrongSet(Talk, bus).supply(lambda: None, every=every)


def test_a_supplier_has_to_be_callable(bus: TestBus) -> None:
    with pytest.raises(pc.PolycastError, match=r"function|call"):
        pc.DAStrongSet(Talk, bus).supply(5)  # type: ignore[arg-type]
