"""Where in the log a command begins and ends, as it is written."""

from __future__ import annotations

from datetime import datetime

from polycast.cli.terminal import UsageError

__all__ = ["bound_of"]


def bound_of(option: str, text: str | None) -> int | str | datetime | None:
    """A bound of the log as it is written: a position, a time, or where it may be 'beginning'."""
    first = "'beginning', nor " if option == "--since" else ""
    if text is None or (first and text == "beginning"):
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise UsageError(
            f"{option} {text} is neither {first}a position, nor a time such as 2030-12-31T08:00 "
            f"or 2030-12-31T08:00+01:00"
        ) from None
