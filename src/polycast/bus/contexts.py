"""The contexts of a bus: which it knows, and what becomes of events that cannot cross."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from polycast.contexts import Context, Federation
from polycast.delivery import DeadLetter
from polycast.errors import BadContext, BadOption

if TYPE_CHECKING:
    from polycast.config import Clock
    from polycast.delivery import DeadLetters
    from polycast.routing import Dispatcher
    from polycast.stores import Entry

__all__ = ["BusContexts", "letter_name"]

_PREFIX = "context "


def letter_name(context: str) -> str:
    """Under which dead letters are kept of events that could not get to a context."""
    return f"{_PREFIX}{context}"


def context_named(letter: str) -> str | None:
    """The context of such a name."""
    return letter.removeprefix(_PREFIX) if letter.startswith(_PREFIX) else None


class BusContexts:
    """One federation per bus: given to it, or made from the first context that it sees."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self.letters: DeadLetters
        dispatcher.astray = self._astray

    @property
    def federation(self) -> Federation | None:
        """The contexts, if there are any."""
        return self._dispatcher.crossing.federation

    def use(self, federation: object) -> None:
        """Have these contexts."""
        if not isinstance(federation, Federation):
            raise BadOption("federation", federation, accepted="a pc.Federation")
        self._dispatcher.crossing.federation = federation
        federation.watch(self._dispatcher.replan)
        self._dispatcher.replan()

    def enter(self, context: object) -> str | None:
        """The name of a context that may be new here; None for the root."""
        federation = self.federation
        if isinstance(context, str):
            if federation is None:
                raise BadContext("a context", context, accepted="a pc.Context: none is known yet")
            member = federation.member(context)
            return None if member is None else member.name
        if not isinstance(context, Context):
            raise BadContext("a context", context, accepted="a pc.Context, or the name of one")
        if federation is None:
            federation = Federation(context.root)
            self.use(federation)
        if context is federation.root:
            return None
        if not federation.knows(context):
            federation.add(context)
        return context.name

    def _astray(self, entry: Entry, context: str, error: Exception) -> None:
        """A function raised, so nobody in that context gets the event."""
        reason = "".join(traceback.format_exception(error)).rstrip()
        self.letters.add(
            DeadLetter(entry, letter_name(context), reason, error, 1, self._clock.time())
        )
