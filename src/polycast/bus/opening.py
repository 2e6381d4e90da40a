"""Opening a bus: what its URL means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import BadOption, NotAType, NotAvailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.typesystem import Registry

__all__ = ["admit", "check_clock", "check_url"]

_LATER = {
    "sqlite": "a durable bus",
    "kafka": "a distributed bus",
    "polycast": "a remote bus",
    "polycasts": "a remote bus",
}


def check_url(url: object) -> None:
    """A bus of this version lives in memory."""
    if isinstance(url, str):
        scheme = url.partition(":")[0]
        if scheme == "memory":
            return
        if scheme in _LATER:
            raise NotAvailable(
                f"{_LATER[scheme]} ({url})",
                why="this version keeps events in memory only",
                instead="Open it with pc.Bus()",
            )
    raise BadOption("url", url, accepted="'memory:', which is the default")


def check_clock(clock: Clock) -> Clock:
    """A clock tells two kinds of time."""
    for method in ("time", "monotonic"):
        if not callable(getattr(clock, method, None)):
            accepted = "an object with time() and monotonic(), both in seconds"
            raise BadOption("clock", clock, accepted=accepted)
    return clock


def admit(registry: Registry) -> Callable[[type], object]:
    """Lets the objects of a class onto a bus, once its name is bound there."""

    def bind(cls: type) -> object:
        if issubclass(cls, type):
            why = "it is a class, and events are objects"
            raise NotAType(cls, why=why, accepted="Publish an object of it", action="to publish")
        return registry.bind(cls)

    return bind
