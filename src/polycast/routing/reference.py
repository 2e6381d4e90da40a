"""The slow, obvious dispatcher that judges the plan and its generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polycast.matching import Interest

__all__ = ["takers"]


def takers(
    interests: Mapping[str, Interest], event: object, *, topic: str | None, position: int
) -> list[str]:
    """The names of those who want the event, by asking each of them."""
    return [
        name for name, interest in _in_effect(interests, position) if interest.wants(event, topic)
    ]


def _in_effect(interests: Mapping[str, Interest], position: int) -> Iterable[tuple[str, Interest]]:
    return ((name, each) for name, each in interests.items() if each.in_effect(position))
