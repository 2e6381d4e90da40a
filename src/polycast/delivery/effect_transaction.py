"""Exactly-once effects: the identity of an event, kept where its effect is kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError

if TYPE_CHECKING:
    from types import TracebackType

    from polycast.events import Identity

TABLE = "polycast_handled"
COLUMNS = ("subscription", "publisher", "epoch", "sequence")


class Transaction:
    """`with delivery.transaction(conn) as fresh`: commits on success, rolls back on failure."""

    def __init__(self, connection: Any, subscription: str, identity: Identity) -> None:
        for method in ("cursor", "commit", "rollback"):
            if not callable(getattr(connection, method, None)):
                accepted = f"a DB-API connection; this one has no {method}()"
                raise BadOptionError("connection", connection, accepted=accepted)
        self._connection = connection
        self._row = (subscription, identity.publisher, identity.epoch, identity.sequence)

    def __enter__(self) -> bool:
        cursor = self._connection.cursor()
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (subscription VARCHAR(255) NOT NULL, publisher "
            f"VARCHAR(255) NOT NULL, epoch BIGINT NOT NULL, sequence BIGINT NOT NULL, "
            f"PRIMARY KEY (subscription, publisher, epoch, sequence))"
        )
        self._connection.commit()
        marks = _marks(self._connection)
        wanted = " AND ".join(f"{c} = {m}" for c, m in zip(COLUMNS, marks, strict=True))
        cursor.execute(f"SELECT 1 FROM {TABLE} WHERE {wanted}", _row(self._row, marks))
        if cursor.fetchone() is not None:
            return False
        # The primary key decides between two that ask at once: the second insert fails.
        cursor.execute(
            f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join(marks)})",
            _row(self._row, marks),
        )
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._connection.commit()
        else:
            self._connection.rollback()


def _marks(connection: Any) -> tuple[str, ...]:
    module = sys.modules.get(type(connection).__module__.partition(".")[0])
    style = getattr(module, "paramstyle", "qmark")
    return {
        "qmark": ("?",) * 4,
        "format": ("%s",) * 4,
        "numeric": (":1", ":2", ":3", ":4"),
        "named": tuple(f":{name}" for name in COLUMNS),
        "pyformat": tuple(f"%({name})s" for name in COLUMNS),
    }[style]


def _row(row: tuple[object, ...], marks: tuple[str, ...]) -> object:
    by_name = COLUMNS[0] in marks[0]
    return dict(zip(COLUMNS, row, strict=True)) if by_name else row
