"""The numbers that stand in the log for types and for the openings of publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.stores.contract import EventType
from polycast.stores.sqlite.rows import SEALED, fetch_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from polycast.stores.sqlite.rows import Flaw, Sealed

__all__ = ["Names", "Numbers"]

Type = tuple[str, int, str]
Source = tuple[str, int]
Columns = tuple[list[int], list[int]]

_TYPES, _EPOCHS = SEALED["types"], SEALED["epochs"]


class Names:
    """What the numbers in the log stand for; shared by all readers of a store.

    A number never changes its meaning, so what was read once is true for good.
    """

    def __init__(self) -> None:
        self.types: dict[int, EventType] = {}
        self.sources: dict[int, Source] = {}
        self.flaws: dict[str, Flaw] = {}  # damaged types; by place, as they are seen repeatedly

    def load(self, connection: apsw.Connection) -> None:
        """Read those that are new. What is damaged stands for nothing: its records are refused."""
        # Several threads may be here at once; an update is one step for all others.
        new = "WHERE number > ?"
        rows, flaws = _TYPES.sort(connection, new, (max(self.types, default=0),))
        self.types.update({number: EventType(*named) for number, *named in rows})
        self.flaws.update({flaw[0]: flaw for flaw in flaws})
        rows, _ = _EPOCHS.sort(connection, new, (max(self.sources, default=0),))
        self.sources.update({number: (publisher, epoch) for number, publisher, epoch in rows})


class Numbers:
    """The writer's side: numbers for names, new ones where there are none yet.

    New ones count only once they are committed: `keep_new` and `forget_new` say which it was.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._types: dict[Type, int] = {}
        self._sources: dict[Source, int] = {}
        self._new_types: dict[Type, int] = {}
        self._new_sources: dict[Source, int] = {}

    def known(self, types: Sequence[Type], sources: Sequence[Source]) -> Columns:
        """The numbers of these; `KeyError` if one is not committed."""
        return (
            list(map(self._types.__getitem__, types)),
            list(map(self._sources.__getitem__, sources)),
        )

    def given(self, types: Sequence[Type], sources: Sequence[Source]) -> Columns:
        """The numbers of these, new ones for those that have none."""
        return (
            [self._types.get(each) or self._type(each) for each in types],
            [self._sources.get(each) or self._source(each) for each in sources],
        )

    def keep_new(self) -> None:
        """The new ones are committed."""
        self._types.update(self._new_types)
        self._sources.update(self._new_sources)
        self.forget_new()

    def forget_new(self) -> None:
        """The new ones may have been undone."""
        self._new_types.clear()
        self._new_sources.clear()

    def _type(self, named: Type) -> int:
        if named not in self._new_types:
            which = "WHERE name = ? AND version = ? AND hash = ?"
            self._new_types[named] = self._number(_TYPES, which, named)
        return self._new_types[named]

    def _source(self, source: Source) -> int:
        if source not in self._new_sources:
            which = "WHERE publisher = ? AND epoch = ?"
            self._new_sources[source] = self._number(_EPOCHS, which, source)
        return self._new_sources[source]

    def _number(self, table: Sealed, which: str, named: tuple[Any, ...]) -> int:
        rows = table.fetch(self._connection, self._connection.filename, which, named)
        if rows:
            return int(rows[0][0])
        last = fetch_one(self._connection, f"SELECT max(number) FROM {table.table}")
        number = int(last or 0) + 1
        table.put(self._connection, number, *named)
        return number
