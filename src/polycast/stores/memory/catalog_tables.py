# ruff: noqa: D102 - the contract says what each method does
"""What a store in memory knows of its users: classes, buses, adverts, documents, replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from polycast.stores.memory.tables import MemoryTables
from polycast.stores.values import Advert, OpenBus, StoredReply

if TYPE_CHECKING:
    from polycast.typesystem import Description

__all__ = ["CatalogTables"]


class CatalogTables(MemoryTables):
    """Descriptions, buses, advertisements, documents, and replies to clients."""

    def descriptions(self, *, after: int = 0) -> list[Description]:
        return list(self._descriptions.values())[after:]

    def buses(self) -> list[OpenBus]:
        return list(self._buses.values())

    def adverts(self) -> list[Advert]:
        return list(self._adverts.values())

    def document(self, kind: str, name: str) -> bytes | None:
        return self._documents.get((kind, name))

    def documents(self, kind: str) -> dict[str, bytes]:
        return {key[1]: self._documents[key] for key in sorted(self._documents) if key[0] == kind}

    def describe(self, description: Description) -> None:
        if description.hash not in self._descriptions:
            self._descriptions[description.hash] = description
            self._revision += 1

    def open_bus(self, publisher: str, *, until: float, address: str, process: int) -> OpenBus:
        epoch = self._epochs[publisher] = self._epochs.get(publisher, 0) + 1
        opened = OpenBus(self._number(), publisher, epoch, until, address, process)
        self._buses[opened.id] = opened
        return opened

    def keep_bus(self, bus: int, *, until: float) -> bool:
        if bus not in self._buses:
            return False
        self._buses[bus] = replace(self._buses[bus], until=until)
        return True

    def advertise(self, advert: Advert) -> int:
        number = self._number()
        self._adverts[number] = replace(advert, number=number)
        return number

    def withdraw(self, number: int) -> None:
        self._adverts.pop(number, None)

    def put_document(self, kind: str, name: str, body: bytes) -> None:
        self._documents[kind, name] = body
        self._revision += 1

    def remove_document(self, kind: str, name: str) -> None:
        if self._documents.pop((kind, name), None) is not None:
            self._revision += 1

    def answer(self, client: str) -> StoredReply | None:
        return self._replies.get(client)

    def put_answer(self, answer: StoredReply) -> None:
        self._replies[answer.client] = answer

    def drop_answers(self, before: float) -> int:
        old = [client for client, reply in self._replies.items() if reply.time < before]
        for client in old:
            del self._replies[client]
        return len(old)
