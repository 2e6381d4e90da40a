"""Checks of the definitions that a client sends, in parts that take little time each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.broker.server.authorized_request import definition_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polycast.broker.server.event_authorization import EventAuthorization

__all__ = ["check_definitions", "parts_of"]

PART = 5_000  # bytes of definitions handled before other clients have a turn
OVERHEAD = 1_000  # bytes that a definition counts for besides its own


def parts_of(definitions: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Split definitions into runs that are small enough for one turn of the event loop."""
    start, size = 0, 0
    for at, definition in enumerate(definitions, 1):
        size += OVERHEAD + len(definition)
        if size >= PART or at == len(definitions):
            yield definitions[start:at]
            start, size = at, 0


def check_definitions(
    definitions: Sequence[bytes], authorization: EventAuthorization
) -> Iterator[None]:
    """Refuse definitions that are too large, malformed or not granted; yields between parts."""
    for part in parts_of(definitions):
        for definition in part:
            authorization.check_definition(definition_of(definition))
        yield
