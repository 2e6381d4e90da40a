"""Who is subscribed: mailboxes, groups, durable names, and how they come and go."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polycast.config import seconds
from polycast.delivery import (
    AsyncConsumer,
    Consumer,
    Group,
    InlineConsumer,
    Mailbox,
    PoolConsumer,
    Puller,
    StoreKeeper,
)
from polycast.errors import (
    BadOptionError,
    CutOffError,
    DurableChangedError,
    HistoryGoneError,
    LeaseExpiredError,
    NotSerialisableError,
    SubscriptionCancelledError,
    TakenOverError,
)
from polycast.locks import check_free
from polycast.log_reader.history import History
from polycast.routing.translation import TranslationFailed, context_of_letter, reason_of
from polycast.subscriptions.options import check_dispatch
from polycast.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from polycast.config import Settings
    from polycast.delivery import Callback, DeadLetter, Services, Timer
    from polycast.errors import SubscriptionEndedError
    from polycast.matching import Interest
    from polycast.routing import Dispatcher
    from polycast.stores import Entry, Recent
    from polycast.stores.values import PushedFilter
    from polycast.subscriptions.health import PipelineHealth
    from polycast.subscriptions.options import EngineName

__all__ = ["Advertisement", "Roster"]


class Advertisement:
    """A publisher's word that it is going to publish a type; it ends with its lease."""

    def __init__(self, roster: Roster, what: str) -> None:
        self._roster, self.what = roster, what
        self._timer: Timer | None = None
        self.number = 0  # by which a store knows it

    def renew(self, lease: float | timedelta) -> None:
        """It ends so many seconds from now."""
        self._roster.check_free("renew()")
        wait = seconds("lease", lease)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._roster.services.timers.after(wait, self.cancel)
        self._roster.prolong(self, wait)

    def cancel(self) -> None:
        """Take it back."""
        self._roster.check_free("cancel()")
        self._roster.withdraw(self)


