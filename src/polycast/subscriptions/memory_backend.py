"""Subscriptions that end with their process: their history is what the bus has in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.delivery import Consumer, Mailbox, Services
from polycast.errors import BadOptionError, HistoryGoneError, TakenOverError

if TYPE_CHECKING:
    from contextlib import ExitStack

    from polycast.log_reader.history import LogHistory
    from polycast.routing import Dispatcher
    from polycast.stores import Entry
    from polycast.subscriptions.options import SubscribeRequest
    from polycast.subscriptions.subscription_registry import MailboxTable


class MemoryBackend:
    """Makes mailboxes, and begins them with the history that is in memory."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        services: Services,
        mailboxes: MailboxTable,
        history: LogHistory,
    ) -> None:
        self._dispatcher, self._services = dispatcher, services
        self._mailboxes, self._history = mailboxes, history

    def check(self, request: SubscribeRequest) -> None:
        """Refuse what needs a store."""
        if request.engine != "direct":
            why = "the pipeline reads the log of a store, and this bus is in memory"
            accepted = "'direct', which is the default; or a bus over a store, 'sqlite:///...'"
            raise BadOptionError("engine", request.engine, accepted=accepted, why=why)
        if request.since is not None:
            self._history.check(request.since)

    def find(self, request: SubscribeRequest, locked: ExitStack) -> Mailbox | None:
        """Lock the registry, and return the mailbox to attach to."""
        # All up to a position is in the log only while nobody is publishing in line.
        if request.since is not None or request.replace:
            locked.enter_context(self._dispatcher.inline_lock.hold())
        locked.enter_context(self._mailboxes.lock)
        return self._mailboxes.find(request.interest, replace=request.replace)

    def create(self, request: SubscribeRequest) -> Mailbox:
        """Make a mailbox; one with a new definition takes over the place of its durable name."""
        interest = request.interest
        name = self._mailboxes.new_name(interest)
        mailbox = Mailbox(name, interest, request.settings, self._services)
        before = self._mailboxes.durable(interest.durable)
        if before is not None:
            before.state.pause()
            for consumer in before.members.consumers():
                consumer.ended = TakenOverError(before.title)
            mailbox.state.succeeds = before
            mailbox.queue.held = True
        self._mailboxes.add(mailbox)
        return mailbox

    def begin(self, mailbox: Mailbox, consumer: Consumer, request: SubscribeRequest) -> list[Entry]:
        """Put a mailbox into the plan; return what of the log has to come before that."""
        entries: list[Entry] = []

        def begin(position: int) -> None:
            start = None
            if mailbox.state.succeeds is None:
                start = self._history.start_of(request.since)
            mailbox.state.hold_until(
                start if start is not None and start > position else 0, history=start is not None
            )
            first = position if start is None else start
            same = consumer.interest is mailbox.interest
            mailbox.interest = mailbox.interest.starting(first)
            consumer.interest = mailbox.interest if same else consumer.interest.starting(first)
            entries.extend(self._history.before(mailbox, start))

        try:
            self._dispatcher.add(mailbox, begin)
        except HistoryGoneError:
            self.drop(mailbox)
            raise
        mailbox.state.refresh()
        if mailbox.state.succeeds is not None:
            before, mailbox.state.succeeds = mailbox.state.succeeds, None
            self._dispatcher.remove(before)
        return entries

    def join(self, mailbox: Mailbox) -> None:
        """One more consumer has attached to a mailbox that is in the plan."""
        self._dispatcher.change(mailbox)

    def begun(self, mailbox: Mailbox, entries: list[Entry]) -> None:
        """Give a mailbox its history. Nothing is locked, so filters of users may run."""
        if entries or mailbox.queue.held:
            mailbox.state.prefill(self._history.wanted(mailbox, entries))

    def detach(self, consumer: Consumer) -> None:
        """Detach a consumer; its durable name keeps its place."""
        consumer.mailbox.state.left_at = self._dispatcher.newest() + 1
        if self._mailboxes.leave(consumer):
            consumer.mailbox.worker.pump()

    def drop(self, mailbox: Mailbox) -> None:
        """Remove a mailbox from this process."""
        self._mailboxes.remove(mailbox)

    forget = drop

    def wind_down(self) -> None:
        """The bus is about to be closed, and all subscriptions end with it."""

    def keep_lease(self, consumer: Consumer, lease: float) -> None:
        """A lease in memory is a timer, and nothing else."""
