"""The parts of a bus, put together: in memory, over the store in a file, or at a broker."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from polycast.broker.client.dialer import addresses_of, is_remote
from polycast.bus.bus_contexts import BusContexts, StoredContexts
from polycast.bus.publisher import Publishing, StoredPublishing
from polycast.bus.stored_dead_letters import StoredLetters
from polycast.delivery import DeadLetters, Mailbox, Services, Workers
from polycast.delivery.consumer import is_called_back
from polycast.errors import BadOptionError, NotATypeError
from polycast.events.isolation import snapshot
from polycast.log_reader.history import LogHistory
from polycast.log_reader.log_reader import LogReader
from polycast.routing import Dispatcher, MemoryPublisher, RecordRouter, StorePublisher
from polycast.runtime import Runtime, runtime_of
from polycast.stores import Publisher, Recent, Retention, Store, open_store, path_of
from polycast.subscriptions.advertisements import Advertisements
from polycast.subscriptions.dead_letter_replay import DeadLetterReplay
from polycast.subscriptions.delivery_progress import MemoryProgress, Quiescence, StoreProgress
from polycast.subscriptions.heartbeat import Heartbeat
from polycast.subscriptions.memory_backend import MemoryBackend
from polycast.subscriptions.retention_job import RetentionJob
from polycast.subscriptions.store_backend import StoreBackend, Watcher
from polycast.subscriptions.subscription_registry import MailboxTable, SubscriptionRegistry
from polycast.typesystem import Registry, check_shareable, warn_main

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from polycast.config import Clock

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a bus was opened, and what it passes to its engine."""

    url: str
    publisher: str
    registry: Registry
    workers: Callable[[Clock, Runtime], Workers]
    owner: Callable[[], object]
    """Returns the bus, if it is still there."""
    history: int
    isolated: bool
    dead_letters: int
    publish_timeout: float
    heartbeat_timeout: float
    connect_timeout: float
    retention: Retention | None
    token: str | None
    tls: object
    allow_plain_token: bool


@dataclass
class Engine:
    """The parts of a bus, as its interface uses them."""

    title: str
    clock: Clock
    bind: Callable[[type], object]  # admits a type that is subscribed to
    dispatcher: Dispatcher
    services: Services
    subscriptions: SubscriptionRegistry
    advertisements: Advertisements
    publishing: Publishing
    contexts: BusContexts

    def __post_init__(self) -> None:
        self.progress = self.subscriptions.progress
        self.quiescence = Quiescence(self.subscriptions, self.progress)

    def close(self) -> None:
        """The bus is closed."""

    def abandon(self) -> None:
        """Nobody has the bus any more, and nobody closed it."""


@dataclass
class StoreEngine(Engine):
    """The same over a store."""

    store: Store
    source: LogReader
    heartbeat: Heartbeat
    retention: RetentionJob

    def close(self) -> None:
        """Say goodbye, and close the file or the connection."""
        self.retention.close()
        self.source.close()
        self.heartbeat.close()
        self.store.close()

    def abandon(self) -> None:
        """Stop the threads; whoever comes next finds a bus that has died."""
        self.source.close(0.0)
        self.store.close()


def memory_engine(options: EngineOptions, clock: Clock, runtime: Runtime) -> Engine:
    """Put a bus in memory together."""
    registry = options.registry
    backend: MemoryBackend  # some parts are made after those that call them
    contexts: BusContexts
    log = Recent(options.history) if options.history else None
    dispatcher = Dispatcher(
        Publisher(options.publisher, next(_epochs)),
        clock=clock,
        admit=partial(_admitted, registry),
        oldest=lambda: None if log is None else log.oldest,
        snapshot=partial(snapshot, registry=registry),
        runtime=runtime,
        translation_failed=_later(lambda: contexts.translation_failed),
    )
    mailboxes = MailboxTable(dispatcher)
    history = LogHistory(dispatcher, log)
    replay = DeadLetterReplay(mailboxes, history, clock).replay
    services = _services(
        dispatcher,
        options.workers(clock, runtime),
        DeadLetters(keep=options.dead_letters, post=replay),
        ended=_later(lambda: backend.forget),
    )
    backend = MemoryBackend(dispatcher, services, mailboxes, history)
    contexts = BusContexts(dispatcher, clock, services.dead_letters)
    progress = MemoryProgress(dispatcher)
    subscriptions = SubscriptionRegistry(
        dispatcher, services, mailboxes, backend, progress, options.owner
    )
    return Engine(
        "in memory",
        clock,
        registry.bind,
        dispatcher,
        services,
        subscriptions,
        Advertisements(services.timers, clock, check_free=subscriptions.check_free),
        Publishing(
            MemoryPublisher(dispatcher, log=log, isolated=options.isolated), dispatcher, clock
        ),
        contexts,
    )


