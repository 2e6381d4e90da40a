"""Reads the log for a bus: new events for all mailboxes, older ones for those that are behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from polycast.errors.failures import STORE_FAILURES
from polycast.log_reader.backlog_reader import BacklogReader
from polycast.log_reader.event_selection import EventSelection
from polycast.log_reader.log_pages import PAGE_BYTES, PAGE_RECORDS
from polycast.log_reader.remote_interests import RemoteInterests
from polycast.log_reader.routed_reader import RoutedReader
from polycast.plain_text import log_of
from polycast.stores import LogPage

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Mailbox
    from polycast.routing import RecordRouter
    from polycast.stores import Store, StoredRoute

AGAIN = 1.0  # seconds after which a read that failed is tried again
_log = log_of("polycast")


class LogReader:
    """One thread that reads. It alone decides when a mailbox is behind no more.

    It follows the log for the mailboxes in the plan, and the pipeline for those with a route.
    """

    def __init__(self, store: Store, router: RecordRouter, *, look: Callable[[], None]) -> None:
        self._store, self._router, self._dispatcher = store, router, router.dispatcher
        self._look = look  # sees what others have changed in the store
        self.interests = RemoteInterests(store)
        self.selection = EventSelection(store, router)
        self.routed = RoutedReader(store, router, look=look, fallen_behind=self.behind)
        self._backlog = BacklogReader(
            store, router, self.selection, self.interests, self.routed, look=look
        )
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
                self._router.routed = self._store.newest() + 1
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
        front = self._router.routed if mailbox.route is None else self.routed.front
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
        router = self._router
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
