"""Functions that the workers of a pipeline are asked by; one of them ends a worker if told to."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from zlib import crc32

from proof_events import Event

__all__ = ["CULL", "HOME", "is_even"]

HOME = "POLYCAST_PROOF"  # names the folder of a run, in the processes of its pipeline only
CULL = "end-a-worker"  # whichever worker first finds this file there dies in the midst of a batch


def is_even(event: Event) -> bool:
    """It does more than return one expression, so the workers have to import it."""
    home = os.environ.get(HOME)
    if home is not None and crc32(event.key.encode()) % 20 == 0:
        try:
            (Path(home) / CULL).unlink()
        except FileNotFoundError:
            return event.size % 2 == 0
        os.kill(os.getpid(), signal.SIGKILL)
    return event.size % 2 == 0
