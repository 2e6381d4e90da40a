"""Brokers that cannot be used as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.errors.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BadFrameError",
    "BrokerError",
    "BrokerRefusedError",
    "BrokerUnreachableError",
    "LimitReachedError",
]


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
