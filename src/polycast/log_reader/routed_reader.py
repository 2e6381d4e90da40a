"""Reads what the pipeline has routed, and brings it to the mailboxes that it names."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from functools import cached_property
from itertools import dropwhile, islice, pairwise
from typing import TYPE_CHECKING

from polycast.errors import NotDecodableError
from polycast.errors.failures import STORE_FAILURES
from polycast.plain_text import log_of
from polycast.routing.recipients import Recipients, decode_recipients
from polycast.stores import Store, Stored, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.delivery import Mailbox
    from polycast.routing import RecordRouter


PAGE_RECORDS = 500
PAGE_BYTES = 2_000_000  # about
GAP = 16  # reading past so few records costs less than reading anew behind them


def records_at(store: Store, positions: list[int]) -> tuple[list[Stored], int | None]:
    """Read the records at some positions, and a few others between them.

    Also return the position of the first that is missing: it is damaged, or the page was full.
    """
    records: list[Stored] = []
    room = PAGE_BYTES
    for first, last in _runs(positions):
        if room <= 0:
            return records, first
        try:
            page = store.read(first, limit=last - first + 1, until=last + 1, size=room)
        except STORE_FAILURES:
            if not records:
                raise
            return records, first
        records += page.entries
        room -= sum(len(stored.record.payload) for stored in page.entries)
        if page.upto <= last:
            return records, page.upto
    return records, None


def _runs(positions: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of positions with small gaps."""
    if not positions:
        return
    first = positions[0]
    for position, following in pairwise(positions):
        if following - position > GAP or following - first >= PAGE_RECORDS:
            yield first, position
            first = following
    yield first, positions[-1]


TOGETHER = 8  # ranges read at a time
MOST, LARGEST = 1_000, 2_000_000  # how many are remembered, and how many bytes of them
_log = log_of("polycast")


class RoutedRange:
    """One stretch of the log with its recipients; or one for which none are kept any more."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self.low, self.high, self.size = stretch.low, stretch.high, len(stretch.takers)

    @cached_property
    def recipients(self) -> Recipients | None:
        """Who takes what; None if that is not known here, so that each has to ask for itself."""
        if not self.size:
            return None
        try:
            return decode_recipients(self.low, self._stretch.takers)
        except NotDecodableError as error:
            _log.error("the stretch from %d to %d is matched here: %s", self.low, self.high, error)
            return None

    @cached_property
    def _by_route(self) -> dict[int, list[int]]:
        return {} if self.recipients is None else self.recipients.by_route()

    def taken(self, route: int, start: int, limit: int) -> tuple[list[int], int]:
        """The first positions that a route takes from a position on; up to where they go."""
        positions = self._by_route.get(route, [])
        begin = bisect_left(positions, start)
        taken = positions[begin : begin + limit]
        return taken, self.high if begin + len(taken) == len(positions) else taken[-1] + 1


class RoutedRanges:
    """The ranges of a store, for one thread; some are remembered, as many mailboxes read them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[int, RoutedRange] = OrderedDict()  # by where it begins
        self._size = 0

    def known(self, position: int) -> RoutedRange | None:
        """Return the range that a position is in, if it is remembered."""
        known = self._known.get(position)
        if known is None:  # mostly somebody goes on where another range ended
            known = next((r for r in self._known.values() if r.low <= position < r.high), None)
        if known is not None:
            self._known.move_to_end(known.low)
        return known

    def load(self, position: int) -> RoutedRange | None:
        """Return what the store has for a position; None if that is not routed yet."""
        with self._store.view() as view:
            end = view.routed().high
            stretches = view.stretches(position, limit=TOGETHER) if position < end else []
        if position >= end:
            return None
        ranges = list(map(RoutedRange, stretches))
        for routed_range in reversed(ranges):  # that which is needed next is forgotten last
            self._remember(routed_range)
        if ranges and ranges[0].low <= position:
            return ranges[0]
        # Whoever was to have it has passed it, by what the store knew.
        return RoutedRange(Stretch(position, ranges[0].low if ranges else end, b""))

    def _remember(self, routed_range: RoutedRange) -> None:
        before = self._known.pop(routed_range.low, None)
        self._size += routed_range.size - (0 if before is None else before.size)
        self._known[routed_range.low] = routed_range
        while len(self._known) > 1 and (len(self._known) > MOST or self._size > LARGEST):
            self._size -= self._known.popitem(last=False)[1].size


SWEEP = 256  # ranges gone through at a time


