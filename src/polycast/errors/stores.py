"""Stores and brokers that cannot be used as asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polycast.errors.root import PolycastError

__all__ = [
    "BadFrameError",
    "BrokerError",
    "BrokerRefusedError",
    "BrokerUnreachableError",
    "LimitReachedError",
    "NotAStoreError",
    "StoreClosedError",
    "StoreDamagedError",
    "StoreError",
    "StoreFailedError",
    "StoreReplacedError",
]


class StoreError(PolycastError):
    """A store that cannot be used as asked."""


class NotAStoreError(StoreError):
    """A file that is no store, or one of a newer version."""

    def __init__(self, path: str, *, why: str, instead: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be opened as a store: {why}. {instead}")


class StoreClosedError(StoreError):
    """Using a store after it was closed."""

    def __init__(self) -> None:
        super().__init__("this store is closed; open it again")


class StoreFailedError(StoreError):
    """The disk is full or failing: nothing more is accepted, what is there can still be read."""

    def __init__(self, path: str, *, why: str, unknown: bool = False) -> None:
        self.path, self.why = path, why
        self.unknown = unknown
        """Whether what was under way may have been stored."""
        super().__init__(
            f"{path} takes nothing more: {why}. The file is kept as it is, and reading goes on. "
            f"See to the disk, then open the bus again"
        )


class StoreReplacedError(StoreFailedError):
    """What is at the path of an open store is not what was opened: it was removed or replaced."""

    def __init__(self, path: str, was: str, now: str, *, unknown: bool = False) -> None:
        self.path, self.was, self.now, self.unknown = path, was, now, unknown
        self.why = f"it was removed or replaced while it was open. There was {was}, there is {now}"
        StoreError.__init__(
            self,
            f"{path} takes nothing more: {self.why}. What is published now would not be found. Put "
            f"the file back, or restore a backup, then open the bus again",
        )


class StoreDamagedError(StoreError):
    """What was read is not what was written."""

    def __init__(self, path: str, *, place: str, why: str) -> None:
        self.path, self.place = path, place
        super().__init__(
            f"{path} is damaged at {place}: {why}. Nothing was deleted. Run `polycast doctor` on "
            f"it, and restore a backup"
        )


class BrokerError(StoreError):
    """A broker that cannot be used as asked."""


class BrokerUnreachableError(BrokerError):
    """No broker answers at its address, or not in time."""

    def __init__(self, address: str, *, why: str) -> None:
        self.address, self.why = address, why
        super().__init__(
            f"no broker answers at {address}: {why}. Start one with `polycast serve`, or see to "
            f"the address and the network"
        )


class BrokerRefusedError(BrokerError):
    """A broker that does not do what was asked; `code` says why for programs."""

    def __init__(self, code: str, text: str, data: Mapping[str, Any] | None = None) -> None:
        self.code, self.data = code, dict(data or {})
        super().__init__(text)


class LimitReachedError(BrokerRefusedError):
    """More than the broker takes from one connection, or from all of one owner."""


class BadFrameError(BrokerError):
    """Bytes from the other side that are no message."""

    def __init__(self, what: str, *, why: str) -> None:
        self.what, self.why = what, why
        super().__init__(f"{what} cannot be read: {why}")
