"""What a filter tells about itself, and what is known of it once the class is known."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.filters.backends.interpreter import matches
from polycast.filters.tree import nodes
from polycast.filters.tree.canonical import folded


@dataclass
class Talk:
    speaker: str = "Ada"
    stars: int = 3
    tags: list[str] = field(default_factory=list)
    room: str | None = None


@dataclass
class Keynote(Talk):
    fee: int = 0


class Priced(ABC):  # noqa: B024
    pass


def helper(talk: Talk) -> int:
    assert talk
    return talk.stars


FILTER = pc.lift(
    Talk,
    lambda t: (
        (t.speaker == "Bob" or t.stars > 3)
        and "x" in t.tags
        and t.room is not None
        and helper(t) > 1
    ),
)


def test_it_tells_what_each_way_of_running_it_makes_of_it() -> None:
    told = FILTER.explain(Talk)
    assert told.indexed == ("event.speaker == 'Bob': by value", "event.stars > 3: by range")
    assert told.read == ("event.room is not None", "not (event.speaker == 'Bob')")
    assert told.residual == ("'x' in event.tags: this comparison has no order to look it up in",)
    assert told.opaque == ("helper(t): helper cannot be looked into",)
    assert told.tree[:3] == (
        f"And: {FILTER}",
        "  Or: (event.speaker == 'Bob') or (event.stars > 3)",
        "    Compare: event.speaker == 'Bob'",
    )
    assert told.source == FILTER.to_python(Talk)
    assert told.values[:2] == ("value_0 = 'Bob'", "value_1 = 'x'")
    assert told.spark.startswith("no column: ")
    assert (told.matches, told.verdicts, told.problems) == (None, (), ())
    assert "looked up in an index:\n  event.speaker == 'Bob': by value" in str(told)


def test_it_tells_what_each_condition_says_about_an_event() -> None:
    told = FILTER.explain(Talk, Talk("Bob", tags=["y"]))
    assert told.matches is False
    assert str(told).splitlines()[1:] == [
        f"`{FILTER}` is False",
        "  `(event.speaker == 'Bob') or (event.stars > 3)` is True",
        "    `event.speaker == 'Bob'` is True",
        "    `event.stars > 3` is not asked any more",
        "  `'x' in event.tags` is False",
        "  `event.room is not None` is not asked any more",
        "  `opaque('helper(t): helper cannot be looked into')` is not asked any more",
        "the event does not pass",
    ]


def test_it_tells_what_cannot_be_right() -> None:
    told = pc.lift(lambda t: t.starz > 3).explain(Talk)
    assert "did you mean `stars`?" in told.problems[0]
    assert "cannot be right:" in str(told)


def test_a_column_needs_the_class() -> None:
    pytest.importorskip("pyspark")
    wanted = pc.lift(lambda t: t.stars > 3)
    assert "explain(Talk)" in wanted.explain().spark
    assert "column('stars')" in wanted.explain(Talk).spark


def test_the_class_decides_isinstance() -> None:
    wanted = pc.lift(lambda t: isinstance(t, Keynote) and t.fee > 3)
    assert wanted.to_python(Keynote).splitlines()[1] == "    return (event.fee > (3))"
    assert wanted.to_python(Talk).splitlines()[1] == "    return (False)"
    assert "isinstance" not in pc.lift(lambda t: not isinstance(t, int)).to_python(Talk)


def test_a_class_that_answers_itself_is_asked() -> None:
    priced = nodes.InstanceOf(nodes.Event(), (Priced,))
    assert folded(priced, Talk) == priced

    class Guise(Talk):
        @property
        def __class__(self) -> Any:  # type: ignore[override]
            return int

    assert folded(nodes.InstanceOf(nodes.Event(), (int,)), Guise) == nodes.InstanceOf(
        nodes.Event(), (int,)
    )


EVENT = nodes.Event()
leaves = st.one_of(
    st.sampled_from([(Talk,), (Keynote,), (int, Talk), (Priced,)]).map(
        lambda classes: nodes.InstanceOf(EVENT, classes)
    ),
    st.sampled_from([True, False, None, 0, "x"]).map(nodes.Constant),
    st.sampled_from(["stars", "fee", "missing", "room"]).map(
        lambda name: nodes.Attribute(EVENT, name)
    ),
    st.tuples(st.sampled_from([1, None, "a"]), st.sampled_from([1, 2.0, "b"])).map(
        lambda pair: nodes.Compare(nodes.Constant(pair[0]), (("<", nodes.Constant(pair[1])),))
    ),
)
trees = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.lists(part, min_size=2, max_size=4).map(lambda parts: nodes.And(tuple(parts))),
        st.lists(part, min_size=2, max_size=4).map(lambda parts: nodes.Or(tuple(parts))),
        part.map(nodes.Not),
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(tree=trees, event=st.sampled_from([Talk(), Keynote(fee=1), Talk(stars=0, room="a"), 3]))
def test_what_is_left_means_the_same(tree: nodes.Node, event: Any) -> None:
    assert matches(folded(tree, type(event)), event) == matches(tree, event)
    wanted = pc.Filter(folded(tree, type(event)))
    assert wanted.matches(event) == matches(tree, event)
