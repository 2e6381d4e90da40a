"""From a published event to the subscriptions that want it: the plan and its generated code."""

from polycast.routing.dispatcher import Dispatcher
from polycast.routing.match import MatchFailure, MatchResult
from polycast.routing.plan import Plan, Target
from polycast.routing.publish import MemoryPublisher
from polycast.routing.recipients import Recipients, decode_recipients, encode_recipients
from polycast.routing.record_router import RecordRouter
from polycast.routing.store_publisher import StorePublisher, Submission

__all__ = [
    "Dispatcher",
    "MatchFailure",
    "MatchResult",
    "MemoryPublisher",
    "Plan",
    "Recipients",
    "RecordRouter",
    "StorePublisher",
    "Submission",
    "Target",
    "decode_recipients",
    "encode_recipients",
]
