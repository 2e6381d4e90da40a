"""Batches of records against stored subscriptions: projection, translation, then the index."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import thread_time
from typing import TYPE_CHECKING, Any

from polycast.errors import NotDecodableError
from polycast.errors.failures import failures_here
from polycast.events import Record, codec_for
from polycast.filters.tree.projection import attributes_read
from polycast.filters.tree.relaxation import EVERYTHING
from polycast.matching import Definition, Matcher, Selector, Selectors
from polycast.routing.evaluable import NO_EFFORT, Effort
from polycast.routing.translation import letter_name, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polycast.filters import Filter
    from polycast.routing.route_table import RouteTable
    from polycast.stores import Stored, StoredRoute

    Decoded = tuple[list[Any], list[int], list[int]]  # events, their places, and where none is
    # The hash of a class, a topic, a codec, the publisher's context, the hash of the root form,
    # and between which changes of contexts the record is.
    Kind = tuple[str, str | None, str, str | None, str | None, int]

MOST_KINDS = 4_096  # of records that are remembered
FIRST = 20_000  # bytes of records that are matched before the clock is looked at
OVERHEAD = 1_000  # bytes that a record counts for besides its payload


@dataclass(frozen=True, slots=True)
class PlannedRoute:
    """A route, compiled."""

    route: StoredRoute
    definition: Definition
    selector: Selector[Any]
    where: Filter[Any] | None
    """What of its filter can be asked here."""
    sure: bool
    """Whether that is all of it."""
    owner: str | None = None
    """Whose it is, where the filters of one owner must not take the time of others."""
    effort: Effort = NO_EFFORT
    """What asking it takes."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What the filters of some routes read of an event."""

    filtered: bool
    """Whether any of them has a filter."""
    names: frozenset[str] | None
    """The attributes that are asked for; None if all of the event may be."""
    effort: Effort = NO_EFFORT
    """What asking all of them takes."""


@dataclass(slots=True)
class _FilterUsage:
    """What the filters behind one selector read, as counts, so that they can come and go."""

    routes: int = 0
    filters: int = 0
    whole: int = 0
    names: Counter[str] = field(default_factory=Counter)
    effort: Effort = NO_EFFORT

    def change(self, entry: PlannedRoute, by: int) -> None:
        where = entry.where
        self.routes += by
        self.effort = self.effort.plus(entry.effort, by)
        if where is None or where == EVERYTHING:
            return
        self.filters += by
        names = attributes_read(where.tree)
        if names is None:
            self.whole += by
            return
        for name in names:
            self.names[name] += by
            if not self.names[name]:
                del self.names[name]


class RouteIndex:
    """Changed route by route, at a cost that does not depend on how many there are."""

    def __init__(self) -> None:
        self.matcher: Matcher[int] = Matcher()
        self._usage: dict[Selector[Any], _FilterUsage] = {}
        self._selectors = Selectors()  # the same

    def __len__(self) -> int:
        return len(self.matcher)

    def add(self, entry: PlannedRoute) -> None:
        """Add a route."""
        self.matcher.add(entry.route.number, entry.selector, entry.where)
        self.matcher.prepare(entry.selector)
        if entry.selector not in self._usage:
            self._usage[entry.selector] = _FilterUsage()
            self._selectors.add(entry.selector)
        self._usage[entry.selector].change(entry, 1)

    def reweigh(self, before: PlannedRoute, now: PlannedRoute) -> None:
        """Asking a route takes more or less than before."""
        usage = self._usage[now.selector]
        usage.effort = usage.effort.plus(before.effort, -1).plus(now.effort)

    def remove(self, entry: PlannedRoute) -> None:
        """Remove a route."""
        self.matcher.remove(entry.route.number)
        usage = self._usage[entry.selector]
        usage.change(entry, -1)
        if not usage.routes:
            del self._usage[entry.selector]
            self._selectors.remove(entry.selector)

    def projection(self, cls: type, topic: str | None) -> Projection | None:
        """What the filters of routes that cover a class on a topic read; None if no route does."""
        usages = [self._usage[selector] for selector in self._selectors.covering(cls, topic)]
        if not usages:
            return None
        whole = any(usage.whole for usage in usages)
        names = None if whole else frozenset().union(*(usage.names for usage in usages))
        effort = NO_EFFORT
        for usage in usages:
            effort = effort.plus(usage.effort)
        return Projection(any(usage.filters for usage in usages), names, effort)


