"""Reads the log for a bus: new events for all mailboxes, older ones for those that are behind."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors.failures import STORE_FAILURES
from polycast.log_reader.routed_reader import PAGE_BYTES, PAGE_RECORDS, RoutedReader
from polycast.matching import Selector, wanted_from_afar
from polycast.plain_text import log_of
from polycast.stores import Entry, LogPage, Store, StoredRoute
from polycast.stores.values import NOT_KNOWN, PushedFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Mailbox
    from polycast.routing import RecordRouter


class _Registered(NamedTuple):
    key: str
    start: int


class RemoteInterests:
    """Tells a store that selects what each mailbox wants; other stores need not know."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registered: dict[Mailbox, _Registered] = {}
        self._numbers = itertools.count(1)

    def tell(self, mailbox: Mailbox) -> None:
        """Tell the store what a mailbox wants; it selects by that from some position on."""
        if self._store.is_remote:
            # A name may be attached to again before the one before has left.
            key = self.key(mailbox) or f"{mailbox.name}#{next(self._numbers)}"
            definitions = [wanted_from_afar(interest).encoded() for interest in mailbox.interests()]
            self._registered[mailbox] = _Registered(key, self._store.want(key, definitions).start)

    def withdraw(self, mailbox: Mailbox) -> None:
        """Tell the store that a mailbox wants nothing more."""
        registered = self._registered.pop(mailbox, None)
        if registered is not None:
            self._store.want(registered.key, ())

    def key(self, mailbox: Mailbox) -> str | None:
        """Return the key by which the store knows what a mailbox wants."""
        registered = self._registered.get(mailbox)
        return None if registered is None else registered.key

    def start(self, mailbox: Mailbox) -> int:
        """Return the position from which on a mailbox is sent what is new."""
        registered = self._registered.get(mailbox)
        return 0 if registered is None else registered.start

    def pushed_filter(self, mailbox: Mailbox, number: int) -> PushedFilter | None:
        """Return the part of one of its filters that the store asks before it sends an event."""
        key = self.key(mailbox)
        if key is None:
            return None
        pushed: list[PushedFilter] = []
        if self._store.is_up:  # else the question would wait
            with suppress(*STORE_FAILURES):
                pushed = self._store.asked(key)
        return pushed[number] if number < len(pushed) else NOT_KNOWN


Wanted = list[tuple["Entry", object]]
"""Events that a mailbox wants, each with the verdict of its filter."""
AGAIN = 1.0  # seconds after which a read that failed is tried again
_log = log_of("polycast")


class BacklogReader:
    """Gives mailboxes that are behind a page each in turn, until they have caught up."""

    def __init__(
        self,
        store: Store,
        router: RecordRouter,
        interests: RemoteInterests,
        routed: RoutedReader,
        *,
        look: Callable[[], None],
    ) -> None:
        self._store, self._router = store, router
        self._interests, self._routed, self._look = interests, routed, look
        self._types: dict[Mailbox, tuple[object, list[int] | None]] = {}
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
            self._types.pop(mailbox, None)
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
                self._types.pop(mailbox, None)
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
            types=self._possible_types(mailbox),
            wanted_by=self._interests.key(mailbox),
            size=PAGE_BYTES,
        )
        self._look()
        return self._router.wanted(mailbox, page.entries), page.upto

    def _seen(self, mailbox: Mailbox, records: list[Any], *, unsure: bool) -> Wanted:
        """The events of records that are routed to a mailbox, as its context sees them."""
        if unsure:
            return self._router.wanted(mailbox, records)
        context = mailbox.interest.context
        seen = (self._router.entry_in(stored, context) for stored in records)
        return [(entry, True) for entry in seen if entry is not None]

    def _possible_types(self, mailbox: Mailbox) -> list[int] | None:
        """Return the numbers of the types that a mailbox can want; None if those are all."""
        types = self._store.types()
        selectors = [interest.selector for interest in mailbox.interests()]
        before, numbers = self._types.get(mailbox, (None, None))
        context, version = mailbox.interest.context, self._router.dispatcher.version
        now = (len(types), selectors, None if context is None else version)
        if before != now:
            possible = [
                number
                for number, event_type in types.items()
                if self._covers(selectors, self._router.class_of(event_type), context)
            ]
            numbers = None if len(possible) == len(types) else possible
            self._types[mailbox] = now, numbers
        return numbers

    def _covers(self, selectors: list[Selector[Any]], cls: type, context: str | None) -> bool:
        """Whether a class, or what it is in a context if it is one of the root, is selected."""
        there = self._router.dispatcher.plan.translation.becomes(cls, None, context)
        return any(
            selector.covers_class(cls) or (there is not None and selector.covers_class(there))
            for selector in selectors
        )


