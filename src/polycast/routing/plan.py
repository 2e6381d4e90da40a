"""The plan: it alone says who wants an event.

It has two questions. `recipients` is about one event that is here as an object, and answers with
live subscriptions; a generated route is that question, compiled for one class. `match` is about
batches of records, and answers with the numbers of subscriptions of which nothing but their stored
definitions is known. In both, contexts are a step: an event is translated once for each context,
then matched inside.
"""

from __future__ import annotations

from abc import get_cache_token
from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from polycast.errors.failures import failures_here
from polycast.filters.tree.relaxation import all_open
from polycast.matching import Interest, Matcher, Selector
from polycast.routing.match import MatchResult, RecordMatcher
from polycast.routing.route_table import Budget, RouteTable, none_named
from polycast.routing.translation import ContextRemoved, ContextTranslation, TranslationFailed
from polycast.stores import Entry, Stored, Undecodable
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from polycast.routing.translation import EventForm, Recipient, RecipientQuery


Choice = tuple[str | None, Selector[Any]]
"""A context, and what is selected in it."""


class Target(Protocol):
    """Where wanted events go. The dispatcher calls; the delivery package implements."""

    @property
    def inline(self) -> bool:
        """Whether callbacks run in the publisher's thread, so that it has to take its turn."""

    @property
    def blocking(self) -> bool:
        """Whether a publisher may have to wait for room."""

    @property
    def copies(self) -> bool:
        """Whether it has an object of its own even of what is published in its context."""

    @property
    def direct(self) -> Callable[[Any], object] | None:
        """The bare callback, while nothing but calling it is needed."""

    @property
    def watched(self) -> bool:
        """Whether each answer of its filter is counted, because it has failed."""

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """The same filter, so that it is."""

    def interests(self) -> tuple[Interest, ...]:
        """What it wants, one for each member."""

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """The filter for events of a class on a topic."""

    def put(self, entry: Entry, verdict: object) -> bool | None:
        """Take an entry, in log order, under the order lock; True if it needs no wake()."""

    def wake(self) -> None:
        """Go on with what was put."""

    def reserve(self, count: int, *, is_inside: Callable[[], bool]) -> None:
        """Wait for room for so many more, or raise QueueFullError; at once inside a callback."""

    def release(self, count: int) -> None:
        """Give the reserved room back."""

    def expired(self) -> None:
        """The event came too late to be called with."""

    def unfit(self, error: BaseException) -> None:
        """A filter failed, so the event does not match."""

    def failed(self, entry: Entry, error: BaseException) -> None:
        """The bare callback raised."""


Candidates = tuple[str | None, tuple[Target, ...]]
"""A context, and who can want an event there."""


