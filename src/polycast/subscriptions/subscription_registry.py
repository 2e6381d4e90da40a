"""The registry of subscriptions: attaching callbacks to mailboxes, and ending them."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from polycast.delivery import (
    Consumer,
    CoroutineConsumer,
    InlineConsumer,
    PoolConsumer,
    Puller,
)
from polycast.errors import LeaseExpiredError, SubscriptionCancelledError
from polycast.locks import check_free
from polycast.subscriptions.options import check_dispatch
from polycast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Mailbox, Services
    from polycast.errors import SubscriptionEndedError
    from polycast.routing import Dispatcher
    from polycast.subscriptions.delivery_progress import MemoryProgress, StoreProgress
    from polycast.subscriptions.mailbox_table import MailboxTable
    from polycast.subscriptions.memory_backend import MemoryBackend
    from polycast.subscriptions.options import SubscribeRequest
    from polycast.subscriptions.store_backend import StoreBackend

__all__ = ["SubscriptionRegistry"]


class SubscriptionRegistry:
    """The subscriptions of one bus; `backend` keeps them, in memory or in a store."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        services: Services,
        mailboxes: MailboxTable,
        backend: MemoryBackend | StoreBackend,
        progress: MemoryProgress | StoreProgress,
        owner: Callable[[], object],
    ) -> None:
        self.dispatcher, self.services = dispatcher, services
        self.mailboxes, self.backend, self.progress = mailboxes, backend, progress
        self.owner = owner  # returns the bus, if it is still there
        self._handles: weakref.WeakValueDictionary[Consumer, Subscription[Any]]
        self._handles = weakref.WeakValueDictionary()

    def check_free(self, operation: str, *mailboxes: Mailbox) -> None:
        """Refuse a call that has interrupted this very thread while it changes something here."""
        self.dispatcher.check_free(operation)
        check_free(operation, self.mailboxes.lock, *(mailbox.queue.lock for mailbox in mailboxes))

    # -- attaching -------------------------------------------------------------------------------

    def open(self, request: SubscribeRequest) -> Subscription[Any]:
        """Subscribe: find or make the mailbox, attach the callback, begin."""
        backend = self.backend
        if request.callback is not None:
            check_dispatch(request.settings, request.callback)
        backend.check(request)
        with ExitStack() as locked:
            known = backend.find(request, locked)
            mailbox = backend.create(request) if known is None else known
            consumer = self._consumer(mailbox, request)
            if not mailbox.state.attach(consumer, request.settings):  # it has just ended
                backend.drop(mailbox)
                known, mailbox = None, backend.create(request)
                consumer = self._consumer(mailbox, request)
                mailbox.state.attach(consumer, request.settings)
            mailbox.state.refresh()
            if known is None:
                entries = backend.begin(mailbox, consumer, request)
            else:
                entries = []
                backend.join(mailbox)
                consumer.interest = consumer.interest.starting(self.dispatcher.newest() + 1)
        # From here on user code may run, so nothing is locked.
        if request.lease is not None:
            self.set_lease(consumer, request.lease)
        try:
            backend.begun(mailbox, entries)
        except BaseException:  # an interrupt while a filter looks at history
            self.cancel(consumer, SubscriptionCancelledError(mailbox.title))
            raise
        mailbox.worker.pump()
        return self.handle(consumer)

    def _consumer(self, mailbox: Mailbox, request: SubscribeRequest) -> Consumer:
        consumer = _consumer_for(mailbox, request, self.services)
        consumer.registry = self
        return consumer

    def handle(self, consumer: Consumer) -> Subscription[Any]:
        """Return what subscribe() returned; it is made again if nobody has it any more."""
        with self.mailboxes.lock:
            known = self._handles.get(consumer)
            if known is None:
                known = self._handles[consumer] = Subscription(self, consumer)
            return known

    # -- leaving ---------------------------------------------------------------------------------

    def cancel(self, consumer: Consumer, why: SubscriptionEndedError) -> None:
        """End one subscription; the last member ends a group."""
        mailbox = consumer.mailbox
        if mailbox.interest.group is not None:
            consumer.ended = why
            if consumer.lease is not None:
                consumer.lease.cancel()
            with self.mailboxes.lock:  # nobody joins between the last who leaves and the end
                left = self.mailboxes.leave(consumer)
                if not left:
                    mailbox.state.end(SubscriptionCancelledError(mailbox.title))
            if left:
                mailbox.worker.pump()
        else:
            with self.mailboxes.lock:  # whoever has attached meanwhile is not ended by this
                if mailbox.members.sole in (None, consumer):
                    mailbox.state.end(why)

    def detach(self, consumer: Consumer) -> None:
        """Detach one subscription; its durable name stays, and its place."""
        self.backend.detach(consumer)

    def abandon(self, consumer: Consumer) -> None:
        """End or detach the subscription of a stream that nobody reads any more."""
        if self.dispatcher.home.is_elsewhere():
            return
        if consumer.ended is None and consumer.mailbox.ended is None and not consumer.detached:
            if consumer.interest.durable is None:
                self.cancel(consumer, SubscriptionCancelledError(consumer.title))
            else:
                self.detach(consumer)

    def pause(self, consumer: Consumer) -> None:
        """Stop calling one subscription back, for a while."""
        if consumer.mailbox.interest.group is not None:
            consumer.paused = True
        else:
            consumer.mailbox.state.pause()

    def set_lease(self, consumer: Consumer, lease: float) -> None:
        """End one subscription after so many seconds from now."""
        if consumer.mailbox.interest.group is None:
            consumer.mailbox.state.set_lease(lease)
        else:
            if consumer.lease is not None:
                consumer.lease.cancel()
            consumer.lease_until = self.services.clock.monotonic() + lease
            why = LeaseExpiredError(consumer.title)
            consumer.lease = self.services.timers.after(lease, lambda: self.cancel(consumer, why))
        self.backend.keep_lease(consumer, lease)


def _consumer_for(mailbox: Mailbox, request: SubscribeRequest, services: Services) -> Consumer:
    """Make what calls back, in the thread or event loop that was asked for."""
    callback, interest = request.callback, request.interest
    if callback is None:
        return Puller(mailbox, interest=interest)
    manual, running = request.settings.manual_ack, _running_loop()
    if callback.is_async:
        return CoroutineConsumer(
            mailbox,
            callback,
            interest=interest,
            manual=manual,
            loop=running or services.loop.get(),
            owns_loop=running is None,
        )
    if request.settings.dispatch == "inline":
        return InlineConsumer(mailbox, callback, interest=interest, manual=manual)
    return PoolConsumer(
        mailbox, callback, interest=interest, manual=manual, pool=services.pool, loop=running
    )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
