"""Who is subscribed, over a store: durable names and groups are kept there, not here."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as replaced

from polycast.delivery import CursorKeeper, Mailbox, SharedGroup, StoreKeeper
from polycast.delivery.callback_context import is_called_back
from polycast.delivery.cursors import Fenced
from polycast.errors import (
    BadOptionError,
    CutOffError,
    DurableChangedError,
    LeaseExpiredError,
    NotSettledError,
    SubscriptionCancelledError,
    TakenOverError,
)
from polycast.errors.failures import STORE_FAILURES
from polycast.matching import Definition, definition_of
from polycast.routing.explanation import asked_by_descriptions
from polycast.stores.log_bounds import start_of
from polycast.stores.values import NOT_KNOWN
from polycast.subscriptions.advertisements import StoredAdverts
from polycast.subscriptions.attach import GROUPS, Request, kept_name, rest_of_lease
from polycast.subscriptions.clock_steps import follow_clock, keeper_of
from polycast.subscriptions.filter_health import vain_filters
from polycast.subscriptions.options import check_dispatch
from polycast.subscriptions.store_health import pipeline_health, store_problems
from polycast.subscriptions.subscription_registry import Roster
from polycast.subscriptions.watcher import Watch, is_kept, record_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Settings
    from polycast.delivery import Callback, Consumer, DeadLetter
    from polycast.errors import SubscriptionEndedError
    from polycast.log_reader.log_reader import Feed
    from polycast.matching import Interest
    from polycast.routing import StoredDispatcher
    from polycast.stores import Flight, Store, StoredRoute, StoredSubscription, Transaction
    from polycast.stores.values import PushedFilter
    from polycast.subscriptions.attach import Attachment
    from polycast.subscriptions.health import PipelineHealth
    from polycast.subscriptions.heartbeat import Presence
    from polycast.subscriptions.options import EngineName
    from polycast.subscriptions.subscription import Subscription
    from polycast.subscriptions.subscription_registry import Advertisement

__all__ = ["StoredRoster"]


class StoredRoster(Roster):
    """The subscriptions of one bus over a store."""

    dispatcher: StoredDispatcher

    def __init__(
        self, dispatcher: StoredDispatcher, store: Store, feed: Feed, presence: Presence
    ) -> None:
        super().__init__(dispatcher, None)
        self.store, self.feed, self.presence = store, feed, presence
        self._adverts = StoredAdverts(store, lambda: self.presence.bus.id)
        self.watch = Watch(self)
        feed.look = self.watch.look
        dispatcher.kept_locks = self._kept_locks
        dispatcher.publishing.is_called_back = lambda: is_called_back(self.services)
        self._to_see = -1  # the revision at which somebody here may have changed engines
        self.requests: dict[SharedGroup, Request] = {}  # by which the groups here were joined
        self._described: set[str] = set()  # what the store has been told for the pipeline
        presence.revived = self._soon_rejoin
        presence.stepped = partial(follow_clock, self)
        self.settle_contexts: Callable[[], None] = lambda: None

    def _kept_locks(self) -> list[Any]:
        """The locks that the thread which writes the store may need."""
        if not self._durables and not self.requests:
            return []
        boxes = [*self._durables.values(), *self.requests]
        keepers = [box.keeper for box in boxes if isinstance(box.keeper, StoreKeeper)]
        return [box.lock for box in boxes] + [keeper.lock for keeper in keepers]

    # -- attaching ---------------------------------------------------------------------------------

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
        """Subscribe: attach to what is kept, or begin with what is new."""
        if callback is not None:
            check_dispatch(settings, callback)
        if (interest.durable or "").startswith(GROUPS):
            accepted = f"a name that does not begin with {GROUPS!r}: those are the groups'"
            raise BadOptionError("durable", interest.durable, accepted=accepted)
        if engine == "spark":
            definition_of(interest, engine=engine)  # refuses what cannot be routed elsewhere
        if engine == "spark" or self.store.is_remote:
            self._describe()
        self.feed.start()
        with self._lock:
            start = start_of(self.store, since)
            known = self._known(interest, replace=replace)
            if known is None and interest.durable in self._durables:
                self._let_go(self._durables[interest.durable or ""])
            bus = self.presence.bus.id
            who = (bus, self.services.clock, self.presence.detector)
            request = Request(interest, *who, start, lease, replace, pinned, engine)
            request = dataclasses.replace(request, describes=not self.store.is_remote)
            if known is not None and not self._still_ours(known, request):
                known = None
            mailbox = self._made(request, settings) if known is None else known
            consumer = self._consumer(mailbox, interest, settings, callback)
            consumer.registry = self
            if not mailbox.attach(consumer, settings):  # it has just ended
                self._out_of_here(mailbox)
                mailbox = self._made(request, settings)
                consumer = self._consumer(mailbox, interest, settings, callback)
                consumer.registry = self
                mailbox.attach(consumer, settings)
            self._go_on(mailbox, consumer, is_new=mailbox is not known)
        if lease is not None:
            self.set_lease(consumer, lease)
        self.feed.ring()
        mailbox.pump()
        return self.handle(consumer)

    def _known(self, interest: Interest, *, replace: bool) -> Mailbox | None:
        try:
            return super()._known(interest, replace=replace)
        except DurableChangedError:
            if not self._is_taken_over(self._durables[interest.durable or ""]):
                raise
            return None  # the store tells what it is by now

    def _is_taken_over(self, mailbox: Mailbox) -> bool:
        """Whether another bus has attached to it, which nobody here has seen yet."""
        keeper = mailbox.keeper
        if not isinstance(keeper, CursorKeeper):
            return False
        with self.store.view() as view:
            kept = view.subscription(mailbox.name)
        return kept is None or kept.token != keeper.number

    def _describe(self) -> None:
        """Tell the store what others have to know of the types that are subscribed to."""
        known = self.dispatcher.registry.descriptions()
        new = [each for each in known if each.hash not in self._described]
        if new:
            self.store.describe(new).result()
            self._described.update(each.hash for each in new)

    def _still_ours(self, mailbox: Mailbox, request: Request) -> bool:
        """Attach once more to what is attached here, unless somebody else has taken it over."""
        keeper = mailbox.keeper
        if not isinstance(keeper, CursorKeeper):
            if request.interest.durable is not None:
                self._to_see = self.store.write(request.join_here).result()
            return True

        again = dataclasses.replace(request, number=keeper.number)

        def attach(tx: Transaction) -> bool:
            attachment = again.attach(tx)
            ours = attachment.before == keeper.number
            if ours:
                tx.after(lambda: go_on(attachment.kept.token))
            return ours

        def go_on(token: int) -> None:
            """What is saved next has to have the new number, which is the revision of now, too."""
            keeper.number = self._to_see = token

        ours = self.store.write(attach).result()
        if not ours:
            mailbox.end(TakenOverError(mailbox.title))
        return ours

    def _made(self, request: Request, settings: Settings) -> Mailbox:
        """The mailbox of a new subscription, in its place in the log, and not yet in the plan."""
        interest = request.interest
        if interest.durable is None and interest.group is None:
            mailbox = self._new(interest, settings)
            mailbox.behind = request.start
            return mailbox
        attachment = self.store.write(request.attach).result()
        if attachment.mark.doubt:
            end = self.store.newest() + 1  # whoever had it before is fenced by now
            attachment = dataclasses.replace(attachment, mark=attachment.mark.within(end))
        kept = attachment.kept
        mailbox = self._new(interest.starting(kept.start), settings)
        mailbox.route = attachment.route
        mailbox.waits_for = mailbox.behind = max(kept.start, kept.cursor)
        if isinstance(mailbox, SharedGroup):
            mailbox.floor, mailbox.joined = kept.cursor, request.bus
            mailbox.keeper.doubt = attachment.mark.doubt
            self.requests[mailbox] = request
        else:
            keeper = mailbox.keeper = self._keeper(mailbox, attachment)
            self.take_up(mailbox, keeper, attachment.flights)
        left = rest_of_lease(kept, self.services.clock)
        if left is not None:
            mailbox.set_lease(max(left, 0.0))
        return mailbox

    def _mailbox(self, name: str, interest: Interest, settings: Settings) -> Mailbox:
        if interest.group is None:
            if interest.durable is None:  # dead letters of it must not look like another bus's
                name = f"{name}@{self.presence.bus.id}"
            return super()._mailbox(name, interest, settings)
        mailbox = SharedGroup(
            kept_name(interest),
            interest,
            settings,
            self.services,
            store=self.store,
            bus=lambda: self.presence.bus.id,
            position=lambda: self.feed.position_of(mailbox),
        )
        return mailbox

    def _soon_rejoin(self) -> None:
        self.services.timers.after(0.0, self._rejoin)

    def _rejoin(self) -> None:
        """This bus had counted as dead: the groups go on without what it had claimed."""
        with self._lock:  # who attaches just now may do so as the bus that is dead
            for box, request in list(self.requests.items()):
                box.rejoin()
                bus = self.presence.bus.id
                again = dataclasses.replace(request, bus=bus, start=None, engine=None)
                self.store.write(again.attach).result()
                box.joined = again.bus
                box.claim_soon()

    def _replace(self, before: Mailbox, mailbox: Mailbox) -> None:
        """What it had not handled is in the store."""

    def _keeper(self, mailbox: Mailbox, attachment: Attachment) -> CursorKeeper:
        return CursorKeeper(
            mailbox.name,
            self.store,
            self.services.clock,
            lambda: self._soon_over(mailbox, TakenOverError(mailbox.title)),
            number=attachment.kept.token,
            cursor=attachment.kept.cursor,
            position=lambda: self.feed.position_of(mailbox),
            doubt=attachment.mark.doubt,
            unclean=attachment.unclean,
        )

    def _soon_over(self, mailbox: Mailbox, why: SubscriptionEndedError) -> None:
        """End it from a thread that holds no lock."""
        self.services.timers.after(0.0, lambda: mailbox.end(why))

    def take_up(self, mailbox: Mailbox, keeper: CursorKeeper, flights: list[Flight]) -> None:
        """Go on with what was in flight."""
        keeper.restore(flights)
        now = self.services.clock.time()
        found = []
        for flight in flights:
            at = flight.position
            records = record_at(self.store, mailbox.name, at)
            wanted = self.feed.wanted(mailbox, records, again=True)
            found += [(e, verdict, flight.attempts, flight.due - now) for e, verdict in wanted]
            if not wanted:  # a new definition does not want it, or it is not kept any more
                keeper.forget(at)
        mailbox.take_up(found)

    def _go_on(self, mailbox: Mailbox, consumer: Consumer, *, is_new: bool) -> None:
        """Into the plan; from then on it is brought what is new, unless it is behind."""
        mailbox.refresh()
        if not is_new:
            self.feed.want(mailbox)
            self.dispatcher.change(mailbox)
            consumer.interest = consumer.interest.starting(self.dispatcher.newest() + 1)
            return

        def begin(position: int) -> None:
            if mailbox.waits_for == 0:  # the store does not know it
                mailbox.waits_for = position if mailbox.behind is None else mailbox.behind
                mailbox.interest = mailbox.interest.starting(mailbox.waits_for)
            consumer.interest = consumer.interest.starting(mailbox.interest.start)

        self.feed.join(mailbox, begin)
        mailbox.refresh()
        if mailbox.behind is not None:
            self.feed.behind(mailbox)

    def reroute(self, box: Mailbox, kept: StoredSubscription, route: StoredRoute | None) -> None:
        """The pipeline routes for it from now on, or no more. In the thread of the feed."""
        keeper = box.keeper
        ours = not isinstance(keeper, CursorKeeper) or kept.token == keeper.number
        with self._lock:  # not while somebody attaches to it
            is_here = self.mailboxes.get(box.name) is box and box.ended is None
            if ours and is_here and route != box.route:
                self.feed.move(box, route)

    # -- leaving -----------------------------------------------------------------------------------

    def detach(self, consumer: Consumer) -> None:
        """One subscription goes away; the store keeps its name and its place."""
        mailbox = consumer.mailbox
        if self._leave(mailbox, consumer):
            mailbox.pump()
        else:
            self._let_go(mailbox)

    def _let_go(self, mailbox: Mailbox) -> None:
        """Here it is no more; what is kept of it stays in the store."""
        self.presence.look_at_clock()
        for consumer in mailbox.consumers():
            consumer.ended = TakenOverError(mailbox.title)
        mailbox.stop()
        mailbox.abandon()
        self._out_of_here(mailbox)
        self._release(mailbox)

    def _release(self, mailbox: Mailbox) -> None:
        keeper = mailbox.keeper
        if isinstance(keeper, StoreKeeper) and self.store.failure is None:
            self.store.write(keeper.release).result()

    def _out_of_here(self, mailbox: Mailbox) -> None:
        super().forget(mailbox)
        self.feed.leave(mailbox)
        if isinstance(mailbox, SharedGroup):
            self.requests.pop(mailbox, None)

    def forget(self, mailbox: Mailbox) -> None:
        """It has ended: for good, or only here."""
        self._out_of_here(mailbox)
        if mailbox.interest.durable is None and mailbox.interest.group is None:
            return
        keeper = mailbox.keeper
        if isinstance(keeper, StoreKeeper) and self.store.failure is None:
            if isinstance(
                mailbox.ended, SubscriptionCancelledError | LeaseExpiredError | CutOffError
            ):
                self.store.write(keeper.remove).result()
            elif not isinstance(mailbox.ended, TakenOverError):
                self.store.write(keeper.release)  # closing the store waits for it

    def set_lease(self, consumer: Consumer, lease: float) -> None:
        """It ends after so many seconds from now, whoever is attached then."""
        super().set_lease(consumer, lease)
        name, until = consumer.mailbox.name, self.services.clock.time() + lease

        def keep(tx: Transaction) -> None:
            kept = tx.subscription(name)
            keeper = consumer.mailbox.keeper
            ours = isinstance(keeper, CursorKeeper) and kept and kept.token == keeper.number
            if kept is not None and ours:
                definition = replaced(Definition.decoded(kept.definition), lease=lease)
                kept = replaced(kept, definition=definition.encoded(), lease=until)
                tx.save(kept)
                self.presence.detector.see(kept)

        if consumer.interest.durable is not None:
            self.store.write(keep).result()

    def move_on(self) -> None:
        """Tell the store how far those have come who got nothing: they hold nothing back."""
        boxes = [box for box in list(self.mailboxes.values()) if is_kept(box)]
        groups = [box for box in boxes if isinstance(box, SharedGroup)]
        keepers = [k for box in boxes if (k := keeper_of(box))]
        moved = [keeper for keeper in keepers if keeper.has_moved()]

        def save(tx: Transaction) -> None:
            for keeper in moved:
                with suppress(Fenced):  # it is seen elsewhere that somebody has taken over
                    keeper.save(tx)
            for group in groups:
                group.move_on(tx)

        if moved or groups:
            self.store.write(save).result()

    # -- looking after it --------------------------------------------------------------------------

    def awaited(self) -> tuple[int, int]:
        """What flush() waits for: the newest position, and all that is routed so far."""
        routed = 0
        with suppress(*STORE_FAILURES):
            if self.feed.is_routed:
                with self.store.view() as view:
                    routed = view.routed().high
        # A broker that cannot be asked is told: what others have published is not known.
        return self.store.newest() if self.store.is_remote else self.published(), routed

    def is_caught_up(self, position: int, routed: int = 0) -> bool:
        """Whether the feed has brought all up to a position; without subscriptions it does not."""
        if not self.feed.running:
            return True
        if self.watch.seen < self._to_see or (self.feed.is_routed and self.feed.front < routed):
            return False
        return self.dispatcher.routed > position

    def announce(self, advertisement: Advertisement) -> None:
        """Tell all buses over this store."""
        super().announce(advertisement)
        self._adverts.put(advertisement)

    def withdraw(self, advertisement: Advertisement) -> None:
        """Take it back."""
        super().withdraw(advertisement)
        self._adverts.remove(advertisement)

    def prolong(self, advertisement: Advertisement, lease: float) -> None:
        """It ends even if this process has died."""
        self._adverts.put(advertisement, until=self.services.clock.time() + lease)

    def advertised(self) -> list[str]:
        """What any bus over this store is going to publish; of this one, if it cannot be asked."""
        if self.store.is_up and self.store.trouble is None:
            with suppress(*STORE_FAILURES):
                return self._adverts.read()
        return super().advertised()

    def asked_elsewhere(self, consumer: Consumer) -> PushedFilter | None:
        """What the broker asks of its filter, if there is one, or the pipeline."""
        mailbox, route = consumer.mailbox, consumer.mailbox.route
        if route is not None:
            with suppress(*STORE_FAILURES), self.store.view() as view:
                return asked_by_descriptions(view, route.name, route.definition)
            return NOT_KNOWN
        interests = list(mailbox.interests())
        number = interests.index(consumer.interest) if consumer.interest in interests else 0
        return self.feed.asked_elsewhere(mailbox, number)

    def has_members_elsewhere(self, mailbox: Mailbox) -> bool:
        """Whether other buses have members of a group; perhaps, if the store cannot be asked."""
        with suppress(*STORE_FAILURES), self.store.view() as view:
            return any(each.bus != self.presence.bus.id for each in view.members(mailbox.name))
        return True

    def wind_down(self) -> None:
        """What is durable goes on in the next opening; only what has begun is waited for."""
        self.presence.look_at_clock()
        for box in list(self.mailboxes.values()):
            if box.interest.durable is not None:
                box.wind_down()

    def saved(self) -> None:
        """Return when all that was said about durable subscriptions is kept, and dead letters."""
        self.settle_contexts()
        self.services.dead_letters.settle()
        for box in list(self.mailboxes.values()):
            if isinstance(box.keeper, StoreKeeper) and box.ended is None:
                with suppress(NotSettledError):  # who was taken over has nothing to save
                    box.keeper.confirm("flush()")

    def wait_until_brought(self, position: int) -> None:
        """Return when all up to a position has been brought to who wants it here."""
        if not self.is_caught_up(position) and not self.dispatcher.inline_lock.is_mine():
            self.dispatcher.wait_until_routed(position)

    def has_unnamed(self, letter: DeadLetter) -> bool:
        """Whether a letter is of a subscription of this bus that the store does not know."""
        box = self.mailboxes.get(letter.subscription)
        return box is not None and not is_kept(box)

    def published(self) -> int:
        """The newest position, as far as it can be known."""
        if self.store.is_up:
            with suppress(*STORE_FAILURES):
                return self.store.newest()
        return self.dispatcher.routed - 1

    def is_broken(self) -> bool:
        """Whether some of the log cannot be read."""
        return self.feed.failure is not None

    def pipeline(self) -> PipelineHealth | None:
        """How far the pipeline has come, if it routes for anybody here."""
        return pipeline_health(self.store, self.feed, self.services.clock)

    def problems(self) -> list[str]:
        """What is wrong with the store."""
        found = store_problems(self.store, self.feed, self.pipeline())
        if not self.store.is_up:
            return found
        boxes = list(self.mailboxes.values())
        return [*found, *vain_filters(self.store, self.dispatcher, boxes)]
