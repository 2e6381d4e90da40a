"""Condition objects, as in DAC 4.2 and its appendix."""

from __future__ import annotations

from typing import Any

import pytest

import polycast as pc
from polycast.filters.tree.canonical_text import parse
from polycast.testing import Recorder, TestBus

c = pc.conditions


class ChatMsg:
    def __init__(self, sender: str | None, text: str) -> None:
        self.sender, self._text = sender, text

    def get_sender(self) -> str | None:
        return self.sender

    def get_text(self) -> str:
        return self._text


ALICE = ChatMsg("Alice", "Hi Bob")
TOM = ChatMsg("Tom", "zzz")
NOBODY = ChatMsg(None, "?")


def accepted(condition: Any) -> list[bool]:
    return [pc.Filter(condition).matches(msg) for msg in (ALICE, TOM, NOBODY)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (c.Equals("/get_sender", "Alice"), [True, False, False]),
        (c.Equals("get_sender", "Alice", result=False), [False, True, False]),
        (c.Equals("/sender", "Tom"), [False, True, False]),
        (
            c.Equals("/get_text/find", -1, args=[[], ["Bob"]], result=False),
            [True, False, False],
        ),
        (c.Equals(ChatMsg.get_sender, "Alice"), [True, False, False]),
        (c.Equals(c.Invoke("find", [["z"]], of=c.Invoke("get_text")), 0), [False, True, False]),
        (c.Equals("", ALICE), [True, False, False]),
        (c.Compares("/get_text/__len__", ">", 3), [True, False, False]),
        (c.InstanceOf(ChatMsg), [True, True, True]),
        (c.InstanceOf(str, "/get_sender"), [True, True, False]),
        (c.InstanceOf(str, "/get_sender", result=False), [False, False, False]),
        (c.Equals("/missing", 1), [False, False, False]),
        (~c.Equals("/missing", 1), [False, False, False]),
        (~c.Equals("/get_sender", "Tom"), [True, False, True]),
        (c.Equals("/sender", "Tom") | c.Equals("/sender", "Alice"), [True, True, False]),
        (c.Equals("/sender", "Alice") & c.Compares("/sender", "<", "B"), [True, False, False]),
    ],
)
def test_a_condition_accepts_what_it_says(condition: Any, expected: list[bool]) -> None:
    assert accepted(condition) == expected
    assert [condition.matches(msg) for msg in (ALICE, TOM, NOBODY)] == expected


def test_an_accessor_that_yields_nothing_does_not_match_whatever_is_required() -> None:
    for result in (True, False):
        assert not c.Equals("/get_sender", "x", result=result).matches(NOBODY)


def test_equal_conditions_are_equal_and_hash_alike() -> None:
    one, other = c.Equals("/get_sender", "Alice"), c.Equals("get_sender", "Alice")
    assert one == other
    assert len({one, other}) == 1
    assert one != c.Equals("/get_sender", "Bob")


def test_a_method_implies_its_class() -> None:
    class Other:
        def get_sender(self) -> str:
            return "Alice"

    assert not c.Equals(ChatMsg.get_sender, "Alice").matches(Other())


def test_conditions_have_a_text() -> None:
    lifted = pc.Filter(c.Equals("/get_text/find", -1, args=[[], ["Bob"]], result=False))
    assert parse(str(lifted)) == lifted.tree


def test_a_condition_stands_where_a_filter_can() -> None:
    with TestBus() as bus:
        seen: Recorder[ChatMsg] = Recorder()
        bus.subscribe(ChatMsg, seen, where=c.Equals("/get_sender", "Alice"))
        for msg in (ALICE, TOM, NOBODY):
            bus.publish(msg)
        bus.run_until_idle()
    assert seen.events == [ALICE]


def test_a_condition_of_ones_own_may_change_its_mind() -> None:
    class Open(c.Condition):
        is_open = False

        def matches(self, event: Any, topic: str | None = None, /) -> bool:
            return self.is_open

    mine = Open()
    combined = pc.Filter(mine & c.InstanceOf(ChatMsg))
    before = combined.matches(ALICE)
    mine.is_open = True
    assert (before, combined.matches(ALICE)) == (False, True)
    assert combined.opaque_parts()


def test_a_condition_of_ones_own_may_say_its_tree() -> None:
    class FromAlice(c.Condition):
        def tree(self) -> Any:
            return parse("event.sender == 'Alice'")

    assert str(pc.Filter(FromAlice())) == "event.sender == 'Alice'"
    assert accepted(FromAlice()) == [True, False, False]


@pytest.mark.parametrize(
    "make",
    [
        lambda: c.Equals(3, 1),
        lambda: c.Equals("/a b", 1),
        lambda: c.Equals("/a/b", 1, args=[[]]),
        lambda: c.Compares("/a", "~", 1),
        lambda: c.InstanceOf("str"),
        lambda: c.And(c.Equals("/a", 1)),
        lambda: c.Not(3),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(pc.BadOptionError):
        make()
