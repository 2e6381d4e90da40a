"""From a target of the plan to a callback: queue, settlement, worker, cursor, dead letters."""

from polycast.delivery.callbacks import Callback, callback_for
from polycast.delivery.consumer import (
    Consumer,
    CoroutineConsumer,
    InlineConsumer,
    PoolConsumer,
    Puller,
)
from polycast.delivery.cursors import Cursor, DurableCursor, StoreCursor, first_limit
from polycast.delivery.dead_letters import DeadLetter, DeadLetters
from polycast.delivery.delivery import Delivery
from polycast.delivery.distributed_group import GroupClaims, distributed_group
from polycast.delivery.executor import LoopThread, Pool
from polycast.delivery.mailbox import Lease, Mailbox
from polycast.delivery.services import Services
from polycast.delivery.timers import Timer, Timers

__all__ = [
    "Callback",
    "Consumer",
    "CoroutineConsumer",
    "Cursor",
    "DeadLetter",
    "DeadLetters",
    "Delivery",
    "DurableCursor",
    "GroupClaims",
    "InlineConsumer",
    "Lease",
    "LoopThread",
    "Mailbox",
    "Pool",
    "PoolConsumer",
    "Puller",
    "Services",
    "StoreCursor",
    "Timer",
    "Timers",
    "callback_for",
    "distributed_group",
    "first_limit",
]
