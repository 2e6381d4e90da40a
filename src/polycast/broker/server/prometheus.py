"""The metrics of a broker, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.broker.server.broker import Broker


class _Collector:
    """Collects what the broker counts anyway."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        broker, fanout = self._broker, self._broker.fanout
        sockets = broker.connection_limits
        with broker.store.view() as view:
            newest, oldest, letters = view.newest(), view.oldest(), view.count_letters()
        counted = (
            ("events_published", "Events that clients have published here", fanout.published),
            ("events_routed", "Events of the log that were asked about", fanout.routed),
            ("events_sent", "Events sent, once for each client that they went to", fanout.sent),
            ("connections_opened", "Connections that were opened", broker.opened),
            ("connections_cut_off", "Connections that the broker has ended", broker.cut_off),
            ("connections_refused", "Connections that were too many", sockets.refused),
            ("connections_late", "Connections whose request did not come", sockets.late),
            ("logins_failed", "Logins without a good token", broker.failed_logins.failed),
        )
        for name, text, count in counted:
            yield CounterMetricFamily(f"polycast_{name}", text, value=count)
        now = (
            ("connections", "Clients that are connected", len(broker.sessions)),
            ("sockets", "Connections, also those that are no clients yet", sockets.open),
            ("inbound_bytes", "Bytes of clients that are not answered", broker.inbound_budget.held),
            ("incoming_bytes", "Bytes of messages that come or wait", broker.incoming_pool.held),
            ("outbound_bytes", "Bytes that wait to be sent", broker.outbound_budget.held),
            ("subscriptions", "What clients want, as subscriptions", len(fanout.plan)),
            ("behind", "Clients that have not read what was sent", fanout.behind),
            ("unread_bytes", "Bytes sent that clients have not read", broker.unread()),
            ("log_newest_position", "The newest position of the log", newest),
            ("log_oldest_position", "The oldest position kept", oldest),
            ("store_bytes", "Bytes that the store takes", broker.store.size()),
            ("dead_letters", "Events that could not be delivered", letters),
            ("ready", "Whether it takes events and gives them out", int(broker.is_ready)),
        )
        for name, text, value in now:
            yield GaugeMetricFamily(f"polycast_{name}", text, value=value)
        text = (
            "Seconds for which clients ask the filters of an owner themselves: they took too long"
        )
        suspended = GaugeMetricFamily("polycast_filters_suspended_seconds", text, labels=["owner"])
        for filters in broker.filter_budget.suspended():
            suspended.add_metric([filters.owner], filters.seconds)
        yield suspended
        yield from self._of_owners()

    def _of_owners(self) -> Iterator[Metric]:
        """What owners use of their quotas."""
        tokens, usage = self._broker.tokens, self._broker.usage
        owners = [] if tokens is None else tokens.owners()
        counted: tuple[tuple[str, str, Callable[[str], int]], ...] = (
            ("connections", "Connections of an owner", usage.held["connections"].__getitem__),
            ("subscriptions", "Its subscriptions here", usage.held["subscriptions"].__getitem__),
            ("durable", "Its durable names, when last counted", usage.durable),
            ("bytes_today", "Bytes of events stored today, if limited", usage.events_today),
            ("letter_bytes_today", "The same of dead letters", usage.letters_today),
        )
        for name, text, count in counted:
            metric = GaugeMetricFamily(f"polycast_owner_{name}", text, labels=["owner"])
            for owner in owners:
                metric.add_metric([owner], count(owner))
            yield metric


def metrics_text(broker: Broker) -> bytes:
    """The metrics of a broker in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collector(broker))
    return generate_latest(registry)
