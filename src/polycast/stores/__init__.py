"""Stores: a log of events in total order, and the state of everybody who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.stores import contract, values
from polycast.stores.contract import *
from polycast.stores.entry import Entry, Publisher, Receipt, Recent, Undecodable
from polycast.stores.retention import Pin, Retention, pins, retain, retention_of, tidy_routing
from polycast.stores.values import *

if TYPE_CHECKING:
    import os

    from polycast.config import Clock
    from polycast.stores.sqlite import SqliteStore

__all__ = [
    "Entry",
    "Pin",
    "Publisher",
    "Receipt",
    "Recent",
    "Retention",
    "Undecodable",
    "open_store",
    "pins",
    "retain",
    "retention_of",
    "tidy_routing",
]
__all__ += contract.__all__
__all__ += values.__all__


def open_store(
    path: str | os.PathLike[str], *, clock: Clock | None = None, create: bool = True
) -> SqliteStore:
    """Open the store in a file; the file is created if it does not exist."""
    from polycast.stores.sqlite import SqliteStore  # SQLite is loaded only where it is used

    return SqliteStore(path, clock=clock, create=create)
