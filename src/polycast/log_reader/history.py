"""What was published before a subscription: where it begins, and what of it is wanted."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from polycast.errors import BadOptionError, HistoryGoneError, NoHistoryError, TakenOverError
from polycast.errors.failures import failures_here
from polycast.routing.translation import (
    EntryForms,
    RecipientQuery,
    TranslationFailed,
    context_of_letter,
    entry_in,
    letter_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.delivery import DeadLetter, Mailbox
    from polycast.routing import Dispatcher
    from polycast.stores import Entry, Recent


class LogHistory:
    """The log as subscriptions see it."""

    def __init__(self, dispatcher: Dispatcher, log: Recent | None) -> None:
        self._dispatcher, self._log = dispatcher, log

    def check(self, since: object) -> None:
        """Refuse what does not say where to begin, and any beginning without a log."""
        position = isinstance(since, int) and not isinstance(since, bool)
        moment = isinstance(since, datetime) and since.tzinfo is not None
        if not (position or moment or since == "beginning"):
            accepted = "'beginning', a position, or a datetime with a time zone"
            raise BadOptionError("since", since, accepted=accepted)
        if self._log is None:
            raise NoHistoryError()

    def start_of(self, since: object) -> int | None:
        """The first position of the history that is asked for. The order lock is held."""
        if since is None or self._log is None:
            return None
        oldest = self._log.oldest
        if isinstance(since, datetime):
            return self._position_at(since, self._log)
        if not isinstance(since, int):
            return oldest or 1
        if not self._log.has_all_from(since):
            raise HistoryGoneError(since, oldest=oldest)
        return since

    def _position_at(self, moment: datetime, log: Recent) -> int:
        entries = log.read()
        later = [entry for entry in entries if entry.time >= moment.timestamp()]
        if not later:
            return self._dispatcher.newest() + 1
        first = later[0]
        is_earlier = first is entries[0] and first.time > moment.timestamp()
        if is_earlier and not log.has_all_from(first.position - 1):
            raise HistoryGoneError(moment, oldest=first.position)
        return first.position

    def before(self, mailbox: Mailbox, start: int | None) -> list[Entry]:
        """What comes before the live events of a mailbox. The order lock is held.

        One that succeeds another takes over what that had not handled, and what it did not want.
        """
        before = mailbox.state.succeeds
        if before is None:
            return [] if start is None or self._log is None else self._log.read(start=start)
        waiting = [
            attempt.entry for attempt in before.state.surrender(TakenOverError(before.title))
        ]
        place = (
            before.state.left_at
            if not before.members.consumers()
            else self._dispatcher.newest() + 1
        )
        logged = [] if self._log is None else self._log.read(start=place)
        known = {entry.position: entry for entry in [*waiting, *logged]}
        return [known[position] for position in sorted(known)]

    def wanted(self, mailbox: Mailbox, entries: Iterable[Entry]) -> list[tuple[Entry, object]]:
        """Those that a mailbox wants, each with the verdict of its filter."""
        candidates = [(mailbox.interest.context, (mailbox,))]
        wanted: list[tuple[Entry, object]] = []
        for entry in entries:
            seen = self._seen(mailbox, entry, mailbox.interest.context)
            if seen is None:
                continue
            kept = self.kept_for(mailbox, seen)
            asked = kept.seen_as(kept.fresh(), own=None)  # others may have changed the object
            query = RecipientQuery(EntryForms({mailbox.interest.context: asked}.get))
            recipients = self._dispatcher.plan.recipients(query, candidates, kept.topic)
            wanted += [(kept, verdict) for _, verdict, _ in recipients]
        return wanted

    def kept_for(self, mailbox: Mailbox, entry: Entry) -> Entry:
        """An entry whose event others may have, too, with copies if the mailbox asks for them."""
        if not mailbox.copies or entry.own is not None:
            return entry
        own = self._dispatcher.snapshot(entry.event)
        return entry if own is None else entry.seen_as(entry.event, own=own)

    def _seen(self, mailbox: Mailbox, entry: Entry, context: str | None) -> Entry | None:
        """An entry as a mailbox sees it, if it wants its type; an error is told once."""
        translation, at = self._dispatcher.plan.translation, entry.position
        cls = translation.becomes(type(entry.event), entry.context, context, at)
        if cls is None or not any(
            interest.selector.covers(cls, entry.topic) for interest in mailbox.interests()
        ):
            return None
        try:
            return entry_in(context, entry, translation, at)
        except TranslationFailed as failed:
            name, letters = letter_name(failed.context), mailbox.services.dead_letters
            if not any((e.position, e.subscription) == (entry.position, name) for e in letters):
                self._dispatcher.translation_failed(entry, failed.context, failed.error)
            return None

    def seen_now(self, letter: DeadLetter, context: str | None) -> Entry | None:
        """The event of a dead letter as a context sees it; None if it does not get there.

        One that could not get to a context is seen as that is now: it may have been mended. If it
        was not, `TranslationFailed` says why.
        """
        stray = context_of_letter(letter.subscription)
        try:
            at = letter.position if stray is None else None
            if context == letter.entry.context:
                return _anew(letter.entry)
            return entry_in(context, letter.entry, self._dispatcher.plan.translation, at)
        except TranslationFailed as failed:
            if failed.context == stray:
                raise
            self._dispatcher.translation_failed(letter.entry, failed.context, failed.error)
            return None


def _anew(entry: Entry) -> Entry | None:
    """An entry for another attempt: what may be another each time is made anew."""
    try:
        return entry.anew()
    except failures_here():
        return None
