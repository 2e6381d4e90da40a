"""What a bus runs on: memory, or a store."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from polycast.broker.client.address import addresses_of, is_remote
from polycast.bus.admission import admit, admit_shared
from polycast.bus.bus_contexts import BusContexts, StoredContexts
from polycast.bus.publisher import Publishing, StoredPublishing
from polycast.bus.stored_dead_letters import StoredLetters
from polycast.delivery import DeadLetters
from polycast.errors import BadOptionError
from polycast.events.isolation import snapshot
from polycast.log_reader.log_reader import Feed
from polycast.routing import Dispatcher, StoredDispatcher
from polycast.runtime import runtime_of
from polycast.stores import Publisher, Recent, open_store
from polycast.stores.urls import path_of
from polycast.subscriptions.durable_registry import StoredRoster
from polycast.subscriptions.heartbeat import Presence
from polycast.subscriptions.retention_job import Keeping
from polycast.subscriptions.subscription_registry import Roster

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.delivery import Timers
    from polycast.runtime import Runtime
    from polycast.stores import Retention, Store
    from polycast.typesystem import Registry

__all__ = ["Engine", "EngineOptions", "engine_for"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a bus was opened."""

    url: str
    publisher: str
    history: int
    dead_letters: int
    publish_timeout: float
    heartbeat_timeout: float
    retention: Retention | None
    token: str | None = None
    tls: object = None
    connect_timeout: float = 10.0
    allow_plain_token: bool = False
    isolated: bool = False


class Engine:
    """A bus in memory."""

    title = "in memory"
    clock: Clock
    bind: Callable[[type], object]  # admits a type that is subscribed to
    source: Feed | None = None
    roster: Roster
    contexts: BusContexts

    def __init__(self, options: EngineOptions, clock: Clock, registry: Registry) -> None:
        self._options, self.clock = options, clock
        log = Recent(options.history) if options.history else None
        publisher = Publisher(options.publisher, next(_epochs))
        self.dispatcher = Dispatcher(
            publisher,
            clock=clock,
            log=log,
            admit=admit(registry),
            snapshot=partial(snapshot, registry=registry),
            isolated=options.isolated,
            runtime=runtime_of(clock),
        )
        self.roster = Roster(self.dispatcher, log)
        self.publishing = Publishing(self.dispatcher, clock)
        self.contexts = BusContexts(self.dispatcher, clock)
        self.bind = registry.bind

    def letters(self) -> DeadLetters:
        """Where dead letters are kept."""
        return DeadLetters(keep=self._options.dead_letters, post=self.roster.replay)

    def start(self, timers: Timers) -> None:
        """The bus is whole."""

    def close(self) -> None:
        """The bus is closed."""

    def abandon(self) -> None:
        """Nobody has the bus any more, and nobody closed it."""


class StoredEngine(Engine):
    """A bus over a store."""

    def __init__(self, options: EngineOptions, clock: Clock, registry: Registry) -> None:
        if options.history:
            accepted = "nothing: a durable bus keeps all events, as long as retention= lets it"
            raise BadOptionError("history", options.history, accepted=accepted)
        self.store, self.clock = self._open_store(options, clock)
        try:
            self._open(options, self.clock, registry, runtime_of(clock))
        except BaseException:
            self.store.close()
            raise

    def _open_store(self, options: EngineOptions, clock: Clock) -> tuple[Store, Clock]:
        """The store, and the clock by which all who have it go."""
        path = path_of(options.url)
        assert path is not None
        self.title = f"over {path}"
        return open_store(path, clock=clock), clock

    def _open(
        self, options: EngineOptions, clock: Clock, registry: Registry, runtime: Runtime
    ) -> None:
        store, self._clock = self.store, clock
        if options.retention is not None:
            options.retention.keep_in(store)
        self.presence = Presence(
            store, options.publisher, clock, heartbeat_timeout=options.heartbeat_timeout
        )
        dispatcher = StoredDispatcher(
            Publisher(options.publisher, self.presence.bus.epoch, durable=True),
            clock=clock,
            admit=admit_shared(registry),
            store=store,
            registry=registry,
            within=options.publish_timeout,
            runtime=runtime,
        )
        self.source = Feed(store, dispatcher)
        self.dispatcher = dispatcher
        self.roster = StoredRoster(dispatcher, store, self.source, self.presence)
        self.publishing = StoredPublishing(dispatcher, clock)
        contexts = StoredContexts(dispatcher, clock, store)
        self.roster.watch.also = contexts.look
        self.roster.settle_contexts = contexts.settle
        self.contexts = contexts
        self.bind = _bind_shared(registry)
        self._letters = StoredLetters(store, dispatcher, self.roster, clock)

    def letters(self) -> DeadLetters:
        """Those in the store."""
        return self._letters

    def start(self, timers: Timers) -> None:
        """Tell the store that this bus lives, and let go of what need not be kept."""
        self.presence.keep(timers)
        pool, move_on = self.roster.services.pool, self.roster.move_on
        self._keeping = Keeping(self.store, self._clock, timers, pool, move_on)

    def close(self) -> None:
        """Say goodbye, and let go of the file."""
        assert self.source is not None
        self._keeping.close()
        self.source.close()
        self.presence.close()
        self.store.close()

    def abandon(self) -> None:
        """Stop the threads; whoever comes next finds a bus that has died."""
        assert self.source is not None
        self.source.close(0.0)
        self.store.close()


class RemoteEngine(StoredEngine):
    """A bus over the store of a broker."""

    def _open_store(self, options: EngineOptions, clock: Clock) -> tuple[Store, Clock]:
        from polycast.broker.client.client_connection import ConnectionOptions
        from polycast.broker.client.remote_store import RemoteStore  # loaded only where it is used
        from polycast.broker.wire.security import client_context

        self.title = f"at {options.url}"
        addresses = addresses_of(options.url)
        # What the system trusts is read only where it is asked; that takes a while.
        has_tls = options.tls is not None or any(each.is_secure for each in addresses)
        remote = ConnectionOptions(
            addresses,
            token=options.token or os.environ.get("POLYCAST_TOKEN") or None,
            tls=client_context(options.tls) if has_tls else None,
            program=options.publisher,
            within=options.connect_timeout,
            allow_plain_token=options.allow_plain_token,
        )
        store = RemoteStore(remote, clock=clock)
        return store, store.clock


def engine_for(options: EngineOptions, clock: Clock, registry: Registry) -> Engine:
    """What the URL of a bus means."""
    if is_remote(options.url):
        return RemoteEngine(options, clock, registry)
    make = Engine if path_of(options.url) is None else StoredEngine
    return make(options, clock, registry)


def _bind_shared(registry: Registry) -> Callable[[type], object]:
    """Binds a type that is subscribed to; anybody's, but one that others can name."""
    admitted = admit_shared(registry)
    return lambda cls: None if cls is object else admitted(cls)


_epochs = itertools.count(1)
