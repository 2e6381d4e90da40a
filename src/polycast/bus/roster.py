"""Who is subscribed: mailboxes, groups, durable names, and how they come and go."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from polycast.bus.options import check_dispatch
from polycast.bus.subscription import Subscription
from polycast.config import seconds
from polycast.delivery import (
    AsyncConsumer,
    Consumer,
    Group,
    InlineConsumer,
    Mailbox,
    PoolConsumer,
)
from polycast.errors import (
    BadOption,
    Cancelled,
    CutOff,
    DurableChanged,
    HistoryGone,
    NoHistory,
    TakenOver,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.config import Settings
    from polycast.delivery import Callback, DeadLetter, Services, Timer
    from polycast.matching import Interest
    from polycast.routing import Dispatcher
    from polycast.stores import Entry, MemoryLog

__all__ = ["Advertisement", "Roster"]


class Advertisement:
    """A publisher's word that it is going to publish a type; it ends with its lease."""

    def __init__(self, roster: Roster, what: str) -> None:
        self._roster, self.what = roster, what
        self._timer: Timer | None = None

    def renew(self, lease: float | timedelta) -> None:
        """It ends so many seconds from now."""
        wait = seconds("lease", lease)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._roster.services.timers.after(wait, self.cancel)

    def cancel(self) -> None:
        """Take it back."""
        self._roster.advertisements.discard(self)