class Roster:
    """All subscriptions of one bus.

    Its lock is taken before the dispatcher's, and no user code runs while it is held.
    """

    def __init__(self, dispatcher: Dispatcher, log: Recent | None) -> None:
        self.services: Services  # set by the bus, as is `owner`, which finds it
        self.owner: Callable[[], Any] = lambda: None
        self.dispatcher, self._history = dispatcher, History(dispatcher, log)
        self._lock = dispatcher.runtime.rlock()
        self._numbers = itertools.count(1)
        self.mailboxes: dict[str, Mailbox] = {}
        self._groups: dict[str, Group] = {}
        self._durables: dict[str, Mailbox] = {}
        self._handles: weakref.WeakValueDictionary[Consumer, Subscription[Any]]
        self._handles = weakref.WeakValueDictionary()
        self.cut_off: deque[Mailbox] = deque(maxlen=100)
        self.advertisements: set[Advertisement] = set()
        self.drained = False  # the bus is closed and has delivered what it could

    def check_free(self, operation: str, *boxes: Mailbox) -> None:
        """Refuse what has interrupted this very thread while it changes something here."""
        self.dispatcher.check_free(operation)
        check_free(operation, self._lock, *(box.lock for box in boxes))

    def announce(self, advertisement: Advertisement) -> None:
        """Something is going to be published."""
        self.advertisements.add(advertisement)

    def withdraw(self, advertisement: Advertisement) -> None:
        """It is not any more."""
        self.advertisements.discard(advertisement)

    def prolong(self, advertisement: Advertisement, lease: float) -> None:
        """It is, for so many seconds from now."""

    def advertised(self) -> list[str]:
        """What is going to be published."""
        return sorted(each.what for each in list(self.advertisements))

    def awaited(self) -> tuple[int, int]:
        """What flush() waits for: the newest position, and all that is routed so far."""
        return self.published(), 0

    def is_caught_up(self, position: int, routed: int = 0) -> bool:
        """Whether all up to a position has been brought to who wants it, and what is routed."""
        del position, routed
        return True

    def asked_elsewhere(self, consumer: Consumer) -> PushedFilter | None:
        """What of its filter is asked before an event gets here, if that is so."""
        del consumer
        return None

    def has_members_elsewhere(self, mailbox: Mailbox) -> bool:
        """Whether other buses may have members of a group."""
        del mailbox
        return False

    def wind_down(self) -> None:
        """The bus is about to be closed: begin nothing that can wait for the next opening."""

    def move_on(self) -> None:
        """Let those who got nothing for a while hold nothing back."""

    def saved(self) -> None:
        """Return when all that was said about durable subscriptions is kept."""

    def published(self) -> int:
        """The newest position."""
        return self.dispatcher.newest()

    def is_broken(self) -> bool:
        """Whether waiting for more is in vain."""
        return False

    def pipeline(self) -> PipelineHealth | None:
        """How far the pipeline has come, if it routes for anybody here."""
        return None

    def problems(self) -> list[str]:
        """What is wrong with where events are kept."""
        return []

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
        pinned: bool = True,
        engine: EngineName = "direct",
    ) -> Subscription[Any]:
        """Subscribe: find or make the mailbox, attach the callback, begin."""
        del pinned  # only what is kept in a store holds it back
        if engine != "direct":
            why = "the pipeline reads the log of a store, and this bus is in memory"
            accepted = "'direct', which is the default; or a bus over a store, 'sqlite:///...'"
            raise BadOptionError("engine", engine, accepted=accepted, why=why)
        if callback is not None:
            check_dispatch(settings, callback)
        if since is not None:
            self._history.check(since)
        with ExitStack() as locked:
            # All up to a position is in the log only while nobody is publishing in line.
            if since is not None or replace:
                locked.enter_context(self.dispatcher.inline_lock.hold())
            locked.enter_context(self._lock)
            known = self._known(interest, replace=replace)
            mailbox = known if known is not None else self._new(interest, settings)
            consumer = self._consumer(mailbox, interest, settings, callback)
            if not mailbox.attach(consumer, settings):  # it has just ended
                self.forget(mailbox)
                known, mailbox = None, self._new(interest, settings)
                consumer = self._consumer(mailbox, interest, settings, callback)
                mailbox.attach(consumer, settings)
            consumer.registry = self
            history = self._begin(mailbox, consumer, since, is_new=known is None)
        # From here on user code may run, so nothing is locked.
        if lease is not None:
            self.set_lease(consumer, lease)
        try:
            if history or mailbox.held:
                mailbox.prefill(self._history.wanted(mailbox, history))
        except BaseException:  # an interrupt while a filter looks at history
            self.cancel(consumer, SubscriptionCancelledError(mailbox.title))
            raise
        mailbox.pump()
        return self.handle(consumer)

    def _known(self, interest: Interest, *, replace: bool) -> Mailbox | None:
        """The mailbox of that durable name or group, if it is there and means the same."""
        known = self._durables.get(interest.durable or "")
        if known is None:
            group = self._groups.get(interest.group or "")
            if group is not None and group.interest.durable != interest.durable:
                kept = group.interest.durable
                accepted = f"that of the group, which is {kept!r}: its members share it"
                raise BadOptionError("durable", interest.durable, accepted=accepted)
            if group is not None and group.interest.context != interest.context:
                accepted = f"members that are all in {group.interest.context or 'the root'!r}"
                raise BadOptionError("group", interest.group, accepted=accepted)
            return group
        difference = known.interest.difference(interest)
        if difference and not replace:
            raise DurableChangedError(known.name, difference)
        return None if difference else known

    def _new(self, interest: Interest, settings: Settings) -> Mailbox:
        name = interest.durable or f"{interest.selector}#{next(self._numbers)}"
        mailbox = self._mailbox(name, interest, settings)
        name = mailbox.name
        before = self._durables.get(interest.durable or "")
        if before is not None:
            self._replace(before, mailbox)
        self.mailboxes[name] = mailbox
        if interest.durable is not None:
            self._durables[interest.durable] = mailbox
        if isinstance(mailbox, Group) and interest.group is not None:
            self._groups[interest.group] = mailbox
        return mailbox

    def _mailbox(self, name: str, interest: Interest, settings: Settings) -> Mailbox:
        kind = Mailbox if interest.group is None else Group
        return kind(name, interest, settings, self.services)

    def _replace(self, before: Mailbox, mailbox: Mailbox) -> None:
        """A durable name with a new definition: its place is kept, what waits is asked again."""
        for consumer in before.consumers():
            consumer.ended = TakenOverError(before.title)
        mailbox.succeeds = before
        mailbox.held = True

    def _begin(
        self, mailbox: Mailbox, consumer: Consumer, since: object, *, is_new: bool
    ) -> list[Entry]:
        """Into the plan; what of the log has to come first, up to where the plan takes over."""
        mailbox.refresh()
        if not is_new:
            self.dispatcher.change(mailbox)
            consumer.interest = consumer.interest.starting(self.dispatcher.newest() + 1)
            return []
        entries: list[Entry] = []

        def begin(position: int) -> None:
            start = None if mailbox.succeeds is not None else self._history.start_of(since)
            mailbox.held = mailbox.held or start is not None
            mailbox.waits_for = start if start is not None and start > position else 0
            first = position if start is None else start
            same = consumer.interest is mailbox.interest
            mailbox.interest = mailbox.interest.starting(first)
            consumer.interest = mailbox.interest if same else consumer.interest.starting(first)
            entries.extend(self._history.before(mailbox, start))

        try:
            self.dispatcher.add(mailbox, begin)
        except HistoryGoneError:
            self.forget(mailbox)
            raise
        mailbox.refresh()
        if mailbox.succeeds is not None:
            before, mailbox.succeeds = mailbox.succeeds, None
            self.dispatcher.remove(before)
        return entries

    def _consumer(
        self, mailbox: Mailbox, interest: Interest, settings: Settings, callback: Callback | None
    ) -> Consumer:
        if callback is None:
            return Puller(mailbox, interest=interest)
        manual, services = settings.manual_ack, self.services
        theirs = _running_loop()
        if callback.is_async:
            return AsyncConsumer(
                mailbox,
                callback,
                interest=interest,
                manual=manual,
                loop=theirs or services.loop.get(),
                owns_loop=theirs is None,
            )
        if settings.dispatch == "inline":
            return InlineConsumer(mailbox, callback, interest=interest, manual=manual)
        return PoolConsumer(
            mailbox, callback, interest=interest, manual=manual, pool=services.pool, loop=theirs
        )

    def handle(self, consumer: Consumer) -> Subscription[Any]:
        """What subscribe() returned; made again if nobody has it any more."""
        with self._lock:
            known = self._handles.get(consumer)
            if known is None:
                known = self._handles[consumer] = Subscription(self, consumer)
            return known

    # -- leaving ---------------------------------------------------------------------------------

    def cancel(self, consumer: Consumer, why: SubscriptionEndedError) -> None:
        """One subscription is over; the last member ends a group."""
        mailbox = consumer.mailbox
        if isinstance(mailbox, Group):
            consumer.ended = why
            if consumer.lease is not None:
                consumer.lease.cancel()
            with self._lock:  # nobody joins between the last who leaves and the end
                left = self._leave(mailbox, consumer)
                if not left:
                    mailbox.end(SubscriptionCancelledError(mailbox.title))
            if left:
                mailbox.pump()
        else:
            with self._lock:  # who has attached meanwhile is not ended by who was there before
                if mailbox.consumer is None or mailbox.consumer is consumer:
                    mailbox.end(why)

    def detach(self, consumer: Consumer) -> None:
        """One subscription goes away; its durable name stays, and its place."""
        consumer.mailbox.place = self.dispatcher.newest() + 1
        if self._leave(consumer.mailbox, consumer):
            consumer.mailbox.pump()

    def abandon(self, consumer: Consumer) -> None:
        """Nobody reads its stream any more."""
        if self.dispatcher.home.is_elsewhere():
            return
        if consumer.ended is None and consumer.mailbox.ended is None and not consumer.detached:
            if consumer.interest.durable is None:
                self.cancel(consumer, SubscriptionCancelledError(consumer.title))
            else:
                self.detach(consumer)

    def _leave(self, mailbox: Mailbox, consumer: Consumer) -> int:
        with self._lock:
            mailbox.detach(consumer)
            mailbox.refresh()
            left = len(mailbox.consumers())
            if left or mailbox.interest.durable is not None:
                self.dispatcher.change(mailbox)
        return left

    def pause(self, consumer: Consumer) -> None:
        """Call one subscription back no more, for a while."""
        if isinstance(consumer.mailbox, Group):
            consumer.paused = True
        else:
            consumer.mailbox.pause()

    def set_lease(self, consumer: Consumer, lease: float) -> None:
        """One subscription ends after so many seconds from now."""
        if not isinstance(consumer.mailbox, Group):
            consumer.mailbox.set_lease(lease)
            return
        if consumer.lease is not None:
            consumer.lease.cancel()
        consumer.lease_until = self.services.clock.monotonic() + lease
        why = LeaseExpiredError(consumer.title)
        consumer.lease = self.services.timers.after(lease, lambda: self.cancel(consumer, why))

    def forget(self, mailbox: Mailbox) -> None:
        """It has ended."""
        with self._lock:
            if self.mailboxes.get(mailbox.name) is mailbox:
                del self.mailboxes[mailbox.name]
                if isinstance(mailbox.ended, CutOffError):
                    self.cut_off.append(mailbox)
            group, durable = mailbox.interest.group or "", mailbox.interest.durable or ""
            if self._groups.get(group) is mailbox:
                del self._groups[group]
            if self._durables.get(durable) is mailbox:
                del self._durables[durable]
        self.dispatcher.remove(mailbox)

    def replay(self, letters: list[DeadLetter]) -> tuple[list[DeadLetter], list[DeadLetter]]:
        """Give dead letters to their subscriptions once more; those that went, those that stay."""
        meant: dict[Mailbox, dict[int, tuple[DeadLetter, Entry]]] = {}
        stay = {id(letter): letter for letter in letters}
        for letter in letters:
            boxes = self._addressees(letter)
            contexts = dict.fromkeys(box.interest.context for box in boxes)
            try:
                seen = {context: self._history.seen_now(letter, context) for context in contexts}
            except TranslationFailed as found:
                stay[id(letter)] = self._once_more(letter, found.error)
                continue
            for box in boxes:
                entry = seen[box.interest.context]
                if entry is None:
                    continue
                try:
                    entry = self._history.kept_for(box, entry)
                except NotSerialisableError as error:
                    stay[id(letter)] = self._once_more(letter, error)
                    continue
                meant.setdefault(box, {})[id(entry)] = letter, entry
        taken: dict[int, DeadLetter] = {}
        for box, mine in meant.items():
            wanted = self._history.wanted(box, [entry for _, entry in mine.values()])
            box.prefill(wanted)
            box.pump()
            taken.update((id(mine[id(entry)][0]), mine[id(entry)][0]) for entry, _ in wanted)
        return list(taken.values()), [each for key, each in stay.items() if key not in taken]

    def _once_more(self, letter: DeadLetter, error: BaseException) -> DeadLetter:
        """A letter that was replayed in vain, with why that was."""
        now, attempts = self.services.clock.time(), letter.attempts + 1
        reason = reason_of(error)
        return replace(letter, reason=reason, error=error, attempts=attempts, time=now)

    def _addressees(self, letter: DeadLetter) -> list[Mailbox]:
        """Its subscription; or, if it could not get to a context, all there that began before it.

        If it could not leave its own, all in others. A store takes care of those it keeps.
        """
        mailbox = self.mailboxes.get(letter.subscription)
        context = context_of_letter(letter.subscription)
        if mailbox is not None or context is None:
            return [] if mailbox is None or mailbox.ended is not None else [mailbox]
        has_left = letter.entry.context != context
        return [
            box
            for box in list(self.mailboxes.values())
            if (box.interest.context == context) is has_left
            and box.interest.start <= letter.position
            and (has_left or box.behind is None or box.behind > letter.position)
            and box.ended is None
            and not isinstance(box.keeper, StoreKeeper)
        ]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
