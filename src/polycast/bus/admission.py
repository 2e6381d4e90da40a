"""Opening a bus: its clock, and which classes it lets in."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from polycast.errors import BadOptionError, NotATypeError
from polycast.typesystem import check_shareable, warn_main

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Clock
    from polycast.typesystem import Registry

__all__ = ["admit", "admit_shared", "check_clock"]


def check_clock(clock: Clock) -> Clock:
    """A clock tells two kinds of time."""
    for method in ("time", "monotonic"):
        if not callable(getattr(clock, method, None)):
            accepted = "an object with time() and monotonic(), both in seconds"
            raise BadOptionError("clock", clock, accepted=accepted)
    return clock


def admit(registry: Registry) -> Callable[[type], object]:
    """Lets the objects of a class onto a bus, once its name is bound there."""

    def bind(cls: type) -> object:
        if issubclass(cls, type):
            why = "it is a class, and events are objects"
            raise NotATypeError(
                cls, why=why, accepted="Publish an object of it", action="to publish"
            )
        return registry.bind(cls)

    return bind


def admit_shared(registry: Registry) -> Callable[[type], object]:
    """The same where other processes have to be able to name the class."""
    bind = admit(registry)
    admitted: WeakSet[type] = WeakSet()

    def bind_shared(cls: type) -> None:
        if cls in admitted:
            return
        check_shareable(cls)
        warn_main(cls)
        bind(cls)
        admitted.add(cls)

    return bind_shared
