"""Where events are kept: a log of entries in total order."""

from polycast.stores.entry import Entry, Publisher, Receipt
from polycast.stores.memory import MemoryLog

__all__ = ["Entry", "MemoryLog", "Publisher", "Receipt"]
