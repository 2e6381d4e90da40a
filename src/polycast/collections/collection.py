"""A collection of events of one type or topic: adding publishes, asking subscribes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypedDict,
    TypeVar,
    cast,
    overload,
)

from polycast.bus import Bus, PublishOptions, SubscribeOptions, Subscription
from polycast.collections.supply import Supply, check_supplier
from polycast.config import Level, Overflow, seconds
from polycast.delivery import Delivery, Mailbox, Puller, callback_for
from polycast.errors import BadOptionError, NotAPullCollectionError, NotATypeError
from polycast.errors.failures import failures_here
from polycast.matching import Selector, TopicPattern, selector_for
from polycast.typesystem import conforms

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import TypeForm, Unpack

    from polycast.stores import Entry, Receipt


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
        except failures_here() as error:  # of its context: this attempt has failed
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
        return any(waiting == event for waiting in self)


class PullOptions(TypedDict, Generic[E], total=False):
    """What a collection collects, if it is one that is pulled from."""

    pull: Literal["fifo", "lifo"] | None
    where: Callable[[E], object] | None
    durable: str | None
    subtypes: bool  # True, unless said otherwise
    queue: int  # 10,000
    overflow: Overflow | None
    copy: bool  # False


class DACollection(Collection[E], Generic[E]):
    """What the eight collections have in common; `level` is what they promise."""

    level: ClassVar[Level]

    @overload
    def __init__(
        self: DACollection[Any], what: str, bus: Bus, **options: Unpack[PullOptions[Any]]
    ) -> None: ...
    @overload
    def __init__(
        self, what: Selector[E] | type[E], bus: Bus, **options: Unpack[PullOptions[E]]
    ) -> None: ...
    @overload
    def __init__(self, what: TypeForm[E], bus: Bus, **options: Unpack[PullOptions[E]]) -> None: ...
    def __init__(
        self,
        what: Any,
        bus: Bus,
        *,
        pull: Literal["fifo", "lifo"] | None = None,
        where: Callable[[Any], object] | None = None,
        durable: str | None = None,
        subtypes: bool = True,
        queue: int = 10_000,
        overflow: Overflow | None = None,
        copy: bool = False,
    ) -> None:
        if not isinstance(bus, Bus):
            raise BadOptionError("bus", bus, accepted="a pc.Bus")
        self._bus = bus
        self._selector: Selector[Any] = selector_for(what)
        # "/Chat" alone is that topic only; `/` and `**` are the root and all below.
        self._root = isinstance(what, str) and what in ("/", "**")
        self._subscriptions: list[tuple[object, Subscription[Any]]] = []
        self._buffer: Buffer[E] | None = None
        if pull is None:
            _only_for_pull(
                where=where,
                durable=durable,
                subtypes=None if subtypes else False,
                copy=copy or None,
            )
            return
        if pull not in ("fifo", "lifo"):
            raise BadOptionError.choice("pull", pull, ["fifo", "lifo"])
        options: dict[str, Any] = {"level": self.level.name, "queue": queue, "copy": copy}
        if overflow is not None:
            options["overflow"] = overflow
        if durable is not None:
            options["durable"] = durable
        selector = _with_subtypes(self._selector, below=subtypes)
        self._buffer = Buffer(
            bus._open(selector, None, where, options, pull=pull), keep=bool(durable)
        )

    # -- publishing --------------------------------------------------------------------------------

    def add(self, event: E, **options: Unpack[PublishOptions]) -> Receipt:
        """Publish an event to this collection."""
        topic = self._selector.topic
        _, implied = self._selector.parted(None)
        passes = implied is None or implied.matches(event)
        if not passes or not self._selector.covers_class(type(event)):
            why = f"it does not conform to {self.name}"
            accepted = f"This collection takes {self.name}"
            raise NotATypeError(event, why=why, accepted=accepted, action="to add here")
        if topic is not None:
            if options.get("topic") is not None:
                accepted = f"nothing: this collection is the topic {self.name}"
                raise BadOptionError("topic", options.get("topic"), accepted=accepted)
            options["topic"] = "/" if self._root else topic.text
        return self._bus.publish(event, **options)

    def supply(self, produce: Callable[[], E | None], *, every: float | timedelta = 0.1) -> Supply:
        """Ask a function for events every so many seconds; None means nothing now."""
        self._bus._dispatcher.home.check("supply()")
        wait = seconds("every", every)
        check_supplier(produce)
        return Supply(produce, self.add, self._bus._services, every=wait, title=self.name)

    # -- subscribing -------------------------------------------------------------------------------

    @overload
    def contains(
        self,
        callback: Callable[[E], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    @overload
    def contains(
        self,
        callback: Callable[[E, Delivery], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    def contains(self, callback: Any, where: Any = None, **options: Any) -> Subscription[E]:
        """Be called for each event of this very type or topic."""
        return _subscribe(self, callback, where, options, below=False)

    @overload
    def contains_all(
        self,
        callback: Callable[[E], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    @overload
    def contains_all(
        self,
        callback: Callable[[E, Delivery], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    def contains_all(self, callback: Any, where: Any = None, **options: Any) -> Subscription[E]:
        """Be called for each event, with subtypes or subtopics."""
        return _subscribe(self, callback, where, options, below=True)

    @overload
    def remove(
        self,
        callback: Callable[[E], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    @overload
    def remove(
        self,
        callback: Callable[[E, Delivery], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    def remove(self, callback: Any, where: Any = None, **options: Any) -> Subscription[E]:
        """Be one of those of whom one is called for each event of this very type or topic."""
        return _subscribe(self, callback, where, options, below=False, one_of_all=True)

    @overload
    def remove_all(
        self,
        callback: Callable[[E], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    @overload
    def remove_all(
        self,
        callback: Callable[[E, Delivery], object],
        where: Callable[[E], object] | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Subscription[E]: ...
    def remove_all(self, callback: Any, where: Any = None, **options: Any) -> Subscription[E]:
        """Be one of those of whom one is called, with subtypes or subtopics."""
        return _subscribe(self, callback, where, options, below=True, one_of_all=True)

    def clear(self, callback: Callable[..., object] | None = None) -> None:
        """Unsubscribe a callback; without one, purge the pull buffer."""
        if callback is None:
            _buffer_of(self, "clear()").purge()
            return
        mine = [
            subscription for function, subscription in self._subscriptions if function == callback
        ]
        self._subscriptions = [pair for pair in self._subscriptions if pair[0] != callback]
        for subscription in mine:
            subscription.cancel()

    # -- pulling -----------------------------------------------------------------------------------

    def get(self, timeout: float | timedelta | None = None) -> E | None:
        """Take the next event; None if there is none, or none in time."""
        return _buffer_of(self, "get()").get(timeout)

    def ack(self) -> None:
        """Acknowledge what get() gave last, on a durable collection."""
        _buffer_of(self, "ack()").ack()

    def close(self) -> None:
        """Acknowledge what get() gave last and stop collecting; a durable one is kept."""
        _buffer_of(self, "close()").close()

    def __len__(self) -> int:
        return len(_buffer_of(self, "len()"))

    def __iter__(self) -> Iterator[E]:
        return iter(_buffer_of(self, "iteration"))

    def __contains__(self, event: object) -> bool:
        return event in _buffer_of(self, "in")

    def __bool__(self) -> bool:
        return True

    # -- identity ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The wire name of its type, or its topic."""
        topic = self._selector.topic
        if topic is not None and self._selector.types == (object,):
            return "/" if self._root else topic.text
        return str(self._selector)

    def covers(self, other: DACollection[Any]) -> bool:
        """Whether the other is for the same type or topic or one below it."""
        if not isinstance(other, DACollection) or other._bus is not self._bus:
            return False
        mine, theirs = self._selector, other._selector
        if (mine.topic is None) != (theirs.topic is None):
            return False
        if mine.topic is not None:
            return mine.topic.covers(cast("TopicPattern", theirs.topic))
        implied = mine.implied is None or mine.implied == theirs.implied
        return mine == theirs or (implied and _covers_types(mine, theirs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DACollection):
            return NotImplemented
        return _place(self) == _place(other) and self._selector == other._selector

    def __hash__(self) -> int:
        return hash((_place(self), self._selector))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}: {self.level.promise}>"


