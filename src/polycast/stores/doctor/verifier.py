"""Verification of every record (checksum, row, order, gaps) and every row with a checksum."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import apsw
import msgspec

from polycast.errors import NotDecodableError
from polycast.events import decode_record
from polycast.stores.doctor.report import Damage, Integrity
from polycast.stores.sqlite.event_log import InternedNames, Row, names_root
from polycast.stores.sqlite.row_format import CHECKSUMMED, fetch, fetch_one
from polycast.stores.sqlite.schema import STEPS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable


_ROWS = (
    "SELECT position, type, {root}, epoch, sequence, time, body FROM log "
    "WHERE position >= ? AND position < ? ORDER BY position LIMIT ?"
)
_SEALED_LETTERS = CHECKSUMMED["letters"]
_LETTERS = f"{_SEALED_LETTERS.select} WHERE number >= ? AND number < ? ORDER BY 1 LIMIT ?"
_SEALED_STRETCHES = CHECKSUMMED["stretches"]
_STRETCHES = f"{_SEALED_STRETCHES.select} WHERE high >= ? AND high < ? ORDER BY 1 LIMIT ?"
_CONTEXTS = CHECKSUMMED["contexts"]
_IN_PARTS = (_SEALED_LETTERS, _SEALED_STRETCHES)  # as they may be many, or long
_FRONTIER = "SELECT high, (SELECT max(high) FROM stretches) FROM routing"
_ALONE = (
    "SELECT number, name FROM routes WHERE until IS NULL AND typeof(name) = 'text' "
    "AND name NOT IN (SELECT name FROM subscriptions) ORDER BY number"
)
_CHUNK = 2_000  # rows at a time, so that no reader holds up the writers' checkpoints for long
LISTED = 20
_HOPELESS = 10_000  # consecutive unreadable rows after which the rest is skipped
_UNREADABLE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError)


class Verifier:
    """Reads all records that are in the log when it begins."""

    def __init__(
        self,
        connection: apsw.Connection,
        progress: Callable[[str, int, int], None],
        *,
        version: int | None,
    ) -> None:
        self._connection, self._progress = connection, progress
        # If even the version is damaged, all tables of the current version are expected.
        self._version = len(STEPS) if version is None else version
        self._routed: int | None = None  # up to where the stretches that were seen go
        self._names = InternedNames()
        self.roots: set[int | None] = set()  # the types of root forms that were seen
        self._damages: list[Damage] = []
        self._damaged = self._records = self._letters = 0
        self._complete = True
        self._latest = float("-inf")

    def verify(self, counts: Counter[int]) -> Integrity:
        """Verify the file, the log and the state; `counts` learns the types by number."""
        file = self._check_file()
        self._check_state()
        rows = _ROWS.format(root="root" if self._version >= _CONTEXTS.since else "NULL")
        self._scan("records", "log", "position", rows, lambda row: self._check(row, counts))
        self._scan("dead letters", "letters", "number", _LETTERS, self._check_letter)
        if self._version >= _SEALED_STRETCHES.since:
            self._scan("stretches", "stretches", "high", _STRETCHES, self._check_stretch)
            self._check_routing()
        if self._version >= _CONTEXTS.since:
            self._check_contexts()
        return Integrity(
            self._records, self._letters, self._complete, self._damaged, self._damages, file
        )

    def _check_file(self) -> list[str]:
        self._progress("the file", 0, 0)
        try:
            rows = fetch(self._connection, f"PRAGMA integrity_check({LISTED})")
        except apsw.Error as error:
            return [str(error)]
        lines = [line for (text,) in rows for line in str(text).splitlines()]
        # The first line of a long text only names the database that it is about.
        return [line for line in lines if line != "ok" and not line.startswith("*** in database")]

    def _check_state(self) -> None:
        """Read all rows with a checksum, even those that no lookup finds, as their key is damaged.

        Letters and stretches are read in parts, elsewhere.
        """
        for table in CHECKSUMMED.values():
            if table in _IN_PARTS or table.since > self._version:
                continue
            self._progress(f"the table {table.table}", 0, 0)
            try:
                _, flaws = table.sort(self._connection)
            except apsw.Error as error:
                flaws = [(f"the table {table.table}", str(error))]
                self._complete = False
            for place, why in flaws:
                self._note(place, why)

    # -- rows in order, around what cannot be read -------------------------------------------------

    def _scan(
        self, what: str, table: str, key: str, sql: str, check: Callable[[Any], None]
    ) -> None:
        """Check each row, and continue after unreadable ones, up to a limit."""
        ends = f"SELECT min({key}), max({key}) FROM {table}"
        try:
            ((first, last),) = fetch(self._connection, ends)
        except apsw.Error as error:
            self._note(f"the {what}", str(error))
            self._complete = False
            return
        start, end = first or 0, (last or -1) + 1
        at, chunk, lost = start, _CHUNK, 0  # how many rows before `at` could not be read
        while at < end and lost < _HOPELESS:
            self._progress(what, at - start, end - start)
            try:
                rows = fetch(self._connection, sql, (at, end, chunk))
            except _UNREADABLE:
                if chunk > 1:
                    chunk //= 2
                else:
                    at, lost = at + 1, lost + 1
                continue
            self._note_lost(key, at - lost, lost)
            if key == "position":
                self._check_run(at, end, chunk, [row[0] for row in rows])
            for row in rows:
                check(row)
            at = rows[-1][0] + 1 if rows else end
            chunk, lost = min(chunk * 2, _CHUNK), 0
        self._note_lost(key, at - lost, lost)
        self._complete = self._complete and lost < _HOPELESS

    def _note_lost(self, key: str, start: int, many: int) -> None:
        if many == 1:
            self._note(f"{key} {start}", "SQLite cannot read it")
        elif many:
            place = f"{key}s {start} to {start + many - 1}"
            self._note(place, "SQLite cannot read them", many=many)

    def _check_run(self, start: int, end: int, limit: int, positions: list[int]) -> None:
        """Check that positions have no gaps, except for records truncated meanwhile."""
        expected = start
        last = [] if len(positions) == limit else [end]
        for position in [*positions, *last]:
            if position != expected:
                first = max(expected, self._oldest())
                if first + 1 == position:
                    self._note(f"position {first}", "there is no record")
                elif first < position:
                    place, many = f"positions {first} to {position - 1}", position - first
                    self._note(place, "there are no records", many=many)
            expected = position + 1

    def _oldest(self) -> int:
        return fetch_one(self._connection, "SELECT min(position) FROM log") or 0

    # -- one row -----------------------------------------------------------------------------------

    def _check(self, row: Row, counts: Counter[int]) -> None:
        self._records += 1
        position, kind, root, source, sequence, time, body = row
        if None in (kind, source, sequence, time, body):  # a damaged row may lack what it must have
            self._note(f"position {position}", "its row is not whole")
            return
        counts[kind] += 1
        self.roots.add(root)
        names, numbers = self._names, {kind, kind if root is None else root}
        if not numbers <= names.types.keys() or source not in names.sources:
            self._load()
        if not numbers <= names.types.keys() or source not in names.sources:
            self._note(f"position {position}", "no type or publisher has its number")
            return
        try:
            record = decode_record(body)
        except NotDecodableError as error:
            self._note(f"position {position}", str(error))
            return
        named, identity = names.types[kind], record.identity
        said = (record.name, record.version, record.hash, identity.publisher, identity.epoch)
        if said != (named.name, named.version, named.hash, *names.sources[source]) or (
            (identity.sequence, record.time) != (sequence, time)
            or not names_root(record, root, names.types)
        ):
            self._note(f"position {position}", "its row does not say what the record says")
        elif time < self._latest:
            self._note(f"position {position}", "its time is before that of an earlier record")
        self._latest = max(self._latest, record.time)

    def _load(self) -> None:
        try:
            self._names.load(self._connection)
        except apsw.Error:
            pass  # the record is reported, as its numbers stay unknown

    def _check_letter(self, row: tuple[Any, ...]) -> None:
        self._letters += 1
        flaw = _SEALED_LETTERS.flaw(row)
        if flaw is not None:
            self._note(*flaw)
            return
        try:
            decode_record(row[3])
        except NotDecodableError as error:
            self._note(f"dead letter {row[0]}", str(error))

    # -- the pipeline ------------------------------------------------------------------------------

    def _check_stretch(self, row: tuple[Any, ...]) -> None:
        flaw = _SEALED_STRETCHES.flaw(row)
        if flaw is not None:
            self._note(*flaw)
            self._routed = None
            return
        high, low = row[:2]
        place, expected = f"the stretch from {low} to {high}", self._routed
        if low >= high:
            self._note(place, "it is empty")
        elif expected is not None and low < expected:
            self._note(place, f"it begins before {expected}, where the one before it ends")
        elif expected is not None and low > max(expected, self._first_stretch()):
            self._note(place, f"it begins after {expected}, where the one before it ends")
        self._routed = high

    def _first_stretch(self) -> int:
        """Return where the first stretch begins; earlier ones may be dropped meanwhile."""
        sql = "SELECT low FROM stretches WHERE typeof(low) = 'integer' ORDER BY high LIMIT 1"
        try:
            return fetch_one(self._connection, sql) or 0
        except apsw.Error:
            return 0

    def _check_routing(self) -> None:
        """Check that the tables about routes and stretches agree, each pair in one statement."""
        try:
            frontier = fetch(self._connection, _FRONTIER)
            alone = fetch(self._connection, _ALONE)
            routes, _ = CHECKSUMMED["routes"].sort(self._connection)
        except (apsw.Error, UnicodeDecodeError) as error:
            self._note("the state of the pipeline", str(error))
            self._complete = False
            return
        if len(frontier) != 1:
            self._note("how far the pipeline has come", "there is no such row")
        elif frontier[0][1] not in (None, frontier[0][0]):
            high, last = frontier[0]
            self._note(f"the stretch that ends at {last}", f"all before {high} should be routed")
        for number, name in alone:
            self._note(f"the route {number} of {name!r}", "there is no such subscription")
        for number, name, definition, *_ in routes:
            why = _unreadable(definition)
            if why:
                self._note(f"the route {number} of {name!r}", why)

    def _check_contexts(self) -> None:
        """Check that at most one version of each context is in effect at any position."""
        try:
            rows, _ = _CONTEXTS.sort(self._connection, "ORDER BY name, start, number")
        except apsw.Error as error:
            self._note("the contexts", str(error))
            self._complete = False
            return
        for row in rows:
            number, name, _, start, until = row
            if until is not None and until <= start:
                self._note(f"the version {number} of the context {name!r}", "it is empty")
        for (_, one, _, _, until), (number, name, _, start, _) in pairwise(rows):
            if one == name and (until is None or until > start):
                last = "does not end" if until is None else f"ends at {until}"
                why = f"it begins at {start}, and the one before it {last}"
                self._note(f"the version {number} of the context {name!r}", why)

    def _note(self, place: str, why: str, *, many: int = 1) -> None:
        self._damaged += many
        if len(self._damages) < LISTED:
            self._damages.append(Damage(place, why))


def _unreadable(definition: bytes) -> str | None:
    """Why a definition cannot be read; what it means, only those who route know."""
    try:
        msgspec.json.decode(definition, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, TypeError) as error:
        return f"its definition cannot be read: {error}"
    return None
