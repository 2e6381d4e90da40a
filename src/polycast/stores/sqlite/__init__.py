"""A store in a SQLite file, which several processes of one host may share."""

from polycast.stores.sqlite.backup import back_up, restore
from polycast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "back_up", "restore"]
