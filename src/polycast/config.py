"""Configuration of buses and subscriptions: levels, policies, clocks."""

from __future__ import annotations

import time as _time
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, get_args

from polycast.errors import BadOptionError

Order = Literal["none", "fifo", "total"]
LevelName = Literal[
    "weak_bag", "weak_set", "strong_bag", "strong_set", "array", "list", "sorted_bag", "sorted_set"
]
DeliveryName = Literal["best_effort", "at_most_once", "at_least_once", "exactly_once"]
OrderName = Literal["none", "publisher", "total"]
Dispatch = Literal["pool", "inline"]
Overflow = Literal["drop_oldest", "drop_newest", "block", "spill", "cut_off"]
Isolation = Literal["none", "copy"]
"""In memory: whether subscribers share the object that is published, or have copies of it."""


FOREVER = 1e10  # seconds; what is longer is a mistake
LARGEST = 2**63 - 1  # of the whole numbers that a store keeps
UNICODE = "without half of a surrogate pair: UTF-8 has no form for that"


class Clock(Protocol):
    """The source of time; pass your own to control it in tests."""

    def time(self) -> float:
        """Seconds since the epoch, by the wall clock."""

    def monotonic(self) -> float:
        """Seconds that never go backwards."""


class SystemClock:
    """The clock of this machine."""

    time = staticmethod(_time.time)
    monotonic = staticmethod(_time.monotonic)


def check_clock(clock: Clock) -> Clock:
    """A clock tells two kinds of time."""
    for method in ("time", "monotonic"):
        if not callable(getattr(clock, method, None)):
            accepted = "an object with time() and monotonic(), both in seconds"
            raise BadOptionError("clock", clock, accepted=accepted)
    return clock


@dataclass(frozen=True, slots=True)
class Level:
    """A delivery guarantee (DAC figure 19)."""

    name: LevelName
    reliable: bool
    unique: bool
    order: Order

    @property
    def promise(self) -> str:
        """The guarantee in words."""
        times = {
            (False, False): "best effort",
            (False, True): "at most once",
            (True, False): "at least once",
            (True, True): "exactly once",
        }[self.reliable, self.unique]
        order = {"none": "", "fifo": ", FIFO per publisher", "total": ", total order"}[self.order]
        return times + order


LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        Level("weak_bag", reliable=False, unique=False, order="none"),
        Level("weak_set", reliable=False, unique=True, order="none"),
        Level("strong_bag", reliable=True, unique=False, order="none"),
        Level("strong_set", reliable=True, unique=True, order="none"),
        Level("array", reliable=True, unique=False, order="fifo"),
        Level("list", reliable=True, unique=True, order="fifo"),
        Level("sorted_bag", reliable=True, unique=False, order="total"),
        Level("sorted_set", reliable=True, unique=True, order="total"),
    )
}


DELIVERIES: dict[DeliveryName, tuple[bool, bool]] = {
    "best_effort": (False, False),
    "at_most_once": (False, True),
    "at_least_once": (True, False),
    "exactly_once": (True, True),
}
"""Whether nothing is lost, and whether nothing comes twice."""
ORDERS: dict[OrderName, Order] = {"none": "none", "publisher": "fifo", "total": "total"}


def level_of(delivery: object, order: object, *, default: LevelName) -> Level:
    """The level that `delivery=` and `order=` name together; what is not said is the default's."""
    if delivery is not None and delivery not in tuple(DELIVERIES):
        raise BadOptionError.choice("delivery", delivery, DELIVERIES)
    if order is not None and order not in tuple(ORDERS):
        raise BadOptionError.choice("order", order, ORDERS)
    usual = LEVELS[default]
    promise = (usual.reliable, usual.unique)
    if delivery is not None:
        promise = DELIVERIES[delivery]
    wanted = usual.order if order is None else ORDERS[order]
    if order is None and not promise[0]:
        wanted = "none"
    for level in LEVELS.values():
        if (level.reliable, level.unique) == promise and level.order == wanted:
            return level
    accepted = "'none' with best_effort and at_most_once, which lose events and so keep no order"
    raise BadOptionError("order", order, accepted=accepted)


def level_named(name: str) -> Level:
    """The level of that name, or an error that lists them."""
    level = LEVELS.get(name) if isinstance(name, str) else None
    if level is None:
        raise BadOptionError.choice("level", name, LEVELS)
    return level


@dataclass(frozen=True, slots=True)
class Settings:
    """How one subscription is delivered, all defaults filled in."""

    level: Level
    dispatch: Dispatch = "pool"
    queue: int = 10_000
    overflow: Overflow = "cut_off"
    block_for: float = 5.0
    manual_ack: bool = False
    ack_timeout: float | None = None
    attempts: int = 5
    backoff: float = 0.1
    pull: Literal["fifo", "lifo"] | None = None
    copy: bool = False

    def __post_init__(self) -> None:
        _one_of("dispatch", self.dispatch, get_args(Dispatch))
        _one_of("overflow", self.overflow, get_args(Overflow))
        _positive_whole("queue", self.queue)
        _positive_whole("attempts", self.attempts)

    def retry_delay(self, failures: int) -> float:
        """Seconds before the next attempt: doubling, at most half a minute."""
        return float(min(self.backoff * 2 ** (failures - 1), 30.0))


def seconds(option: str, given: float | timedelta) -> float:
    """A duration in seconds, from a number or a timedelta; it must be positive."""
    number = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < FOREVER:
        raise BadOptionError(option, given, accepted="a positive number of seconds, or a timedelta")
    return float(number)


def check_count(option: str, given: object, *, of: str) -> None:
    """A whole number that is not negative."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise BadOptionError(option, given, accepted=f"how many {of}: a whole number of at least 0")


def check_name(option: str, given: object) -> str:
    """A string that is not empty."""
    if not isinstance(given, str) or not given:
        raise BadOptionError(option, given, accepted="a name: a string that is not empty")
    if not is_unicode(given):
        raise BadOptionError(option, given, accepted=f"a name {UNICODE}")
    return given


def is_unicode(text: str) -> bool:
    """Whether a store can keep a text: it has no half of a surrogate pair, as odd file names do."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _one_of(option: str, given: object, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise BadOptionError.choice(option, given, choices)


def _positive_whole(option: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise BadOptionError(option, given, accepted="a whole number of at least 1")
    if given > LARGEST:
        raise BadOptionError(option, given, accepted=f"a whole number of at most {LARGEST}")
