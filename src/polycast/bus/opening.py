"""Opening a bus: what its URL means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.errors import BadOption, NotAType, NotAvailable
from polycast.typesystem import check_shareable, warn_main

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.typesystem import Registry

__all__ = ["admit", "admit_shared", "check_clock", "path_of"]

_LATER = {
    "kafka": "a distributed bus",
    "polycast": "a remote bus",
    "polycasts": "a remote bus",
}
NO_FILES = ("", "/", ":memory:")
ACCEPTED = "'memory:', which is the default, or 'sqlite:///' and the path of a file"


def path_of(url: object) -> str | None:
    """The file that a URL names; None for a bus in memory."""
    if isinstance(url, str):
        scheme, _, rest = url.partition(":")
        if scheme == "memory":
            return None
        if scheme == "sqlite" and rest.startswith("///") and rest[3:] not in NO_FILES:
            return rest[3:]  # as everywhere: three slashes and a relative path, four and "/..."
        if scheme in _LATER:
            raise NotAvailable(
                f"{_LATER[scheme]} ({url})",
                why="this version keeps events in memory or in a file",
                instead="Open it with pc.Bus(), or with pc.Bus('sqlite:///events.db')",
            )
    raise BadOption("url", url, accepted=ACCEPTED)


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


def admit_shared(registry: Registry) -> Callable[[type], object]:
    """The same where other processes have to be able to name the class."""
    bind = admit(registry)

    def bind_shared(cls: type) -> object:
        check_shareable(cls)
        warn_main(cls)
        return bind(cls)

    return bind_shared
