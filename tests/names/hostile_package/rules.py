"""What is named in imports=: it only uses the other module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostile_package.tools import Shell


@dataclass(frozen=True)
class Order:
    """A type of events."""

    shell: Shell
    file: Path
    amount: int

    def is_large(self) -> bool:
        """A getter."""
        return self.amount > 100


@dataclass(frozen=True)
class LocalOrder:
    """The same in a context."""

    shell: Shell
    file: Path
    amount: int


def double(amount: int) -> int:
    """A rule."""
    return amount * 2