IndexKey = tuple[str | None, str | None]  # a context, and an owner


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """An event that could not be matched against a subscription."""

    name: str  # of the subscription
    position: int
    record: Record
    reason: str


@dataclass(slots=True)
class MatchResult:
    """The events that some route takes, in order, and the numbers of these routes."""

    positions: list[int] = field(default_factory=list)
    recipients: list[Sequence[int]] = field(default_factory=list)
    failures: list[MatchFailure] = field(default_factory=list)
    decoded: int = 0
    """How many payloads were read."""
    unsure: set[int] = field(default_factory=set)  # routes, besides those of the plan


@dataclass(frozen=True, slots=True)
class RecordForm:
    """What records are in a context."""

    record: Record
    """The record, or its root form."""
    cls: type | None
    """None: that cannot be made out here."""
    rooted: bool
    translate: Callable[[Any], Any] | None = None
    """What makes of the root form what the context sees."""
    sure: bool = True
    """Whether filters can be asked here."""


class MatchBatch:
    """Some records, and the routes that take them as far as that is known."""

    def __init__(self, records: Sequence[Stored]) -> None:
        self.records = records
        self.recipients: list[Sequence[int]] = [()] * len(records)
        self.result = MatchResult()
        self.decoded: dict[object, Decoded] = {}  # for all contexts that see the same form

    def add(self, place: int, numbers: Sequence[int]) -> None:
        """Note routes that take a record; those of other contexts may take it, too."""
        some = self.recipients[place]
        self.recipients[place] = sorted((*some, *numbers)) if some and numbers else some or numbers

    def size(self, place: int) -> int:
        """How many bytes of a record may be read."""
        record = self.records[place].record
        return len(record.payload) + (0 if record.root is None else len(record.root.payload))

    def upto(
        self, places: Sequence[int], start: int, size: int, effort: Effort, steps: float
    ) -> int:
        """Where so many bytes of records end, or so many steps, of which there is at least one."""
        for at in range(start, len(places)):
            length = self.size(places[at])
            size -= OVERHEAD + length
            steps -= effort.at(length)
            if size <= 0 or steps <= 0:
                return at + 1
        return len(places)

    def fail(self, name: str, place: int, error: BaseException) -> None:
        """Note that a subscription could not be matched against a record."""
        stored, reason = self.records[place], reason_of(error)
        self.result.failures.append(MatchFailure(name, stored.position, stored.record, reason))

    def finished(self) -> MatchResult:
        """The result, when all contexts have been asked."""
        pairs = zip(self.records, self.recipients, strict=True)
        self.result.positions = [stored.position for stored, numbers in pairs if numbers]
        self.result.recipients = list(filter(None, self.recipients))
        return self.result


