"""Processes that have told a store about themselves, seen from another process."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

__all__ = ["ALIVE_FOR", "has_ended", "here", "signed", "term_of"]

ALIVE_FOR = 10.0  # seconds without a sign of life after which a bus counts as dead
_TERM = " alive_for="  # as it stands in stores


def has_ended(process: int, place: str) -> bool:
    """Whether a process is certainly gone; one that cannot be seen from here may live."""
    if place.partition(_TERM)[0] != here() or process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def here() -> str:
    """Where process numbers mean what they mean here: this boot, this name space."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:
        pass
    return "/".join(parts)


def signed(heartbeat_timeout: float) -> str:
    """Where a process is, and for how long it may give no sign of life."""
    return f"{here()}{_TERM}{heartbeat_timeout!r}"


def term_of(place: str) -> float:
    """For how long a process that has signed so may give no sign of life."""
    try:
        term = float(place.partition(_TERM)[2])
    except ValueError:  # an older version says only where it is
        return ALIVE_FOR
    return term if math.isfinite(term) and term > 0 else ALIVE_FOR
