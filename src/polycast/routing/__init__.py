"""From a published event to the subscriptions that want it: the plan and its generated code."""

from polycast.routing.dispatcher import Dispatcher
from polycast.routing.plan import Plan, Target
from polycast.routing.recipients import Recipients, decode_recipients, encode_recipients
from polycast.routing.store_dispatcher import StoredDispatcher
from polycast.routing.store_publisher import StorePublisher, Submission
from polycast.routing.stored_plan import MatchFailure, MatchResult, RoutingPlan, load

__all__ = [
    "Dispatcher",
    "MatchFailure",
    "MatchResult",
    "Plan",
    "Recipients",
    "RoutingPlan",
    "StorePublisher",
    "StoredDispatcher",
    "Submission",
    "Target",
    "decode_recipients",
    "encode_recipients",
    "load",
]
