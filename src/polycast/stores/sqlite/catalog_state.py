# ruff: noqa: D102 - the contract says what each method does
"""What a store in a file knows of its users: classes, buses, adverts, documents, replies."""

from __future__ import annotations

import msgspec
from msgspec.structs import astuple

from polycast.errors import StoreDamagedError
from polycast.stores.sqlite.row_format import CHECKSUMMED, SqlChanges, SqlTables
from polycast.stores.values import Advert, OpenBus, StoredReply
from polycast.typesystem import Description

_DOCUMENTS, _PUBLISHERS = CHECKSUMMED["documents"], CHECKSUMMED["publishers"]
_ANSWERS = CHECKSUMMED["answers"]

# Made once: making one in two threads at the same time can end the process.
_decode_description = msgspec.json.Decoder(Description).decode


class SqlCatalog(SqlTables):
    """The store's name, descriptions, buses, advertisements and documents."""

    def identity(self) -> str:
        rows = self._rows("SELECT name FROM identity")
        if len(rows) != 1:
            raise StoreDamagedError(self._path, place="its identity", why="it has none")
        return str(rows[0][0])

    def descriptions(self, *, after: int = 0) -> list[Description]:
        # By number: one that is missing by damage must not hide another.
        which = "WHERE number > (SELECT min(number) - 1 + ? FROM descriptions) ORDER BY number"
        rows = self._rows(f"SELECT hash, body FROM descriptions {which}", after)
        return [self._description(*row) for row in rows]

    def _description(self, digest: str, body: bytes) -> Description:
        place = f"the description {digest}"
        try:
            description = _decode_description(body)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise StoreDamagedError(self._path, place=place, why=str(error)) from None
        if description.hash != digest:
            raise StoreDamagedError(
                self._path, place=place, why=f"its bytes have the hash {description.hash}"
            )
        return description

    def buses(self) -> list[OpenBus]:
        sql = "SELECT id, publisher, epoch, until, address, process FROM buses ORDER BY id"
        return [OpenBus(*row) for row in self._rows(sql)]

    def adverts(self) -> list[Advert]:
        sql = "SELECT number, bus, what, until FROM adverts ORDER BY number"
        return [Advert(*row) for row in self._rows(sql)]

    def document(self, kind: str, name: str) -> bytes | None:
        rows = self.checked(_DOCUMENTS, "WHERE kind = ? AND name = ?", kind, name)
        return rows[0][2] if rows else None

    def documents(self, kind: str) -> dict[str, bytes]:
        rows = self.checked(_DOCUMENTS, "WHERE kind = ? ORDER BY name", kind)
        return {name: body for _, name, body in rows}


class SqlCatalogChanges(SqlCatalog, SqlChanges):
    """Changes to them, and to the replies to clients."""

    def describe(self, description: Description) -> None:
        self._execute(
            "INSERT INTO descriptions(hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (description.hash, msgspec.json.encode(description)),
        )
        if self._changed():
            self._revise()

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        rows = self.checked(_PUBLISHERS, "WHERE name = ?", publisher)
        epoch = 1 + (rows[0][1] if rows else self._one("SELECT epochs FROM counters"))
        _PUBLISHERS.put(self.connection, publisher, epoch)
        opened = OpenBus(self._number(), publisher, epoch, until, address, process)
        self._execute("INSERT INTO buses VALUES (?, ?, ?, ?, ?, ?)", astuple(opened))
        return opened

    def _skip_epochs(self, skipped: int, epoch: int) -> None:
        """Continue every publisher's epochs at `epoch`, or `skipped` above its last."""
        for name, last in self.checked(_PUBLISHERS, ""):
            _PUBLISHERS.put(self.connection, name, max(last + skipped, epoch))
        self._execute("UPDATE counters SET epochs = max(epochs + ?, ?)", (skipped, epoch))

    def keep_bus(self, bus: int, *, until: float) -> bool:
        self._execute("UPDATE buses SET until = ? WHERE id = ?", (until, bus))
        return self._changed()

    def advertise(self, advert: Advert) -> int:
        number = self._number()
        self._execute(
            "INSERT INTO adverts VALUES (?, ?, ?, ?)",
            (number, advert.bus, advert.what, advert.until),
        )
        return number

    def withdraw(self, number: int) -> None:
        self._execute("DELETE FROM adverts WHERE number = ?", (number,))

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        _DOCUMENTS.put(self.connection, kind, name, body)
        self._revise()

    def remove_document(self, kind: str, name: str) -> None:
        self._execute("DELETE FROM documents WHERE kind = ? AND name = ?", (kind, name))
        if self._changed():
            self._revise()

    def answer(self, client: str) -> StoredReply | None:
        rows = self.checked(_ANSWERS, "WHERE client = ?", client)
        return StoredReply(*rows[0]) if rows else None

    def put_answer(self, answer: StoredReply) -> None:
        _ANSWERS.put(self.connection, answer.client, answer.number, answer.body, answer.time + 0.0)

    def drop_answers(self, before: float) -> int:
        self._execute("DELETE FROM answers WHERE time < ?", (before,))
        return self.connection.changes()
