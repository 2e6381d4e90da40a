"""The health of a bus: its subscriptions, their filters, the pipeline and dead letters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Literal

from polycast.errors.failures import STORE_FAILURES, failures_here
from polycast.filters import Filter
from polycast.filters.tree.relaxation import EVERYTHING, is_open, relaxed
from polycast.metrics import Counts, Trials
from polycast.plain_text import plain
from polycast.stores import Entry, Store, Stored, Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from polycast.delivery import DeadLetters, Mailbox, Services
    from polycast.matching import Interest
    from polycast.routing import RecordRouter
    from polycast.subscriptions.subscription_registry import SubscriptionRegistry

STILL = 10.0  # seconds without a step, after which it is told


@dataclass(frozen=True, slots=True)
class SubscriptionHealth:
    """How one subscription is doing. Direct calls in the publisher's thread are not counted."""

    name: str
    state: str
    waiting: int
    in_flight: int
    counts: Counts
    engine: Literal["direct", "spark"] = "direct"
    context: str | None = None
    """The context in which it sees events; None is the root."""


@dataclass(frozen=True, slots=True)
class PipelineHealth:
    """How far the pipeline has come that routes for subscriptions with `engine="spark"`."""

    routed: int
    """All before this position is routed."""
    behind: int
    """How many events that is before the end of the log."""
    has_run: bool
    """Whether it has ever run on this store."""
    still: float
    """For how many seconds events have been waiting without any being routed."""

    @property
    def is_idle(self) -> bool:
        """Whether something waits to be routed, and it seems that nobody does so."""
        return self.behind > 0 and (not self.has_run or self.still >= STILL)

    def __str__(self) -> str:
        text = f"the pipeline has routed what is before position {self.routed}, "
        text += f"{self.behind} events behind the log"
        if not self.has_run:
            return f"{text}: it has never run on this store"
        return f"{text}: it has not moved for {self.still:.0f} s" if self.is_idle else text