class TargetTable:
    """Targets by what they select. Whoever reads or changes it holds the dispatcher's lock."""

    def __init__(self) -> None:
        self._chosen: dict[Target, list[Choice]] = {}
        self._targets: dict[Choice, dict[Target, None]] = {}
        # Selectors of one topic are found by that topic; the others by the classes they cover,
        # which is worked out once for each class and kept up to date.
        self._on_topic: dict[str, dict[Choice, None]] = {}
        self._general: dict[Choice, None] = {}
        self._registrable: set[Choice] = set()
        self._covering: WeakKeyDictionary[type, dict[Choice, None]] = WeakKeyDictionary()
        self._token = get_cache_token()
        self._contexts: Counter[str | None] = Counter()
        self._opaque: set[Target] = set()  # who has a filter that is, and may change an event

    @property
    def contexts(self) -> list[str | None]:
        """The contexts in which somebody wants something."""
        return list(self._contexts)

    def add(self, target: Target) -> None:
        """Let a target have what it is interested in."""
        self._chosen[target] = [(wish.context, wish.selector) for wish in target.interests()]
        if _is_opaque(target):
            self._opaque.add(target)
        for choice in self._chosen[target]:
            if choice not in self._targets:
                self._admit(choice)
            self._targets[choice][target] = None

    def _admit(self, choice: Choice) -> None:
        context, selector = choice
        self._targets[choice] = {}
        self._contexts[context] += 1
        if selector.registrable:
            self._registrable.add(choice)
        if (topic := _only_topic(selector)) is not None:
            self._on_topic.setdefault(topic, {})[choice] = None
            return
        self._general[choice] = None
        for cls, covering in self._covering.items():
            if selector.covers_class(cls):
                covering[choice] = None

    def remove(self, target: Target) -> None:
        """Let a target have nothing more."""
        self._opaque.discard(target)
        for choice in dict.fromkeys(self._chosen.pop(target, ())):
            del self._targets[choice][target]
            if not self._targets[choice]:
                self._dismiss(choice)

    def _dismiss(self, choice: Choice) -> None:
        context, selector = choice
        del self._targets[choice]
        self._contexts[context] -= 1
        if not self._contexts[context]:
            del self._contexts[context]
        self._registrable.discard(choice)
        if (topic := _only_topic(selector)) is not None:
            del self._on_topic[topic][choice]
            if not self._on_topic[topic]:
                del self._on_topic[topic]
            return
        del self._general[choice]
        for covering in self._covering.values():
            covering.pop(choice, None)

    def covering(
        self, cls: type, topic: str | None, context: str | None = None
    ) -> tuple[Target, ...]:
        """Who in a context can want events of exactly that class on that topic, each once."""
        targets: dict[Target, None] = {}
        for choice in self._covering_of(cls):
            where, selector = choice
            if where == context and (selector.topic is None or selector.covers(cls, topic)):
                targets.update(self._targets[choice])
        for choice in self._on_topic.get(topic, ()) if topic is not None else ():
            where, selector = choice
            if where == context and selector.covers_class(cls):
                targets.update(self._targets[choice])
        return tuple(targets)

    def _covering_of(self, cls: type) -> dict[Choice, None]:
        """The general selectors whose types cover a class."""
        token = get_cache_token()
        if token != self._token:  # ABC.register: old verdicts may be wrong
            self._covering.clear()
            self._token = token
        if cls not in self._covering:
            covering = {choice: None for choice in self._general if choice[1].covers_class(cls)}
            self._covering[cls] = covering
        return self._covering[cls]

    def asks_opaque(self, targets: Iterable[Target]) -> bool:
        """Whether one of them has a filter that cannot be looked into."""
        return any(
            target in self._opaque if target in self._chosen else _is_opaque(target)
            for target in targets
        )

    def registrable(self, cls: type) -> bool:
        """Whether `ABC.register` may give a class targets that it does not have now."""
        return any(not selector.covers_class(cls) for _, selector in self._registrable)

    def choices(self, target: Target) -> list[Choice]:
        """What a target is in the plan for."""
        return self._chosen.get(target, [])

    def __iter__(self) -> Iterator[Target]:
        return iter(self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def __contains__(self, target: Target) -> bool:
        return target in self._chosen


def _is_opaque(target: Target) -> bool:
    return not all_open(interest.where for interest in target.interests())


def _only_topic(selector: Selector[Any]) -> str | None:
    pattern = selector.topic
    return pattern.text if pattern is not None and pattern.exact else None


MANY = 128  # targets of one class and topic with such filters; asking fewer in a loop is faster
LOOKED_AT = 128  # events, to see how many of many targets want them
DENSE = 4  # if one in so many does, asking each in a loop is faster


def is_single(target: Target) -> bool:
    """Whether it stands for one subscription, so that its filter alone decides."""
    interests = target.interests()
    return len(interests) == 1 and interests[0].group is None


def pays_to_index(targets: Collection[Target]) -> bool:
    """Whether so many have a filter which can be looked up that an index over them pays."""
    return len(targets) > MANY and sum(map(_is_indexed, targets)) > MANY


def _is_indexed(target: Target) -> bool:
    where = target.interests()[0].where if is_single(target) else None
    return where is not None and where.is_indexed


class Member:
    """A target, with what it wants; another interest of it is another member."""

    __slots__ = ("interest", "target")

    def __init__(self, target: Target, interest: Interest) -> None:
        self.target, self.interest = target, interest


class TargetIndex:
    """All targets that stand for one subscription, by what they want."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._matcher: Matcher[Member] = Matcher()
        self._members: dict[Target, Member] = {}
        for target in targets:
            self.put(target)

    def put(self, target: Target) -> None:
        """Let it have what it wants now; who asks meanwhile finds the old or the new, or both."""
        before = self._members.pop(target, None)
        if is_single(target):
            [interest] = target.interests()
            if before is not None and before.interest is interest:
                self._members[target] = before
                return
            member = self._members[target] = Member(target, interest)
            self._matcher.add(member, interest.selector, interest.where)
        if before is not None:
            self._matcher.remove(before)

    def remove(self, target: Target) -> None:
        """Let it have nothing more."""
        member = self._members.pop(target, None)
        if member is not None:
            self._matcher.remove(member)

    def wanting(self, event: Any, topic: str | None) -> set[Target]:
        """Who wants an event."""
        return {member.target for member in self._matcher.match(event, topic=topic)}

    def chooser(
        self,
        direct: tuple[Target, ...],
        queued: tuple[Target, ...],
        topic: str | None,
        dense: Callable[[], None],
    ) -> Callable[[Any], tuple[list[int], list[Target]]]:
        """For one route: the numbers of those to call, in order, and those with a queue.

        `dense` is called when so many want most events that an index is of no use.
        """
        match = self._matcher.match
        called = self._numbers(direct)
        waiting = self._numbers(queued)

        looked = hits = 0

        def choose(event: Any) -> tuple[list[int], list[Target]]:
            nonlocal looked, hits
            members = match(event, topic=topic)
            looked += 1
            hits += len(members)
            if looked == LOOKED_AT:
                if hits * DENSE > looked * (len(direct) + len(queued)):
                    dense()
                looked = hits = 0
            calls = [number for member in members if (number := called(member)) is not None]
            calls.sort()
            if not queued:
                return calls, []
            boxes = [number for member in members if (number := waiting(member)) is not None]
            boxes.sort()
            return calls, [queued[number] for number in boxes]

        return choose

    def _numbers(self, targets: tuple[Target, ...]) -> Callable[[Member], int | None]:
        """The number of each target, by what it is in the index now."""
        members = [(self._members.get(target), number) for number, target in enumerate(targets)]
        return {member: number for member, number in members if member is not None}.get


MOST_CANDIDATES = 4_096  # that are remembered: each topic has its own, and topics never end


class Plan:
    """Who wants what: live subscriptions of a bus, or the routes of a store, by number.

    Whoever changes it, or asks for candidates, holds the lock of its bus; `match` is for one thread
    at a time, and `function` gives the functions of modules that filters of routes may name.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        function: Callable[[str], Callable[..., object] | None] = none_named,
        *,
        budget: Budget | None = None,
    ) -> None:
        self._registry, self._function, self._budget = registry, function, budget
        self.targets = TargetTable()
        self.translation = ContextTranslation()
        self._index: TargetIndex | None = None  # made when many want events of one class
        # Emptied when the plan changes, and by a full collection: it would keep classes alive.
        self._candidates: dict[tuple[type, str | None, str | None], list[Candidates]] = {}
        self._targets: dict[tuple[type, str | None, str | None], tuple[Target, ...]] = {}
        self._token: object = None  # of what ABCs say

    # -- changing --------------------------------------------------------------------------------

    def add(self, target: Target) -> None:
        """Let a target have what it is interested in."""
        self.targets.add(target)
        if self._index is not None:
            self._index.put(target)

    def remove(self, target: Target) -> None:
        """Let a target have nothing more."""
        self.targets.remove(target)
        if self._index is not None:
            self._index.remove(target)

    def replace(self, target: Target) -> None:
        """Let a target have what it is interested in now."""
        self.targets.remove(target)
        self.add(target)

    def forget(self) -> None:
        """Find out anew who can want which events."""
        self._candidates, self._targets = {}, {}

    @property
    def index(self) -> TargetIndex:
        """The index over the filters of all targets; made when it is first asked."""
        if self._index is None:
            self._index = TargetIndex(self.targets)
        return self._index

    # -- records known by description only ---------------------------------------------------------

    @cached_property
    def routes(self) -> RouteTable:
        """The stored subscriptions in effect."""
        registry = Registry(classes=()) if self._registry is None else self._registry
        return RouteTable(registry, self._function, budget=self._budget)

    @cached_property
    def records(self) -> RecordMatcher:
        """What matches records; it says, too, what a record is in a context."""
        return RecordMatcher(self.routes)

    def match(self, records: Sequence[Stored], *, owner: str | None = None) -> MatchResult:
        """The routes that take each of some records, which are in log order.

        With an owner, only those of that owner are asked.
        """
        return self.records.match(records, owner=owner)

    # -- who can want an event -------------------------------------------------------------------

    def candidates(self, cls: type, topic: str | None, source: str | None) -> list[Candidates]:
        """Who can want events of a class that are published in a context, context by context."""
        self._check_token()
        key = (cls, topic, source)
        known = self._candidates.get(key)
        if known is None:
            known = self._candidates[key] = list(self._find_candidates(cls, topic, source))
        return known

    def _find_candidates(
        self, cls: type, topic: str | None, source: str | None
    ) -> Iterator[Candidates]:
        """Those in the publisher's context come first, even if there are none."""
        for context in dict.fromkeys((source, *self.targets.contexts)):
            there = self.translation.becomes(cls, source, context)
            targets = () if there is None else self.targets.covering(there, topic, context)
            if targets or context == source:
                yield context, targets

    def targets_of(self, cls: type, topic: str | None, context: str | None) -> tuple[Target, ...]:
        """Who in a context can want events of what is that class there."""
        self._check_token()
        key = (cls, topic, context)
        known = self._targets.get(key)
        if known is None:
            known = self._targets[key] = self.targets.covering(cls, topic, context)
        return known

    def _check_token(self) -> None:
        token = get_cache_token()
        most = max(len(self._candidates), len(self._targets))
        if self._token != token or most > MOST_CANDIDATES:
            self.forget()
            self._token = token

    # -- who wants it ----------------------------------------------------------------------------

    def recipients(
        self, query: RecipientQuery, candidates: Iterable[Candidates], topic: str | None
    ) -> list[Recipient]:
        """Who wants an event, in all contexts; each is asked once, unless it has changed."""
        recipients: list[Recipient] = []
        for context, targets in candidates:
            if not targets:
                continue
            try:
                form = query.forms.form(context)
            except TranslationFailed as failure:
                query.failed[failure.context] = failure.error
                continue
            except ContextRemoved:
                continue
            if form is None:
                continue
            ask = partial(self._wanting, form=form, topic=topic)
            verdicts = query.answers(targets, ask) if query.remembers else ask(targets)
            form_for = partial(query.forms.in_context, context, form)
            recipients += [(target, verdict, form_for(target)) for target, verdict in verdicts]
        return recipients

    def _wanting(
        self, targets: Sequence[Target], form: EventForm, topic: str | None
    ) -> list[tuple[Target, object]]:
        if isinstance(form.event, Undecodable):  # nobody can look into it: all find out
            return [(target, True) for target in targets]
        # Copies are of an event that no function has changed.
        is_copied = form.own is not None and self.targets.asks_opaque(targets)
        event = form.own() if is_copied and form.own is not None else form.event
        return self.wanting(targets, event, topic)

    def wanting(
        self, targets: Sequence[Target], event: Any, topic: str | None
    ) -> list[tuple[Target, object]]:
        """Those whose filters an event passes as it is in their context, with the verdicts."""
        hits: list[tuple[Target, object]] = []
        if self._index is not None and pays_to_index(targets):
            wanting = self._index.wanting(event, topic)
            hits = [(target, True) for target in targets if target in wanting]
            targets = [target for target in targets if not is_single(target)]
        for target in targets:
            test = target.test_for(type(event), topic)
            try:
                verdict = True if test is None else test(event)
                if verdict:
                    hits.append((target, verdict))
            except failures_here() as error:
                target.unfit(error)
        return hits
