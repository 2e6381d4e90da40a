"""From a target of the plan to a callback: order, acknowledgements, retries, dead letters."""

from polycast.delivery.backlog import Backlog
from polycast.delivery.callbacks import Callback, callback_for
from polycast.delivery.consumer import AsyncConsumer, Consumer, InlineConsumer, PoolConsumer
from polycast.delivery.dead_letters import DeadLetter, DeadLetters
from polycast.delivery.delivery import Delivery
from polycast.delivery.group import Group
from polycast.delivery.loop import LoopThread
from polycast.delivery.mailbox import Mailbox, Services
from polycast.delivery.pool import Pool, StuckCallback
from polycast.delivery.timers import Timer, Timers

__all__ = [
    "AsyncConsumer",
    "Backlog",
    "Callback",
    "Consumer",
    "DeadLetter",
    "DeadLetters",
    "Delivery",
    "Group",
    "InlineConsumer",
    "LoopThread",
    "Mailbox",
    "Pool",
    "PoolConsumer",
    "Services",
    "StuckCallback",
    "Timer",
    "Timers",
    "callback_for",
]
