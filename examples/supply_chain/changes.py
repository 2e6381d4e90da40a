"""What changes while the events flow: subscriptions come, go, and think again."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from supply_chain.participants import World
from supply_chain.programs import Job
from supply_chain.wishes import Wish, watch, wishes

MOST = 8  # of each kind


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `wish` is what is wanted from then on, or was until then."""

    kind: Literal["add", "replace", "cancel"]
    wish: Wish

    def in_words(self) -> str:
        about = f"{self.wish.kind}: {self.wish.words}"
        return {
            "add": f"{self.wish.owner} subscribes to one thing more ({about})",
            "replace": f"{self.wish.owner} changes a filter ({about})",
            "cancel": f"{self.wish.owner} cancels a subscription ({about})",
        }[self.kind]


def changes(job: Job) -> list[Change]:
    """The same for the same seed, in the order in which they are made."""
    world, draw = World(job.seed, job.subscriptions), random.Random(f"{job.seed} changes")
    known = wishes(world, job.seed, job.subscriptions)
    count = min(MOST, len(known) // 12)
    chosen = draw.sample(known[2:], 2 * count)  # the auditor stays
    added = [watch(draw, draw.choice(world.everybody()), f"later-{n}") for n in range(count)]
    found = []
    for before, gone, new in zip(chosen[:count], chosen[count:], added, strict=True):
        other = watch(draw, world.by_name[before.owner], "other")
        found += [
            Change("add", new),
            Change("replace", replace(other, name=before.name)),
            Change("cancel", gone),
        ]
    return found