def store_engine(
    options: EngineOptions, store: Store, clock: Clock, runtime: Runtime, title: str
) -> StoreEngine:
    """Put a bus over a store together."""
    registry = options.registry
    backend: StoreBackend  # some parts are made after those that call them
    contexts: StoredContexts
    watcher: Watcher
    progress: StoreProgress
    if options.retention is not None:
        options.retention.keep_in(store)
    kept_locks: list[Any] = []
    pending: set[Future[None]] = set()  # what flush() waits for
    workers = options.workers(clock, runtime)
    heartbeat = Heartbeat(
        store,
        options.publisher,
        clock,
        workers.timers,
        heartbeat_timeout=options.heartbeat_timeout,
        revived=_later(lambda: backend.rejoin),
        clock_stepped=_later(lambda: backend.leases.follow_clock),
    )
    dispatcher = Dispatcher(
        Publisher(options.publisher, heartbeat.bus.epoch, durable=True),
        clock=clock,
        admit=partial(_admitted_to_store, registry),
        newest=store.newest,
        runtime=runtime,
        translation_failed=_later(lambda: contexts.translation_failed),
    )
    router = RecordRouter(dispatcher, store, registry, timeout=options.publish_timeout)
    publisher = StorePublisher(
        router,
        dispatcher,
        store,
        within=options.publish_timeout,
        is_called_back=is_called_back,
        kept_locks=kept_locks,
    )
    reader = LogReader(store, router, look=_later(lambda: watcher.look))
    mailboxes = MailboxTable(dispatcher)
    replay = DeadLetterReplay(mailboxes, LogHistory(dispatcher, None), clock).replay
    letters = StoredLetters(
        store,
        router,
        publisher,
        clock,
        pending=pending,
        post=replay,
        mailboxes=mailboxes,
        wait_until_brought=_later(lambda: progress.wait_until_brought),
    )
    services = _services(
        dispatcher, workers, letters, ended=_later(lambda: backend.forget), source=reader
    )
    backend = StoreBackend(
        store, dispatcher, registry, reader, heartbeat, services, mailboxes, kept_locks
    )
    contexts = StoredContexts(dispatcher, router, clock, letters, store, pending)
    watcher = Watcher(backend, look_at_contexts=contexts.look)
    progress = StoreProgress(
        store=store,
        reader=reader,
        dispatcher=dispatcher,
        router=router,
        mailboxes=mailboxes,
        pending=pending,
        bus=lambda: heartbeat.bus.id,
        has_seen_all=watcher.has_seen_all,
        within=options.publish_timeout,
    )
    subscriptions = SubscriptionRegistry(
        dispatcher, services, mailboxes, backend, progress, options.owner
    )
    engine = StoreEngine(
        title,
        clock,
        partial(_subscribed_in_store, registry),
        dispatcher,
        services,
        subscriptions,
        Advertisements(
            workers.timers,
            clock,
            check_free=subscriptions.check_free,
            store=store,
            bus=lambda: heartbeat.bus.id,
        ),
        StoredPublishing(publisher, dispatcher, clock),
        contexts,
        store,
        reader,
        heartbeat,
        RetentionJob(store, services, mailboxes),
    )
    heartbeat.start()
    engine.retention.start()
    return engine


def _services(
    dispatcher: Dispatcher,
    workers: Workers,
    dead_letters: DeadLetters,
    *,
    ended: Callable[[Mailbox], None],
    source: LogReader | None = None,
) -> Services:
    """What all mailboxes of a bus share."""
    return Services(
        clock=dispatcher.clock,
        timers=workers.timers,
        pool=workers.pool,
        loop=workers.loop,
        dead_letters=dead_letters,
        in_turn=dispatcher.inline_lock.run,
        changed=dispatcher.change,
        rewrite=dispatcher.rewrite,
        ended=ended,
        quiet=dispatcher.runtime.condition(),
        runtime=dispatcher.runtime,
        home=dispatcher.home,
        threaded=workers.threaded,
        source=source,
    )


def _open_store(options: EngineOptions, clock: Clock) -> tuple[Store, Clock, str]:
    """Open the store of a URL; return the clock of all who have it, too, and where it is."""
    if not is_remote(options.url):
        path = path_of(options.url)
        assert path is not None
        return open_store(path, clock=clock), clock, f"over {path}"
    from polycast.broker.client.client_connection import ConnectionOptions
    from polycast.broker.client.remote_store import RemoteStore  # loaded only where it is used
    from polycast.broker.wire.security import client_context

    addresses = addresses_of(options.url)
    # What the system trusts is read only where it is asked; that takes a while.
    has_tls = options.tls is not None or any(address.is_secure for address in addresses)
    remote = ConnectionOptions(
        addresses,
        token=options.token or os.environ.get("POLYCAST_TOKEN") or None,
        tls=client_context(options.tls) if has_tls else None,
        program=options.publisher,
        within=options.connect_timeout,
        allow_plain_token=options.allow_plain_token,
    )
    store = RemoteStore(remote, clock=clock)
    return store, store.clock, f"at {options.url}"


def engine_for(options: EngineOptions, clock: Clock) -> Engine:
    """Put a bus together as its URL says."""
    runtime = runtime_of(clock)
    if not is_remote(options.url) and path_of(options.url) is None:
        return memory_engine(options, clock, runtime)
    if options.history:
        accepted = "nothing: a durable bus keeps all events, as long as retention= lets it"
        raise BadOptionError("history", options.history, accepted=accepted)
    store, clock, title = _open_store(options, clock)
    try:
        return store_engine(options, store, clock, runtime, title)
    except BaseException:
        store.close()
        raise


def _admitted(registry: Registry, cls: type) -> object:
    """Bind the name of a class whose objects are published."""
    if issubclass(cls, type):
        why = "it is a class, and events are objects"
        raise NotATypeError(cls, why=why, accepted="Publish an object of it", action="to publish")
    return registry.bind(cls)


def _admitted_to_store(registry: Registry, cls: type) -> object:
    """The same where other processes have to be able to name the class."""
    check_shareable(cls)
    warn_main(cls)
    return _admitted(registry, cls)


def _subscribed_in_store(registry: Registry, cls: type) -> object:
    """Bind a class that is subscribed to; one that others can name, or any object."""
    return None if cls is object else _admitted_to_store(registry, cls)


def _later(method: Callable[[], Callable[P, T]]) -> Callable[P, T]:
    """Return a stand-in for a method of a part that is made after the one that calls it."""

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        return method()(*arguments, **options)

    return call


_epochs = itertools.count(1)
