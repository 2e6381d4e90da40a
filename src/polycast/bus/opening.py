"""Opening a bus: what its URL means."""

from __future__ import annotations

from polycast.errors import BadOption, NotAvailable

__all__ = ["check_url"]

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
