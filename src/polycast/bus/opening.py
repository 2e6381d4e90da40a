"""Opening a bus: what its URL means, and the function that publishes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from polycast.bus.options import published_as
from polycast.errors import BadOption, NotAvailable
from polycast.stores import Receipt

if TYPE_CHECKING:
    from polycast.bus.options import Publish
    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.routing import Dispatcher

__all__ = ["check_url", "publish_for"]

_LATER = {
    "sqlite": "a durable bus",
    "kafka": "a distributed bus",
    "polycast": "a remote bus",
    "polycasts": "a remote bus",
}
IDENTITIES_KEPT = 100_000


def check_url(url: object) -> None:
    """A bus of this version lives in memory."""
    if isinstance(url, str):
        scheme = url.partition(":")[0]
        if scheme == "memory":
            return
        if scheme in _LATER:
            raise NotAvailable(
                f"{_LATER[scheme]} ({url})",
                why="this version keeps events in memory only",
                instead="Open it with pc.Bus()",
            )
    raise BadOption("url", url, accepted="'memory:', which is the default")


def publish_for(dispatcher: Dispatcher, clock: Clock, *, owner: object) -> Publish:
    """The publish of one bus: a closure, because a method would cost as much as the rest.

    An event without options goes to the generated route of its class.
    """
    routes, find = dispatcher.routes, dispatcher.route
    topics = dispatcher.topic_routes
    retried: OrderedDict[Identity, Receipt] = OrderedDict()

    def publish(event: Any, /, **options: Any) -> Receipt:
        if options:
            return publish_with(event, options)
        try:
            route = routes[type(event)]
        except KeyError:
            route = find(type(event), None)
        return route(event)

    def publish_with(event: Any, options: dict[str, Any]) -> Receipt:
        topic = options.get("topic")
        if len(options) == 1 and topic is not None:
            try:
                route = topics[type(event), topic]
            except (KeyError, TypeError):
                checked = published_as(options, clock)["topic"]
                route = find(type(event), checked)
            return route(event)
        about = published_as(options, clock)
        given = about["given"]
        return dispatcher.post(event, **about) if given is None else once(event, given, about)

    def once(event: Any, given: Identity, about: dict[str, Any]) -> Receipt:
        """Publish under an identity that may have been published before."""
        known = retried.get(given) or own(given)
        if known is None:
            known = retried[given] = dispatcher.post(event, **about)
            if len(retried) > IDENTITIES_KEPT:
                retried.popitem(last=False)
        return known

    def own(given: Identity) -> Receipt | None:
        ours = dispatcher.publisher
        mine = (given.publisher, given.epoch) == (ours.name, ours.epoch)
        is_known = mine and 0 < given.sequence <= dispatcher.turn.newest()
        return Receipt(given.sequence, ours) if is_known else None

    publish.owner = owner  # type: ignore[attr-defined]  # who has only this has the bus
    publish.__doc__ = "Publish an object to whoever subscribed to its class or a type above it."
    return publish
