"""Reads the log for a bus: what is new goes to all, what is older to who is behind."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from polycast.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.delivery import Inbox, Mailbox
    from polycast.routing import StoredDispatcher
    from polycast.stores import Entry, Store, Stored

__all__ = ["Feed"]

BATCH = 500  # records read at a time
AGAIN = 1.0  # seconds after which a read that failed is tried again
_log = logging.getLogger("polycast")


class Feed:
    """One thread that reads. It alone decides when a mailbox that was behind is so no more."""

    def __init__(self, store: Store, dispatcher: StoredDispatcher) -> None:
        self._store, self._dispatcher = store, dispatcher
        self._bell = threading.Event()
        self._lock = threading.Lock()
        self._lagging: dict[Mailbox, None] = {}
        self._covered: dict[Mailbox, tuple[object, list[int] | None]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self.failure: StoreError | None = None
        self.look: Callable[[], None] = lambda: None  # at what others have changed in the store
        store.watch(self.ring)

    @property
    def running(self) -> bool:
        """Whether anybody has asked for anything."""
        return self._thread is not None

    def start(self) -> None:
        """Begin to read what comes from now on, if that has not begun."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._dispatcher.routed = self._store.newest() + 1
                self._thread = threading.Thread(target=self._run, name="polycast-feed", daemon=True)
                self._thread.start()

    def ring(self) -> None:
        """There may be something new."""
        self._bell.set()

    def behind(self, mailbox: Inbox) -> None:
        """A mailbox has room for what it has not read yet."""
        with self._lock:
            self._lagging[mailbox] = None  # type: ignore[index]
        self._bell.set()

    def position_of(self, mailbox: Inbox) -> int:
        """All before this has been looked at for a mailbox."""
        behind = mailbox.behind
        if mailbox.stopped_at is not None:
            return mailbox.stopped_at
        return self._dispatcher.routed if behind is None else behind

    def close(self, timeout: float = 0.5) -> None:
        """Read no more."""
        with self._lock:
            self._closed = True
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
        """Read a little; whether there may be more."""
        failed: StoreError | None = None
        more = False
        for read in (self._read_new, self._read_older):  # one that fails does not stop the other
            try:
                more = read() or more
            except StoreError as error:
                failed = error
            except Exception:
                if not self._closed:
                    _log.exception("reading the log failed")
        if failed is not None and self.failure is None and not self._closed:
            _log.error("reading stopped: %s", failed)
        self.failure = failed
        return more and failed is None

    def _read_new(self) -> bool:
        dispatcher = self._dispatcher
        batch = self._store.read(dispatcher.routed, limit=BATCH)
        self.look()
        for stored in batch.entries:
            if self._closed:
                return False
            dispatcher.bring(stored)
            dispatcher.routed = stored.position + 1
        dispatcher.routed = max(dispatcher.routed, batch.upto)
        with dispatcher.advanced:
            dispatcher.advanced.notify_all()
        return len(batch.entries) == BATCH

    def _read_older(self) -> bool:
        with self._lock:
            mailbox = next(iter(self._lagging), None)
            if mailbox is None:
                return False
            del self._lagging[mailbox]
        start = mailbox.behind
        room = min(mailbox.room(), BATCH)
        if start is None or mailbox.ended is not None:
            self._covered.pop(mailbox, None)
        elif room > 0:
            live = self._dispatcher.routed
            try:
                types = self._types_of(mailbox)
                batch = self._store.read(start, limit=room, until=live, types=types)
            except StoreError:
                with self._lock:
                    self._lagging[mailbox] = None
                raise
            self.look()
            mailbox.catch_up(self.wanted(mailbox, batch.entries), batch.upto, live)
            mailbox.wake()
            if mailbox.behind is None:
                self._covered.pop(mailbox, None)
            elif mailbox.room() > 0:
                self.behind(mailbox)
        with self._lock:
            return bool(self._lagging)

    def _types_of(self, mailbox: Mailbox) -> list[int] | None:
        """The numbers of the types that a mailbox can want; None if that is all of them."""
        types = self._store.types()
        selectors = [interest.selector for interest in mailbox.interests()]
        known, found = self._covered.get(mailbox, (None, None))
        if known != (len(types), selectors):
            classes = {number: self._dispatcher.class_named(each) for number, each in types.items()}
            numbers = [
                number
                for number, cls in classes.items()
                if any(each.covers_class(cls) for each in selectors)
            ]
            found = None if len(numbers) == len(types) else numbers
            self._covered[mailbox] = (len(types), selectors), found
        return found

    def wanted(self, mailbox: Mailbox, records: list[Stored]) -> list[tuple[Entry, object]]:
        """Those of some records that a mailbox wants, with the verdict of its filter."""
        wanted: list[tuple[Entry, object]] = []
        covered: dict[tuple[type, str | None], bool] = {}
        for stored in records:
            key = self._dispatcher.class_of(stored), stored.record.topic
            if key not in covered:
                covered[key] = any(each.selector.covers(*key) for each in mailbox.interests())
            if covered[key]:
                entry = self._dispatcher.entry(stored)
                targets: tuple[Any, ...] = (mailbox,)
                hits = self._dispatcher.wanted_by(targets, entry)
                wanted += [(entry, verdict) for _, verdict in hits]
        return wanted
