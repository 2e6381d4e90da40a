"""Dead letters that are given to their subscriptions in this process once more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polycast.delivery import DeadLetter, Mailbox, StoreCursor
from polycast.errors import NotSerialisableError
from polycast.routing.translation import TranslationFailed, context_of_letter, reason_of

if TYPE_CHECKING:
    from polycast.config import Clock
    from polycast.log_reader.history import LogHistory
    from polycast.stores import Entry
    from polycast.subscriptions.subscription_registry import MailboxTable


class DeadLetterReplay:
    """Finds the mailboxes of dead letters, and puts the events back into them."""

    def __init__(self, mailboxes: MailboxTable, history: LogHistory, clock: Clock) -> None:
        self._mailboxes, self._history, self._clock = mailboxes, history, clock

    def replay(self, letters: list[DeadLetter]) -> tuple[list[DeadLetter], list[DeadLetter]]:
        """Replay dead letters; return those that went, and those that stay."""
        meant: dict[Mailbox, dict[int, tuple[DeadLetter, Entry]]] = {}
        stay = {id(letter): letter for letter in letters}
        for letter in letters:
            try:
                seen = self._seen(letter)
            except TranslationFailed as astray:
                stay[id(letter)] = self._failed_again(letter, astray.error)
                continue
            for mailbox, entry in seen:
                try:
                    own = self._history.kept_for(mailbox, entry)
                except NotSerialisableError as error:
                    stay[id(letter)] = self._failed_again(letter, error)
                    continue
                meant.setdefault(mailbox, {})[id(own)] = letter, own
        taken: dict[int, DeadLetter] = {}
        for mailbox, mine in meant.items():
            wanted = self._history.wanted(mailbox, [entry for _, entry in mine.values()])
            mailbox.state.prefill(wanted)
            mailbox.worker.pump()
            taken.update((id(mine[id(entry)][0]), mine[id(entry)][0]) for entry, _ in wanted)
        return list(taken.values()), [stay[key] for key in stay if key not in taken]

    def _seen(self, letter: DeadLetter) -> list[tuple[Mailbox, Entry]]:
        """The mailboxes a letter is for, each with the event as its context sees it."""
        mailboxes = self._addressees(letter)
        contexts = dict.fromkeys(mailbox.interest.context for mailbox in mailboxes)
        seen = {context: self._history.seen_now(letter, context) for context in contexts}
        return [
            (mailbox, entry)
            for mailbox in mailboxes
            if (entry := seen[mailbox.interest.context]) is not None
        ]

    def _failed_again(self, letter: DeadLetter, error: BaseException) -> DeadLetter:
        """A letter that was replayed in vain, with why that was."""
        now, attempts = self._clock.time(), letter.attempts + 1
        return replace(letter, reason=reason_of(error), error=error, attempts=attempts, time=now)

    def _addressees(self, letter: DeadLetter) -> list[Mailbox]:
        """The mailbox of its subscription.

        If it could not get to a context, all there that began before it; if it could not leave its
        own, all in others. A store takes care of those it keeps.
        """
        mailbox = self._mailboxes.get(letter.subscription)
        context = context_of_letter(letter.subscription)
        if mailbox is not None or context is None:
            return [] if mailbox is None or mailbox.ended is not None else [mailbox]
        has_left = letter.entry.context != context
        return [
            box
            for box in self._mailboxes
            if (box.interest.context == context) is has_left
            and box.interest.start <= letter.position
            and (has_left or box.queue.behind is None or box.queue.behind > letter.position)
            and box.ended is None
            and not isinstance(box.cursor, StoreCursor)
        ]
