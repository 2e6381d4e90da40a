"""Where reading a log begins and ends, by `since=` and `until=`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from polycast.config import LARGEST
from polycast.errors import BadOptionError, HistoryGoneError

if TYPE_CHECKING:
    from polycast.stores.contract import ReadableStore

_ACCEPTED = "'beginning', a position, or a datetime with a time zone"


def start_of(store: ReadableStore, since: object) -> int | None:
    """Return the first position to read; None without `since`."""
    if since is None:
        return None
    oldest = store.oldest()
    if isinstance(since, datetime) and since.tzinfo is not None:
        return _at_time(store, since, oldest)
    if isinstance(since, int) and not isinstance(since, bool):
        if max(since, 1) < oldest:
            raise HistoryGoneError(since, oldest=oldest)
        return min(max(since, 1), LARGEST)
    if since != "beginning":
        raise BadOptionError("since", since, accepted=_ACCEPTED)
    return oldest


def end_of(store: ReadableStore, until: object) -> int:
    """Return the position before which to end; without `until`, the current end of the log."""
    after = store.newest() + 1
    if until is None:
        return after
    if isinstance(until, datetime) and until.tzinfo is not None:
        return min(store.position_at(until.timestamp()), after)
    if isinstance(until, int) and not isinstance(until, bool):
        return min(max(until, 1), after)
    raise BadOptionError("until", until, accepted=_ACCEPTED.removeprefix("'beginning', "))


def _at_time(store: ReadableStore, since: datetime, oldest: int) -> int:
    moment = since.timestamp()
    position = store.position_at(moment)
    if position == oldest > 1:  # older ones were removed, and may have been later than that
        first = store.read(oldest, limit=1).entries
        if first and first[0].record.time > moment:
            raise HistoryGoneError(since, oldest=oldest)
    return position