class Roster:
    """All subscriptions of one bus."""

    def __init__(self, dispatcher: Dispatcher, log: MemoryLog | None) -> None:
        self.services: Services  # set by the bus, which both need
        self.owner: object = None
        self.dispatcher, self._log = dispatcher, log
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self.mailboxes: dict[str, Mailbox] = {}
        self._groups: dict[str, Group] = {}
        self._durables: dict[str, Mailbox] = {}
        self.cut_off: deque[Mailbox] = deque(maxlen=100)
        self.advertisements: set[Advertisement] = set()
        self.drained = False  # the bus is closed and has delivered what it could

    # -- opening ---------------------------------------------------------------------------------

    def open(
        self,
        interest: Interest,
        settings: Settings,
        callback: Callback | None,
        *,
        since: object = None,
        lease: float | None = None,
        replace: bool = False,
    ) -> Subscription[Any]:
        """Subscribe: find or make the mailbox, attach the callback, begin."""
        if callback is not None:
            check_dispatch(settings, callback)
        # All up to a position is in the log only while nobody is publishing in line.
        with ExitStack() as locked:
            if since is not None:
                locked.enter_context(self.dispatcher.turn.hold())
            start = None if since is None else self._start_of(since)
            locked.enter_context(self._lock)
            mailbox, is_new = self._mailbox_for(interest, settings, replace=replace)
            handle: Subscription[Any] = Subscription(self, mailbox, interest)
            if is_new:
                mailbox.held = start is not None
            self._attach(mailbox, interest, settings, callback, handle)
            mailbox.refresh()
            history: list[Entry] = []
            if is_new:
                history = self._begin(mailbox, start)
                handle.interest = mailbox.interest
            else:
                self.dispatcher.change(mailbox)
                handle.interest = interest.starting(self.dispatcher.turn.newest() + 1)
        # From here on user code may run, so nothing is locked.
        if lease is not None:
            handle.renew(lease)
        mailbox.prefill(self._wanted(mailbox, history))
        return handle

    def _mailbox_for(
        self, interest: Interest, settings: Settings, *, replace: bool
    ) -> tuple[Mailbox, bool]:
        if interest.durable is not None and interest.durable in self._durables:
            known = self._durables[interest.durable]
            self._reconcile(known, interest, settings, replace=replace)
            return known, False
        if interest.group is not None and interest.group in self._groups:
            return self._groups[interest.group], False
        name = interest.durable or f"{interest.selector}#{next(self._numbers)}"
        kind = Mailbox if interest.group is None else Group
        mailbox = kind(name, interest, settings, self.services)
        self.mailboxes[name] = mailbox
        if interest.durable is not None:
            self._durables[interest.durable] = mailbox
        if isinstance(mailbox, Group) and interest.group is not None:
            self._groups[interest.group] = mailbox
        return mailbox, True

    def _reconcile(
        self, known: Mailbox, interest: Interest, settings: Settings, *, replace: bool
    ) -> None:
        """Attach to a durable name: the definition must be the same, or be replaced."""
        difference = known.interest.difference(interest)
        if not difference:
            return
        if not replace or "group" in difference:
            raise DurableChanged(known.name, difference)
        with known.lock:
            known.interest, known.settings = interest.starting(known.interest.start), settings
            waiting = list(known.backlog)
        unwanted = [p for p in waiting if not interest.wants(p.entry.event, p.entry.topic)]
        known.withdraw(unwanted)

    def _attach(
        self,
        mailbox: Mailbox,
        interest: Interest,
        settings: Settings,
        callback: Callback | None,
        handle: Subscription[Any],
    ) -> None:
        if callback is None:
            return
        consumer = self._consumer(mailbox, settings, callback, handle)
        handle.consumer = consumer
        if isinstance(mailbox, Group):
            mailbox.join(consumer, interest, settings)
            return
        before = mailbox.consumer
        if before is not None:
            before.handle.take_over(TakenOver(mailbox.title))
        mailbox.attach(consumer)

    def _consumer(
        self, mailbox: Mailbox, settings: Settings, callback: Callback, handle: Any
    ) -> Consumer:
        if callback.is_async:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                loop = self.services.loop.get()
            return AsyncConsumer(mailbox, callback, handle=handle, loop=loop)
        if settings.dispatch == "inline":
            return InlineConsumer(mailbox, callback, handle=handle)
        return PoolConsumer(mailbox, callback, handle=handle, pool=self.services.pool)

    # -- history ---------------------------------------------------------------------------------

    def _start_of(self, since: object) -> int:
        """The first position of the history that is asked for."""
        position = isinstance(since, int) and not isinstance(since, bool)
        if not (position or isinstance(since, datetime) or since == "beginning"):
            accepted = "'beginning', a position, or a datetime with a time zone"
            raise BadOption("since", since, accepted=accepted)
        if self._log is None:
            raise NoHistory()
        oldest = self._log.oldest
        if since == "beginning":
            return oldest or 1
        if isinstance(since, datetime):
            return self._position_at(since)
        assert isinstance(since, int)
        if not self._log.has_all_from(since):
            raise HistoryGone(since, oldest=oldest)
        return since

    def _position_at(self, moment: datetime) -> int:
        assert self._log is not None
        if moment.tzinfo is None:
            raise BadOption("since", moment, accepted="a datetime with a time zone")
        entries = self._log.read()
        later = [each.position for each in entries if each.time >= moment.timestamp()]
        if entries and later and later[0] == entries[0].position and later[0] > 1:
            raise HistoryGone(moment, oldest=entries[0].position)
        return later[0] if later else self.dispatcher.turn.newest() + 1

    def _begin(self, mailbox: Mailbox, start: int | None) -> list[Entry]:
        """Into the plan; the history that was asked for, up to where the plan takes over."""
        history: list[Entry] = []

        def begin(position: int) -> None:
            mailbox.interest = mailbox.interest.starting(start or position)
            if start is not None and self._log is not None:
                history.extend(self._log.read(start=start))

        self.dispatcher.add(mailbox, begin)
        return history

    def _wanted(self, mailbox: Mailbox, history: Iterable[Entry]) -> list[tuple[Entry, object]]:
        wanted = []
        for entry in history:
            cls, topic = type(entry.event), entry.topic
            if not any(each.selector.covers(cls, topic) for each in mailbox.interests()):
                continue
            test = mailbox.test_for(cls, topic)
            try:
                verdict = True if test is None else test(entry.event)
            except Exception as error:
                mailbox.unfit(error)
                continue
            if verdict:
                wanted.append((entry, verdict))
        return wanted

    # -- leaving ---------------------------------------------------------------------------------

    def changed(self, mailbox: Mailbox) -> None:
        """The plan calls it in another way from now on."""
        mailbox.refresh()
        self.dispatcher.change(mailbox)

    def leave(self, group: Group, member: Consumer, *, forget: bool) -> None:
        """A member goes; the last one ends a group, unless that is durable and to be kept."""
        with self._lock:
            left = group.leave(member)
            if left:
                self.changed(group)
        group.pump()
        if not left and (forget or group.interest.durable is None):
            group.end(Cancelled(group.title))

    def forget(self, mailbox: Mailbox) -> None:
        """It has ended."""
        with self._lock:
            known = self.mailboxes.pop(mailbox.name, None)
            if known is not None and isinstance(mailbox.ended, CutOff):
                self.cut_off.append(mailbox)
            for names in (self._groups, self._durables):
                for name in [n for n, box in names.items() if box is mailbox]:
                    del names[name]
        self.dispatcher.remove(mailbox)

    def replay(self, letter: DeadLetter) -> bool:
        """Give a dead letter to its subscription once more, if that still exists."""
        mailbox = self.mailboxes.get(letter.subscription)
        if mailbox is None or mailbox.ended is not None:
            return False
        mailbox.prefill([(letter.entry, True)])
        return True