class RoutedReader:
    """Follows the pipeline, for all mailboxes that have a route and are not behind."""

    def __init__(
        self,
        store: Store,
        router: RecordRouter,
        *,
        look: Callable[[], None],
        fallen_behind: Callable[[Mailbox], None],
    ) -> None:
        self._store, self._router = store, router
        self._look, self._fallen_behind = look, fallen_behind
        self._ranges = RoutedRanges(store)
        self._lock = router.dispatcher.runtime.rlock()
        self.mailboxes: dict[int, Mailbox] = {}  # by the number of their route
        self.front = 1  # all before this position has been brought to the mailboxes with a route
        self._claimed = 1  # who is brought what is before this was settled, under the lock
        self._under_way: tuple[Recipients, Iterator[tuple[int, list[int]]]] | None = None
        self.waits_since: float | None = None  # how long there is something that is not routed
        self.is_closed = False

    def join(self, mailbox: Mailbox, start: int, number: int) -> None:
        """Bring a mailbox what is routed to it, once it is not behind."""
        with self._lock:
            if not self.mailboxes:  # nobody has looked at what was routed before
                with self._store.view() as view:
                    self.front = max(self.front, view.routed().high)
            mailbox.queue.go_live(max(self.front, self._claimed, start))
            self.mailboxes[number] = mailbox

    def leave(self, mailbox: Mailbox) -> None:
        """Bring a mailbox nothing more."""
        with self._lock:
            if mailbox.route is not None and self.mailboxes.get(mailbox.route.number) is mailbox:
                del self.mailboxes[mailbox.route.number]

    # -- in the thread of the log reader -----------------------------------------------------------

    def read(self) -> bool:
        """Bring a little; return whether there may be more."""
        routed_range = self.range_at(self.front)
        if routed_range is None:
            waits = self._router.routed > self.front
            if not waits or self.waits_since is None:
                self.waits_since = self._router.dispatcher.clock.monotonic() if waits else None
            return False
        self.waits_since = None
        if routed_range.recipients is None:
            self._leave_to_mailboxes(routed_range)
        else:
            self._bring(routed_range, routed_range.recipients)
        return True

    def range_at(self, position: int) -> RoutedRange | None:
        """Return the range of a position; all that was changed before it was kept is seen.

        A route may have ended, or its subscription may have been taken over, before that.
        """
        routed_range = self._ranges.known(position)
        if routed_range is None:
            routed_range = self._ranges.load(position)
            self._look()
        return routed_range

    def _leave_to_mailboxes(self, routed_range: RoutedRange) -> None:
        """Nobody knows the recipients: each mailbox has to read the range for itself."""
        for mailbox in self._claim(routed_range.high).values():
            if mailbox.queue.behind is None and mailbox.queue.waits_for < routed_range.high:
                mailbox.queue.fall_behind(self.front)
                self._fallen_behind(mailbox)
        self._advance(routed_range.high)

    def _claim(self, upto: int) -> dict[int, Mailbox]:
        """Those who are brought what is before a position; whoever joins later is not."""
        with self._lock:
            self._claimed = max(self._claimed, upto)
            return dict(self.mailboxes)

    def _advance(self, position: int) -> None:
        with self._lock:  # somebody may join as the first
            self.front = max(self.front, position)

    def _bring(self, routed_range: RoutedRange, recipients: Recipients) -> None:
        """Bring a part of a range to the recipients that are not behind."""
        if self._under_way is None or self._under_way[0] is not recipients:
            rest = dropwhile(lambda recipient: recipient[0] < self.front, recipients)
            self._under_way = recipients, rest
        part = list(islice(self._under_way[1], PAGE_RECORDS))
        upto = part[-1][0] + 1 if len(part) == PAGE_RECORDS else routed_range.high
        box_of = self._claim(upto).get
        wanted = {
            position: mailboxes
            for position, numbers in part
            if (mailboxes := [box for number in numbers if (box := box_of(number)) is not None])
        }
        unsure = set(map(box_of, recipients.unsure))
        records, missing = records_at(self._store, list(wanted))
        woken: dict[Mailbox, None] = {}
        for stored in records:
            if self.is_closed:
                return
            mailboxes = wanted.get(stored.position, [])
            if mailboxes:
                self._router.deliver(stored, mailboxes, unsure)
                self.front = stored.position + 1
                woken.update(dict.fromkeys(mailboxes))
        for mailbox in woken:  # once for all that it got: that is most of the work
            mailbox.wake()
        if missing is not None:  # there is more, or what comes next is damaged
            self._under_way, upto = None, missing
        self._advance(upto)

    def read_behind(
        self, routed_range: RoutedRange | None, number: int, start: int, room: int
    ) -> tuple[list[Stored], int, bool]:
        """Read what is routed to one mailbox that is behind, from its place on.

        Return up to where that goes, and whether its filter has still to be asked, too.
        """
        positions: list[int] = []
        unsure = False
        for _ in range(SWEEP):
            if routed_range is None or routed_range.recipients is None:
                break
            unsure = unsure or number in routed_range.recipients.unsure
            taken, start = routed_range.taken(number, start, room - len(positions))
            positions += taken
            if start >= self.front or len(positions) == room:
                break
            routed_range = self.range_at(start)
        records, missing = records_at(self._store, positions)
        self._look()
        meant = set(positions)
        records = [stored for stored in records if stored.position in meant]
        return records, start if missing is None else missing, unsure
