"""The schema of a store's file: creation, version check and migration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import apsw

from polycast.errors import NotAStoreError
from polycast.runtime import SYSTEM, Runtime
from polycast.stores.sqlite.row_format import fetch

APPLICATION = 0x706F6C79  # "poly"; tells a store from any other SQLite file
BUSY_SECONDS = 60.0  # how long to wait for another process that writes

# `Sealed` is called `ChecksummedTable` now; a released step is never changed.
_FIRST = """
-- A checksum is that of all other columns of its row: see `Sealed`.

-- numbers: the last that was given to a bus, a letter or an advert; listening: grows with every
-- change of listeners; epochs: a publisher that is new begins after it.
CREATE TABLE counters(
    one INTEGER PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL, numbers INTEGER NOT NULL, listening INTEGER NOT NULL,
    epochs INTEGER NOT NULL) STRICT;
INSERT INTO counters VALUES (1, 0, 0, 0, 0);

CREATE TABLE types(
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL, version INTEGER NOT NULL, hash TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (name, version, hash)) STRICT;

CREATE TABLE epochs(
    number INTEGER PRIMARY KEY, publisher TEXT NOT NULL, epoch INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (publisher, epoch)) STRICT;

CREATE TABLE log(
    position INTEGER PRIMARY KEY,
    type INTEGER NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
    time REAL NOT NULL, body BLOB NOT NULL,
    UNIQUE (epoch, sequence)) STRICT;
-- SQLite puts the position after the type by itself.
CREATE INDEX log_by_type ON log(type);

CREATE TABLE descriptions(
    number INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, body BLOB NOT NULL) STRICT;

