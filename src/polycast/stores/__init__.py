"""Stores: a log of events in total order, and the state of everybody who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import BadOptionError, NotAvailableError
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
    "path_of",
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


_LATER = {"kafka": "a distributed bus"}
NO_FILES = ("", "/", ":memory:")
ACCEPTED = "'memory:', which is the default, or 'sqlite:///' and the path of a file"


def path_of(url: object) -> str | None:
    """Return the file that a URL names; None for a bus in memory."""
    if isinstance(url, str):
        scheme, _, rest = url.partition(":")
        if scheme == "memory":
            return None
        if scheme == "sqlite" and rest.startswith("///") and rest[3:] not in NO_FILES:
            return rest[3:]  # as everywhere: three slashes and a relative path, four and "/..."
        if scheme in _LATER:
            raise NotAvailableError(
                f"{_LATER[scheme]} ({url})",
                why="this version keeps events in memory or in a file",
                instead="Open it with pc.Bus(), or with pc.Bus('sqlite:///events.db')",
            )
    raise BadOptionError("url", url, accepted=ACCEPTED)
