"""The tables of a store in memory."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from polycast.stores.memory.version_table import VersionTable
from polycast.stores.values import Routed

if TYPE_CHECKING:
    from polycast.stores.values import (
        Advert,
        ContextVersion,
        Flight,
        GroupMember,
        Letter,
        OpenBus,
        Stored,
        StoredReply,
        StoredRoute,
        StoredSubscription,
        Stretch,
    )
    from polycast.typesystem import Description

__all__ = ["MemoryTables"]


class MemoryTables:
    """Rows are replaced, never changed in place, so a copy of the tables is a snapshot."""

    def __init__(self, log: list[Stored]) -> None:
        self._log = log
        self._identity = uuid.uuid4().hex
        self._revision = 0
        self._changes: dict[int, str] = {}  # the subscription of each revision
        self._epochs: dict[str, int] = {}
        self._last_number = 0  # of buses, letters and adverts
        self._descriptions: dict[str, Description] = {}
        self._buses: dict[int, OpenBus] = {}
        self._subscriptions: dict[str, StoredSubscription] = {}
        self._flights: dict[tuple[str, int], Flight] = {}
        self._members: dict[tuple[str, int], GroupMember] = {}
        self._letters: dict[int, Letter] = {}
        self._adverts: dict[int, Advert] = {}
        self._documents: dict[tuple[str, str], bytes] = {}
        self._replies: dict[str, StoredReply] = {}
        self._routed = Routed(1, 0)
        self._routes: VersionTable[StoredRoute] = VersionTable()
        self._contexts: VersionTable[ContextVersion] = VersionTable()
        self._last_version = 0  # the number of the newest route or context
        self._stretches: dict[int, Stretch] = {}

    def copy(self) -> dict[str, Any]:
        """Return all tables as they are now."""
        tables = vars(self).items()
        return {
            name: type(table)(table) if isinstance(table, dict) else table for name, table in tables
        }

    def identity(self) -> str:
        """Return the unique name of this store."""
        return self._identity

    def newest(self) -> int:
        """Return the newest position; 0 if nothing was ever appended."""
        return self._log[-1].position if self._log else 0

    def oldest(self) -> int:
        """Return the oldest position kept."""
        return self._log[0].position if self._log else 1

    def revision(self) -> int:
        """Return a number that grows whenever what routing depends on changes."""
        return self._revision

    def _number(self) -> int:
        self._last_number += 1
        return self._last_number
