"""Where events are kept: a log in total order, and the state of who reads it."""

from polycast.stores.contract import (
    Advert,
    Batch,
    Draft,
    EventType,
    Flight,
    Kept,
    Letter,
    Member,
    OpenBus,
    Store,
    Stored,
    Transaction,
    View,
)
from polycast.stores.entry import Entry, Publisher, Receipt
from polycast.stores.memory import MemoryStore
from polycast.stores.recent import Recent

__all__ = [
    "Advert",
    "Batch",
    "Draft",
    "Entry",
    "EventType",
    "Flight",
    "Kept",
    "Letter",
    "Member",
    "MemoryStore",
    "OpenBus",
    "Publisher",
    "Receipt",
    "Recent",
    "Store",
    "Stored",
    "Transaction",
    "View",
]
