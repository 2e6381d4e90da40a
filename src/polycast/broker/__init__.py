"""The broker: its server, the client of a bus over it, and what they say to each other."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.broker.server.broker import Broker as Broker
    from polycast.broker.server.run import Serving as Serving

__all__ = ["Broker", "Serving"]


def __getattr__(name: str) -> object:
    """The server and what it needs are loaded only by whoever runs one."""
    if name == "Broker":
        from polycast.broker.server.broker import Broker

        return Broker
    if name == "Serving":
        from polycast.broker.server.run import Serving

        return Serving
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
