"""Patterns of topics say what their levels say, and none takes for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polycast.matching import TopicPattern

LEVELS = st.lists(st.sampled_from(["a", "ab", "*", "**"]), min_size=1, max_size=6)
NAMES = st.lists(st.sampled_from(["a", "ab", "b"]), min_size=1, max_size=6)


def meant(pattern: tuple[str, ...], topic: tuple[str, ...]) -> bool:
    """Level by level, as the words of the documentation have it."""
    if not pattern:
        return not topic
    if pattern[0] == "**":
        return meant(pattern[1:], topic) or (bool(topic) and meant(pattern, topic[1:]))
    return bool(topic) and pattern[0] in ("*", topic[0]) and meant(pattern[1:], topic[1:])


def included(mine: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """A wildcard of the other is met by one that is as wide."""
    if not mine:
        return not other
    if mine[0] == "**":
        return included(mine[1:], other) or (bool(other) and included(mine, other[1:]))
    if not other or other[0] == "**":
        return False
    return mine[0] in ("*", other[0]) and included(mine[1:], other[1:])


@given(LEVELS, NAMES)
def test_a_pattern_means_the_topics_that_its_levels_say(
    levels: list[str], names: list[str]
) -> None:
    pattern, topic = TopicPattern("/" + "/".join(levels)), "/" + "/".join(names)
    assert pattern.matches(topic) == meant(tuple(levels), tuple(names))


@given(LEVELS, LEVELS)
def test_a_pattern_covers_what_is_the_same_or_below_it(one: list[str], other: list[str]) -> None:
    pattern, below = TopicPattern("/" + "/".join(one)), TopicPattern("/" + "/".join(other))
    wide = one if one[-1] == "**" else [*one, "**"]
    assert pattern.covers(below) == included(tuple(wide), tuple(other))


def test_many_wildcards_take_no_longer_than_there_are_levels() -> None:
    """As one after the other they would be tried in more ways than there is time for."""
    pattern = TopicPattern("/" + "**/a/" * 60 + "**/b")
    assert not pattern.matches("/" + "a/" * 300 + "c")
    assert pattern.matches("/" + "a/" * 300 + "b")
    assert not pattern.covers(TopicPattern("/" + "a/" * 300 + "c"))
