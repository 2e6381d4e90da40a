"""How a bus is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from polycast.metrics import Counts

__all__ = ["Health", "StuckCallback", "SubscriptionHealth", "Undelivered"]


@dataclass(frozen=True, slots=True)
class SubscriptionHealth:
    """How one subscription is doing. Direct calls in the publisher's thread are not counted."""

    name: str
    state: str
    waiting: int
    in_flight: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class StuckCallback:
    """A callback that has not returned for too long."""

    subscription: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What close() could not deliver in time."""

    subscription: str
    events: int
    why: str

    def __str__(self) -> str:
        return f"{self.events} for {self.subscription}: {self.why}"


@dataclass(frozen=True, slots=True)
class Health:
    """How a bus is doing; `problems` says in words what is not as it should be."""

    state: Literal["open", "closed"]
    published: int
    subscriptions: tuple[SubscriptionHealth, ...]
    advertised: tuple[str, ...]
    stuck: tuple[StuckCallback, ...]
    dead_letters: int
    counts: Counts
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing to worry about."""
        return not self.problems

    def __str__(self) -> str:
        head = f"{self.state}: {self.published} published, {len(self.subscriptions)} subscriptions"
        return "\n".join([head, *(f"- {problem}" for problem in self.problems)])
