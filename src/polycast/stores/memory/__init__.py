"""A store in memory."""

from polycast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
