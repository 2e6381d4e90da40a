"""Whether other processes that use a store are alive."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

ALIVE_FOR = 10.0  # seconds without a heartbeat after which a bus counts as dead
_TERM = " alive_for="  # as it stands in stores


def has_ended(process: int, place: str) -> bool:
    """Whether a process has certainly ended; one on another host may live."""
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
    """Name the boot and namespace in which process ids mean what they mean here."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:
        pass
    return "/".join(parts)


def signed(heartbeat_timeout: float) -> str:
    """Return where this process runs, with its heartbeat timeout."""
    return f"{here()}{_TERM}{heartbeat_timeout!r}"


def term_of(place: str) -> float:
    """Return the heartbeat timeout in what `signed` returned."""
    try:
        term = float(place.partition(_TERM)[2])
    except ValueError:  # an older version says only where it is
        return ALIVE_FOR
    return term if math.isfinite(term) and term > 0 else ALIVE_FOR
