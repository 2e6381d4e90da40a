"""The half of a store that only reads."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from polycast.stores.local import LocalStore
from polycast.stores.sqlite.log_rows import LogReader
from polycast.stores.sqlite.row_format import fetch_one
from polycast.stores.sqlite.state import SqlView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import apsw

    from polycast.events import Identity
    from polycast.stores.contract import View
    from polycast.stores.values import EventType, LogPage

__all__ = ["Readable"]


class Readable(LocalStore):
    """What can be read of a store, from whatever connection `snapshot` gives."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._log = LogReader(path)

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """A connection on which all that is read is of one moment."""

    @contextmanager
    def view(self) -> Iterator[View]:
        """Look at the state as it is now."""
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
        """The first records from a position on, of all or of some types (by number).

        What is before a damaged record is given; a read from it on raises `StoreDamagedError`.
        """
        del wanted_by
        with self.snapshot() as connection:
            return self._log.read(
                connection, start, limit=limit, until=until, types=types, size=size
            )

    def types(self) -> dict[int, EventType]:
        """The types of which there are, or were, records, by number."""
        with self.snapshot() as connection:
            return self._log.types(connection)

    def newest(self) -> int:
        """The newest position."""
        with self.view() as view:
            return view.newest()

    def oldest(self) -> int:
        """The oldest position kept."""
        with self.view() as view:
            return view.oldest()

    def position_at(self, moment: float) -> int:
        """The first position kept whose time is not before a moment."""
        with self.snapshot() as connection:
            return self._log.position_at(connection, moment)

    def find(self, identity: Identity) -> int | None:
        """Where the record with an identity is."""
        with self.snapshot() as connection:
            return self._log.find(connection, identity)

    def size(self) -> int:
        """How many bytes the file takes once all that was written is in it."""
        with self.snapshot() as connection:
            pages = fetch_one(connection, "PRAGMA page_count")
            return int(pages * fetch_one(connection, "PRAGMA page_size"))

    def notices(self) -> list[str]:
        """Nothing is done otherwise than usual."""
        return []
