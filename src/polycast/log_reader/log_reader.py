"""Reads the log for a bus: what is new goes to all, what is older to who is behind."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from itertools import dropwhile, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from polycast.errors.failures import STORE_FAILURES
from polycast.log_reader.routed_ranges import Stretches
from polycast.matching import wanted_from_afar
from polycast.plain_text import log_of
from polycast.stores import Coverage, LogPage
from polycast.stores.values import NOT_KNOWN, PushedFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.delivery import Inbox, Mailbox
    from polycast.log_reader.routed_ranges import Piece
    from polycast.matching import Selector
    from polycast.routing import StoredDispatcher
    from polycast.routing.recipients import Recipients
    from polycast.stores import Entry, Store, Stored, StoredRoute

__all__ = ["LogReader"]

BATCH = 500  # records read at a time
MUCH = 2_000_000  # bytes read at a time, about
GAP = 16  # reading past so few records costs less than reading anew behind them
SWEEP = 256  # stretches gone through at a time
AGAIN = 1.0  # seconds after which a read that failed is tried again
Wanted = list[tuple["Entry", object]]
_log = log_of("polycast")


class Wants(NamedTuple):
    """Under which key a store was told what a mailbox wants, and what comes of that."""

    key: str
    coverage: Coverage


NEAR = Wants("", Coverage(0))  # nothing is left out


class LogReader:
    """One thread that reads. It alone decides when a mailbox that was behind is so no more.

    What is new it brings in two lines: along the log, to those in the plan; and along what the
    pipeline has routed, to those that have a route.
    """

    def __init__(
        self, store: Store, dispatcher: StoredDispatcher, *, look: Callable[[], None]
    ) -> None:
        self._store, self._dispatcher = store, dispatcher
        self._look = look  # sees what others have changed in the store
        self._stretches = Stretches(store)
        self._bell = dispatcher.runtime.event()
        self._lock = dispatcher.runtime.rlock()
        self._lagging: dict[Mailbox, None] = {}
        self._covered: dict[Mailbox, tuple[object, list[int] | None]] = {}
        self._boxes: dict[int, Mailbox] = {}  # by the number of their route
        self._wants: dict[Mailbox, Wants] = {}  # what a store far away was told
        self._keys = itertools.count(1)
        self.front = 1  # all before this position has been brought to who has a route
        self._claimed = 1  # who is brought what is before this was settled, under the lock
        self._under_way: tuple[Recipients, Iterator[tuple[int, list[int]]]] | None = None
        self.waits_since: float | None = None  # how long there is something that is not routed
        self._thread: threading.Thread | None = None
        self._closed = False
        self.failure: Exception | None = None
        store.watch(self.ring)

    @property
    def is_running(self) -> bool:
        """Whether anybody has asked for anything."""
        return self._thread is not None

    @property
    def is_routed(self) -> bool:
        """Whether the pipeline routes for anybody here."""
        return bool(self._boxes)

    def start(self) -> None:
        """Begin to read what comes from now on, if that has not begun."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._dispatcher.routed = self._store.newest() + 1
                runtime = self._dispatcher.runtime
                self._thread = runtime.thread(self._run, name="polycast-log-reader")
                self._thread.start()

    def ring(self) -> None:
        """There may be something new."""
        self._bell.set()

    def join(self, mailbox: Mailbox, begin: Callable[[int], None]) -> None:
        """Bring a mailbox what is new; it is behind, or `begin` is told where it begins."""
        if mailbox.route is None:
            self.want(mailbox)
            covered = self._wants.get(mailbox, NEAR).coverage.start

            def begin_here(position: int) -> None:
                begin(position)
                mailbox.go_live(max(position, covered))

            self._dispatcher.add(mailbox, begin_here)
            return
        begin(mailbox.route.start)
        with self._lock:
            if not self._boxes:  # nobody has looked at what was routed before
                with self._store.view() as view:
                    self.front = max(self.front, view.routed().high)
            mailbox.go_live(max(self.front, self._claimed, mailbox.route.start))
            self._boxes[mailbox.route.number] = mailbox

    def want(self, mailbox: Mailbox) -> None:
        """Tell a store that asks what a mailbox wants; that is brought from some place on."""
        if self._store.is_remote:
            known = self._wants.get(mailbox)
            # A name may be attached to again before the one before has left.
            key = f"{mailbox.name}#{next(self._keys)}" if known is None else known.key
            definitions = [wanted_from_afar(each).encoded() for each in mailbox.interests()]
            self._wants[mailbox] = Wants(key, self._store.want(key, definitions))

    def asked_elsewhere(self, mailbox: Mailbox, number: int) -> PushedFilter | None:
        """What of one of its filters is asked before an event gets here, if that is so."""
        wants = self._wants.get(mailbox)
        if wants is None:
            return None
        asked: list[PushedFilter] = []
        if self._store.is_up:  # else the question would wait
            with suppress(*STORE_FAILURES):
                asked = self._store.asked(wants.key)
        return asked[number] if number < len(asked) else NOT_KNOWN

    def leave(self, mailbox: Mailbox) -> None:
        """Bring it nothing more."""
        wants = self._wants.pop(mailbox, None)
        if wants is not None:
            self._store.want(wants.key, ())
        with self._lock:
            if mailbox.route is not None and self._boxes.get(mailbox.route.number) is mailbox:
                del self._boxes[mailbox.route.number]

    def move(self, mailbox: Mailbox, route: StoredRoute | None) -> None:
        """Bring it what is new in the other line, from its place on. In the reader's thread."""
        mailbox.fall_behind(self.position_of(mailbox))
        self._dispatcher.remove(mailbox)
        self.leave(mailbox)
        mailbox.route = route
        self.join(mailbox, lambda position: None)
        self.behind(mailbox)

    def behind(self, mailbox: Inbox) -> None:
        """A mailbox has room for what it has not read yet."""
        with self._lock:
            self._lagging[mailbox] = None  # type: ignore[index]
        self._bell.set()

    def position_of(self, mailbox: Inbox) -> int:
        """All before this has been looked at for a mailbox."""
        # Before it is asked whether it is behind: it may fall behind at that very place.
        front = self._dispatcher.routed if mailbox.route is None else self.front
        behind = mailbox.behind
        if mailbox.stopped_at is not None:
            return mailbox.stopped_at
        return max(front, mailbox.waits_for) if behind is None else behind

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
        failed: Exception | None = None
        more = False
        # One that fails does not stop the others.
        for read in (self._read_new, self._read_routed, self._read_older):
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
        dispatcher = self._dispatcher
        batch = self._skipped() or self._store.news(dispatcher.routed, limit=BATCH, size=MUCH)
        self._look()
        for stored in batch.entries:
            if self._closed:
                return False
            dispatcher.bring(stored)
            dispatcher.routed = stored.position + 1
        dispatcher.routed = max(dispatcher.routed, batch.upto)
        with dispatcher.advanced:
            dispatcher.advanced.notify_all()
        return batch.more

    def _skipped(self) -> LogPage | None:
        """All that is new, unread, if nobody is in the plan."""
        if self._has_plan():
            return None
        newest = self._store.newest()
        # Who has come meanwhile may begin before that; who comes from now on does not.
        return None if self._has_plan() else LogPage([], newest + 1, more=False)

    def _has_plan(self) -> bool:
        with self._dispatcher.changing:
            return next(iter(self._dispatcher.plan), None) is not None

    # -- what is routed ----------------------------------------------------------------------------

    def _read_routed(self) -> bool:
        if not self._boxes:
            return False
        piece = self._piece_at(self.front)
        if piece is None:
            waits = self._dispatcher.routed > self.front
            if not waits or self.waits_since is None:
                self.waits_since = self._dispatcher.clock.monotonic() if waits else None
            return False
        self.waits_since = None
        if piece.takers is None:
            self._let_ask(piece)
        else:
            self._bring_routed(piece, piece.takers)
        return True

    def _piece_at(self, position: int) -> Piece | None:
        """The stretch of a position, and all that had been changed before it was kept is seen.

        A route may have ended, or its subscription may have been taken over, before that.
        """
        piece = self._stretches.known(position)
        if piece is None:
            piece = self._stretches.load(position)
            self._look()
        return piece

    def _let_ask(self, piece: Piece) -> None:
        """Nobody knows who takes what: whoever needs it asks for himself."""
        for box in self._claim(piece.high).values():
            if box.behind is None and box.waits_for < piece.high:
                box.fall_behind(self.front)
                self.behind(box)
        self._advance(piece.high)

    def _claim(self, upto: int) -> dict[int, Mailbox]:
        """Those who are brought what is before a position; whoever joins later is not."""
        with self._lock:
            self._claimed = max(self._claimed, upto)
            return dict(self._boxes)

    def _advance(self, position: int) -> None:
        with self._lock:  # somebody may join as the first
            self.front = max(self.front, position)

    def _bring_routed(self, piece: Piece, takers: Recipients) -> None:
        """Bring a part of a stretch to those who take it and are not behind."""
        if self._under_way is None or self._under_way[0] is not takers:
            self._under_way = takers, dropwhile(lambda each: each[0] < self.front, takers)
        part = list(islice(self._under_way[1], BATCH))
        upto = part[-1][0] + 1 if len(part) == BATCH else piece.high
        boxes = self._claim(upto).get
        wanted = {
            position: found
            for position, numbers in part
            if (found := [box for each in numbers if (box := boxes(each)) is not None])
        }
        unsure = set(map(boxes, takers.unsure))
        records, readable = self._records(list(wanted))
        woken: dict[Mailbox, None] = {}
        for stored in records:
            if self._closed:
                return
            takes = wanted.get(stored.position)
            if takes is not None:
                self._bring_one(stored, takes, unsure)
                self.front = stored.position + 1
                woken.update(dict.fromkeys(takes))
        for box in woken:  # once for all that it got: that is most of the work
            box.wake()
        if readable is not None:  # there is more, or what comes next is damaged
            self._under_way, upto = None, readable
        self._advance(upto)

    def _bring_one(self, stored: Stored, found: list[Mailbox], unsure: set[Mailbox | None]) -> None:
        dispatcher = self._dispatcher
        contexts = dict.fromkeys(box.interest.context for box in found)
        seen = {context: dispatcher.entry_in(stored, context) for context in contexts}
        put: list[tuple[Mailbox, Entry]] = []
        for box in found:
            entry, asked = seen[box.interest.context], (box,)
            if entry is None or (box in unsure and not dispatcher.wanted_by(asked, entry)):
                continue
            put.append((box, entry))
        with dispatcher.order:
            for box, entry in put:
                box.put(entry, True)

    def _records(self, positions: list[int]) -> tuple[list[Stored], int | None]:
        """What is at some positions, and a few others; the place of the first that is not there.

        That is one that is damaged, or it would have been too much at a time.
        """
        found: list[Stored] = []
        much = MUCH
        for first, last in _runs(positions):
            if much <= 0:
                return found, first
            try:
                batch = self._store.read(first, limit=last - first + 1, until=last + 1, size=much)
            except STORE_FAILURES:
                if not found:
                    raise
                return found, first
            found += batch.entries
            much -= sum(len(each.record.payload) for each in batch.entries)
            if batch.upto <= last:
                return found, batch.upto
        return found, None

    # -- what is older -----------------------------------------------------------------------------

    def _read_older(self) -> bool:
        with self._lock:
            mailbox = next(iter(self._lagging), None)
            if mailbox is None:
                return False
            del self._lagging[mailbox]
        start, route = mailbox.behind, mailbox.route
        room = min(mailbox.room(), BATCH)
        if start is None or mailbox.ended is not None:
            self._covered.pop(mailbox, None)
        elif room > 0:
            try:
                wanted, upto = self._older(mailbox, start, room)
            except STORE_FAILURES:
                with self._lock:
                    self._lagging[mailbox] = None
                raise
            if mailbox.route is route:  # else what was read may be for another line
                mailbox.catch_up(wanted, upto, self._live(mailbox))
                mailbox.wake()
            if mailbox.behind is None:
                self._covered.pop(mailbox, None)
            elif mailbox.room() > 0:
                self.behind(mailbox)
        with self._lock:
            return bool(self._lagging)

    def _live(self, mailbox: Mailbox) -> int:
        """From here on a mailbox is brought what is new; what is before its route it reads."""
        if mailbox.route is None:
            return max(self._dispatcher.routed, self._wants.get(mailbox, NEAR).coverage.start)
        return max(self.front, mailbox.route.start)

    def _older(self, mailbox: Mailbox, start: int, room: int) -> tuple[Wanted, int]:
        """What a mailbox wants from its place on, and up to where that was looked for."""
        route, until = mailbox.route, self._live(mailbox)
        if route is not None and start >= until:
            return [], start
        if route is not None and start >= route.start:
            piece = self._piece_at(start)
            if piece is not None and piece.takers is not None:
                return self._taken(mailbox, piece, start, room)
            until = until if piece is None else min(until, piece.high)
        elif route is not None:
            until = route.start
        types = self._types_of(mailbox)
        batch = self._store.read(
            start,
            limit=room,
            until=until,
            types=types,
            wanted_by=self._wants.get(mailbox, NEAR).key or None,
            size=MUCH,
        )
        self._look()
        return self.wanted(mailbox, batch.entries), batch.upto

    def _taken(
        self, mailbox: Mailbox, piece: Piece | None, start: int, room: int
    ) -> tuple[Wanted, int]:
        """What a mailbox that is behind takes, as the stretches from its place on say."""
        number = 0 if mailbox.route is None else mailbox.route.number
        positions: list[int] = []
        unsure = False
        for _ in range(SWEEP):
            if piece is None or piece.takers is None:
                break
            unsure = unsure or number in piece.takers.unsure
            found, start = piece.taken(number, start, room - len(positions))
            positions += found
            if start >= self.front or len(positions) == room:
                break
            piece = self._piece_at(start)
        records, readable = self._records(positions)
        self._look()
        meant = set(positions)
        records = [each for each in records if each.position in meant]
        upto = start if readable is None else readable
        if unsure:
            return self.wanted(mailbox, records), upto
        seen = (self._dispatcher.entry_in(each, mailbox.interest.context) for each in records)
        return [(entry, True) for entry in seen if entry is not None], upto

    def _types_of(self, mailbox: Mailbox) -> list[int] | None:
        """The numbers of the types that a mailbox can want; None if that is all of them."""
        types = self._store.types()
        selectors = [interest.selector for interest in mailbox.interests()]
        known, found = self._covered.get(mailbox, (None, None))
        context, version = mailbox.interest.context, self._dispatcher.version
        now = (len(types), selectors, None if context is None else version)
        if known != now:
            numbers = [
                number
                for number, each in types.items()
                if self._covers(selectors, self._dispatcher.class_named(each), context)
            ]
            found = None if len(numbers) == len(types) else numbers
            self._covered[mailbox] = now, found
        return found

    def _covers(self, selectors: list[Selector[Any]], cls: type, context: str | None) -> bool:
        """Whether a class, or what it is in a context if it is one of the root, is selected."""
        there = self._dispatcher.translation.becomes(cls, None, context)
        return any(
            each.covers_class(cls) or (there is not None and each.covers_class(there))
            for each in selectors
        )

    def wanted(self, mailbox: Mailbox, records: list[Stored], *, again: bool = False) -> Wanted:
        """Those of some records that a mailbox wants, with the verdict of its filter."""
        wanted: Wanted = []
        covered: dict[tuple[type, str | None], bool] = {}
        context = mailbox.interest.context
        for stored in records:
            cls, topic = self._dispatcher.class_in(stored, context), stored.record.topic
            if cls is None:
                continue
            if (cls, topic) not in covered:
                verdicts = (each.selector.covers(cls, topic) for each in mailbox.interests())
                covered[cls, topic] = any(verdicts)
            if not covered[cls, topic]:
                continue
            entry = self._dispatcher.entry_in(stored, context, again=again)
            if entry is not None:
                targets: tuple[Any, ...] = (mailbox,)
                hits = self._dispatcher.wanted_by(targets, entry)
                wanted += [(entry, verdict) for _, verdict in hits]
        return wanted


def _runs(positions: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of positions with small gaps."""
    if not positions:
        return
    first = positions[0]
    for position, following in pairwise(positions):
        if following - position > GAP or following - first >= BATCH:
            yield first, position
            first = following
    yield first, positions[-1]
