"""Stores, brokers and pipelines that cannot be used as asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polycast.errors.root import PolycastError

__all__ = [
    "BadCheckpointError",
    "BadFrameError",
    "BrokerError",
    "BrokerRefusedError",
    "BrokerUnreachableError",
    "LimitReachedError",
    "NoRowError",
    "NotAStoreError",
    "PipelineError",
    "PipelineFailedError",
    "PipelineTakenOverError",
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


class PipelineError(PolycastError):
    """The root of the errors of a pipeline."""


class BadCheckpointError(PipelineError):
    """A folder that a pipeline cannot go on from."""

    def __init__(self, path: object, *, why: str, high: int) -> None:
        self.path, self.why, self.high = path, why, high
        super().__init__(
            f"{path} is no checkpoint that this pipeline can go on from: {why}. Name another "
            f"folder, or remove this one: nothing is lost by that, as the store knows that all "
            f"before position {high} is routed"
        )


class PipelineFailedError(PipelineError):
    """A pipeline that had to stop."""

    def __init__(self, where: str, *, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"the pipeline stopped at {where}: {why}")


class PipelineTakenOverError(PipelineError):
    """Another pipeline was started over the same store."""

    def __init__(self) -> None:
        super().__init__(
            "another pipeline was started over the same store, and routes from now on; "
            "this one has stopped, and nothing is lost or done twice"
        )


class NoRowError(PolycastError, ValueError):
    """An event that a table of its type cannot hold exactly, or that cannot be read at all."""

    def __init__(
        self, position: int, name: str, *, why: str, about: tuple[str, object] | None = None
    ) -> None:
        self.position, self.name = position, name
        self.attribute = about[0] if about else None
        self.value = about[1] if about else None
        super().__init__(
            f"the event at position {position}, of {name}, has no row: {why}. misfits='skip' "
            f"leaves such events out"
        )
