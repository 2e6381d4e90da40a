"""What a seed has shown."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec
from proof_history import Op

__all__ = ["Outcome"]


@dataclass
class Outcome:
    """What a seed has shown."""

    seed: int
    violations: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    events: int = 0
    effects: int = 0

    @property
    def wrong(self) -> list[str]:
        """All that is wrong."""
        return [*self.problems, *self.violations]

    def history(self) -> bytes:
        """All that happened, as bytes."""
        lines = [msgspec.json.encode(op) for op in self.ops]
        return b"\n".join([*(line.encode() for line in [*self.trace, *self.notes]), *lines])

    def fingerprint(self) -> str:
        """What tells one history from another."""
        return hashlib.blake2b(self.history(), digest_size=12).hexdigest()
