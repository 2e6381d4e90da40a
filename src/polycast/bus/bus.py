"""The bus: publish objects, subscribe to classes."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeGuard, TypeVar, get_origin, overload

from polycast.bus.engines import EngineOptions, engine_for
from polycast.bus.lifecycle import Lifecycle, close_at_exit, in_a_thread, let_go
from polycast.bus.stream import Stream
from polycast.config import SystemClock, check_clock, check_count, check_name, seconds
from polycast.delivery import Callback, DeadLetters, Delivery, Workers, callback_for
from polycast.errors import BadCallbackError, BadOptionError
from polycast.matching import Interest, Selector, selector_for
from polycast.plain_text import log_of
from polycast.runtime import runtime_of
from polycast.subscriptions.health import Health, Undelivered, health_of
from polycast.subscriptions.options import (
    SubscribeOptions,
    SubscribeRequest,
    check_isolation,
    check_options,
    settings_for,
)
from polycast.typesystem import Registry

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from datetime import datetime, timedelta
    from os import PathLike
    from typing import Self

    from typing_extensions import TypeForm, Unpack

    from polycast.config import Clock, Isolation
    from polycast.contexts import Context, Federation
    from polycast.events import Identity
    from polycast.stores import Receipt, Retention
    from polycast.subscriptions.advertisements import Advertisement
    from polycast.subscriptions.options import PublishOptions
    from polycast.subscriptions.subscription import Subscription


T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., object]")
ORDINARY = 0  # the priority of most events
_log = log_of("polycast")


class Registrar(Protocol[T]):
    """What `bus.on(T)` returns: it subscribes a function and gives it back as it was."""

    @overload
    def __call__(self, function: Callable[[T], R], /) -> Callable[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[T, Delivery], R], /) -> Callable[[T, Delivery], R]: ...


@dataclass(frozen=True, slots=True)
class Annotated:
    """A type that was read from a function."""

    type: Any


def annotated_type(what: object) -> Annotated | None:
    """If `what` is a function, the annotation of its first parameter."""
    if not _is_callback(what):
        return None
    try:
        parameters = list(inspect.signature(what, eval_str=True).parameters.values())
    except (ValueError, TypeError, NameError) as error:
        raise BadCallbackError(what, why=f"its annotations cannot be read: {error}") from error
    if not parameters or parameters[0].annotation is inspect.Parameter.empty:
        raise BadCallbackError(
            what,
            why="plain @bus.on reads the type from the annotation of the first parameter, "
            "and there is none; annotate it or say @bus.on(Type)",
        )
    return Annotated(parameters[0].annotation)


def _is_callback(what: object) -> TypeGuard[Callable[..., object]]:
    """A function or callable object, and not one of the callables that stand for a type."""
    return callable(what) and not isinstance(what, type) and get_origin(what) is None


class FilteredOptions(SubscribeOptions, Generic[T], total=False):
    """How to subscribe to events of a type, and the filter that they have to pass."""

    where: Callable[[T], object] | None


class Bus:
    """Brings each published object to whoever subscribed to its class or a type it conforms to."""

    _workers = staticmethod(Workers.of_a_bus)
    _context: str | None  # in which it publishes and subscribes
    _routes: dict[type, Callable[[Any], Receipt]]

    def __init__(
        self,
        url: str = "memory:",
        *,
        publisher: str | None = None,
        history: int = 0,
        isolation: Isolation = "none",
        clock: Clock | None = None,
        context: Context | str | None = None,
        federation: Federation | None = None,
        replace: bool = False,
        stuck_timeout: float | timedelta = 30.0,
        dead_letters: int = 10_000,
        publish_timeout: float | timedelta = 30.0,
        heartbeat_timeout: float | timedelta = 10.0,
        retention: Retention | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | str | PathLike[str] | None = None,
        connect_timeout: float | timedelta = 10.0,
        allow_plain_token: bool = False,
    ) -> None:
        check_count("history", history, of="events to keep")
        self._isolated = isolated = check_isolation(isolation)
        self._clock: Clock = check_clock(clock) if clock is not None else SystemClock()
        name = publisher if publisher is not None else f"bus-{runtime_of(self._clock).token(6)}"
        self.publisher = check_name("publisher", name)
        check_count("dead_letters", dead_letters, of="dead letters to keep")
        self._registry = Registry()
        stuck = seconds("stuck_timeout", stuck_timeout)
        # Whoever has a subscription has the bus; threads alone do not keep it, nor outlive it.
        options = EngineOptions(
            url,
            self.publisher,
            self._registry,
            partial(self._workers, stuck),
            weakref.ref(self),
            history=history,
            isolated=isolated,
            dead_letters=dead_letters,
            publish_timeout=seconds("publish_timeout", publish_timeout),
            heartbeat_timeout=seconds("heartbeat_timeout", heartbeat_timeout),
            connect_timeout=seconds("connect_timeout", connect_timeout),
            retention=retention,
            token=token,
            tls=tls,
            allow_plain_token=allow_plain_token,
        )
        self._engine = engine = engine_for(options, self._clock)
        self._clock, self._dispatcher = engine.clock, engine.dispatcher
        self._services, self._subscriptions = engine.services, engine.subscriptions
        self._publishing = engine.publishing
        self._lifecycle = Lifecycle(engine)
        self._whole: Bus | None = None
        title = f"<Bus {self.publisher!r} {engine.title}>"
        self._finalizer = weakref.finalize(self, let_go, engine, self._lifecycle, title)
        if self._services.threaded:
            close_at_exit(self)
        _stand_in(self, None)
        try:
            if federation is not None:
                engine.contexts.use(federation)
            if context is not None:
                _stand_in(self, engine.contexts.enter(context, replace=replace))
        except BaseException:
            self.close(0.0)
            raise

    # -- publishing --------------------------------------------------------------------------------

    # Keyword-only parameters, or a dict of them, would take 30 to 70 ns of 250.
    def publish(
        self,
        event: object,
        /,
        topic: str | None = None,
        priority: int = ORDINARY,
        expires: float | timedelta | datetime | None = None,
        headers: Mapping[str, str] | None = None,
        identity: Identity | None = None,
    ) -> Receipt:
        """Publish an object to who subscribed to its class, a type above it, or the topic."""
        if (
            topic is not None
            or priority is not ORDINARY
            or expires is not None
            or headers is not None
            or identity is not None
        ):
            return self._publishing.publish(event, topic, priority, expires, headers, identity)
        try:
            route = self._routes[type(event)]
        except KeyError:
            route = self._publishing.publisher.route(type(event), None, self._context)
        return route(event)

    def publish_many(
        self, events: Iterable[object], **options: Unpack[PublishOptions]
    ) -> list[Receipt]:
        """Publish several events in one run of positions, all or none."""
        if options.get("identity") is not None:
            accepted = "an identity is of one event; publish it by itself"
            raise BadOptionError("identity", options.get("identity"), accepted=accepted)
        return self._publishing.publish_many(list(events), options)

    def publish_async(
        self, event: object, **options: Unpack[PublishOptions]
    ) -> Coroutine[Any, Any, Receipt]:
        """Publish without ever blocking the event loop; its place is taken by the call itself."""
        self._dispatcher.home.check("publish_async()")
        publish = partial(self.publish, event, **options)
        return self._publishing.publish_async(publish, event, options)

    # -- subscribing -------------------------------------------------------------------------------

    @overload
    def subscribe(
        self, what: str, callback: Callable[[Any], object], **options: Unpack[FilteredOptions[Any]]
    ) -> Subscription[Any]: ...
    @overload
    def subscribe(
        self,
        what: str,
        callback: Callable[[Any, Delivery], object],
        **options: Unpack[FilteredOptions[Any]],
    ) -> Subscription[Any]: ...
    @overload
    def subscribe(
        self,
        what: Selector[T] | type[T],
        callback: Callable[[T], object],
        **options: Unpack[FilteredOptions[T]],
    ) -> Subscription[T]: ...
    @overload
    def subscribe(
        self,
        what: Selector[T] | type[T],
        callback: Callable[[T, Delivery], object],
        **options: Unpack[FilteredOptions[T]],
    ) -> Subscription[T]: ...
    @overload
    def subscribe(
        self,
        what: TypeForm[T],
        callback: Callable[[T], object],
        **options: Unpack[FilteredOptions[T]],
    ) -> Subscription[T]: ...
    @overload
    def subscribe(
        self,
        what: TypeForm[T],
        callback: Callable[[T, Delivery], object],
        **options: Unpack[FilteredOptions[T]],
    ) -> Subscription[T]: ...
    def subscribe(
        self,
        what: Any,
        callback: Callable[..., object],
        *,
        where: Callable[[Any], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[Any]:
        """Have a callback called for each event of a type or topic that passes a filter."""
        return self._open(what, callback_for(callback), where, options)

    def _open(
        self,
        what: Any,
        callback: Callback | None,
        where: Callable[[Any], object] | None,
        options: Any,
        *,
        pull: Any = None,
    ) -> Subscription[Any]:
        self._lifecycle.check("subscribe")
        check_options(options)
        asked = self._isolated or bool(options.get("copy", False))
        # From a store each has an object of its own in any case.
        settings = settings_for(options, pull=pull, copy=asked and self._services.source is None)
        meant = selector_for(
            what, topic=options.get("topic"), exact=bool(options.get("exact", False))
        )
        selector, wanted = meant.parted(where)
        if wanted is not None:
            wanted.check(*selector.types, every=selector.every)
        for cls in selector.types:
            self._engine.bind(cls)
        interest = Interest(
            selector,
            wanted,
            settings.level,
            group=options.get("group"),
            durable=options.get("durable"),
            context=self._context,
        )
        lease = options.get("lease")
        request = SubscribeRequest(
            interest,
            settings,
            callback,
            since=options.get("since"),
            lease=None if lease is None else seconds("lease", lease),
            replace=bool(options.get("replace", False)),
            pinned=bool(options.get("pinned", True)),
            engine=options.get("engine", "direct"),
        )
        return self._subscriptions.open(request)

    @overload
    def on(self, what: str, /, **options: Unpack[FilteredOptions[Any]]) -> Registrar[Any]: ...
    @overload
    def on(
        self, what: Selector[T] | type[T], /, **options: Unpack[FilteredOptions[T]]
    ) -> Registrar[T]: ...
    @overload
    def on(self, what: TypeForm[T], /, **options: Unpack[FilteredOptions[T]]) -> Registrar[T]: ...
    @overload
    def on(self, function: F, /) -> F: ...
    def on(self, what: Any, /, *, where: Any = None, **options: Any) -> Any:
        """Subscribe the decorated function; plain `@bus.on` reads the type from its annotation."""
        annotated = annotated_type(what)
        if annotated is not None:
            self._open(annotated.type, callback_for(what), where, options)
            return what

        def register(function: F) -> F:
            self._open(what, callback_for(function), where, options)
            return function

        return register

    @overload
    def stream(self, what: str, **options: Unpack[FilteredOptions[Any]]) -> Stream[Any]: ...
    @overload
    def stream(
        self, what: Selector[T] | type[T], **options: Unpack[FilteredOptions[T]]
    ) -> Stream[T]: ...
    @overload
    def stream(self, what: TypeForm[T], **options: Unpack[FilteredOptions[T]]) -> Stream[T]: ...
    def stream(self, what: Any, *, where: Any = None, **options: Any) -> Stream[Any]:
        """The events of a type or topic as an asynchronous iterator."""
        stream: Stream[Any] = Stream()
        options["ack"] = "manual"
        stream.subscription = self._open(what, stream.callback(), where, options)
        consumer = stream.subscription.consumer
        weakref.finalize(stream, in_a_thread, self._subscriptions.abandon, consumer).atexit = False
        return stream

    def advertise(self, what: Any, *, lease: float | timedelta | None = None) -> Advertisement:
        """Say that this bus is going to publish a type or on a topic; `health()` lists it."""
        self._lifecycle.check("advertise")
        return self._engine.advertisements.announce(str(selector_for(what)), lease)

    def within(self, context: Context | str, *, replace: bool = False) -> Bus:
        """This bus as seen from a context, which is added if it is new; closing either closes both.

        What is published there is of its types, and what is subscribed to is, too. With `replace`
        it stands in place of another context of its name, which may be in the store.
        """
        self._dispatcher.home.check("within()")
        view = Bus.__new__(type(self))
        view.__dict__.update(self.__dict__)
        _stand_in(view, self._engine.contexts.enter(context, replace=replace))
        view._whole = self  # whoever has a view has the bus
        return view

    @property
    def federation(self) -> Federation | None:
        """The contexts of this bus, if it has any."""
        return self._engine.contexts.federation

    # -- looking after it --------------------------------------------------------------------------

    def dead_letters(self) -> DeadLetters:
        """The events that could not be delivered, to list, replay and purge."""
        self._dispatcher.home.check("dead_letters()")
        return self._services.dead_letters

    def health(self) -> Health:
        """How the bus and its subscriptions are doing."""
        self._dispatcher.home.check("health()")
        return health_of(
            self._subscriptions,
            is_closed=self._lifecycle.state == "closed",
            advertised=self._engine.advertisements.names(),
            context_problems=self._engine.contexts.problems(),
        )

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was published is handled; False if that took too long."""
        return self._engine.quiescence.flush(timeout)

    def close(self, timeout: float = 5.0) -> tuple[Undelivered, ...]:
        """Accept nothing more, deliver what is there, and say what could not be delivered."""
        lifecycle = self._lifecycle
        if lifecycle.state != "open":
            return ()
        self._subscriptions.check_free("close()", *self._subscriptions.mailboxes)
        lifecycle.state = "closing"
        self._publishing.drain(timeout)
        undelivered = lifecycle.drain(timeout)
        lifecycle.state = "closed"
        self._publishing.close()
        self._engine.close()
        self._finalizer()
        for loss in undelivered:
            _log.warning("closed without delivering %s", loss)
        return undelivered

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        context = "" if self._context is None else f" in context {self._context!r}"
        return f"<Bus {self.publisher!r} {self._engine.title}{context}, {self._lifecycle.state}>"


def _stand_in(bus: Bus, context: str | None) -> None:
    """Let a bus publish and subscribe in a context."""
    bus._context = context
    bus._publishing = bus._publishing.within(context)
    bus._routes = bus._publishing.routes()
