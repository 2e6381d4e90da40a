"""Events that can be changed, that only look as if they could not, and that cannot."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Basket", "Sealed", "Ticket", "spoil"]


@dataclass
class Basket:
    number: int = 0
    items: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sealed:
    """Frozen, with a list in it."""

    items: list[str]


@dataclass(frozen=True)
class Ticket:
    """Nobody can change anything in it."""

    number: int
    seats: tuple[str, ...] = ()
    before: Ticket | None = None


def spoil(event: Basket | Sealed) -> None:
    """Do what no subscriber should do to what others have, too."""
    event.items.append("spoilt")
