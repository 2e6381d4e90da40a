"""The one consumer of a subscription that is not a group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.delivery.queue import Attempt
from polycast.errors import TakenOverError

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Settings
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.mailbox import Mailbox
    from polycast.delivery.worker import Handout
    from polycast.matching import Interest
    from polycast.metrics import Trials
    from polycast.stores import Entry


class SoleConsumer:
    """Who is called back with all that a subscription wants; nobody, while it is detached."""

    __slots__ = ("_mailbox", "interest", "sole")

    def __init__(self, mailbox: Mailbox, interest: Interest) -> None:
        self._mailbox, self.interest = mailbox, interest
        self.sole: Consumer | None = None

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return str(self.interest.selector)

    # -- what it wants -----------------------------------------------------------------------------

    def interests(self) -> tuple[Interest, ...]:
        """What it wants."""
        return (self.interest,)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Return the filter, which is the same for all classes."""
        del cls
        if self.interest.where is None:
            return None
        function = self.interest.where.on(topic).function
        return self.counting(function) if self._mailbox.watched else function

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return the same filter, so that each answer is counted."""
        return partial(self._counted, test)

    def _counted(self, test: Callable[[Any], object], event: Any) -> object:
        verdict = bool(test(event))
        trials = self._mailbox.trials
        if trials is not None:
            with self._mailbox.queue.locked():
                trials.work()
        return verdict

    def vain(self) -> list[tuple[str, Trials]]:
        """Its filter, by the name of the subscription, if that fails each time of late."""
        trials = self._mailbox.trials
        return [] if trials is None or not trials.are_vain else [(self._mailbox.name, trials)]

    # -- who has it --------------------------------------------------------------------------------

    @property
    def inline(self) -> bool:
        """Whether it is called in the publisher's thread."""
        return self.sole is not None and self.sole.inline

    @property
    def pulls(self) -> bool:
        """Whether it takes events itself instead of being called."""
        return self.sole is not None and self.sole.pulls

    def consumers(self) -> tuple[Consumer, ...]:
        """All who are attached."""
        return () if self.sole is None else (self.sole,)

    def waits(self) -> bool:
        """Whether nothing is handed out until somebody comes or asks."""
        return self.sole is None or self.sole.pulls

    def is_free(self) -> bool:
        """Whether handing out is worth a lock; who is busy looks again when it has finished."""
        return self.sole is not None and not self.sole.busy

    def may_lose(self) -> bool:
        """Whether an event loop that is closed may have taken an attempt with it."""
        return self.sole is not None and self.sole.may_lose

    def attach(self, consumer: Consumer, settings: Settings) -> Settings:
        """Take over from whoever was attached, with what that had in flight."""
        if self.sole is not None:
            self.sole.ended = TakenOverError(self.title)
        self._mailbox.settlement.requeue_of(None)
        self.sole = consumer
        return settings

    def remove(self, consumer: Consumer) -> None:
        """Go on without a consumer."""
        if self.sole is consumer:
            self.sole = None

    # -- what it gets ------------------------------------------------------------------------------

    def attempt(self, entry: Entry, verdict: object) -> Attempt:
        """Return the first attempt to deliver an entry."""
        del verdict
        return Attempt(entry)

    def assign(self) -> list[Handout]:
        """Give it the next attempt, if it is free. The lock is held."""
        consumer = self.sole
        if consumer is None or consumer.busy or consumer.pulls or consumer.is_away():
            return []
        if self._mailbox.state.lease.is_over():
            return []
        attempt = self._mailbox.worker.take()
        if attempt is None:
            return []
        consumer.busy = True
        self._mailbox.settlement.launch(consumer, attempt)
        return [(consumer, attempt)]

    def resume(self) -> None:
        """Hand out what has become ready, from a thread that must not run callbacks."""
        self._mailbox.worker.pump_later()

    def retry_delay(self, attempt: Attempt, error: BaseException, usual: float) -> float:
        """In how many seconds to try again."""
        del attempt, error
        return usual
