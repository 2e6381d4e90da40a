"""Which records of the log a mailbox wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polycast.delivery import Mailbox
    from polycast.matching import Selector
    from polycast.routing import RecordRouter
    from polycast.stores import Entry, Store, Stored

Wanted = list[tuple["Entry", object]]
"""Events that a mailbox wants, each with the verdict of its filter."""


class EventSelection:
    """Asks the plan of a bus about the records of a log."""

    def __init__(self, store: Store, router: RecordRouter) -> None:
        self._store, self._router = store, router
        self._types: dict[Mailbox, tuple[object, list[int] | None]] = {}

    def wanted(self, mailbox: Mailbox, records: Iterable[Stored], *, again: bool = False) -> Wanted:
        """Return the events of some records that a mailbox wants, with the filter's verdicts."""
        return self._router.wanted(mailbox, records, again=again)

    def types(self, mailbox: Mailbox) -> list[int] | None:
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
                if self._covers(selectors, self._router.class_named(event_type), context)
            ]
            numbers = None if len(possible) == len(types) else possible
            self._types[mailbox] = now, numbers
        return numbers

    def forget(self, mailbox: Mailbox) -> None:
        """Forget which types a mailbox can want."""
        self._types.pop(mailbox, None)

    def _covers(self, selectors: list[Selector[Any]], cls: type, context: str | None) -> bool:
        """Whether a class, or what it is in a context if it is one of the root, is selected."""
        there = self._router.dispatcher.plan.translation.becomes(cls, None, context)
        return any(
            selector.covers_class(cls) or (there is not None and selector.covers_class(there))
            for selector in selectors
        )