class RecordMatcher:
    """Answers a plan's question about records. For one thread at a time."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._known: dict[Kind, list[ContextMatch]] = {}
        self._revision = routes.revision

    def match(self, records: Sequence[Stored], *, owner: str | None = None) -> MatchResult:
        """The routes that take each of some records, which are in log order.

        With an owner, only its routes. A record that cannot be decoded goes to all whose types
        cover it. Of a class that is not here, only what filters read is decoded: if something else
        in it is broken, the filters decide all the same, and the subscriber finds out. If nobody
        has a filter, nothing is decoded.
        """
        batch, change = MatchBatch(records), self._routes.contexts.log.turn
        kinds = [_kind(stored.record, change(stored.position)) for stored in records]
        groups: dict[Kind, list[int]] = {kind: [] for kind in kinds}
        if len(groups) == 1:
            groups[kinds[0]] = list(range(len(records)))
        else:
            for place, kind in enumerate(kinds):
                groups[kind].append(place)
        for kind, places in groups.items():
            for part in self._parts(kind, records[places[0]]):
                if owner is None or part.owner == owner:
                    self._match(part, batch, places)
        return batch.finished()

    def _match(self, part: ContextMatch, batch: MatchBatch, places: list[int]) -> None:
        budget, owner = self._routes.budget, part.owner
        if self._routes.waiting[owner]:
            part.add_all(batch, places)
            return
        if budget is None or owner is None:
            part.match(batch, places)
            return
        began = thread_time()
        part.match_within(batch, places, budget.allowance(owner), steps=budget.steps)
        budget.spend(owner, thread_time() - began)

    def _parts(self, kind: Kind, first: Stored) -> list[ContextMatch]:
        """How such records are matched in each context, for each owner who may want them."""
        if self._revision != self._routes.revision or len(self._known) >= MOST_KINDS:
            self._revision, self._known = self._routes.revision, {}
        parts = self._known.get(kind)
        if parts is None:
            all_parts = (
                self._part(key, index, first) for key, index in self._routes.indexes.items()
            )
            parts = self._known[kind] = [part for part in all_parts if part is not None]
        return parts

    def _part(self, key: IndexKey, index: RouteIndex, first: Stored) -> ContextMatch | None:
        context, owner = key
        form = self.form(context, first)
        if form is None:
            return None
        if form.cls is None:
            return self._unreadable(key, index, form)
        projection = index.projection(form.cls, form.record.topic)
        if projection is None:
            return None
        return ContextMatch(self._routes, index, projection, context, form, owner)

    def _unreadable(self, key: IndexKey, index: RouteIndex, form: RecordForm) -> ContextMatch:
        """How a context takes records that cannot be made out here: all there may want them."""
        numbers = [
            number
            for number, route in self._routes.entries.items()
            if (route.definition.context, route.owner) == key
            and route.selector.covers_topic(form.record.topic)
        ]
        nothing, (context, owner) = Projection(filtered=False, names=None), key
        return ContextMatch(self._routes, index, nothing, context, form, owner, all_of=numbers)

    def form(self, context: str | None, stored: Stored) -> RecordForm | None:
        """What a record, and each that is like it, is in a context; None if it is not there."""
        routes, record = self._routes, stored.record
        rooted = record.context != context
        if rooted:
            root = record.rooted()
            if root is None:
                return None
            record = root
        cls: type | None = routes.types.class_of(record)
        translate, sure = (
            None,
            not routes.types.is_ambiguous(record.hash, routes.filters.names.versions),
        )
        if rooted and context is not None:
            known = routes.contexts.kept(context, stored.position)
            if known is None and routes.contexts.is_there(context, stored.position):
                return RecordForm(record, None, rooted, sure=False)
            if known is None or cls is None:
                return None
            incoming, sure = known.member.incoming, sure and known.is_whole and known.is_pure
            # What is the same in the context would only be copied, and filters look, no more.
            translate = None if incoming.mapping(cls) is None else incoming.translate
            cls = incoming.becomes(cls)
            if cls is None:
                return None
        return RecordForm(record, cls, rooted, translate, sure)


@dataclass(frozen=True)
class ContextMatch:
    """Records of one class on one topic, as one context sees them, for the routes of one owner."""

    routes: RouteTable
    index: RouteIndex
    projection: Projection
    context: str | None
    form: RecordForm
    owner: str | None
    all_of: list[int] | None = None
    """Who may want them, if nobody can say here what they are."""

    @cached_property
    def covering(self) -> list[int]:
        """The routes whose types cover them."""
        if self.all_of is not None:
            return self.all_of
        assert self.form.cls is not None
        return self.index.matcher.covering(self.form.cls, topic=self.form.record.topic)

    def match(self, batch: MatchBatch, places: list[int]) -> None:
        """Match the records at some places.

        They are decoded as far as filters read them, and not at all if there is no filter; a
        translation has to have all of the event, and may fail.
        """
        if self.form.sure and (self.projection.filtered or self.form.translate is not None):
            self._match(batch, places)
        else:
            self.add_all(batch, places, sure=self.form.sure)

    def add_all(self, batch: MatchBatch, places: list[int], *, sure: bool = False) -> None:
        """Let all routes that cover the records have them, without asking filters."""
        if not sure:
            batch.result.unsure.update(self.covering)
        for place in places:
            batch.add(place, self.covering)

    def match_within(
        self, batch: MatchBatch, places: list[int], seconds: float, *, steps: float
    ) -> None:
        """The same for about so much processor time; then whoever may want a record gets it.

        Nothing ends what is begun, so what may take more steps than those is not asked.
        """
        effort = self.projection.effort
        small = [place for place in places if effort.at(batch.size(place)) <= steps]
        end, at, size = thread_time() + seconds, 0, FIRST
        while at < len(small) and thread_time() < end:
            upto = batch.upto(small, at, size, effort, steps)
            self.match(batch, small[at:upto])
            at, size = upto, 2 * size
        if len(small) < len(places) or at < len(small):
            asked = set(small[:at])
            self.add_all(batch, [place for place in places if place not in asked])

    def _match(self, batch: MatchBatch, places: list[int]) -> None:
        events, good = self._decoded(batch, places)
        if self.form.translate is not None:
            events, good = self._translated(self.form.translate, events, good, batch)
        try:
            answers = self.index.matcher.match_batch(events, topic=self.form.record.topic)
        except BaseException as error:  # a function of a user may raise anything
            if isinstance(error, KeyboardInterrupt | MemoryError):
                raise
            pairs = zip(good, events, strict=True)
            answers = [self._match_one(event, place, batch) for place, event in pairs]
        for place, numbers in zip(good, answers, strict=True):
            batch.add(place, numbers)

    def _decoded(self, batch: MatchBatch, places: list[int]) -> tuple[list[Any], list[int]]:
        """The events at some places, and where they are."""
        records = [batch.records[place].record for place in places]
        if self.form.rooted:
            records = [root for record in records if (root := record.rooted()) is not None]
        names = None if self.form.translate is not None else self.projection.names
        is_itself = records[0] is batch.records[places[0]].record
        key = (places[0], len(places), is_itself, names)
        known = batch.decoded.get(key)
        if known is None:
            known = batch.decoded[key] = self._read(records, places, names)
            batch.result.decoded += len(known[0])
        events, good, bad = known
        for place in bad:  # nobody can read it: all routes that cover it find out
            batch.add(place, self.covering)
        return events, good

    def _read(
        self, records: list[Record], places: list[int], names: frozenset[str] | None
    ) -> Decoded:
        codec, registry = codec_for(records[0].codec), self.routes.registry
        decode = (
            partial(codec.decode, registry=registry)
            if names is None
            else codec.glance(records[0], names, registry=registry)
        )
        with suppress(NotDecodableError):
            return [decode(record) for record in records], places, []
        events, good, bad = [], [], []
        for place, record in zip(places, records, strict=True):
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
        batch: MatchBatch,
    ) -> tuple[list[Any], list[int]]:
        """Events as the context sees them; one for which a function raises is a dead letter."""
        translated, good = [], []
        for event, place in zip(events, places, strict=True):
            try:
                translated.append(translate(event))
                good.append(place)
            except failures_here() as error:
                batch.fail(letter_name(self.context or ""), place, error)
        return translated, good

    def _match_one(self, event: Any, place: int, batch: MatchBatch) -> list[int]:
        """Match one event, route by route: one that breaks does not harm the others."""
        topic, numbers = self.form.record.topic, []
        for number in self.index.matcher.covering(type(event), topic=topic):
            route = self.routes.entries[number]
            try:
                if route.where is None or route.where.matches(event, topic=topic):
                    numbers.append(number)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | MemoryError):
                    raise
                batch.fail(route.route.name, place, error)
        return numbers


def _kind(record: Record, change: int) -> Kind:
    root = None if record.root is None else record.root.hash
    return record.hash, record.topic, record.codec, record.context, root, change