class LogReader:
    """One thread that reads. It alone decides when a mailbox is behind no more.

    It follows the log for the mailboxes in the plan, and the pipeline for those with a route.
    """

    def __init__(self, store: Store, router: RecordRouter, *, look: Callable[[], None]) -> None:
        self._store, self.router, self._dispatcher = store, router, router.dispatcher
        self._look = look  # sees what others have changed in the store
        self.interests = RemoteInterests(store)
        self.routed = RoutedReader(store, router, look=look, fallen_behind=self.behind)
        self._backlog = BacklogReader(store, router, self.interests, self.routed, look=look)
        self._bell = router.dispatcher.runtime.event()
        self._lock = router.dispatcher.runtime.rlock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.failure: Exception | None = None
        store.watch(self.ring)

    @property
    def is_running(self) -> bool:
        """Whether anybody has subscribed to anything."""
        return self._thread is not None

    def start(self) -> None:
        """Begin to read what comes from now on, if that has not begun."""
        with self._lock:
            if self._thread is None and not self._closed:
                self.router.routed = self._store.newest() + 1
                runtime = self._dispatcher.runtime
                self._thread = runtime.thread(self._run, name="polycast-log-reader")
                self._thread.start()

    def ring(self) -> None:
        """Look for something new."""
        self._bell.set()

    def join(self, mailbox: Mailbox, begin: Callable[[int], None]) -> None:
        """Bring a mailbox what is new; it is behind, or `begin` is told where it begins."""
        route = mailbox.route
        if route is not None:
            begin(route.start)
            self.routed.join(mailbox, route.start, route.number)
            return
        self.interests.tell(mailbox)
        start = self.interests.start(mailbox)

        def begin_here(position: int) -> None:
            begin(position)
            mailbox.queue.go_live(max(position, start))

        self._dispatcher.add(mailbox, begin_here)

    def leave(self, mailbox: Mailbox) -> None:
        """Bring a mailbox nothing more."""
        self.interests.withdraw(mailbox)
        self.routed.leave(mailbox)

    def move(self, mailbox: Mailbox, route: StoredRoute | None) -> None:
        """Follow the pipeline for a mailbox, or the log again. In the reader's thread."""
        mailbox.queue.fall_behind(self.position_of(mailbox))
        self._dispatcher.remove(mailbox)
        self.leave(mailbox)
        mailbox.route = route
        self.join(mailbox, lambda position: None)
        self.behind(mailbox)

    def behind(self, mailbox: Mailbox) -> None:
        """Read for a mailbox that is behind, and has room."""
        self._backlog.add(mailbox)
        self._bell.set()

    def position_of(self, mailbox: Mailbox) -> int:
        """Return the position before which all has been looked at for a mailbox."""
        # Before it is asked whether it is behind: it may fall behind at that very place.
        front = self.router.routed if mailbox.route is None else self.routed.front
        behind = mailbox.queue.behind
        if mailbox.queue.stopped_at is not None:
            return mailbox.queue.stopped_at
        return max(front, mailbox.queue.waits_for) if behind is None else behind

    def close(self, timeout: float = 0.5) -> None:
        """Read no more."""
        with self._lock:
            self._closed = self.routed.is_closed = True
            thread = self._thread
        self._bell.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    # -- in its thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            # What cannot be read is tried again, in case the disk is well again.
            self._bell.wait(None if self.failure is None else AGAIN)
            self._bell.clear()
            while not self._closed and self._step():
                pass
            if self._closed:
                return

    def _step(self) -> bool:
        """Read a little; return whether there may be more."""
        failed: Exception | None = None
        more = False
        reads = [self._read_new]
        if self.routed.mailboxes:
            reads.append(self.routed.read)
        if self._backlog.lagging:
            reads.append(self._backlog.read)
        for read in reads:  # one that fails does not stop the others
            try:
                more = read() or more
            except STORE_FAILURES as error:
                failed = error
            except BaseException:  # the thread is ours, so it stays
                if not self._closed:
                    _log.exception("reading the log failed")
        if failed is not None and self.failure is None and not self._closed:
            _log.error("reading stopped: %s", failed)
        self.failure = failed
        return more and failed is None

    def _read_new(self) -> bool:
        router = self.router
        page = self._skipped() or self._store.news(
            router.routed, limit=PAGE_RECORDS, size=PAGE_BYTES
        )
        self._look()
        for stored in page.entries:
            if self._closed:
                return False
            router.bring(stored)
            router.routed = stored.position + 1
        router.advance(page.upto)
        return page.more

    def _skipped(self) -> LogPage | None:
        """All that is new, unread, if nobody is in the plan."""
        if self._has_plan():
            return None
        newest = self._store.newest()
        # Who has come meanwhile may begin before that; who comes from now on does not.
        return None if self._has_plan() else LogPage([], newest + 1, more=False)

    def _has_plan(self) -> bool:
        with self._dispatcher.changing:
            return bool(self._dispatcher.plan.targets)
