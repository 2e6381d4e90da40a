"""From a target of the plan to a callback: order, acknowledgements, retries, dead letters."""

from polycast.delivery.backlog import Backlog
from polycast.delivery.callbacks import Callback, callback_for
from polycast.delivery.consumer import (
    AsyncConsumer,
    Consumer,
    InlineConsumer,
    PoolConsumer,
    Puller,
)
from polycast.delivery.dead_letters import DeadLetter, DeadLetters
from polycast.delivery.delivery import Delivery
from polycast.delivery.group import Group
from polycast.delivery.inbox import Inbox, Services
from polycast.delivery.keeping import CursorKeeper, Keeper, StoreKeeper
from polycast.delivery.loop import LoopThread
from polycast.delivery.mailbox import Mailbox
from polycast.delivery.pool import Pool
from polycast.delivery.reach import first_limit
from polycast.delivery.shared import SharedGroup
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
