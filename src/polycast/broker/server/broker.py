"""A broker: a store that other hosts reach, with the routing for those who subscribe there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from polycast.broker.server.access import ANYBODY
from polycast.broker.server.authorization import Guard
from polycast.broker.server.connection_limits import Reception
from polycast.broker.server.evicting_pool import EvictingPool
from polycast.broker.server.failed_logins import FailedLogins
from polycast.broker.server.fair_scheduling import Lanes
from polycast.broker.server.fanout import Hub
from polycast.broker.server.filter_budget import FilterBudget
from polycast.broker.server.limits import Bounds
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.maintenance import Tending
from polycast.broker.server.publisher_owners import Publishers, sort_owners
from polycast.broker.server.quotas import Quota
from polycast.broker.server.turns import Holdings, Turns
from polycast.broker.server.type_ancestry import Vocabulary
from polycast.broker.server.usage import Usage
from polycast.broker.wire.calls import LOG, NOTICES, READS
from polycast.broker.wire.frames import encode, encode_result
from polycast.broker.wire.messages import Limits
from polycast.config import SystemClock
from polycast.errors import BrokerError, PolycastError, StoreError
from polycast.stores import MemoryStore, open_store
from polycast.stores.urls import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.access import Identified, Tokens
    from polycast.broker.server.client_session import Connection
    from polycast.config import Clock
    from polycast.stores import Store

__all__ = ["Broker"]

SHARE = 0.25  # of what all may have unanswered, what one owner may
AGAIN = 1.0  # seconds after which a read that failed is tried again
_log = server_log()


class Broker:
    """One store, the clients that are connected, and what they share. It runs in an event loop."""

    def __init__(
        self,
        url: str = "memory:",
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        patience: float = 30.0,
        tokens: Tokens | None = None,
        bounds: Bounds | None = None,
        store: Store | None = None,
    ) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        path = path_of(url)
        self.url = url
        if store is None:
            clock = self.clock
            store = MemoryStore(clock=clock) if path is None else open_store(path, clock=clock)
        self.store: Store = store
        with self.store.view() as view:
            self.identity = view.identity()
        self.name = f"broker-{uuid.uuid4().hex[:8]}"
        self.limits = limits if limits is not None else Limits()
        self.bounds = bounds if bounds is not None else Bounds()
        self.turns = Turns()
        # of what came and is not answered
        self.holdings = Holdings(self.bounds.inbound_total, share=SHARE)
        self.incoming = EvictingPool(2 * self.bounds.inbound_total)  # not counted there yet
        self.outbound = Holdings(self.bounds.outbound_total)  # of what is not sent
        self.unsent = EvictingPool(2 * self.bounds.outbound_total)  # the same, and who has it
        self.failed_logins = FailedLogins(monotonic=self.clock.monotonic)
        self.reception = Reception(self.bounds)
        self.patience = patience  # seconds after which a client that takes nothing is cut off
        self.vocabulary = Vocabulary(self.store)
        self.filter_budget = FilterBudget(self.clock.monotonic)
        self.hub = Hub(self.store, self.vocabulary, self.filter_budget)
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="polycast-broker")
        self.lanes = Lanes(soon=self.soon, later=self._later)
        self.tokens = tokens
        self.usage = Usage(self.store, self.clock, self._quota_of)
        self._publishers = Publishers()
        sort_owners(self.store)
        self.connections: set[Connection] = set()
        self._clients: WeakValueDictionary[tuple[str, str], Connection] = WeakValueDictionary()
        self.opened = self.cut_off = 0  # connections
        self.failure: StoreError | None = None  # why the log cannot be read
        self._tending = Tending(self.store, self.clock, self.look_at_tokens, self.usage)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell = asyncio.Event()
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._rung = False
        self.store.watch(self._committed)

    # -- its loop ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send what is new to who wants it, until it is cancelled."""
        self._loop = asyncio.get_running_loop()
        tending = asyncio.create_task(self._tending.run())
        self._do_waiting()  # what came before there was a loop
        self._bell.set()
        try:
            while True:
                await self._wait()
                try:
                    while self.hub.step():
                        await asyncio.sleep(0)
                    self.failure = None
                except StoreError as error:
                    if self.failure is None:
                        _log.error("reading stopped: %s", error)
                    self.failure = error
                except Exception as error:  # whatever it is, others are served again soon
                    _log.exception("what is new could not be sent")
                    self.failure = BrokerError(f"{type(error).__name__}: {error}")
        finally:
            tending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await tending

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            # What cannot be read is tried again, in case the disk is well again.
            await asyncio.wait_for(self._bell.wait(), None if self.failure is None else AGAIN)
        self._bell.clear()

    def ring(self) -> None:
        """There may be something to send. In the thread of the loop."""
        self._bell.set()

    def _committed(self) -> None:
        """Something was written. In any thread."""
        with self._lock:
            if self._rung:
                return
            self._rung = True
        self.soon(self._ring_once)

    def _ring_once(self) -> None:
        with self._lock:
            self._rung = False
        self.hub.commits += 1
        self._bell.set()

    def soon(self, work: Callable[[], None]) -> None:
        """Have something done in the thread of the loop; from any thread."""
        with self._lock:
            self._waiting.append(work)
            if len(self._waiting) > 1 or self._loop is None:
                return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._do_waiting)

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, work)

    def _do_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for work in waiting:
            try:
                work()
            except Exception:  # that of one client; others wait behind it
                _log.exception("an answer could not be given")

    def close(self) -> None:
        """Let go of the store."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(PolycastError):  # a store that has failed
            self.usage.save()
        self.store.close()

    # -- what clients ask --------------------------------------------------------------------------

    def asked(self, name: str, given: dict[str, Any], guard: Guard) -> bytes:
        """The result of a question about the log or the state. In any thread."""
        if name == NOTICES.name:
            return encode_result(self.notices(guard.who.owner))
        if name in LOG:
            return encode(guard.answer_of_log(LOG[name], given))
        with self.store.view() as view:
            return encode_result(guard.answer(view, READS[name], given))

    def notices(self, owner: str | None) -> list[str]:
        """What is done otherwise than usual for an owner."""
        return [str(each) for each in self.filter_budget.suspended() if each.owner == owner]

    def unread(self) -> int:
        """How many bytes of events clients have not read."""
        return sum(each.unread for each in self.connections)

    @property
    def is_ready(self) -> bool:
        """Whether it takes events and gives them out."""
        return self.store.failure is None and self.failure is None

    # -- rights ------------------------------------------------------------------------------------

    def identify(self, secret: str | None) -> Identified | None:
        """Who has a token; None if nobody has it."""
        if self.tokens is None:
            return ANYBODY
        return self.tokens.find(secret, now=self.clock.time())

    def guard(self, who: Identified) -> Guard:
        """What stands between a client and the store."""
        about = (self.vocabulary, self.store, self._owner_of)
        return Guard(who, *about, usage=self.usage, publishers=self._publishers)

    def _quota_of(self, owner: str) -> Quota:
        return Quota() if self.tokens is None else self.tokens.quota_of(owner)

    def _owner_of(self, name: str) -> str | None:
        return None if self.tokens is None else self.tokens.owner_of(name)

    def supersede(self, connection: Connection) -> None:
        """A client that has come again holds nothing of its owner's over the connection before."""
        if connection.owner is None:  # anybody could say that they are that client
            return
        client = connection.owner, connection.client
        before = self._clients.get(client)
        self._clients[client] = connection
        if before is not None:
            before.using.leave()
            before.cut_off(1008, "its client has come again")

    def look_at_tokens(self) -> None:
        """Go by the tokens as they are now: who has none any more is let go."""
        if self.tokens is None:
            return
        error = self.tokens.reload_if_changed()
        if error is not None:
            _log.error("the tokens go on as they were: %s", error)
        now = self.clock.time()
        for connection in list(self.connections):
            who = self.tokens.again(connection.guard.who, now=now)
            if who is None:
                connection.cut_off(1008, "its token is not valid any more")
            elif who.owner != connection.owner:
                connection.cut_off(1008, "its token has another owner now")
            elif who != connection.guard.who:
                connection.guard = self.guard(who)
