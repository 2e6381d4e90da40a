"""What a seed means: who is there, what they want, and what is done to them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from proof_kills import SUBTYPES

__all__ = ["SETS", "Plan", "Wish"]

STRONG = ("strong_bag", "strong_set", "array", "list", "sorted_bag", "sorted_set")
SETS = ("strong_set", "list", "sorted_set", "weak_set")


@dataclass(frozen=True)
class Wish:
    """One subscription of an actor."""

    name: str
    type: str
    level: str
    above: int = -1
    group: str = ""
    durable: bool = True
    manual: bool = False
    inline: bool = False
    slow: float = 0.0
    failing: float = 0.0
    lease: float | None = None
    queue: int = 10_000

    @property
    def kept_as(self) -> str:
        """The name that the store knows."""
        return self.group or self.name

    @property
    def in_transactions(self) -> bool:
        """Whether its effects are in a database of its own."""
        return self.durable and self.level in SETS

    def wants(self, kind: str, payload: dict[str, Any]) -> bool:
        """The plain evaluation of its filter."""
        return kind in SUBTYPES[self.type] and payload["size"] > self.above


@dataclass(frozen=True)
class Plan:
    """What a seed means: who is there, and what is done to them."""

    seed: int
    brokers: int
    actors: tuple[tuple[str, bool, tuple[Wish, ...], int], ...]
    """Name, whether it goes over a broker, its subscriptions, how many times it publishes."""
    hurts: tuple[tuple[float, str], ...]
    preemption: float
    delay: float

    @classmethod
    def of(cls, seed: int) -> Plan:
        """Draw it."""
        dice = random.Random(f"plan {seed}")
        brokers = dice.choice((0, 0, 0, 0, 1, 2))
        count = dice.choice((2, 2, 3, 4))
        names = [f"p{n}" for n in range(1, count + 1)]
        groups = ["crew"] if dice.random() < 0.5 else []
        kind = dice.choice(("Event", "Talk"))
        actors = []
        for name in names:
            wishes = [_wish(dice, f"{name}.{n}") for n in range(dice.choice((0, 1, 1, 2)))]
            if groups and dice.random() < 0.6:
                wishes.append(
                    Wish(f"{name}.crew", kind, "strong_set", group="crew", slow=_slow(dice))
                )
            publishes = dice.choice((0, 2, 4, 8)) if wishes else dice.choice((5, 10))
            actors.append((name, brokers > 0 and dice.random() < 0.8, tuple(wishes), publishes))
        kinds = ["kill", "kill", "kill", "pause", "clock", "power", "sync", "full", "away"]
        if brokers:
            kinds += ["broker", "broker", "cut", "cut", "stall", "part", "part"]
        hurts = sorted((1.8 * dice.random(), dice.choice(kinds)) for _ in range(dice.randint(1, 4)))
        return cls(
            seed,
            brokers,
            tuple(actors),
            tuple(hurts),
            dice.choice((0.0, 0.01, 0.05)),
            dice.choice((0.0, 0.02, 0.1)),
        )


def _slow(dice: random.Random) -> float:
    return dice.choice((0.0, 0.0, 0.01, 0.1))


def _wish(dice: random.Random, name: str) -> Wish:
    durable = dice.random() < 0.85
    level = dice.choice(STRONG if durable else (*STRONG, "weak_bag", "weak_set"))
    return Wish(
        name,
        dice.choice(("Event", "Talk", "Panel")),
        level,
        above=dice.choice((-1, -1, 30, 60)),
        durable=durable,
        manual=dice.random() < 0.2,
        inline=dice.random() < 0.2,
        slow=_slow(dice),
        failing=dice.choice((0.0, 0.0, 0.1)),
        lease=None if durable or dice.random() < 0.5 else dice.choice((0.5, 2.0)),
        queue=dice.choice((10_000, 10_000, 3)) if durable else 10_000,
    )
