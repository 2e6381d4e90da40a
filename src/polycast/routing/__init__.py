"""From a published event to the subscriptions that want it: the plan and its generated code."""

from polycast.routing.dispatcher import Dispatcher
from polycast.routing.loading import Failure, Found, RoutingPlan, load
from polycast.routing.plan import Plan, Target
from polycast.routing.stored import StoredDispatcher, Submission
from polycast.routing.takers import Takers, decode_takers, encode_takers

__all__ = [
    "Dispatcher",
    "Failure",
    "Found",
    "Plan",
    "RoutingPlan",
    "StoredDispatcher",
    "Submission",
    "Takers",
    "Target",
    "decode_takers",
    "encode_takers",
    "load",
]
