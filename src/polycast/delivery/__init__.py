"""From a target of the plan to a callback: order, acknowledgements, retries, dead letters."""

from polycast.delivery.callbacks import Callback, callback_for
from polycast.delivery.consumer import (
    AsyncConsumer,
    Consumer,
    InlineConsumer,
    PoolConsumer,
    Puller,
)
from polycast.delivery.cursors import CursorKeeper, Keeper, StoreKeeper
from polycast.delivery.dead_letters import DeadLetter, DeadLetters
from polycast.delivery.delivery import Delivery
from polycast.delivery.distributed_group import SharedGroup
from polycast.delivery.event_loop import LoopThread
from polycast.delivery.executor import Pool
from polycast.delivery.groups import Group
from polycast.delivery.high_water_mark import first_limit
from polycast.delivery.inbox import Inbox, Services
from polycast.delivery.mailbox import Mailbox
from polycast.delivery.queue import Backlog
from polycast.delivery.timers import Timer, Timers

__all__ = [
    "AsyncConsumer",
    "Backlog",
    "Callback",
    "Consumer",
    "CursorKeeper",
    "DeadLetter",
    "DeadLetters",
    "Delivery",
    "Group",
    "Inbox",
    "InlineConsumer",
    "Keeper",
    "LoopThread",
    "Mailbox",
    "Pool",
    "PoolConsumer",
    "Puller",
    "Services",
    "SharedGroup",
    "StoreKeeper",
    "Timer",
    "Timers",
    "callback_for",
    "first_limit",
]
