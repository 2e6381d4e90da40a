"""Reads older events for the mailboxes that are behind the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors.failures import STORE_FAILURES
from polycast.log_reader.log_pages import PAGE_BYTES, PAGE_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Mailbox
    from polycast.log_reader.event_selection import EventSelection, Wanted
    from polycast.log_reader.remote_interests import RemoteInterests
    from polycast.log_reader.routed_reader import RoutedReader
    from polycast.routing import RecordRouter
    from polycast.stores import Store


class BacklogReader:
    """Gives mailboxes that are behind a page each in turn, until they have caught up."""

    def __init__(
        self,
        store: Store,
        router: RecordRouter,
        selection: EventSelection,
        interests: RemoteInterests,
        routed: RoutedReader,
        *,
        look: Callable[[], None],
    ) -> None:
        self._store, self._router, self._selection = store, router, selection
        self._interests, self._routed, self._look = interests, routed, look
        self._lock = router.dispatcher.runtime.rlock()
        self.lagging: dict[Mailbox, None] = {}

    def add(self, mailbox: Mailbox) -> None:
        """Read for a mailbox that has room for what it is behind."""
        with self._lock:
            self.lagging[mailbox] = None

    # -- in the thread of the log reader -----------------------------------------------------------

    def read(self) -> bool:
        """Read a page for one mailbox; return whether there may be more."""
        with self._lock:
            mailbox = next(iter(self.lagging), None)
            if mailbox is None:
                return False
            del self.lagging[mailbox]
        start, route = mailbox.queue.behind, mailbox.route
        room = min(mailbox.queue.room(), PAGE_RECORDS)
        if start is None or mailbox.ended is not None:
            self._selection.forget(mailbox)
        elif room > 0:
            try:
                wanted, upto = self._page(mailbox, start, room)
            except STORE_FAILURES:
                self.add(mailbox)
                raise
            if mailbox.route is route:  # else what was read may be for another line
                mailbox.state.catch_up(wanted, upto, self._live(mailbox))
                mailbox.wake()
            if mailbox.queue.behind is None:
                self._selection.forget(mailbox)
            elif mailbox.queue.room() > 0:
                self.add(mailbox)
        with self._lock:
            return bool(self.lagging)

    def _live(self, mailbox: Mailbox) -> int:
        """From here on a mailbox is brought what is new; what is before its route it reads."""
        if mailbox.route is None:
            return max(self._router.routed, self._interests.start(mailbox))
        return max(self._routed.front, mailbox.route.start)

    def _page(self, mailbox: Mailbox, start: int, room: int) -> tuple[Wanted, int]:
        """What a mailbox wants from its place on, and up to where that was looked for."""
        route, until = mailbox.route, self._live(mailbox)
        if route is not None and start >= until:
            return [], start
        if route is not None and start >= route.start:
            routed_range = self._routed.range_at(start)
            if routed_range is not None and routed_range.recipients is not None:
                records, upto, unsure = self._routed.read_behind(
                    routed_range, route.number, start, room
                )
                return self._seen(mailbox, records, unsure=unsure), upto
            until = until if routed_range is None else min(until, routed_range.high)
        elif route is not None:
            until = route.start
        page = self._store.read(
            start,
            limit=room,
            until=until,
            types=self._selection.types(mailbox),
            wanted_by=self._interests.key(mailbox),
            size=PAGE_BYTES,
        )
        self._look()
        return self._selection.wanted(mailbox, page.entries), page.upto

    def _seen(self, mailbox: Mailbox, records: list[Any], *, unsure: bool) -> Wanted:
        """The events of records that are routed to a mailbox, as its context sees them."""
        if unsure:
            return self._selection.wanted(mailbox, records)
        context = mailbox.interest.context
        seen = (self._router.entry_in(stored, context) for stored in records)
        return [(entry, True) for entry in seen if entry is not None]
