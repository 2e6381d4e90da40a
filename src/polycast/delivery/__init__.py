"""From a target of the plan to a callback: queue, settlement, worker, cursor, dead letters."""

from polycast.delivery.consumer import (
    Consumer,
    CoroutineConsumer,
    InlineConsumer,
    PoolConsumer,
    Puller,
)
from polycast.delivery.cursors import Cursor, DurableCursor, StoreCursor, first_limit
from polycast.delivery.dead_letters import DeadLetter, DeadLetters
from polycast.delivery.delivery import Callback, Delivery, callback_for
from polycast.delivery.distributed_group import GroupClaims, distributed_group
from polycast.delivery.mailbox import Lease, Mailbox, Services
from polycast.delivery.threads import LoopThread, Pool, Timer, Timers, Workers

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
    "Workers",
    "callback_for",
    "distributed_group",
    "first_limit",
]
