"""The plan: it alone says who wants an event.

It has two questions. `recipients` is about one event that is here as an object, and answers with
live subscriptions; a generated route is that question, compiled for one class. `match` is about
batches of records, and answers with the numbers of subscriptions of which nothing but their stored
definitions is known. In both, contexts are a step: an event is translated once for each context,
then matched inside.
"""

from __future__ import annotations

from abc import get_cache_token
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from polycast.errors.failures import FAILURES
from polycast.routing.match import RecordMatcher
from polycast.routing.route_table import RouteTable, none_named
from polycast.routing.target_table import TargetIndex, TargetTable, is_single, pays_to_index
from polycast.routing.translation import ContextRemoved, ContextTranslation, TranslationFailed
from polycast.stores import Undecodable
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polycast.routing.match import MatchResult
    from polycast.routing.recipient_query import EventForm, Recipient, RecipientQuery
    from polycast.routing.route_table import Budget
    from polycast.routing.target_table import Candidates, Target
    from polycast.stores import Stored

MOST_CANDIDATES = 4_096  # that are remembered: each topic has its own, and topics never end


class Plan:
    """Who wants what: live subscriptions of a bus, or the routes of a store, by number.

    Whoever changes it, or asks for candidates, holds the lock of its bus; `match` is for one thread
    at a time.
    """

    def __init__(self, routes: RouteTable | None = None) -> None:
        self.targets = TargetTable()
        self._routes = routes
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

    @property
    def routes(self) -> RouteTable:
        """The stored subscriptions in effect."""
        if self._routes is None:
            self._routes = RouteTable(Registry(classes=()))
        return self._routes

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
            if query.forms.is_published_in(context):  # as the very object, unless it is copied
                recipients += [
                    (target, verdict, query.forms.own_form(form) if target.copies else form)
                    for target, verdict in verdicts
                ]
            else:
                recipients += [(target, verdict, form) for target, verdict in verdicts]
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
            except FAILURES as error:
                target.unfit(error)
        return hits


def plan_of_routes(
    registry: Registry,
    function: Callable[[str], Callable[..., object] | None] = none_named,
    *,
    budget: Budget | None = None,
) -> Plan:
    """A plan for records: `function` gives the functions of modules that filters may name."""
    return Plan(RouteTable(registry, function, budget=budget))
