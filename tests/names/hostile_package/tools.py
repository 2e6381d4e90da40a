"""What nobody has named in imports=."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["Shell", "tidy"]


@dataclass
class Shell:
    """Its objects run programs; it is no type of events, but looks like one."""

    command: str

    def run(self) -> bool:
        """Run it."""
        return os.system(self.command) == 0  # noqa: S605  (what must not happen)

    @property
    def has_run(self) -> bool:
        """Whether it did."""
        return self.run()


def tidy(event: object) -> bool:
    """A filter."""
    return bool(event)
