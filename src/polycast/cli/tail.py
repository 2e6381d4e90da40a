"""`polycast tail`: the end of the log, or any part of it, and what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from polycast.cli.command_line import add_command, whole
from polycast.cli.event_lines import Payloads, line_of
from polycast.cli.operands import WriteSignal, bound_of, filter_of, meant_by, place_of
from polycast.matching.selectors import TopicPattern
from polycast.stores.log_bounds import start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.terminal import Terminal
    from polycast.stores import Store, Stored
    from polycast.typesystem import Description


_PAGE = 500
LAST = 10  # events of the end of the log
LIMIT = 100  # with --since and without --limit, unless it follows


def declare(commands: Any, what: str) -> None:
    """Declare the command."""
    example = "tail events.db --type Sale --topic '/shop/**' --follow"
    command = add_command(commands, "tail", run, what, example)
    command.take_place()
    command.take("--last -n N", "start with the last N events (10)", type=whole)
    since = "start at this position, time (2030-12-31T08:00), or 'beginning' instead"
    command.take("--since WHEN", since)
    command.take("--type NAME", "only this type and its subtypes")
    command.take("--topic PATTERN", "only on these topics, such as '/shop/**'")
    command.take_where()
    most = "show at most N; by default 100 with --since, but all with --follow or --json"
    command.take_limit(most)
    command.take("--follow -f", "continue with new events")


def run(given: Namespace, terminal: Terminal) -> int:
    """Show the last events, or those since a place in the log; with --follow those that come."""
    with place_of(given).looking() as store:
        log = LogTail(store, given.type, given.topic, given.where)
        at = _start(given, log)
        with terminal.pages(paged=not given.follow):
            at = _show(given, log, at, terminal)
        if at <= store.newest() and given.limit is None:
            terminal.note(f"... there may be more: go on with --since {at}, or give --limit")
    return 0


def _show(given: Namespace, log: LogTail, at: int, terminal: Terminal) -> int:
    """Show events from a position on; the position after the last."""
    signal, left = WriteSignal(log.store), _most(given, terminal)
    while left:
        signal.mark()
        batch = log.store.read(at, limit=_PAGE, types=log.numbers())
        shown = [stored for stored in batch.entries if log.is_wanted(stored)]
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
            signal.wait()
    return at


def _most(given: Namespace, terminal: Terminal) -> int:
    """How many to show; a negative number never comes to 0."""
    if given.limit is not None:
        return int(given.limit)
    return LIMIT if given.since and not (given.follow or terminal.as_json) else -1


def _start(given: Namespace, log: LogTail) -> int:
    if given.since is None:
        return log.before_last(LAST if given.last is None else given.last)
    return cast("int", start_of(log.store, bound_of("--since", given.since)))


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
