"""From a published event to the subscriptions that want it: the plan and its generated code."""

from polycast.routing.dispatcher import Dispatcher
from polycast.routing.plan import Plan, Target
from polycast.routing.reference import takers
from polycast.routing.stored import StoredDispatcher, Submission

__all__ = ["Dispatcher", "Plan", "StoredDispatcher", "Submission", "Target", "takers"]