def _subscribe(
    collection: DACollection[E],
    callback: Any,
    where: Any,
    options: dict[str, Any],
    *,
    below: bool,
    one_of_all: bool = False,
) -> Subscription[E]:
    for taken in ("level", "delivery", "order", "exact"):
        if taken in options:
            accepted = "nothing: the collection and its method decide it"
            raise BadOptionError(taken, options[taken], accepted=accepted)
    bus, selector = collection._bus, collection._selector
    if one_of_all:
        inside = "" if bus._context is None else f" in {bus._context}"
        options.setdefault("group", f"remove {selector}{inside}")
    options["level"] = collection.level.name
    what = _with_subtypes(selector, below=below)
    subscription = bus._open(what, callback_for(callback), where, options)
    if len(collection._subscriptions) % 256 == 255:
        collection._subscriptions = [p for p in collection._subscriptions if p[1].ended is None]
    collection._subscriptions.append((callback, subscription))
    return subscription


def _with_subtypes(selector: Selector[Any], *, below: bool) -> Selector[Any]:
    """A type or topic, with or without what is below it."""
    if selector.topic is None:
        return replace(selector, exact=not below)
    return replace(selector, topic=selector.topic.with_subtopics() if below else selector.topic)


def _buffer_of(collection: DACollection[E], operation: str) -> Buffer[E]:
    if collection._buffer is None:
        raise NotAPullCollectionError(operation, repr(collection))
    if operation != "close()":
        collection._bus._dispatcher.home.check(operation)
    return collection._buffer


def _place(collection: DACollection[Any]) -> tuple[int, str | None]:
    """Which bus, and in which context of it."""
    return id(collection._bus._subscriptions), collection._bus._context


def _covers_types(mine: Selector[Any], theirs: Selector[Any]) -> bool:
    """Each alternative of theirs conforms to mine; of a conjunction one part is enough."""
    choose = any if theirs.every else all
    demand = all if mine.every else any
    return choose(demand(conforms(t, m) for m in mine.types) for t in theirs.types)


def _only_for_pull(**options: object) -> None:
    for name, given in options.items():
        if given is not None:
            raise BadOptionError(name, given, accepted="it goes with pull='fifo' or pull='lifo'")
