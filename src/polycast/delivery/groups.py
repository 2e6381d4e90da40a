"""One of n: an event goes to one member of a group that wants it (DAC: remove)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polycast.delivery.delivery import Nack
from polycast.delivery.mailbox import Mailbox
from polycast.errors.failures import FAILURES
from polycast.metrics import Trials

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.config import Settings
    from polycast.delivery.consumer import Consumer
    from polycast.delivery.inbox import Services
    from polycast.delivery.mailbox import Handed
    from polycast.delivery.queue import Parcel
    from polycast.filters import Filter
    from polycast.matching import Interest
    from polycast.stores import Entry

__all__ = ["Group"]

LOOKAHEAD = 64  # how far a free member looks past events that only others want
_RANK = {"none": 0, "fifo": 1, "total": 2}


class Group(Mailbox):
    """A mailbox with several consumers. Each has an interest; the strictest level holds for all."""

    def __init__(
        self, name: str, interest: Interest, settings: Settings, services: Services
    ) -> None:
        super().__init__(name, interest, settings, services)
        self.members: dict[Consumer, Interest] = {}
        self._trials: dict[object, Trials] = {}  # of the filters of members that have failed
        self._active: Consumer | None = None  # under total order one goes on as long as it can

    @property
    def title(self) -> str:
        """What is subscribed to, in words."""
        return f"group {self.interest.group}"

    @property
    def inline(self) -> bool:
        """Whether some member is called in the publisher's thread."""
        return any(member.inline for member in self.members)

    def interests(self) -> tuple[Interest, ...]:
        """What the members want; without members, what the group was made for."""
        return tuple(self.members.values()) or (self.interest,)

    def attach(self, consumer: Consumer, settings: Settings) -> bool:
        """One more member; False if the group is over."""
        with self.locked():
            if self.ended is not None:
                return False
            # Publishers look at the members without the lock, so the dict is never changed.
            self.members = {**self.members, consumer: consumer.interest}
            self.settings = _strictest(self.settings, settings)
            return True

    def detach(self, consumer: Consumer) -> None:
        """One member less; what it has without being busy with it goes to the others."""
        with self.locked():
            consumer.detached = True
            self.members = {c: i for c, i in self.members.items() if c is not consumer}
            self._trials.pop(consumer, None)
            self._give_up(consumer)

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Which members want an event: a tuple of them, empty if none does."""
        pairs = [
            (member, None if interest.where is None else interest.where.on(topic))
            for member, interest in self.members.items()
            if interest.selector.covers(cls, topic)
        ]
        if not pairs and not self.members:
            pairs = [(self, self.interest.where)]  # type: ignore[list-item]  # nobody is here

        def takers(event: Any) -> tuple[Consumer, ...]:
            return tuple(member for member, where in pairs if self._passes(member, where, event))

        return takers

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Who wants an event is counted already."""
        return test

    def _passes(self, member: object, where: Filter[Any] | None, event: Any) -> bool:
        try:
            passes = where is None or bool(where.function(event))
        except FAILURES as error:
            self.unfit(error)
            with self.locked():
                self._trials.setdefault(member, Trials()).fail(error)
            return False
        trials = self._trials.get(member)
        if trials is not None:
            with self.locked():
                trials.work()
        return passes

    def vain(self) -> list[tuple[str, Trials]]:
        """The filters of members that fail each time of late; each has its own."""
        with self.locked():
            here: list[tuple[object, Interest]] = [*self.members.items(), (self, self.interest)]
            tried = [(interest, self._trials.get(member)) for member, interest in here]
        return [
            (f"a member of {self.name}, to {interest.selector},", trials)
            for interest, trials in tried
            if trials is not None and trials.are_vain
        ]

    def _parcel(self, entry: Entry, verdict: object) -> Parcel:
        parcel = super()._parcel(entry, verdict)
        parcel.takers = verdict if isinstance(verdict, tuple) else ()
        return parcel

    def _hand_out(self) -> list[Handed]:
        handed: list[Handed] = []
        skipped: list[Parcel] = []
        while self._free():
            parcel = self._take()
            if parcel is None:
                break
            member = self._choose(parcel)
            if member is not None:
                handed.append(self._hand(member, parcel))
            elif not self._is_wanted(parcel):
                self._unwanted(parcel)
            else:
                skipped.append(parcel)
                if self.settings.level.order != "none" or len(skipped) >= LOOKAHEAD:
                    break
        self.backlog.merge(skipped)
        return handed

    def _unwanted(self, parcel: Parcel) -> None:
        """All who wanted it have gone."""
        self.counts.dropped += 1
        self.keeper.done(parcel)

    def _hand(self, consumer: Consumer, parcel: Parcel) -> Handed:
        parcel.tried += (consumer,)
        return super()._hand(consumer, parcel)

    def _may_hand_out(self) -> bool:
        return bool(self._free())

    def _free(self) -> list[Consumer]:
        return [each for each in self.members if not each.busy and not each.is_away()]

    def _wanting(self, parcel: Parcel) -> list[Consumer]:
        """The members that want it; of a durable group, whose members are alike, all of them."""
        wanting = [each for each in parcel.takers if each in self.members]
        if not wanting and (not parcel.takers or self.interest.durable is not None):
            return list(self.members)
        return wanting

    def _is_wanted(self, parcel: Parcel) -> bool:
        return bool(self._wanting(parcel)) or self.interest.durable is not None

    def _choose(self, parcel: Parcel) -> Consumer | None:
        """Least in flight, then longest idle; one who has failed with it only if all have."""
        wanting = self._wanting(parcel)
        fresh = [each for each in wanting if each not in parcel.tried] or wanting
        free = [each for each in fresh if not each.busy and not each.is_away()]
        if not free:
            return None
        if self.settings.level.order == "total":
            if self._active not in free:
                self._active = free[0]
            return self._active
        return min(free, key=lambda each: (each.in_flight, each.idle_since))

    def _delay(self, parcel: Parcel, error: BaseException) -> float:
        """Somebody else can try at once; only if all have failed is there a wait."""
        if isinstance(error, Nack) and error.delay is not None:
            return error.delay
        if any(member not in parcel.tried for member in self._wanting(parcel)):
            return 0.0
        parcel.tried = ()
        return super()._delay(parcel, error)

    def consumers(self) -> tuple[Consumer, ...]:
        """Its members."""
        return tuple(self.members)

    def is_detached(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def is_idle(self) -> bool:
        """Whether nothing is left that could be handled."""
        if self.ended is not None:
            return True
        if self.winding_down:
            return not self._begun()
        waits = all(member.paused for member in self.members)
        return not self.in_flight and not self.delayed and (waits or not self.backlog)

    def _direct_call(self) -> None:
        return None


def _strictest(one: Settings, other: Settings) -> Settings:
    level = one.level
    if _RANK[other.level.order] > _RANK[level.order]:
        level = replace(level, order=other.level.order)
    level = replace(
        level,
        reliable=level.reliable or other.level.reliable,
        unique=level.unique or other.level.unique,
    )
    copy = one.copy or other.copy
    return replace(one, level=level, queue=max(one.queue, other.queue), copy=copy)
