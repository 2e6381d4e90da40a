"""Who is subscribed, over a store: durable names and groups are kept there, not here."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as replaced

from polycast.bus.attaching import GROUPS, Request, kept_name, rest_of_lease, start_of
from polycast.bus.keeping import fullness
from polycast.bus.letters import REPLAYED
from polycast.bus.options import check_dispatch
from polycast.bus.roster import Roster
from polycast.delivery import CursorKeeper, Mailbox, SharedGroup, StoreKeeper
from polycast.delivery.keeping import OUTLIVING, outliving
from polycast.errors import (
    BadOption,
    Cancelled,
    CutOff,
    LeaseExpired,
    NotSettled,
    StoreClosed,
    StoreError,
    TakenOver,
)
from polycast.events import decode_record
from polycast.matching import Definition
from polycast.stores import Advert, Stored

if TYPE_CHECKING:
    from polycast.bus.attaching import Attachment
    from polycast.bus.feed import Feed
    from polycast.bus.presence import Presence
    from polycast.bus.roster import Advertisement
    from polycast.bus.subscription import Subscription
    from polycast.config import Settings
    from polycast.delivery import Callback, Consumer, DeadLetter
    from polycast.errors import SubscriptionEnded
    from polycast.matching import Interest
    from polycast.routing import StoredDispatcher
    from polycast.stores import Flight, Kept, Store, Transaction

__all__ = ["StoredRoster"]

FREE = 64  # of what others have let go of, how many are looked at


class StoredRoster(Roster):
    """The subscriptions of one bus over a store."""

    dispatcher: StoredDispatcher

    def __init__(
        self, dispatcher: StoredDispatcher, store: Store, feed: Feed, presence: Presence
    ) -> None:
        super().__init__(dispatcher, None)
        self.store, self.feed, self.presence = store, feed, presence
        feed.look = self._look
        self._seen = -1  # the revision of the store
        self._requests: dict[SharedGroup, Request] = {}
        presence.revived = self._soon_rejoin

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
    ) -> Subscription[Any]:
        """Subscribe: attach to what is kept, or begin with what is new."""
        if callback is not None:
            check_dispatch(settings, callback)
        if (interest.durable or "").startswith(GROUPS):
            accepted = f"a name that does not begin with {GROUPS!r}: those are the groups'"
            raise BadOption("durable", interest.durable, accepted=accepted)
        self.feed.start()
        with self._lock:
            start = start_of(self.store, since)
            known = self._known(interest, replace=replace)
            if known is None and interest.durable in self._durables:
                self._let_go(self._durables[interest.durable or ""])
            bus = self.presence.bus.id
            clock = self.services.clock
            request = Request(interest, bus, clock, start, lease, replace, pinned)
            if known is not None and not self._still_ours(known, request):
                known = None
            mailbox = self._made(request, settings) if known is None else known
            consumer = self._consumer(mailbox, interest, settings, callback)
            consumer.subscription = partial(self.handle, consumer)
            if not mailbox.attach(consumer, settings):  # it has just ended
                self._out_of_here(mailbox)
                mailbox = self._made(request, settings)
                consumer = self._consumer(mailbox, interest, settings, callback)
                consumer.subscription = partial(self.handle, consumer)
                mailbox.attach(consumer, settings)
            self._go_on(mailbox, consumer, is_new=mailbox is not known)
        if lease is not None:
            self.set_lease(consumer, lease)
        self.feed.ring()
        mailbox.pump()
        return self.handle(consumer)

    def _still_ours(self, mailbox: Mailbox, request: Request) -> bool:
        """Attach once more to what is attached here, unless somebody else has taken it over."""
        keeper = mailbox.keeper
        if not isinstance(keeper, CursorKeeper):
            return True

        def attach(tx: Transaction) -> bool:
            attachment = request.attach(tx)
            ours = attachment.before == keeper.number
            if ours:  # in the transaction: what is saved next has to have the new number
                keeper.number = attachment.kept.token
            return ours

        ours = self.store.write(attach).result()
        if not ours:
            mailbox.end(TakenOver(mailbox.title))
        return ours

    def _made(self, request: Request, settings: Settings) -> Mailbox:
        """The mailbox of a new subscription, in its place in the log, and not yet in the plan."""
        interest = request.interest
        if interest.durable is None and interest.group is None:
            mailbox = self._new(interest, settings)
            mailbox.behind = request.start
            return mailbox
        attachment = self.store.write(request.attach).result()
        kept = attachment.kept
        mailbox = self._new(interest.starting(kept.start), settings)
        mailbox.waits_for = mailbox.behind = max(kept.start, kept.cursor)
        if isinstance(mailbox, SharedGroup):
            mailbox.floor, mailbox.joined = kept.cursor, request.bus
            self._requests[mailbox] = request
        else:
            keeper = mailbox.keeper = self._keeper(mailbox, attachment)
            self._take_up(mailbox, keeper, attachment.flights)
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
        for box, request in list(self._requests.items()):
            box.rejoin()
            again = dataclasses.replace(request, bus=self.presence.bus.id, start=None)
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
            lambda: self._soon_over(mailbox, TakenOver(mailbox.title)),
            number=attachment.kept.token,
            cursor=attachment.kept.cursor,
            position=lambda: self.feed.position_of(mailbox),
            unclean=attachment.unclean,
        )

    def _soon_over(self, mailbox: Mailbox, why: SubscriptionEnded) -> None:
        """End it from a thread that holds no lock."""
        self.services.timers.after(0.0, lambda: mailbox.end(why))

    def _take_up(self, mailbox: Mailbox, keeper: CursorKeeper, flights: list[Flight]) -> None:
        """Go on with what was in flight."""
        keeper.restore(flights)
        now = self.services.clock.time()
        found = []
        for flight in flights:
            at = flight.position
            wanted = self.feed.wanted(mailbox, self._records(mailbox.name, at))
            found += [(e, verdict, flight.attempts, flight.due - now) for e, verdict in wanted]
            if not wanted:  # a new definition does not want it, or it is not kept any more
                keeper.forget(at)
        mailbox.take_up(found)

    def _go_on(self, mailbox: Mailbox, consumer: Consumer, *, is_new: bool) -> None:
        """Into the plan; from then on it is brought what is new, unless it is behind."""
        mailbox.refresh()
        if not is_new:
            self.dispatcher.change(mailbox)
            consumer.interest = consumer.interest.starting(self.dispatcher.newest() + 1)
            return

        def begin(position: int) -> None:
            if mailbox.waits_for == 0:  # the store does not know it
                mailbox.waits_for = position if mailbox.behind is None else mailbox.behind
                mailbox.interest = mailbox.interest.starting(mailbox.waits_for)
            consumer.interest = consumer.interest.starting(mailbox.interest.start)

        self.dispatcher.add(mailbox, begin)
        mailbox.refresh()
        if mailbox.behind is not None:
            self.feed.behind(mailbox)

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
        for consumer in mailbox.consumers():
            consumer.ended = TakenOver(mailbox.title)
        mailbox.stop()
        self._out_of_here(mailbox)
        self._release(mailbox)

    def _release(self, mailbox: Mailbox) -> None:
        keeper = mailbox.keeper
        if isinstance(keeper, StoreKeeper) and self.store.failure is None:
            self.store.write(keeper.release).result()

    def _out_of_here(self, mailbox: Mailbox) -> None:
        super().forget(mailbox)
        if isinstance(mailbox, SharedGroup):
            self._requests.pop(mailbox, None)

    def forget(self, mailbox: Mailbox) -> None:
        """It has ended: for good, or only here."""
        self._out_of_here(mailbox)
        if mailbox.interest.durable is None and mailbox.interest.group is None:
            return
        keeper = mailbox.keeper
        if isinstance(keeper, StoreKeeper) and self.store.failure is None:
            if isinstance(mailbox.ended, Cancelled | LeaseExpired | CutOff):
                self.store.write(keeper.remove).result()
            elif not isinstance(mailbox.ended, TakenOver):
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
                tx.save(replaced(kept, definition=definition.encoded(), lease=until))

        if consumer.interest.durable is not None:
            self.store.write(keep).result()

    # -- what others have done ---------------------------------------------------------------------

    def _look(self) -> None:
        """In the thread of the feed, after it has read: who took over, cancelled, or replayed.

        What it has read is brought afterwards, so that nobody gets what was published after he
        was taken over.
        """
        for group in list(self._requests):
            self._look_for_free(group)
        with self.store.view() as view:
            revision = view.revision()
            if revision == self._seen:
                return
            changed = view.changed(self._seen)
            boxes = list(self.mailboxes.values()) if changed is None else map(self._box, changed)
            found = {
                box: view.subscription(box.name)
                for box in boxes
                if box is not None and _is_kept(box)
            }
            if all(bus.id != self.presence.bus.id for bus in view.buses()):
                return  # this bus counts as dead, and will join its groups again
            replayed = view.documents(REPLAYED).keys() & self.mailboxes.keys()
        self._seen = revision
        for box, kept in found.items():
            self._see(box, kept)
        for name in replayed:
            self._take_up_replayed(name)

    def _take_up_replayed(self, name: str) -> None:
        """Take what is new in flight; in a transaction, so that nothing is saved meanwhile."""
        box = self._box(name)
        keeper = None if box is None else box.keeper

        def take(tx: Transaction) -> list[Flight]:
            tx.remove_document(REPLAYED, name)
            if not isinstance(keeper, CursorKeeper):
                return []
            new = [each for each in tx.flights(name) if not keeper.knows(each.position)]
            keeper.restore(new)
            return new

        new = self.store.write(take).result()
        if box is not None and isinstance(keeper, CursorKeeper) and _is_kept(box):
            self._take_up(box, keeper, new)
            box.pump_later()

    def _records(self, name: str, position: int) -> list[Stored]:
        """The record at a position, or that of a letter that was replayed after it had gone."""
        found = self.store.read(position, limit=1, until=position + 1).entries
        if found:
            return found
        with self.store.view() as view:
            body = view.document(OUTLIVING, outliving(name, position))
        return [] if body is None else [Stored(position, decode_record(body))]

    def _box(self, name: str) -> Mailbox | None:
        return self.mailboxes.get(name)

    def _see(self, box: Mailbox, kept: Kept | None) -> None:
        """What the store has of a mailbox has changed."""
        if isinstance(box, SharedGroup) and box.joined != self.presence.bus.id:
            return  # it counted as dead, and will join again
        keeper = box.keeper
        if kept is None:
            box.end(Cancelled(box.title))
        elif isinstance(keeper, CursorKeeper) and kept.token > keeper.number:
            box.end(TakenOver(box.title))

    def _look_for_free(self, group: SharedGroup) -> None:
        """What other members have let go of, and what order forbade to claim before."""
        with self.store.view() as view:
            free = view.free(group.name, at=self.services.clock.time(), limit=FREE)
            waiting = [each for each in view.under_way(group.name) if each.holder is None]
            free = group.allowed(free, view)
            blocked = group.is_blocked(view)
        offers = []
        for flight in free:
            wanted = self.feed.wanted(group, self._records(group.name, flight.position))
            offers += [(flight, entry, verdict) for entry, verdict in wanted]
            if not wanted:
                group.refuse(flight)
        group.offer(offers)
        if group.offers or not blocked:
            group.claim_soon()
        now = self.services.clock.time()
        later = [each.due for each in waiting if each.due > now]
        if later:  # nobody else may be there to say that it is due
            self.services.timers.after(min(later) - now, self.feed.ring)

    # -- looking after it --------------------------------------------------------------------------

    def is_caught_up(self, position: int) -> bool:
        """Whether the feed has brought all up to a position; without subscriptions it does not."""
        return self.dispatcher.routed > position or not self.feed.running

    def announce(self, advertisement: Advertisement) -> None:
        """Tell all buses over this store."""
        super().announce(advertisement)
        advert = Advert(0, self.presence.bus.id, advertisement.what)
        advertisement.number = self.store.write(lambda tx: tx.advertise(advert)).result()

    def withdraw(self, advertisement: Advertisement) -> None:
        """Take it back."""
        super().withdraw(advertisement)
        if self.store.failure is None:
            self.store.write(lambda tx: tx.withdraw(advertisement.number))

    def prolong(self, advertisement: Advertisement, lease: float) -> None:
        """It ends even if this process has died."""
        until = self.services.clock.time() + lease
        advert = Advert(0, self.presence.bus.id, advertisement.what, until)
        before = advertisement.number

        def renew(tx: Transaction) -> int:
            tx.withdraw(before)
            return tx.advertise(advert)

        advertisement.number = self.store.write(renew).result()

    def advertised(self) -> list[str]:
        """What any bus over this store is going to publish."""
        now = self.services.clock.time()
        try:
            with self.store.view() as view:
                adverts = view.adverts()
        except StoreError:
            return super().advertised()
        return sorted(each.what for each in adverts if each.until is None or each.until > now)

    def wind_down(self) -> None:
        """What is durable goes on in the next opening; only what has begun is waited for."""
        for box in list(self.mailboxes.values()):
            if box.interest.durable is not None:
                box.wind_down()

    def saved(self) -> None:
        """Return when all that was said about durable subscriptions is kept."""
        for box in list(self.mailboxes.values()):
            if isinstance(box.keeper, StoreKeeper) and box.ended is None:
                with suppress(NotSettled):  # who was taken over has nothing to save
                    box.keeper.confirm("flush()")

    def has_unnamed(self, letter: DeadLetter) -> bool:
        """Whether a letter is of a subscription of this bus that the store does not know."""
        box = self.mailboxes.get(letter.subscription)
        return box is not None and not _is_kept(box)

    def published(self) -> int:
        """The newest position, as far as it can be known."""
        try:
            return self.store.newest()
        except StoreError:
            return self.dispatcher.routed - 1

    def is_broken(self) -> bool:
        """Whether some of the log cannot be read."""
        return self.feed.failure is not None

    def problems(self) -> list[str]:
        """What is wrong with the store."""
        found: list[Exception | None] = [self.store.failure, self.feed.failure]
        try:
            full = fullness(self.store)
        except StoreClosed:
            full = []
        except StoreError as error:
            full = [str(error)]
        return [str(each) for each in found if each is not None] + full


def _is_kept(mailbox: Mailbox) -> bool:
    return isinstance(mailbox.keeper, StoreKeeper) and mailbox.ended is None