-- The last epoch that each publisher was given.
CREATE TABLE publishers(
    name TEXT PRIMARY KEY, epoch INTEGER NOT NULL,
    checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE buses(
    id INTEGER PRIMARY KEY,
    publisher TEXT NOT NULL, epoch INTEGER NOT NULL, until REAL NOT NULL,
    address TEXT NOT NULL, process INTEGER NOT NULL) STRICT;

CREATE TABLE subscriptions(
    name TEXT PRIMARY KEY, definition BLOB NOT NULL,
    start INTEGER NOT NULL, cursor INTEGER NOT NULL,
    durable INTEGER NOT NULL, grouped INTEGER NOT NULL, pinned INTEGER NOT NULL,
    until INTEGER, token INTEGER NOT NULL, holder INTEGER, lease REAL,
    checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_by_lease ON subscriptions(lease) WHERE lease IS NOT NULL;

CREATE INDEX subscriptions_by_holder ON subscriptions(holder) WHERE holder IS NOT NULL;

-- Which subscription was saved or removed with a revision; the latest of them.
CREATE TABLE changes(revision INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;

CREATE TABLE flights(
    name TEXT NOT NULL, position INTEGER NOT NULL,
    publisher TEXT NOT NULL, holder INTEGER, token INTEGER NOT NULL,
    attempts INTEGER NOT NULL, due REAL NOT NULL, done INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (name, position)) STRICT, WITHOUT ROWID;
CREATE INDEX flights_under_way ON flights(name, position) WHERE NOT done;

CREATE TABLE members(
    name TEXT NOT NULL, bus INTEGER NOT NULL, looked INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (name, bus)) STRICT, WITHOUT ROWID;

CREATE TABLE letters(
    number INTEGER PRIMARY KEY,
    subscription TEXT NOT NULL, position INTEGER NOT NULL, body BLOB NOT NULL,
    reason TEXT NOT NULL, attempts INTEGER NOT NULL, time REAL NOT NULL,
    checksum INTEGER NOT NULL) STRICT;
CREATE INDEX letters_by_subscription ON letters(subscription);

CREATE TABLE adverts(
    number INTEGER PRIMARY KEY,
    bus INTEGER NOT NULL, what TEXT NOT NULL, until REAL) STRICT;

CREATE TABLE documents(
    kind TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID;

-- The stores that are open, by the socket that wakes them; '' for one that has none.
CREATE TABLE listeners(
    number INTEGER PRIMARY KEY, address TEXT NOT NULL, process INTEGER NOT NULL) STRICT;
"""

_SECOND = """
-- What tells this store from any other. A checkpoint that names another is refused.
CREATE TABLE identity(one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL) STRICT;
INSERT INTO identity VALUES (1, lower(hex(randomblob(16))));

-- How far the pipeline has come, who may write for it, the last number given to a route.
CREATE TABLE routing(
    one INTEGER PRIMARY KEY CHECK (one = 1),
    high INTEGER NOT NULL, token INTEGER NOT NULL, numbers INTEGER NOT NULL,
    checksum INTEGER NOT NULL) STRICT;
INSERT INTO routing VALUES (1, 1, 0, 0, 1541045151);

CREATE TABLE routes(
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL, definition BLOB NOT NULL, start INTEGER NOT NULL, until INTEGER,
    checksum INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX routes_that_last ON routes(name) WHERE until IS NULL;
CREATE INDEX routes_by_start ON routes(start, until);
CREATE INDEX routes_by_until ON routes(until) WHERE until IS NOT NULL;

CREATE TABLE stretches(
    high INTEGER PRIMARY KEY, low INTEGER NOT NULL, takers BLOB NOT NULL,
    checksum INTEGER NOT NULL) STRICT;
"""

_THIRD = """
-- The type of the root form, where it is another one than that of the event.
ALTER TABLE log ADD COLUMN root INTEGER;
CREATE INDEX log_by_root ON log(root) WHERE root IS NOT NULL;

-- What contexts are and were; their numbers come from where those of routes do.
CREATE TABLE contexts(
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL, body BLOB NOT NULL, start INTEGER NOT NULL, until INTEGER,
    checksum INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX contexts_that_last ON contexts(name) WHERE until IS NULL;
CREATE INDEX contexts_by_start ON contexts(start, until);
CREATE INDEX contexts_by_until ON contexts(until) WHERE until IS NOT NULL;

-- An event that cannot get to a context is one letter, whoever finds out.
CREATE INDEX letters_by_position ON letters(subscription, position);
"""

_FOURTH = """
-- What each client of a broker was told last about work of its own, in case it did not hear it.
CREATE TABLE answers(
    client TEXT PRIMARY KEY, number INTEGER NOT NULL, body BLOB NOT NULL, time REAL NOT NULL,
    checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_time ON answers(time);
"""

STEPS: tuple[str, ...] = (_FIRST, _SECOND, _THIRD, _FOURTH)
"""A file of version n has had the first n steps. Steps are added at the end and never changed."""


# In one statement: another process may be making the store at this moment.
_ABOUT = """
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
FROM pragma_application_id, pragma_user_version
"""


def prepare(
    connection: apsw.Connection,
    path: str,
    *,
    create: bool = True,
    steps: Sequence[str] = STEPS,
    runtime: Runtime = SYSTEM,
) -> None:
    """Initialize a new file, migrate an old store, and refuse any other file."""
    version = version_of(connection, path, accepted=len(steps))
    if version == 0 and not create:
        raise NotAStoreError(path, why="it is empty", instead="Name a store, or make a new one")
    if version < len(steps):
        _upgrade(connection, path, steps)
    _use_wal(connection, runtime)


def version_of(connection: apsw.Connection, path: str, *, accepted: int = len(STEPS)) -> int:
    """Return the version of a store, 0 for an empty file; `NotAStoreError` for any other file."""
    ((application, version, tables),) = fetch(connection, _ABOUT)
    if (application, version, tables) == (0, 0, 0):
        return 0
    if application != APPLICATION:
        raise NotAStoreError(
            path,
            why="it is a SQLite file of something else",
            instead="Name another file, or one that is not there: it is made",
        )
    if version > accepted:
        raise NotAStoreError(
            path,
            why=f"it has version {version}, this polycast reads versions 1 to {accepted}",
            instead="Use the polycast that wrote it, or a newer one; the file was not changed",
        )
    return int(version)


def _upgrade(connection: apsw.Connection, path: str, steps: Sequence[str]) -> None:
    """Run the missing steps, each in a transaction; other processes may be doing the same."""
    for pragma in ("auto_vacuum = INCREMENTAL", "synchronous = EXTRA"):
        connection.execute(f"PRAGMA {pragma}")
    while True:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            done = version_of(connection, path, accepted=len(steps))
            if done < len(steps):
                connection.execute(steps[done])
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {done + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if done >= len(steps) - 1:
            break
    sync_directory(path)


def _use_wal(connection: apsw.Connection, runtime: Runtime) -> None:
    """Retry while other connections are busy: changing the journal mode does not wait by itself."""
    deadline = runtime.monotonic() + BUSY_SECONDS
    while True:
        try:
            fetch(connection, "PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if runtime.monotonic() > deadline:
                raise
        runtime.sleep(0.005)


def sync_directory(path: str) -> None:
    """Sync the folder of a file, so that its name survives a loss of power."""
    with suppress(OSError):  # some file systems cannot; SQLite ignores that, too
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
