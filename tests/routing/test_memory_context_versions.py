"""What contexts were at each position of a log in memory."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from polycast.routing.translation import MemoryContextVersions

NAMES = ("us", "uk")
Turn = tuple[int, dict[str, Any]]


def turns() -> st.SearchStrategy[list[Turn]]:
    """How contexts change: after so many more events, those of a name are these."""
    some = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("ABC"))
    return st.lists(st.tuples(st.integers(0, 3), some), max_size=8)


def plainly(changes: list[Turn], name: str, at: int) -> Any:
    """What a context is at a position, by the page: the first is for all before it, too."""
    lasting = {start: members.get(name) for start, members in changes}
    begun = [start for start in lasting if start <= at]
    there = [start for start, member in lasting.items() if member is not None]
    if not there:
        return None
    return lasting[max(begun)] if begun and max(begun) >= there[0] else lasting[there[0]]


@given(turns(), st.integers(0, 10))
def test_versions_are_those_of_the_page(steps: list[Turn], kept: int) -> None:
    versions, changes, start = MemoryContextVersions(), list[Turn](), 1
    for gap, members in steps:
        start += gap
        changes.append((start, members))
        versions.change(members, start, max(1, start - kept))  # type: ignore[arg-type]
    for name in NAMES:
        for at in range(max(1, start - kept), start + 3):
            assert versions.member(name, at) == plainly(changes, name, at)


def test_versions_that_nobody_can_ask_for_are_let_go() -> None:
    versions = MemoryContextVersions()
    for start in range(1, 1_000):
        members: Any = {"us": object()}
        versions.change(members, start, max(1, start - 10))
    assert len(versions) <= 11


def test_without_a_log_only_what_is_now_is_kept() -> None:
    versions = MemoryContextVersions()
    for start in range(1, 100):
        members: Any = {"us": object(), "uk": object()}
        versions.change(members, start, start)
    assert len(versions) == 2
