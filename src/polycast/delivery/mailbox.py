"""The mailbox of a subscription or a group: where the plan brings events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.delivery.bounded_queue import BoundedQueue
from polycast.delivery.callback_context import callbacks_under_way
from polycast.delivery.cursors import NOTHING_KEPT
from polycast.delivery.groups import GroupMembers
from polycast.delivery.queue import Attempt
from polycast.delivery.settlement import Settlement
from polycast.delivery.sole_consumer import SoleConsumer
from polycast.delivery.subscription_state import SubscriptionState
from polycast.delivery.worker import DeliveryWorker
from polycast.errors import CutOffError, NotAwaitedError, QueueFullError
from polycast.locks import LATEST
from polycast.metrics import Counts, Trials
from polycast.plain_text import log_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Settings
    from polycast.delivery.cursors import Cursor
    from polycast.delivery.distributed_group import GroupClaims
    from polycast.delivery.services import Services
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest
    from polycast.stores import Entry, StoredRoute

_log = log_of("polycast")


class Mailbox:
    """Holds a queue, a settlement with its cursor, a worker, and those who are called back.

    To the plan it is a target; the rest of a subscription's life is in `state`.
    """

    __slots__ = (
        *("__weakref__", "_is_told", "claims", "counts", "cursor", "direct", "members", "name"),
        *("queue", "route", "services", "settlement", "state", "trials", "worker"),
    )

    def __init__(
        self,
        name: str,
        interest: Interest,
        settings: Settings,
        services: Services,
        *,
        cursor: Cursor = NOTHING_KEPT,
        claims: Callable[[Mailbox], GroupClaims] | None = None,
    ) -> None:
        self.name, self.services, self.cursor = name, services, cursor
        self.counts = Counts()
        self.route: StoredRoute | None = None  # by which the pipeline says what it takes
        self.direct: Callable[[Any], object] | None = None
        self.queue = BoundedQueue(settings, cursor, self.counts, services)
        kind = SoleConsumer if interest.group is None else GroupMembers
        self.members: SoleConsumer | GroupMembers = kind(self, interest)
        self.settlement = Settlement(
            name,
            self.queue,
            cursor,
            self.counts,
            self.members,
            services,
        )
        self.worker = DeliveryWorker(self, self.queue, self.settlement)
        self.state = SubscriptionState(self, self.queue, self.settlement)
        self.claims = None if claims is None else claims(self)
        self.trials: Trials | None = None  # of its filter, once that has failed
        self._is_told = False  # that its filter gives what nobody awaits

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return self.members.title

    @property
    def interest(self) -> Interest:
        """What the subscription, or its group, wants."""
        return self.members.interest

    @interest.setter
    def interest(self, interest: Interest) -> None:
        self.members.interest = interest

    @property
    def ended(self) -> SubscriptionEndedError | None:
        """Why it is over, or None."""
        return self.queue.ended

    # -- a target of the plan ----------------------------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether somebody is called in the publisher's thread."""
        return self.members.inline

    @property
    def blocking(self) -> bool:
        """Whether a publisher waits for room."""
        return self.queue.settings.overflow == "block"

    @property
    def copies(self) -> bool:
        """Whether it has objects of its own also of what is published in its context, in memory."""
        return self.queue.settings.copy

    def interests(self) -> tuple[Interest, ...]:
        """What it wants, one for each member."""
        return self.members.interests()

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Return the filter for events of a class on a topic."""
        return self.members.test_for(cls, topic)

    @property
    def watched(self) -> bool:
        """Whether its filter has failed, so that each answer of it is counted."""
        return self.trials is not None

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return the same filter, so that each answer is counted."""
        return self.members.counting(test)

    def unfit(self, error: BaseException) -> None:
        """Count a filter that fails, so that the event does not match; log it once if async."""
        with self.queue.locked():
            self.counts.filter_failures += 1
            was_told, self._is_told = self._is_told, isinstance(error, NotAwaitedError)
            self._is_told = self._is_told or was_told
            is_first, self.trials = self.trials is None, self.trials or Trials()
            self.trials.fail(error)
        if self._is_told and not was_told:
            _log.warning("the filter of %s fails, so it does not match: %s", self.name, error)
        if is_first and self.direct is not None:
            self.services.rewrite(self)

    def put(self, entry: Entry, verdict: object) -> bool:
        """Take an entry; return True if its consumer needs no wake() to find it.

        The dispatcher's order lock is held, so this is log order.
        """
        fast = self.queue.fast
        if (
            fast is not None
            and (consumer := fast.consumer) is not None
            and entry.own is None
            and entry.expires is None
            and not entry.priority
            and len(fast.arrivals) < fast.bound
        ):
            fast.arrivals.append(entry)
            # Who is busy looks again when it has finished.
            return consumer.busy and (consumer.is_lost is None or not consumer.is_lost())
        with self.queue.lock:
            self.settlement.close_fast_path()
            if self.queue.takes(entry):
                self.state.admit(entry, verdict)
        return False

    def wake(self) -> None:
        """Go on with what was put."""
        if self.queue.discarded:
            self.queue.discarded = ()
        if isinstance(self.queue.ended, CutOffError):
            self.state.bury_all(self.queue.ended)
            self.services.ended(self)
        elif self.members.is_free() and not self.queue.paused:
            noted = LATEST.lock
            try:
                self.worker.pump()
            finally:  # this may have interrupted who has noted that lock, and is about to take it
                LATEST.lock = noted
        elif self.members.may_lose():
            self.worker.recover()
        if self.claims is not None:
            self.claims.claim_soon()

    def reserve(self, count: int, *, inside: bool) -> None:
        """Wait for room for so many, at most as long as the subscription says."""
        settings = self.queue.settings
        wait = 0.0 if inside or callbacks_under_way() else settings.block_for
        if not self.services.threaded or count > settings.queue:
            wait = 0.0
        if not self.queue.reserve(count, wait):
            raise QueueFullError(self.title, queue=settings.queue, waited=wait)

    def release(self, count: int) -> None:
        """Give reserved room back."""
        self.queue.release(count)

    def expired(self) -> None:
        """Count an event that came too late to be called back with directly."""
        with self.queue.locked():
            self.counts.expired += 1

    def failed(self, entry: Entry, error: BaseException) -> None:
        """A callback that was called directly raised: the same as any failed attempt."""
        with self.queue.locked():
            self.settlement.apply(Attempt(entry, count=1, begun=True), error)
        self.state.refresh()
