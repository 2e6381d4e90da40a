"""A broker: a store for clients on other hosts, which it routes events to."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from polycast.broker.server.access import ANYBODY, Principal
from polycast.broker.server.authorization import Authorization
from polycast.broker.server.fair_scheduler import FairScheduler, FilterBudget, RoundRobin
from polycast.broker.server.fanout import Fanout
from polycast.broker.server.flow_control import EvictingPool, SharedBudget
from polycast.broker.server.limits import ConnectionLimits, FailedLogins, Quota, ServerLimits
from polycast.broker.server.log_rate_limit import server_log
from polycast.broker.server.ownership import PublisherOwners, Usage, forget_owners, migrate_owners
from polycast.broker.server.type_catalog import TypeCatalog
from polycast.broker.wire.calls import LOG, NOTICES, READS
from polycast.broker.wire.protocol import Limits, encode, encode_result
from polycast.config import Clock, SystemClock
from polycast.errors import BrokerError, PolycastError, StoreError
from polycast.runtime import runtime_of
from polycast.stores import Store, Transaction, open_store, path_of, retain
from polycast.stores.liveness import AgeClock
from polycast.stores.memory_store import MemoryStore
from polycast.subscriptions.heartbeat import FailureDetector

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.broker.server.client_session import ClientSession
    from polycast.broker.server.tokenfile import Tokens


T = TypeVar("T")
_log = server_log()


class LoopCallbacks:
    """The callbacks that wait for one event loop; those before it begins wait for that."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._deferred: list[Callable[[], None]] | None = None  # None outside of a turn

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call back in this loop, in whose thread this is called."""
        self._loop = loop
        self._call_waiting()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn; from any thread."""
        with self._lock:
            self._waiting.append(callback)
            if len(self._waiting) > 1 or self._loop is None:
                return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._call_waiting)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after some seconds."""
        asyncio.get_running_loop().call_later(seconds, callback)

    def defer(self, callback: Callable[[], None]) -> None:
        """Call back at the end of the turn that is under way."""
        if self._deferred is None:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._deferred.append(callback)

    def in_one_turn(self, work: Callable[[], T]) -> T:
        """Do some work, and then what it has deferred: the next turn of a loop comes late."""
        deferred: list[Callable[[], None]] = []
        self._deferred = deferred
        try:
            return work()
        finally:
            self._deferred = None
            self._call(deferred)

    def _call_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        self.in_one_turn(lambda: self._call(waiting))

    def _call(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception:  # of one client; others wait behind it
                _log.exception("an answer could not be given")


BEAT = 1.0  # seconds between two checks for dead buses
EVERY = 10.0  # seconds between two clean-ups
FORGOTTEN = 24 * 3600.0  # seconds after which no client repeats a transaction


class Maintenance:
    """Runs in every broker; several over one store do not disturb each other."""

    def __init__(
        self, store: Store, clock: Clock, at_each_beat: Callable[[], None], usage: Usage
    ) -> None:
        self._store, self._usage = store, usage
        self._detector = FailureDetector(clock)
        self._ages, self._answered = AgeClock(clock), AgeClock(clock)
        self._at_each_beat = at_each_beat

    async def run(self) -> None:
        """Run until cancelled."""
        loop, beats = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(BEAT)
            beats += 1
            try:
                self._at_each_beat()
                if self._store.failure is None:
                    await asyncio.wrap_future(self._store.write(self._bury))
                    if beats % int(EVERY / BEAT) == 0:
                        await loop.run_in_executor(None, self.clean_up)
            except PolycastError as error:
                _log.warning("the store was not tended: %s", error)
            except Exception:  # the next beat tries again
                _log.exception("the store was not tended")

    def _bury(self, tx: Transaction) -> None:
        self._detector.bury_dead(tx, mine=None)

    def clean_up(self) -> None:
        """Delete what has expired, and save how much of their quotas owners use."""
        retain(self._store, self._ages.now)
        before = self._answered.now(FORGOTTEN) - FORGOTTEN
        self._store.write(lambda tx: tx.drop_answers(before)).result()
        self._store.write(self._count_names).result()
        self._usage.save()

    def _count_names(self, tx: Transaction) -> None:
        names = forget_owners(tx)
        tx.after(lambda: self._usage.count(names))


UNROUTED = 2_000  # events of one owner that may wait for the fan-out; a kilobyte counts as one
SHARE = 0.25  # of the bytes of unanswered requests, for one owner
UNFOLLOWED = 0.02  # seconds after which a commit is looked at if no client follows the log
AGAIN = 1.0  # seconds after which a failed read is retried


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
            with suppress(asyncio.CancelledError):
                await maintenance

    async def _wait(self) -> None:
        with suppress(TimeoutError):
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
        with suppress(PolycastError):  # a store that has failed
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
        before = self.tokens.generation
        error = self.tokens.reload_if_changed()
        if self.tokens.generation != before:
            self.type_catalog.recount()
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
