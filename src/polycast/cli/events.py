"""`polycast events`: the log, as it is and as it grows."""

from __future__ import annotations

import difflib
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec

from polycast.cli.payloads import Payloads
from polycast.cli.stores import file_of, looking
from polycast.cli.terminal import Refused
from polycast.cli.words import clip, moment
from polycast.errors import BadOption
from polycast.matching.topics import TopicPattern
from polycast.stores.bounds import start_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from polycast.cli.terminal import Terminal
    from polycast.events import Record
    from polycast.stores import Stored
    from polycast.stores.doctor import ReadOnlyStore
    from polycast.typesystem import Description

__all__ = ["LIMIT", "bound_of", "line_of", "meant_by", "show_events"]

_PAGE = 500
LIMIT = 100  # without --limit, unless it follows
_LOOK = 0.1  # seconds between two looks at whether something was written


def show_events(given: Namespace, terminal: Terminal) -> int:
    """Show events: those that are there, or with --follow those that come, too."""
    with looking(file_of(given.store)) as store:
        log = _Log(store, given.type, given.topic)
        at, left = _start(given, store), _most(given, terminal)
        while left:
            seen = store.changes()
            batch = store.read(at, limit=_PAGE, types=log.numbers())
            shown = [each for each in batch.entries if log.is_on_topic(each)]
            if left > 0:
                shown = shown[:left]
            for stored in shown:
                terminal.line(line_of(stored, log.payloads_for(stored), as_json=terminal.as_json))
            left -= len(shown)
            at = batch.upto if left else shown[-1].position + 1
            terminal.flush()
            if not batch.entries and not given.follow:
                break
            if not batch.entries:
                _wait(store, seen)
        if at <= store.newest() and given.limit is None:
            terminal.note(f"... there may be more: go on with --since {at}, or give --limit")
    return 0


def _most(given: Namespace, terminal: Terminal) -> int:
    """How many to show; a negative number never comes to 0."""
    if given.limit is not None:
        return int(given.limit)
    return -1 if given.follow or terminal.as_json else LIMIT


def _start(given: Namespace, store: ReadOnlyStore) -> int:
    if given.since is None:
        return store.newest() + 1 if given.follow else store.oldest()
    return cast("int", start_of(store, bound_of("--since", given.since)))


def bound_of(option: str, text: str | None) -> int | str | datetime | None:
    """A bound of the log as it is written: a position, a time, or where it may be 'beginning'."""
    first = "'beginning', nor " if option == "--since" else ""
    if text is None or (first and text == "beginning"):
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise Refused(
            f"{option} {text} is neither {first}a position, nor a time such as 2030-12-31T08:00 "
            f"or 2030-12-31T08:00+01:00"
        ) from None


def line_of(stored: Stored, payloads: Payloads, *, as_json: bool) -> str:
    """An event on one line."""
    record = stored.record
    if as_json:
        data: dict[str, Any] = {
            "position": stored.position,
            "time": record.time,
            "class": record.name,
            "version": record.version,
        }
        return msgspec.json.encode(data | _context_of(record) | payloads.fields(record)).decode()
    topic = "" if record.topic is None else f"{clip(record.topic)}  "
    head = f"{stored.position:>8}  {moment(record.time)}  {clip(record.name)}  {topic}"
    return head + _context_in_words(record) + payloads.text(record, most=1_000)


def _context_of(record: Record) -> dict[str, Any]:
    """The context and the class of the root form, unless it was published in the root."""
    if record.context is None:
        return {}
    root = record.root
    form = None if root is None else {"class": root.name, "version": root.version}
    return {"context": record.context, "root": form}


def _context_in_words(record: Record) -> str:
    if record.context is None:
        return ""
    place = f"in {clip(record.context)}"
    if record.root is None:
        return f"{place}, no root form  "
    return f"{place}  " if record.is_own_root else f"{place}, root form {clip(record.root.name)}  "


def _wait(store: ReadOnlyStore, seen: int) -> None:
    """Return when somebody has written something."""
    never = threading.Event()
    while store.changes() == seen:
        never.wait(_LOOK)


class _Log:
    """What a log is asked for, and how its events are read."""

    def __init__(self, store: ReadOnlyStore, name: str | None, topic: str | None) -> None:
        self._store, self._name = store, name
        self._topic = None if topic is None else TopicPattern(topic)
        self._known = -1
        self._numbers: list[int] | None = None
        self._payloads = Payloads(())

    def is_on_topic(self, stored: Stored) -> bool:
        """Whether an event is on a topic that is asked for."""
        on = stored.record.topic
        return self._topic is None or (on is not None and self._topic.matches(on))

    def payloads_for(self, stored: Stored) -> Payloads:
        """What reads an event: it knows all descriptions that the store had until now."""
        if not self._payloads.knows(stored.record):
            self._payloads.learn(self._descriptions())
        return self._payloads

    def _descriptions(self) -> list[Description]:
        with self._store.view() as view:
            return view.descriptions()

    def numbers(self) -> list[int] | None:
        """The numbers of the types that are asked for; None for all."""
        if self._name is None:
            return None
        types = self._store.types()
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


def meant_by(name: str, known: set[str]) -> str:
    """The one known type that a name means: all of it, or its end."""
    found = [each for each in known if each == name] or sorted(
        each for each in known if each.endswith(f".{name}")
    )
    if len(found) == 1:
        return found[0]
    short = {each.rpartition(".")[2]: each for each in known}
    near = difflib.get_close_matches(name, [*known, *short], n=1)
    why = "several types are called so" if found else "the store knows no such type"
    hint = f"; did you mean {near[0]!r}?" if near and not found else ""
    accepted = ", ".join(found or sorted(known)[:20]) or "nothing yet: the log is empty"
    raise BadOption("type", name, accepted=accepted + hint, why=why)
