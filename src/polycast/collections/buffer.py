"""The buffer of a pull collection: a queue or a stack that fills by itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from polycast.config import seconds
from polycast.errors.failures import FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from polycast.bus import Subscription
    from polycast.delivery import Mailbox, Puller
    from polycast.stores import Entry

E = TypeVar("E")


class Buffer(Generic[E]):
    """What was published and not yet taken. With `keep`, taking is acknowledged afterwards."""

    def __init__(self, subscription: Subscription[Any], *, keep: bool) -> None:
        self._subscription, self._keep = subscription, keep
        self._mailbox: Mailbox = subscription.mailbox
        self._puller = cast("Puller", subscription.consumer)
        self._tokens: dict[int, int] = {}  # by thread: what it has taken and not acknowledged

    def get(self, timeout: float | timedelta | None) -> E | None:
        """Take the next, waiting for it if asked to."""
        wait = None if not timeout else seconds("timeout", timeout)
        self._subscription.check("get()")
        self._settle(confirm=False)
        attempt = self._puller.pull(wait, keep=self._keep)
        if attempt is None:
            return None
        if self._keep:
            self._tokens[threading.get_ident()] = attempt.token
        try:
            return cast("E", attempt.event())
        except FAILURES as error:  # of its context: this attempt has failed
            self._mailbox.worker.settle("get()", self._tokens.pop(threading.get_ident()), error)
            return self.get(timeout)

    def ack(self) -> None:
        """Acknowledge the last one that this thread has taken."""
        self._settle(confirm=True)

    def _settle(self, *, confirm: bool) -> None:
        token = self._tokens.pop(threading.get_ident(), None)
        if token is not None:
            self._mailbox.worker.settle("ack()", token, None, confirm=confirm)

    def close(self) -> None:
        """Acknowledge and stop collecting; a durable buffer goes on collecting for its name."""
        if self._subscription.ended is not None or self._subscription.state == "forked":
            return
        for thread in list(self._tokens):
            self._mailbox.worker.settle("close()", self._tokens.pop(thread), None)
        if self._keep:
            self._subscription.detach()
        else:
            self._subscription.cancel()

    def purge(self) -> None:
        """Throw away what waits."""
        self._puller.purge()

    def __len__(self) -> int:
        return len(self._waiting())

    def __iter__(self) -> Iterator[E]:
        return iter(cast("list[E]", [entry.fresh() for entry in self._waiting()]))

    def _waiting(self) -> list[Entry]:
        queue = self._mailbox.queue
        with queue.lock:
            waiting = [p for p in queue.backlog if not queue.is_expired(p)]
        return [attempt.entry for attempt in waiting]

    def __contains__(self, event: object) -> bool:
        return any(each == event for each in self)
