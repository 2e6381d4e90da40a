"""Publish and subscribe, in this process."""

from polycast.bus.bus import Bus
from polycast.bus.health import Health, SubscriptionHealth, Undelivered
from polycast.bus.options import Options, PublishOptions
from polycast.bus.roster import Advertisement
from polycast.bus.stream import Stream
from polycast.bus.subscription import Subscription
from polycast.routing.explanation import Explanation

__all__ = [
    "Advertisement",
    "Bus",
    "Explanation",
    "Health",
    "Options",
    "PublishOptions",
    "Stream",
    "Subscription",
    "SubscriptionHealth",
    "Undelivered",
]
