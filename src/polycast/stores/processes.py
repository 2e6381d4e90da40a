"""Processes that have told a store about themselves, seen from another process."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["has_ended", "here"]


def has_ended(process: int, place: str) -> bool:
    """Whether a process is certainly gone; one that cannot be seen from here may live."""
    if place != here() or process == os.getpid():
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
