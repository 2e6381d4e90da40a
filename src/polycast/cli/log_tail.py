"""The part of a log that `polycast tail` shows: events of some types, on some topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.cli.name_resolution import filter_of, meant_by
from polycast.cli.payloads import Payloads
from polycast.matching.topics import TopicPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.stores import Store, Stored
    from polycast.typesystem import Description

__all__ = ["LogTail"]

_PAGE = 500


class LogTail:
    """Finds the events that are asked for, by type, topic and filter."""

    def __init__(
        self, store: Store, name: str | None, topic: str | None, where: str | None = None
    ) -> None:
        self.store, self._name = store, name
        self._topic = None if topic is None else TopicPattern(topic)
        self._payloads = Payloads(self._descriptions())
        self._known = 0
        self._numbers: list[int] | None = None
        self._where = filter_of(where, self._payloads.registry)
        if self._where is not None and name is not None:
            self._where.check(self._payloads.class_named(self._whole_name(name)))

    def is_wanted(self, stored: Stored) -> bool:
        """Whether an event is on the topic, and the filter is true of it."""
        topic = stored.record.topic
        if self._topic is not None and not (topic is not None and self._topic.matches(topic)):
            return False
        if self._where is None:
            return True
        return self.payloads_for(stored).matches(self._where, stored.record)

    def before_last(self, many: int) -> int:
        """The position from which on there are so many events of what is asked for."""
        oldest, at = self.store.oldest(), self.store.newest() + 1
        positions: list[int] = []
        while at > oldest and len(positions) < many:
            low = max(oldest, at - _PAGE)
            positions = [*self._between(low, at), *positions]
            at = low
        if 0 < many <= len(positions):
            return positions[-many]
        return at if many else self.store.newest() + 1

    def _between(self, low: int, high: int) -> Iterator[int]:
        numbers = self.numbers()
        while low < high:
            batch = self.store.read(low, limit=_PAGE, until=high, types=numbers)
            yield from (stored.position for stored in batch.entries if self.is_wanted(stored))
            low = batch.upto if batch.upto > low else high

    def payloads_for(self, stored: Stored) -> Payloads:
        """What reads an event: it knows all descriptions that the store had until now."""
        if not self._payloads.knows(stored.record):
            self._payloads.learn(self._descriptions())
        return self._payloads

    def _descriptions(self) -> list[Description]:
        with self.store.view() as view:
            return view.descriptions()

    def numbers(self) -> list[int] | None:
        """The numbers of the types that are asked for; None for all."""
        if self._name is None:
            return None
        types = self.store.types()
        if len(types) != self._known or self._numbers is None:
            above = _above(self._descriptions())
            meant = self._whole_name(self._name)
            self._numbers = [
                number
                for number, kind in types.items()
                if kind.name == meant or meant in above.get(kind.name, ())
            ]
            self._known = len(types)
        return self._numbers

    def _whole_name(self, name: str) -> str:
        """The name of the type that is meant by it or its end."""
        named = {kind.name for kind in self.store.types().values()}
        return meant_by(name, named | _above(self._descriptions()).keys())


def _above(descriptions: list[Description]) -> dict[str, set[str]]:
    """For each described class, the names of all types above it."""
    direct: dict[str, set[str]] = {}
    for description in descriptions:
        direct.setdefault(description.name, set()).update(description.supertypes)
    return {name: set(_closure(name, direct)) for name in direct}


def _closure(name: str, direct: dict[str, set[str]]) -> Iterator[str]:
    seen, waiting = {name}, [name]
    while waiting:
        new = direct.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
        yield from new
