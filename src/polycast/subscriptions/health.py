"""How a bus is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from polycast.plain_text import plain

if TYPE_CHECKING:
    from polycast.metrics import Counts

__all__ = ["Health", "PipelineHealth", "StuckCallback", "SubscriptionHealth", "Undelivered"]

STILL = 10.0  # seconds without a step, after which it is told


@dataclass(frozen=True, slots=True)
class SubscriptionHealth:
    """How one subscription is doing. Direct calls in the publisher's thread are not counted."""

    name: str
    state: str
    waiting: int
    in_flight: int
    counts: Counts
    engine: Literal["direct", "spark"] = "direct"
    context: str | None = None
    """The context in which it sees events; None is the root."""


@dataclass(frozen=True, slots=True)
class PipelineHealth:
    """How far the pipeline has come that routes for subscriptions with `engine="spark"`."""

    routed: int
    """All before this position is routed."""
    behind: int
    """How many events that is before the end of the log."""
    has_run: bool
    """Whether it has ever run on this store."""
    still: float
    """For how many seconds events have been waiting without any being routed."""

    @property
    def is_idle(self) -> bool:
        """Whether something waits to be routed, and it seems that nobody does so."""
        return self.behind > 0 and (not self.has_run or self.still >= STILL)

    def __str__(self) -> str:
        text = f"the pipeline has routed what is before position {self.routed}, "
        text += f"{self.behind} events behind the log"
        if not self.has_run:
            return f"{text}: it has never run on this store"
        return f"{text}: it has not moved for {self.still:.0f} s" if self.is_idle else text


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
        return plain(f"{self.events} for {self.subscription}: {self.why}")


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
    pipeline: PipelineHealth | None = None  # None: it routes for nobody here

    @property
    def ok(self) -> bool:
        """Whether there is nothing to worry about."""
        return not self.problems

    def __str__(self) -> str:
        head = f"{self.state}: {self.published} published, {len(self.subscriptions)} subscriptions"
        return "\n".join([head, *(f"- {plain(problem)}" for problem in self.problems)])
