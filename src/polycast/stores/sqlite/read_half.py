"""The reading half of a store in a file."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from polycast.stores.local import LocalStore
from polycast.stores.sqlite.log_rows import LogRowReader
from polycast.stores.sqlite.row_format import fetch_one
from polycast.stores.sqlite.state import SqlView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import apsw

    from polycast.events import Identity
    from polycast.stores.contract import View
    from polycast.stores.values import EventType, LogPage


class Readable(LocalStore):
    """All reads of a store, on the connections that `snapshot` lends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._log = LogRowReader(path)

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection on which all reads see one moment."""

    @contextmanager
    def view(self) -> Iterator[View]:
        """Open a view of the current state."""
        with self.snapshot() as connection:
            yield SqlView(connection, self.path)

    def read(
        self,
        start: int,
        *,
        limit: int = 1_000,
        until: int | None = None,
        types: Collection[int] | None = None,
        wanted_by: str | None = None,
        size: int | None = None,
    ) -> LogPage:
        """Read the first records from a position on, of all types or of some (by number).

        A read stops before a damaged record; one that begins there raises `StoreDamagedError`.
        """
        del wanted_by
        with self.snapshot() as connection:
            return self._log.read(
                connection, start, limit=limit, until=until, types=types, size=size
            )

    def types(self) -> dict[int, EventType]:
        """Return the types of all records, past ones included, by number."""
        with self.snapshot() as connection:
            return self._log.types(connection)

    def newest(self) -> int:
        """Return the newest position."""
        with self.view() as view:
            return view.newest()

    def oldest(self) -> int:
        """Return the oldest position kept."""
        with self.view() as view:
            return view.oldest()

    def position_at(self, moment: float) -> int:
        """Return the first position whose time is not before a moment."""
        with self.snapshot() as connection:
            return self._log.position_at(connection, moment)

    def find(self, identity: Identity) -> int | None:
        """Return the position of the record with an identity."""
        with self.snapshot() as connection:
            return self._log.find(connection, identity)

    def size(self) -> int:
        """Return the size of the file in bytes, once the write-ahead log is moved into it."""
        with self.snapshot() as connection:
            pages = fetch_one(connection, "PRAGMA page_count")
            return int(pages * fetch_one(connection, "PRAGMA page_size"))

    def notices(self) -> list[str]:
        """Return nothing: the store is never degraded."""
        return []
