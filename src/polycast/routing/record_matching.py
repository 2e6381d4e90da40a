"""Records as a context sees them: asking its routes which of them they take."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import thread_time
from typing import TYPE_CHECKING, Any

from polycast.errors import NotDecodableError
from polycast.errors.failures import FAILURES
from polycast.events import codec_for
from polycast.routing.translation import letter_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polycast.events import Record
    from polycast.routing.context_matcher import PlannedRoute, Projection, RouteIndex
    from polycast.routing.evaluable import Effort
    from polycast.stores import Stored
    from polycast.typesystem import Registry

__all__ = ["ContextMatch", "MatchBatch", "MatchFailure", "MatchResult"]


FIRST = 20_000  # bytes of records that are asked about before the clock is looked at
PIECE = 1_000  # that a record counts for besides its payload


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """An event that a route could not be asked about."""

    name: str  # of the subscription
    position: int
    record: Record
    reason: str


@dataclass(slots=True)
class MatchResult:
    """Who takes some events: those that somebody takes, in order."""

    positions: list[int] = field(default_factory=list)
    takers: list[Sequence[int]] = field(default_factory=list)
    failures: list[MatchFailure] = field(default_factory=list)
    decoded: int = 0
    """How many payloads were looked into."""
    unsure: set[int] = field(default_factory=set)  # besides those of the plan


Decoded = tuple[list[Any], list[int], list[int]]  # events, where they are, and where none is


class MatchBatch:
    """Some records, and what is found out about them."""

    def __init__(self, records: Sequence[Stored]) -> None:
        self.records = records
        self.takers: list[Sequence[int]] = [()] * len(records)
        self.found = MatchResult()
        self.decoded: dict[object, Decoded] = {}  # for all contexts that see the same form

    def give(self, place: int, numbers: Sequence[int]) -> None:
        """Some take a record in one context, others perhaps in another."""
        some = self.takers[place]
        self.takers[place] = sorted((*some, *numbers)) if some and numbers else some or numbers

    def size(self, place: int) -> int:
        """How many bytes of a record may be looked at."""
        record = self.records[place].record
        return len(record.payload) + (0 if record.root is None else len(record.root.payload))

    def upto(
        self, places: Sequence[int], start: int, size: int, effort: Effort, steps: float
    ) -> int:
        """Where so many bytes of records end, or so many steps, of which there is at least one."""
        for at in range(start, len(places)):
            much = self.size(places[at])
            size -= PIECE + much
            steps -= effort.at(much)
            if size <= 0 or steps <= 0:
                return at + 1
        return len(places)

    def fail(self, name: str, place: int, error: BaseException) -> None:
        """A subscription could not be asked about a record."""
        stored, reason = self.records[place], "".join(traceback.format_exception(error)).rstrip()
        self.found.failures.append(MatchFailure(name, stored.position, stored.record, reason))

    def finished(self) -> MatchResult:
        """What was found."""
        pairs = zip(self.records, self.takers, strict=True)
        self.found.positions = [stored.position for stored, who in pairs if who]
        self.found.takers = list(filter(None, self.takers))
        return self.found


@dataclass(frozen=True)
class ContextMatch:
    """How records of one class on one topic are seen from a context, by those who may want them."""

    registry: Registry
    entries: Mapping[int, PlannedRoute]
    audience: RouteIndex
    attention: Projection
    context: str | None
    rooted: bool
    """Whether it is the root form that is looked at."""
    cls: type
    topic: str | None
    translate: Callable[[Any], Any] | None = None
    """What makes of the root form what the context sees."""
    sure: bool = True
    """Whether filters can be asked: a worker may not have the functions of the context."""
    all_of: list[int] | None = None
    """Who may want them, if nobody can say here what they are."""
    party: str | None = None
    """Whose filters are asked."""

    @cached_property
    def covering(self) -> list[int]:
        """The routes there whose types cover them."""
        if self.all_of is not None:
            return self.all_of
        return self.audience.matcher.covering(self.cls, topic=self.topic)

    def ask(self, asking: MatchBatch, places: list[int]) -> None:
        """Ask about the records at some places.

        They are decoded as far as filters look at them, and not at all if there is no filter; a
        translation has to have all of the event, and may fail.
        """
        if self.sure and (self.attention.filtered or self.translate is not None):
            self._look(asking, places)
        else:
            self.give_all(asking, places, sure=self.sure)

    def give_all(self, asking: MatchBatch, places: list[int], *, sure: bool = False) -> None:
        """Let all have them who may want them, without asking filters."""
        if not sure:
            asking.found.unsure.update(self.covering)
        for place in places:
            asking.give(place, self.covering)

    def ask_within(
        self, asking: MatchBatch, places: list[int], seconds: float, *, steps: float
    ) -> None:
        """The same for about so much processor time; then whoever may want a record gets it.

        Nothing ends what is begun, so what may take more steps than those is not asked.
        """
        effort = self.attention.effort
        small = [place for place in places if effort.at(asking.size(place)) <= steps]
        end, at, much = thread_time() + seconds, 0, FIRST
        while at < len(small) and thread_time() < end:
            upto = asking.upto(small, at, much, effort, steps)
            self.ask(asking, small[at:upto])
            at, much = upto, 2 * much
        if len(small) < len(places) or at < len(small):
            asked = set(small[:at])
            self.give_all(asking, [each for each in places if each not in asked])

    def _look(self, asking: MatchBatch, places: list[int]) -> None:
        events, good = self._decoded(asking, places)
        if self.translate is not None:
            events, good = self._translated(self.translate, events, good, asking)
        try:
            answers = self.audience.matcher.match_batch(events, topic=self.topic)
        except BaseException as error:  # a function of a user may raise anything
            if isinstance(error, KeyboardInterrupt | MemoryError):
                raise
            pairs = zip(good, events, strict=True)
            answers = [self._ask_each(event, place, asking) for place, event in pairs]
        for place, numbers in zip(good, answers, strict=True):
            asking.give(place, numbers)

    def _decoded(self, asking: MatchBatch, places: list[int]) -> tuple[list[Any], list[int]]:
        """The events at some places, and where they are."""
        those = [asking.records[place].record for place in places]
        if self.rooted:
            those = [root for each in those if (root := each.rooted()) is not None]
        names = None if self.translate is not None else self.attention.names
        is_itself = those[0] is asking.records[places[0]].record
        key = (places[0], len(places), is_itself, names)
        known = asking.decoded.get(key)
        if known is None:
            known = asking.decoded[key] = self._read(those, places, names)
            asking.found.decoded += len(known[0])
        events, good, bad = known
        for place in bad:  # nobody can look into it: whoever may want it is told
            asking.give(place, self.covering)
        return events, good

    def _read(
        self, those: list[Record], places: list[int], names: frozenset[str] | None
    ) -> Decoded:
        codec = codec_for(those[0].codec)
        decode = (
            partial(codec.decode, registry=self.registry)
            if names is None
            else codec.glance(those[0], names, registry=self.registry)
        )
        with suppress(NotDecodableError):
            return [decode(each) for each in those], places, []
        events, good, bad = [], [], []
        for place, record in zip(places, those, strict=True):
            try:
                events.append(decode(record))
                good.append(place)
            except NotDecodableError:
                bad.append(place)
        return events, good, bad

    def _translated(
        self,
        translate: Callable[[Any], Any],
        events: list[Any],
        places: list[int],
        asking: MatchBatch,
    ) -> tuple[list[Any], list[int]]:
        """Events as the context sees them; one for which a function raises is a dead letter."""
        seen, good = [], []
        for event, place in zip(events, places, strict=True):
            try:
                seen.append(translate(event))
                good.append(place)
            except FAILURES as error:
                asking.fail(letter_name(self.context or ""), place, error)
        return seen, good

    def _ask_each(self, event: Any, place: int, asking: MatchBatch) -> list[int]:
        """Ask about one event, route by route: one that breaks does not harm the others."""
        numbers = []
        for number in self.audience.matcher.covering(type(event), topic=self.topic):
            entry = self.entries[number]
            try:
                if entry.where is None or entry.where.matches(event, topic=self.topic):
                    numbers.append(number)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | MemoryError):
                    raise
                asking.fail(entry.route.name, place, error)
        return numbers
