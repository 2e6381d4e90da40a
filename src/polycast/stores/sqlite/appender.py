"""Insertion of records into the log, within the writer's transaction."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import apsw

from polycast.errors import NotSerialisableError, StoreDamagedError
from polycast.stores.sqlite.row_format import fetch_one, insert_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polycast.stores.sqlite.interning import Interner, NumberedRun, Source, Type
    from polycast.stores.sqlite.write_queue import Appending

# Raised by SQLite for an identity already in the log, a number over 64 bits, or no number.
_REFUSED = (apsw.ConstraintError, OverflowError, TypeError)
_INTO_LOG = "INSERT INTO log(sequence, type, root, epoch, time, body)"


class Appender:
    """Appends to the log, whose end it knows during the writer's transaction."""

    def __init__(self, connection: apsw.Connection, path: str, numbers: Interner) -> None:
        self._connection, self._path, self._numbers = connection, path, numbers
        self._newest, self._latest = 0, 0.0

    def start(self, newest: int, latest: float) -> None:
        """Begin a transaction at this end of the log."""
        self._newest, self._latest = newest, latest

    def append(self, jobs: Sequence[Appending]) -> None:
        """Append the records of several jobs, and set the outcome of each."""
        for job in jobs:
            # Another process may have appended since, and time never goes back in the log.
            if job.moment < self._latest:
                job.encode(self._latest)
            self._latest = max(self._latest, job.moment)
        try:
            numbered = [self._numbers.known(job.runs) for job in jobs]
        except KeyError:
            self._append_named(jobs)
            return
        try:
            self._insert(jobs, numbered)
        except _REFUSED:
            self._connection.execute("DELETE FROM log WHERE position > ?", (self._newest,))
            for job in jobs:
                self._append_carefully(job)

    def _append_named(self, jobs: Sequence[Appending]) -> None:
        """Append in a savepoint, as new types and publishers must be undone with the rest."""
        execute = self._connection.execute
        execute("SAVEPOINT run")
        try:
            self._insert(jobs, [self._numbers.given(job.runs) for job in jobs])
        except _REFUSED:
            execute("ROLLBACK TO run")
            self._numbers.forget_new()
            for job in jobs:
                self._append_carefully(job)
        execute("RELEASE run")

    def _insert(self, jobs: Sequence[Appending], numbered: Sequence[list[NumberedRun]]) -> None:
        """Insert all records at once: the usual case, where none is in the log yet."""
        values: list[Any] = []
        for job, runs in zip(jobs, numbered, strict=True):
            bodies, moment = iter(job.bodies), repeat(job.moment)
            for kind, root, source, sequences in runs:
                # The sequences end first, so that no body of the next run is taken.
                rows = zip(sequences, repeat(kind), repeat(root), repeat(source), moment, bodies)
                values.extend(chain.from_iterable(rows))
        if values:
            insert_rows(self._connection, _INTO_LOG, values, width=6)
        newest = self._newest
        for job in jobs:
            job.result = list(range(newest + 1, newest + 1 + job.records))
            newest += job.records
        if values and self._connection.last_insert_rowid() != newest:
            raise StoreDamagedError(
                self._path,
                place=f"position {newest}",
                why=f"SQLite put the record at {self._connection.last_insert_rowid()}",
            )
        self._newest = newest

    def _append_carefully(self, job: Appending) -> None:
        """Append record by record, skipping identities that are in the log."""
        execute, newest = self._connection.execute, self._newest
        execute("SAVEPOINT one")
        try:
            job.result = [self._append_one(job.moment, *parts) for parts in job.one_by_one()]
        except _REFUSED as error:
            job.error = NotSerialisableError(job.drafts, path="Record", why=str(error))
            execute("ROLLBACK TO one")
            self._numbers.forget_new()
            self._newest = newest
        execute("RELEASE one")

    def _append_one(
        self,
        moment: float,
        kind: Type,
        root: Type | None,
        source: Source,
        sequence: int,
        body: bytes,
    ) -> int:
        epoch = self._numbers.number_of_source(source)
        found = fetch_one(
            self._connection,
            "SELECT position FROM log WHERE epoch = ? AND sequence = ?",
            epoch,
            sequence,
        )
        if found is not None:
            return int(found)
        number = self._numbers.number_of_type(kind)
        other = None if root is None else self._numbers.number_of_type(root)
        row = (sequence, number, other, epoch, moment, body)
        self._connection.execute(f"{_INTO_LOG} VALUES (?, ?, ?, ?, ?, ?)", row)
        self._newest += 1
        return self._newest
