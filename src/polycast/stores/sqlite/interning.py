"""Interning: the log has numbers in place of types and of publishers' epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.stores.sqlite.row_format import CHECKSUMMED, fetch_one
from polycast.stores.values import EventType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from polycast.stores.sqlite.row_format import ChecksummedTable, Flaw

Type = tuple[str, int, str]
Source = tuple[str, int]
NamedRun = tuple[Type, Type | None, Source, range]
"""The type, the type of the root forms if that is another, source and sequences of a run."""
NumberedRun = tuple[int, int | None, int, range]

_TYPES, _EPOCHS = CHECKSUMMED["types"], CHECKSUMMED["epochs"]


class InternedNames:
    """The meaning of the numbers in the log; all readers of a store share it.

    A number never changes its meaning, so what was read once stays true.
    """

    def __init__(self) -> None:
        self.types: dict[int, EventType] = {}
        self.sources: dict[int, Source] = {}
        self.flaws: dict[str, Flaw] = {}  # damaged types; by place, as they are seen repeatedly

    def load(self, connection: apsw.Connection) -> None:
        """Read new numbers. Damaged rows are skipped, so records with their numbers are refused."""
        # Several threads may load at once; each update is atomic.
        new = "WHERE number > ?"
        rows, flaws = _TYPES.sort(connection, new, (max(self.types, default=0),))
        self.types.update({number: EventType(*named) for number, *named in rows})
        self.flaws.update({flaw[0]: flaw for flaw in flaws})
        rows, _ = _EPOCHS.sort(connection, new, (max(self.sources, default=0),))
        self.sources.update({number: (publisher, epoch) for number, publisher, epoch in rows})


class Interner:
    """The writer's side: finds the number of a name, or assigns a new one.

    New numbers count only once committed: then call `keep_new`, else `forget_new`.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._types: dict[Type, int] = {}
        self._sources: dict[Source, int] = {}
        self._new_types: dict[Type, int] = {}
        self._new_sources: dict[Source, int] = {}

    def known(self, runs: Sequence[NamedRun]) -> list[NumberedRun]:
        """Return runs with numbers in place of names; `KeyError` if one is not committed yet."""
        types, sources = self._types, self._sources
        return [
            (types[kind], None if root is None else types[root], sources[source], sequences)
            for kind, root, source, sequences in runs
        ]

    def given(self, runs: Sequence[NamedRun]) -> list[NumberedRun]:
        """Return runs with numbers in place of names, assigning new ones where needed."""
        type_, source = self.number_of_type, self.number_of_source
        return [
            (type_(kind), None if root is None else type_(root), source(publisher), sequences)
            for kind, root, publisher, sequences in runs
        ]

    def keep_new(self) -> None:
        """Keep new numbers after a commit."""
        self._types.update(self._new_types)
        self._sources.update(self._new_sources)
        self.forget_new()

    def forget_new(self) -> None:
        """Forget new numbers after a rollback."""
        self._new_types.clear()
        self._new_sources.clear()

    def number_of_type(self, named: Type) -> int:
        """Return the number of a type, assigning a new one if needed."""
        number = self._types.get(named) or self._new_types.get(named)
        if number is None:
            which = "WHERE name = ? AND version = ? AND hash = ?"
            number = self._new_types[named] = self._number(_TYPES, which, named)
        return number

    def number_of_source(self, source: Source) -> int:
        """Return the number of a publisher's epoch, assigning a new one if needed."""
        number = self._sources.get(source) or self._new_sources.get(source)
        if number is None:
            which = "WHERE publisher = ? AND epoch = ?"
            number = self._new_sources[source] = self._number(_EPOCHS, which, source)
        return number

    def _number(self, table: ChecksummedTable, which: str, named: tuple[Any, ...]) -> int:
        rows = table.fetch(self._connection, self._connection.filename, which, named)
        if rows:
            return int(rows[0][0])
        last = fetch_one(self._connection, f"SELECT max(number) FROM {table.table}")
        number = int(last or 0) + 1
        table.put(self._connection, number, *named)
        return number


def rooted(connection: apsw.Connection, types: Sequence[int]) -> list[int]:
    """Return those types that occur as root forms of other types."""
    there = "SELECT 1 FROM log INDEXED BY log_by_root WHERE root"
    if fetch_one(connection, f"{there} IS NOT NULL LIMIT 1") is None:  # as without contexts
        return []
    return [number for number in types if fetch_one(connection, f"{there} = ? LIMIT 1", number)]
