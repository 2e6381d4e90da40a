"""From a published event to the subscriptions that want it: the plan and its generated code."""

from polycast.routing.dispatcher import Dispatcher
from polycast.routing.plan import Plan, Target
from polycast.routing.recipients import Takers, decode_takers, encode_takers
from polycast.routing.store_dispatcher import StoredDispatcher
from polycast.routing.store_publisher import StorePublisher, Submission
from polycast.routing.stored_plan import Failure, Found, RoutingPlan, load

__all__ = [
    "Dispatcher",
    "Failure",
    "Found",
    "Plan",
    "RoutingPlan",
    "StorePublisher",
    "StoredDispatcher",
    "Submission",
    "Takers",
    "Target",
    "decode_takers",
    "encode_takers",
    "load",
]
