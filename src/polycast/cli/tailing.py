"""`polycast tail`: the end of the log, or any part of it, and what comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from polycast.cli.bounds import bound_of
from polycast.cli.event_lines import line_of
from polycast.cli.naming import meant_by
from polycast.cli.payloads import Payloads
from polycast.cli.targets import Bell, place_of
from polycast.matching.topics import TopicPattern
from polycast.stores.log_bounds import start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.terminal import Terminal
    from polycast.stores import Store, Stored
    from polycast.typesystem import Description

__all__ = ["show_events"]

_PAGE = 500
LAST = 10  # events of the end of the log
LIMIT = 100  # with --since and without --limit, unless it follows


def show_events(given: Namespace, terminal: Terminal) -> int:
    """Show the last events, or those since a place in the log; with --follow those that come."""
    with place_of(given).looking() as store:
        log = _Log(store, given.type, given.topic)
        bell = Bell(store)
        at, left = _start(given, log), _most(given, terminal)
        while left:
            bell.mark()
            batch = store.read(at, limit=_PAGE, types=log.numbers())
            shown = [each for each in batch.entries if log.is_on_topic(each)]
            if left > 0:
                shown = shown[:left]
            for stored in shown:
                terminal.line(line_of(stored, log.payloads_for(stored), as_json=terminal.as_json))
            left -= len(shown)
            is_end = batch.upto <= at
            at = max(at, batch.upto) if left else shown[-1].position + 1
            terminal.flush()
            if is_end and not given.follow:
                break
            if is_end:
                bell.wait()
        if at <= store.newest() and given.limit is None:
            terminal.note(f"... there may be more: go on with --since {at}, or give --limit")
    return 0


def _most(given: Namespace, terminal: Terminal) -> int:
    """How many to show; a negative number never comes to 0."""
    if given.limit is not None:
        return int(given.limit)
    return LIMIT if given.since and not (given.follow or terminal.as_json) else -1


def _start(given: Namespace, log: _Log) -> int:
    if given.since is None:
        return log.before_last(LAST if given.last is None else given.last)
    return cast("int", start_of(log.store, bound_of("--since", given.since)))


class _Log:
    """The part of a log that is asked for: types and topics."""

    def __init__(self, store: Store, name: str | None, topic: str | None) -> None:
        self.store, self._name = store, name
        self._topic = None if topic is None else TopicPattern(topic)
        self._payloads = Payloads(self._descriptions())
        self._known = 0
        self._numbers: list[int] | None = None

    def is_on_topic(self, stored: Stored) -> bool:
        """Whether an event is on the topic that is asked for."""
        if self._topic is None:
            return True
        topic = stored.record.topic
        return topic is not None and self._topic.matches(topic)

    def before_last(self, many: int) -> int:
        """The position from which on there are so many events of what is asked for."""
        oldest, at = self.store.oldest(), self.store.newest() + 1
        found: list[int] = []
        while at > oldest and len(found) < many:
            low = max(oldest, at - _PAGE)
            found = [*self._between(low, at), *found]
            at = low
        return found[-many] if 0 < many <= len(found) else (at if many else self.store.newest() + 1)

    def _between(self, low: int, high: int) -> Iterator[int]:
        numbers = self.numbers()
        while low < high:
            batch = self.store.read(low, limit=_PAGE, until=high, types=numbers)
            yield from (each.position for each in batch.entries if self.is_on_topic(each))
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
            known = {each.name for each in types.values()} | above.keys()
            meant = meant_by(self._name, known)
            self._numbers = [
                number
                for number, each in types.items()
                if each.name == meant or meant in above.get(each.name, ())
            ]
            self._known = len(types)
        return self._numbers


def _above(descriptions: list[Description]) -> dict[str, set[str]]:
    """For each described class, the names of all types above it."""
    direct: dict[str, set[str]] = {}
    for each in descriptions:
        direct.setdefault(each.name, set()).update(each.supertypes)
    return {name: set(_closure(name, direct)) for name in direct}


def _closure(name: str, direct: dict[str, set[str]]) -> Iterator[str]:
    seen, waiting = {name}, [name]
    while waiting:
        new = direct.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
        yield from new
