"""Publishing with options: topics, priorities, expiry, headers, and retries by identity."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from polycast.bus.options import published_as
from polycast.stores import Receipt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.routing import Dispatcher

__all__ = ["Publishing"]

IDENTITIES_KEPT = 100_000


class Publishing:
    """The side entrance of publish, for events that come with options."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self._retried: OrderedDict[Identity, Receipt] = OrderedDict()

    def publish(self, event: Any, options: Mapping[str, Any]) -> Receipt:
        """Publish one event with options; a topic alone has a generated route of its own."""
        if len(options) == 1 and options.get("topic") is not None:
            return self._on_topic(event, options)
        about = published_as(options, self._clock)
        given = about["given"]
        if given is None:
            return self._dispatcher.post(event, **about)
        return self._once(event, given, about)

    def publish_many(self, events: list[Any], options: Mapping[str, Any]) -> list[Receipt]:
        """Publish several events, all or none."""
        return self._dispatcher.post_many(events, **published_as(options, self._clock))

    def _on_topic(self, event: Any, options: Mapping[str, Any]) -> Receipt:
        try:
            route = self._dispatcher.topic_routes[type(event), options["topic"]]
        except (KeyError, TypeError):
            topic = published_as(options, self._clock)["topic"]
            route = self._dispatcher.route(type(event), topic)
        return route(event)

    def _once(self, event: Any, given: Identity, about: dict[str, Any]) -> Receipt:
        """Publish under an identity that may have been published before."""
        known = self._retried.get(given) or self._own(given)
        if known is None:
            known = self._retried[given] = self._dispatcher.post(event, **about)
            if len(self._retried) > IDENTITIES_KEPT:
                self._retried.popitem(last=False)
        return known

    def _own(self, given: Identity) -> Receipt | None:
        ours = self._dispatcher.publisher
        is_mine = (given.publisher, given.epoch) == (ours.name, ours.epoch)
        is_known = is_mine and 0 < given.sequence <= self._dispatcher.turn.newest()
        return Receipt(given.sequence, ours) if is_known else None
