"""Many subscriptions to the same events: an index over their filters instead of asking each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.matching import Matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from polycast.matching import Interest
    from polycast.routing.target_table import Target

__all__ = ["TargetIndex", "is_single", "pays_to_index"]

MANY = 128  # targets of one class and topic with such filters; asking fewer in a loop is faster

LOOKED_AT = 128  # events, to see how many of a crowd want them
DENSE = 4  # if one in so many does, asking each in a loop is faster

Choice = tuple[list[int], list["Target"]]


def is_single(target: Target) -> bool:
    """Whether it stands for one subscription, so that its filter alone decides."""
    interests = target.interests()
    return len(interests) == 1 and interests[0].group is None


def pays_to_index(targets: Collection[Target]) -> bool:
    """Whether so many have a filter which can be looked up that an index over them pays."""
    return len(targets) > MANY and sum(map(_is_indexed, targets)) > MANY


def _is_indexed(target: Target) -> bool:
    where = target.interests()[0].where if is_single(target) else None
    return where is not None and where.is_indexed


class Member:
    """A target, with what it wants; another interest of it is another member."""

    __slots__ = ("interest", "target")

    def __init__(self, target: Target, interest: Interest) -> None:
        self.target, self.interest = target, interest


class TargetIndex:
    """All targets that stand for one subscription, by what they want."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._matcher: Matcher[Member] = Matcher()
        self._members: dict[Target, Member] = {}
        for target in targets:
            self.put(target)

    def put(self, target: Target) -> None:
        """Let it have what it wants now; who asks meanwhile finds the old or the new, or both."""
        before = self._members.pop(target, None)
        if is_single(target):
            [interest] = target.interests()
            if before is not None and before.interest is interest:
                self._members[target] = before
                return
            member = self._members[target] = Member(target, interest)
            self._matcher.add(member, interest.selector, interest.where)
        if before is not None:
            self._matcher.remove(before)

    def remove(self, target: Target) -> None:
        """Let it have nothing more."""
        member = self._members.pop(target, None)
        if member is not None:
            self._matcher.remove(member)

    def wanting(self, event: Any, topic: str | None) -> set[Target]:
        """Who wants an event."""
        return {each.target for each in self._matcher.match(event, topic=topic)}

    def chooser(
        self,
        direct: tuple[Target, ...],
        queued: tuple[Target, ...],
        topic: str | None,
        dense: Callable[[], None],
    ) -> Callable[[Any], Choice]:
        """For one route: the numbers of those to call, in order, and those with a queue.

        `dense` is called when so many want most events that an index is of no use.
        """
        match = self._matcher.match
        called = self._numbers(direct)
        waiting = self._numbers(queued)

        looked = hits = 0

        def choose(event: Any) -> Choice:
            nonlocal looked, hits
            found = match(event, topic=topic)
            looked += 1
            hits += len(found)
            if looked == LOOKED_AT:
                if hits * DENSE > looked * (len(direct) + len(queued)):
                    dense()
                looked = hits = 0
            calls = [number for each in found if (number := called(each)) is not None]
            calls.sort()
            if not queued:
                return calls, []
            boxes = [number for each in found if (number := waiting(each)) is not None]
            boxes.sort()
            return calls, [queued[number] for number in boxes]

        return choose

    def _numbers(self, targets: tuple[Target, ...]) -> Callable[[Member], int | None]:
        """The number of each target, by what it is in the crowd now."""
        members = [(self._members.get(target), number) for number, target in enumerate(targets)]
        return {each: number for each, number in members if each is not None}.get
