"""Publish and subscribe, in this process."""

from polycast.bus.bus import Bus
from polycast.bus.stream import Stream
from polycast.routing.explanation import Explanation
from polycast.subscriptions.advertisements import Advertisement
from polycast.subscriptions.health import Health, SubscriptionHealth, Undelivered
from polycast.subscriptions.options import PublishOptions, SubscribeOptions
from polycast.subscriptions.subscription import Subscription

__all__ = [
    "Advertisement",
    "Bus",
    "Explanation",
    "Health",
    "PublishOptions",
    "Stream",
    "SubscribeOptions",
    "Subscription",
    "SubscriptionHealth",
    "Undelivered",
]
