"""Selectors among very many."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from polycast.matching import Selector, Selectors, selector_for

TOPICS = ["/a", "/a/b", "/a/b/c", "/b"]
PATTERNS = [*TOPICS, "/a/*", "/a/**", "/**", "/"]
WANTED: list[Selector[Any]] = [
    *(selector_for(what) for what in (int, bool, str, object)),
    *(selector_for(what, topic=each) for what in (int, str, object) for each in PATTERNS),
]
changes = st.lists(st.tuples(st.booleans(), st.sampled_from(WANTED)), max_size=30)


@given(
    program=changes,
    cls=st.sampled_from([int, bool, str]),
    topic=st.sampled_from([None, *TOPICS, "/"]),
)
def test_those_that_cover_a_class_are_found_as_by_asking_each(
    program: list[Any], cls: type, topic: str | None
) -> None:
    several, there = Selectors(), set[Selector[Any]]()
    for comes, each in program:
        if comes:
            several.add(each)
            there.add(each)
        elif each in there:
            several.remove(each)
            there.remove(each)
    found = several.covering(cls, topic)
    assert len(found) == len(set(found))
    assert set(found) == {each for each in there if each.covers(cls, topic)}
