"""The broker: its server, its client, and the protocol between them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polycast.broker.server.broker import Broker as Broker
    from polycast.broker.server.run import Serving as Serving

__all__ = ["Broker", "Serving"]


def __getattr__(name: str) -> object:
    """Load the server only where it is used."""
    if name == "Broker":
        from polycast.broker.server.broker import Broker

        return Broker
    if name == "Serving":
        from polycast.broker.server.run import Serving

        return Serving
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
