"""Filters that are asked elsewhere and fail there each time: nothing comes that would tell."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from polycast.errors.failures import FAILURES, STORE_FAILURES
from polycast.filters import Filter
from polycast.filters.tree.relaxation import EVERYTHING, is_open, relaxed
from polycast.metrics import Trials
from polycast.stores import Undecodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from polycast.delivery import Mailbox
    from polycast.matching import Interest
    from polycast.routing import RecordRouter
    from polycast.stores import Entry, Store, Stored

LATE = 200  # events of late that are looked at
MUCH = 500_000  # bytes of them
MOST = 20_000  # answers of filters that are asked for


def vain_filters(store: Store, router: RecordRouter, boxes: Iterable[Mailbox]) -> Iterator[str]:
    """Which of those that a broker or the pipeline asks failed for all events of late."""
    afar = [box for box in boxes if store.is_remote or box.route is not None]
    silent = [box for box in afar if not box.members.vain()]  # of the others it is known here
    parts = [(box, interest, part) for box in silent for interest, part in _parts(box)]
    if not parts:
        return
    late = _Late(store, router)
    for box, interest, part in sorted(parts, key=lambda part: part[0].counts.delivered):
        trials = late.tried(interest, part)
        if trials.are_vain:
            text = f"fails where events come from, so it gets nothing: of those of late {trials}"
            yield f"the filter of {box.name} {text}"


def _parts(box: Mailbox) -> Iterator[tuple[Interest, Filter[Any]]]:
    """What of its filters others can ask: none of the functions of this process."""
    for interest in box.interests():
        if interest.where is not None:
            part: Filter[Any] = Filter(relaxed(interest.where.tree, is_open))
            if part != EVERYTHING:
                yield interest, part


class _Late:
    """The events of late, each of which is read once."""

    def __init__(self, store: Store, router: RecordRouter) -> None:
        self._router = router
        self._records: Sequence[Stored] = ()
        self._entries: dict[int, Entry] = {}
        self._left = MOST
        with suppress(*STORE_FAILURES):
            start = max(1, store.newest() - LATE + 1)
            self._records = store.read(start, limit=LATE, size=MUCH).entries

    def tried(self, interest: Interest, part: Filter[Any]) -> Trials:
        """How a filter does with those of its types that are as the log has them."""
        trials = Trials()
        for stored in self._records:
            record = stored.record
            is_meant = stored.position >= interest.start and record.context == interest.context
            if not is_meant or self._left <= 0:
                continue
            if not interest.selector.covers(self._router.class_of(stored), record.topic):
                continue
            event = self._entry(stored).event
            if isinstance(event, Undecodable):
                continue
            self._left -= 1
            try:
                bool(part.on(record.topic).function(event))
                trials.work()
            except FAILURES as error:
                trials.fail(error)
        return trials

    def _entry(self, stored: Stored) -> Entry:
        known = self._entries.get(stored.position)
        if known is None:
            known = self._entries[stored.position] = self._router.entry(stored)
        return known
