"""The slow, obvious dispatchers that judge the plans and their generated code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import NotDecodableError
from polycast.events import codec_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polycast.events import Record
    from polycast.matching import Interest
    from polycast.routing import Plan

__all__ = ["routes_taking", "takers"]


def takers(
    interests: Mapping[str, Interest], event: object, *, topic: str | None, position: int
) -> list[str]:
    """The names of those who want the event, by asking each of them."""
    return [
        name for name, interest in _in_effect(interests, position) if interest.wants(event, topic)
    ]


def _in_effect(interests: Mapping[str, Interest], position: int) -> Iterable[tuple[str, Interest]]:
    return ((name, each) for name, each in interests.items() if each.in_effect(position))


def routes_taking(plan: Plan, record: Record) -> list[int]:
    """The routes of a plan that take a record, all of it in the root: by asking each of them.

    The record is decoded as a whole; if it cannot be, all take it whose types cover it.
    """
    cls, topic = plan.routes.types.class_of(record), record.topic
    covering = [each for each in plan.routes.entries.values() if each.selector.covers(cls, topic)]
    try:
        event = codec_for(record.codec).decode(record, registry=plan.routes.registry)
    except NotDecodableError:
        return [each.route.number for each in covering]
    return [
        each.route.number
        for each in covering
        if each.where is None or each.where.interpret(event, topic=topic)
    ]
