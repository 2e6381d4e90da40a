"""The registry of subscriptions: their mailboxes by name, and the callbacks attached to them."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from polycast.delivery import (
    Consumer,
    CoroutineConsumer,
    DurableCursor,
    InlineConsumer,
    Lease,
    PoolConsumer,
    Puller,
    StoreCursor,
)
from polycast.errors import (
    BadOptionError,
    CutOffError,
    DurableChangedError,
    LeaseExpiredError,
    SubscriptionCancelledError,
)
from polycast.runtime import check_free
from polycast.subscriptions.options import SubscribeRequest, check_dispatch
from polycast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.delivery import Mailbox, Services
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest
    from polycast.routing import Dispatcher
    from polycast.subscriptions.delivery_progress import MemoryProgress, StoreProgress
    from polycast.subscriptions.memory_backend import MemoryBackend
    from polycast.subscriptions.store_backend import StoreBackend


class MailboxTable:
    """All mailboxes of one bus.

    Its lock is acquired before the dispatcher's, and no user code runs while it is held.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.lock = dispatcher.runtime.rlock()
        self._numbers = itertools.count(1)
        self._by_name: dict[str, Mailbox] = {}
        self._groups: dict[str, Mailbox] = {}
        self._durables: dict[str, Mailbox] = {}
        self.cut_off: deque[Mailbox] = deque(maxlen=100)

    def __iter__(self) -> Iterator[Mailbox]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Mailbox | None:
        """Return the mailbox of a subscription."""
        return self._by_name.get(name)

    def durable(self, name: str | None) -> Mailbox | None:
        """Return the mailbox of a durable name."""
        return self._durables.get(name or "")

    def new_name(self, interest: Interest) -> str:
        """Return a name that tells a subscription from all others of this bus."""
        return interest.durable or f"{interest.selector}#{next(self._numbers)}"

    def find(self, interest: Interest, *, replace: bool) -> Mailbox | None:
        """Return the mailbox of a durable name or group, if it is there and means the same."""
        durable = self.durable(interest.durable)
        if durable is not None:
            difference = durable.interest.difference(interest)
            if difference and not replace:
                raise DurableChangedError(durable.name, difference)
            return None if difference else durable
        group = self._groups.get(interest.group or "")
        if group is not None and group.interest.durable != interest.durable:
            accepted = (
                f"that of the group, which is {group.interest.durable!r}: its members share it"
            )
            raise BadOptionError("durable", interest.durable, accepted=accepted)
        if group is not None and group.interest.context != interest.context:
            accepted = f"members that are all in {group.interest.context or 'the root'!r}"
            raise BadOptionError("group", interest.group, accepted=accepted)
        return group

    def add(self, mailbox: Mailbox) -> None:
        """Register a mailbox under its names."""
        interest = mailbox.interest
        self._by_name[mailbox.name] = mailbox
        if interest.durable is not None:
            self._durables[interest.durable] = mailbox
        if interest.group is not None:
            self._groups[interest.group] = mailbox

    def remove(self, mailbox: Mailbox) -> None:
        """Remove a mailbox from here and from the plan."""
        with self.lock:
            if self._by_name.get(mailbox.name) is mailbox:
                del self._by_name[mailbox.name]
                if isinstance(mailbox.ended, CutOffError):
                    self.cut_off.append(mailbox)
            group, durable = mailbox.interest.group or "", mailbox.interest.durable or ""
            if self._groups.get(group) is mailbox:
                del self._groups[group]
            if self._durables.get(durable) is mailbox:
                del self._durables[durable]
        self._dispatcher.remove(mailbox)

    def leave(self, consumer: Consumer) -> int:
        """Detach a consumer from its mailbox; return how many are left there."""
        mailbox = consumer.mailbox
        with self.lock:
            mailbox.state.detach(consumer)
            mailbox.state.refresh()
            left = len(mailbox.members.consumers())
            if left or mailbox.interest.durable is not None:
                self._dispatcher.change(mailbox)
        return left


def is_kept(mailbox: Mailbox) -> bool:
    """Whether a store knows a mailbox, and it has not ended."""
    return isinstance(mailbox.cursor, StoreCursor) and mailbox.ended is None


def cursor_of(mailbox: Mailbox) -> DurableCursor | None:
    """Return what keeps the cursor of a durable subscription with one consumer."""
    cursor = mailbox.cursor
    return cursor if is_kept(mailbox) and isinstance(cursor, DurableCursor) else None


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
        consumer = _consumer_for(mailbox, request)
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
            why = LeaseExpiredError(consumer.title)
            if consumer.lease is None:
                consumer.lease = Lease(self.services, lambda: self.cancel(consumer, why))
            consumer.lease.renew(lease)
        self.backend.keep_lease(consumer, lease)


def _consumer_for(mailbox: Mailbox, request: SubscribeRequest) -> Consumer:
    """Make what calls back, in the thread or event loop that was asked for."""
    callback, interest = request.callback, request.interest
    if callback is None:
        return Puller(mailbox, interest=interest)
    manual, running = request.settings.manual_ack, _running_loop()
    if callback.is_async:
        return CoroutineConsumer(mailbox, callback, interest=interest, manual=manual, loop=running)
    if request.settings.dispatch == "inline":
        return InlineConsumer(mailbox, callback, interest=interest, manual=manual)
    return PoolConsumer(mailbox, callback, interest=interest, manual=manual, loop=running)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
