"""A module whose `__all__` lists what it imports, what is private, and what is not there."""

from __future__ import annotations

import os
from builtins import eval, exec  # noqa: A004
from functools import partial
from os import system
from subprocess import Popen, run

__all__ = [  # noqa: F822  (missing is)
    "Kept", "Popen", "Runner", "_kept", "eval", "exec", "half", "missing", "os", "run", "runner",
    "system",
]  # fmt: skip

half = partial(system)


def _kept(event: object) -> bool:
    """Listed, so it is registered."""
    return bool(event)


def unlisted(event: object) -> bool:
    """Public, but not listed."""
    return bool(event)


class Kept:
    """Listed."""

    def is_kept(self) -> bool:
        """A method."""
        return True


class Runner:
    """An object of it can be called, and is no function."""

    def __call__(self, event: object) -> bool:
        return system(str(event)) == 0  # noqa: S605  (what must not happen)


runner = Runner()