@dataclass(frozen=True, slots=True)
class StuckCallback:
    """A callback that has not returned for too long."""

    subscription: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What close() could not deliver in time."""

    subscription: str
    events: int
    why: str

    def __str__(self) -> str:
        return plain(f"{self.events} for {self.subscription}: {self.why}")


@dataclass(frozen=True, slots=True)
class Health:
    """How a bus is doing; `problems` says in words what is not as it should be."""

    state: Literal["open", "closed"]
    published: int
    subscriptions: tuple[SubscriptionHealth, ...]
    advertised: tuple[str, ...]
    stuck: tuple[StuckCallback, ...]
    dead_letters: int
    counts: Counts
    problems: tuple[str, ...]
    pipeline: PipelineHealth | None = None  # None: it routes for nobody here

    @property
    def ok(self) -> bool:
        """Whether there is nothing to worry about."""
        return not self.problems

    def __str__(self) -> str:
        head = f"{self.state}: {self.published} published, {len(self.subscriptions)} subscriptions"
        return "\n".join([head, *(f"- {plain(problem)}" for problem in self.problems)])


def health_of(
    subscriptions: SubscriptionRegistry,
    *,
    is_closed: bool,
    advertised: Iterable[str],
    context_problems: Iterable[str],
) -> Health:
    """Examine a bus."""
    progress, services = subscriptions.progress, subscriptions.services
    mailboxes = list(subscriptions.mailboxes)
    counted = [*mailboxes, *subscriptions.mailboxes.cut_off]
    stuck = tuple(_stuck(mailboxes, services))
    return Health(
        state="closed" if is_closed else "open",
        published=progress.published(),
        subscriptions=tuple(_subscription(mailbox) for mailbox in mailboxes),
        advertised=tuple(advertised),
        stuck=stuck,
        dead_letters=len(services.dead_letters),
        counts=reduce(add, (mailbox.counts for mailbox in counted), Counts()),
        problems=(*_problems(subscriptions, mailboxes, stuck), *context_problems),
        pipeline=progress.pipeline(),
    )


def _subscription(mailbox: Mailbox) -> SubscriptionHealth:
    state = (
        "paused"
        if mailbox.queue.paused
        else "detached"
        if not mailbox.members.consumers()
        else "active"
    )
    return SubscriptionHealth(
        mailbox.name,
        state,
        len(mailbox.queue),
        mailbox.state.under_way(),
        mailbox.counts,
        "direct" if mailbox.route is None else "spark",
        mailbox.interest.context,
    )


def _stuck(mailboxes: list[Mailbox], services: Services) -> Iterator[StuckCallback]:
    """Callbacks that began too long ago (READY 4.5); in line nobody watches."""
    now = services.clock.monotonic()
    for consumer in (consumer for mailbox in mailboxes for consumer in mailbox.members.consumers()):
        since = None if consumer.inline else consumer.started
        if since is not None and now - since >= services.pool.stuck_timeout:
            yield StuckCallback(consumer.title, now - since)


def _problems(
    subscriptions: SubscriptionRegistry, mailboxes: list[Mailbox], stuck: tuple[StuckCallback, ...]
) -> Iterator[str]:
    services, translation = subscriptions.services, subscriptions.dispatcher.plan.translation
    yield from subscriptions.progress.problems()
    for callback in stuck:
        yield (
            f"the callback of {callback.subscription} has not returned for {callback.seconds:.0f} s"
        )
    yield from _mailbox_problems(subscriptions.mailboxes.cut_off, mailboxes)
    for supply in list(services.supplies):
        if (problem := supply.problem) is not None:
            yield problem
    for mailbox in mailboxes:
        context = mailbox.interest.context
        if translation.is_gone(context):
            yield (
                f"{mailbox.name} gets nothing: context {context!r} was taken out of the federation"
            )
    yield from _letter_problem(services.dead_letters)


def _mailbox_problems(cut_off: Iterable[Mailbox], mailboxes: list[Mailbox]) -> Iterator[str]:
    for mailbox in cut_off:
        yield f"{mailbox.name} was cut off: its queue was full"
    for mailbox in mailboxes:
        waiting, queue = len(mailbox.queue), mailbox.queue.settings.queue
        if waiting >= 0.8 * queue:
            yield f"{waiting} events wait for {mailbox.name}, which keeps up to {queue}"
    for mailbox in mailboxes:
        if mailbox.counts.dropped:
            yield f"{mailbox.name} lost {mailbox.counts.dropped} events"
    for mailbox in mailboxes:
        for name, trials in mailbox.members.vain():
            yield f"the filter of {name} fails, so it gets nothing: {trials}"


def _letter_problem(letters: DeadLetters) -> Iterator[str]:
    count = len(letters)
    if count or letters.let_go:
        kept = (
            f"; {n} of them were cut off and stay until purged" if (n := letters.cut_off()) else ""
        )
        yield f"{count} dead letters ({letters.let_go} older ones let go){kept}"


# -- filters that fail where events come from ------------------------------------------------------

LATE = 200  # events of late that are looked at
MUCH = 500_000  # bytes of them
MOST = 20_000  # answers of filters that are asked for


def vain_filters(store: Store, router: RecordRouter, boxes: Iterable[Mailbox]) -> Iterator[str]:
    """Which of those that a broker or the pipeline asks failed for all events of late."""
    afar = [box for box in boxes if store.is_remote or box.route is not None]
    silent = [box for box in afar if not box.members.vain()]  # of the others it is known here
    parts = [(box, interest, part) for box in silent for interest, part in _parts(box)]
    if not parts:
        return
    late = _Late(store, router)
    for box, interest, part in sorted(parts, key=lambda part: part[0].counts.delivered):
        trials = late.tried(interest, part)
        if trials.are_vain:
            text = f"fails where events come from, so it gets nothing: of those of late {trials}"
            yield f"the filter of {box.name} {text}"


def _parts(box: Mailbox) -> Iterator[tuple[Interest, Filter[Any]]]:
    """What of its filters others can ask: none of the functions of this process."""
    for interest in box.interests():
        if interest.where is not None:
            part: Filter[Any] = Filter(relaxed(interest.where.tree, is_open))
            if part != EVERYTHING:
                yield interest, part


class _Late:
    """The events of late, each of which is read once."""

    def __init__(self, store: Store, router: RecordRouter) -> None:
        self._router = router
        self._records: Sequence[Stored] = ()
        self._entries: dict[int, Entry] = {}
        self._left = MOST
        with suppress(*STORE_FAILURES):
            start = max(1, store.newest() - LATE + 1)
            self._records = store.read(start, limit=LATE, size=MUCH).entries

    def tried(self, interest: Interest, part: Filter[Any]) -> Trials:
        """How a filter does with those of its types that are as the log has them."""
        trials = Trials()
        for stored in self._records:
            record = stored.record
            is_meant = stored.position >= interest.start and record.context == interest.context
            if not is_meant or self._left <= 0:
                continue
            if not interest.selector.covers(self._router.class_of(record), record.topic):
                continue
            event = self._entry(stored).event
            if isinstance(event, Undecodable):
                continue
            self._left -= 1
            try:
                bool(part.on(record.topic).function(event))
                trials.work()
            except failures_here() as error:
                trials.fail(error)
        return trials

    def _entry(self, stored: Stored) -> Entry:
        known = self._entries.get(stored.position)
        if known is None:
            known = self._entries[stored.position] = self._router.entry(stored)
        return known
