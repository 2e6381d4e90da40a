"""A broker: a store for clients on other hosts, which it routes events to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from polycast.broker.server.access import ANYBODY
from polycast.broker.server.authorization import Authorization
from polycast.broker.server.connection_limits import ConnectionLimits, FailedLogins
from polycast.broker.server.fair_scheduler import FairScheduler, RoundRobin
from polycast.broker.server.fanout import Fanout
from polycast.broker.server.filter_budget import FilterBudget
from polycast.broker.server.flow_control import SharedBudget, EvictingPool
from polycast.broker.server.limits import Quota, ServerLimits
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.loop_callbacks import LoopCallbacks
from polycast.broker.server.maintenance import Maintenance
from polycast.broker.server.ownership import PublisherOwners, migrate_owners
from polycast.broker.server.type_catalog import TypeCatalog
from polycast.broker.server.usage import Usage
from polycast.broker.wire.calls import LOG, NOTICES, READS
from polycast.broker.wire.protocol import Limits, encode, encode_result
from polycast.config import SystemClock
from polycast.errors import BrokerError, PolycastError, StoreError
from polycast.runtime import runtime_of
from polycast.stores import open_store
from polycast.stores.memory_store import MemoryStore
from polycast.stores.urls import path_of

if TYPE_CHECKING:
    from polycast.broker.server.access import Principal, Tokens
    from polycast.broker.server.client_session import ClientSession
    from polycast.config import Clock
    from polycast.stores import Store

UNROUTED = 2_000  # events of one owner that may wait for the fan-out; a kilobyte counts as one
SHARE = 0.25  # of the bytes of unanswered requests, for one owner
UNFOLLOWED = 0.02  # seconds after which a commit is looked at if no client follows the log
AGAIN = 1.0  # seconds after which a failed read is retried
_log = server_log()


class Broker:
    """One store, its connected clients, and what they share. It runs in an event loop."""

    def __init__(
        self,
        url: str = "memory:",
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        patience: float = 30.0,
        tokens: Tokens | None = None,
        server_limits: ServerLimits | None = None,
        store: Store | None = None,
    ) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.runtime = runtime_of(self.clock)
        path = path_of(url)
        self.url = url
        if store is None:
            clock = self.clock
            store = MemoryStore(clock=clock) if path is None else open_store(path, clock=clock)
        self.store: Store = store
        with self.store.view() as view:
            self.identity = view.identity()
        self.name = f"broker-{self.runtime.token(4)}"
        self.limits = limits if limits is not None else Limits()
        limits_of_all = server_limits if server_limits is not None else ServerLimits()
        self.server_limits = limits_of_all
        self.round_robin = RoundRobin()
        self.inbound_budget = SharedBudget(
            limits_of_all.inbound_total, of_one=SHARE * limits_of_all.inbound_total
        )
        self.unrouted = SharedBudget(of_one=UNROUTED)
        """Events that are appended, or about to be, and that those of others wait behind."""
        self.incoming_pool = EvictingPool(2 * limits_of_all.inbound_total)
        """Received bytes that do not count in the inbound budget yet."""
        self.outbound_budget = SharedBudget(limits_of_all.outbound_total)
        self.outbound_pool = EvictingPool(2 * limits_of_all.outbound_total)
        """Unsent bytes by session, as in the outbound budget."""
        self.failed_logins = FailedLogins(monotonic=self.clock.monotonic)
        self.connection_limits = ConnectionLimits(self.server_limits)
        self.patience = patience  # seconds until a client that does not read is cut off
        self.type_catalog = TypeCatalog(self.store)
        self.filter_budget = FilterBudget(self.clock.monotonic)
        self.fanout = Fanout(
            self.store, self.type_catalog, self.filter_budget, monotonic=self.runtime.monotonic
        )
        self.pool = self.runtime.executor(2, "polycast-broker")
        self._callbacks = LoopCallbacks()
        self.soon, self.defer = self._callbacks.soon, self._callbacks.defer
        self.scheduler = FairScheduler(
            soon=self.soon, later=self._callbacks.later, thread_time=self.runtime.thread_time
        )
        self.tokens = tokens
        self.usage = Usage(self.store, self.clock, self._quota_of)
        self._publishers = PublisherOwners()
        migrate_owners(self.store)
        self.sessions: set[ClientSession] = set()
        self._clients: WeakValueDictionary[tuple[str, str], ClientSession] = WeakValueDictionary()
        self.opened = self.cut_off = 0  # sessions so far
        self.failure: StoreError | None = None  # why the log cannot be read
        self._maintenance = Maintenance(self.store, self.clock, self.refresh_tokens, self.usage)
        self._bell = asyncio.Event()
        self._lock = threading.Lock()
        self._rung = False
        self._soon: asyncio.TimerHandle | None = None  # when nobody follows the log
        self.store.watch(self._committed)

    # -- its loop ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send new events to clients until cancelled."""
        self._callbacks.begin(asyncio.get_running_loop())
        maintenance = asyncio.create_task(self._maintenance.run())
        self._bell.set()
        try:
            while True:
                await self._wait()
                try:
                    while self._callbacks.in_one_turn(self.fanout.step):
                        await asyncio.sleep(0)
                    self.failure = None
                except StoreError as error:
                    if self.failure is None:
                        _log.error("reading stopped: %s", error)
                    self.failure = error
                except Exception as error:  # retried soon, for the other clients
                    _log.exception("what is new could not be sent")
                    self.failure = BrokerError(f"{type(error).__name__}: {error}")
        finally:
            maintenance.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await maintenance

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            # A failed read is retried, in case the disk has recovered.
            await asyncio.wait_for(self._bell.wait(), None if self.failure is None else AGAIN)
        self._bell.clear()

    def ring(self) -> None:
        """Wake the fan-out. In the thread of the loop."""
        self._soon = None
        self._bell.set()

    def _committed(self) -> None:
        """Wake the fan-out after a commit. In any thread."""
        with self._lock:
            if self._rung:
                return
            self._rung = True
        self.soon(self._ring_once)

    def _ring_once(self) -> None:
        with self._lock:
            self._rung = False
        self.fanout.commits += 1
        if self.fanout.has_followers:
            self.ring()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(UNFOLLOWED, self.ring)

    def close(self) -> None:
        """Save the usage of quotas, and close the store."""
        self.pool.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(PolycastError):  # a store that has failed
            self.usage.save()
        self.store.close()

    # -- questions ---------------------------------------------------------------------------------

    def asked(self, name: str, given: dict[str, Any], authorization: Authorization) -> bytes:
        """Answer a question about the log or the state. In any thread."""
        if name == NOTICES.name:
            return encode_result(self.notices(authorization.principal.owner))
        if name in LOG:
            return encode(authorization.answer_of_log(LOG[name], given))
        with self.store.view() as view:
            return encode_result(authorization.answer(view, READS[name], given))

    def notices(self, owner: str | None) -> list[str]:
        """What is suspended for an owner, in words."""
        return [
            str(filters) for filters in self.filter_budget.suspended() if filters.owner == owner
        ]

    def unread(self) -> int:
        """How many bytes of sent events clients have not read."""
        return sum(session.events.unread for session in self.sessions)

    @property
    def is_ready(self) -> bool:
        """Whether it accepts and sends events."""
        return self.store.failure is None and self.failure is None

    # -- rights ------------------------------------------------------------------------------------

    def identify(self, secret: str | None) -> Principal | None:
        """The holder of a secret; None if no token has it."""
        if self.tokens is None:
            return ANYBODY
        return self.tokens.find(secret, now=self.clock.time())

    def authorize(self, principal: Principal) -> Authorization:
        """The authorization of a client."""
        about = (self.type_catalog, self.store, self._owner_of)
        return Authorization(principal, *about, usage=self.usage, publishers=self._publishers)

    def _quota_of(self, owner: str) -> Quota:
        return Quota() if self.tokens is None else self.tokens.quota_of(owner)

    def _owner_of(self, name: str) -> str | None:
        return None if self.tokens is None else self.tokens.owner_of(name)

    def supersede(self, session: ClientSession) -> None:
        """End the earlier session of a client that has reconnected, and free its quotas."""
        if session.owner is None:  # any client could use that name
            return
        client = session.owner, session.client
        before = self._clients.get(client)
        self._clients[client] = session
        if before is not None:
            before.usage.release()
            before.cut_off(1008, "its client has come again")

    def refresh_tokens(self) -> None:
        """Reload the tokens, and end the sessions of those that are not valid any more."""
        if self.tokens is None:
            return
        error = self.tokens.reload_if_changed()
        if error is not None:
            _log.error("the tokens go on as they were: %s", error)
        now = self.clock.time()
        for session in list(self.sessions):
            principal = self.tokens.refresh(session.authorization.principal, now=now)
            if principal is None:
                session.cut_off(1008, "its token is not valid any more")
            elif principal.owner != session.owner:
                session.cut_off(1008, "its token has another owner now")
            elif principal != session.authorization.principal:
                session.authorization = self.authorize(principal)
