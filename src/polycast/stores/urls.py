"""The meaning of a store's URL."""

from __future__ import annotations

from polycast.errors import BadOptionError, NotAvailableError

_LATER = {
    "kafka": "a distributed bus",
}
NO_FILES = ("", "/", ":memory:")
ACCEPTED = "'memory:', which is the default, or 'sqlite:///' and the path of a file"


def path_of(url: object) -> str | None:
    """Return the file that a URL names; None for a bus in memory."""
    if isinstance(url, str):
        scheme, _, rest = url.partition(":")
        if scheme == "memory":
            return None
        if scheme == "sqlite" and rest.startswith("///") and rest[3:] not in NO_FILES:
            return rest[3:]  # as everywhere: three slashes and a relative path, four and "/..."
        if scheme in _LATER:
            raise NotAvailableError(
                f"{_LATER[scheme]} ({url})",
                why="this version keeps events in memory or in a file",
                instead="Open it with pc.Bus(), or with pc.Bus('sqlite:///events.db')",
            )
    raise BadOptionError("url", url, accepted=ACCEPTED)
