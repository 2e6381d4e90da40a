"""What is said of events when they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polycast.events import Identity

__all__ = ["PublishMetadata", "RouteKey"]


class PublishMetadata(msgspec.Struct, frozen=True, gc=False):
    """The same for all events of one publish; without options, only where they come from."""

    topic: str | None = None
    priority: int = 0
    expires: float | None = None  # by the wall clock
    headers: Mapping[str, str] | None = None
    given: Identity | None = None
    """The identity of one that may have been published before."""
    context: str | None = None  # the publisher's; None is the root


class RouteKey(NamedTuple):
    """How events come: on a topic, from a publisher in a context."""

    topic: str | None
    source: str | None = None

    def metadata(self) -> PublishMetadata:
        """What is said of events that come so."""
        return PublishMetadata(self.topic, context=self.source)
