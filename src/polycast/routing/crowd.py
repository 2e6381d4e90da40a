"""Many subscriptions to the same events: an index over their filters instead of asking each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.matching import Matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.matching import Interest
    from polycast.routing.plan import Target

__all__ = ["Crowd", "is_alone"]

MANY = 48  # targets of one class and topic with filters

Choice = tuple[list[int], list["Target"]]


def is_alone(target: Target) -> bool:
    """Whether it stands for one subscription, so that its filter alone decides."""
    interests = target.interests()
    return len(interests) == 1 and interests[0].group is None


class Member:
    """A target, with what it wants; another interest of it is another member."""

    __slots__ = ("interest", "target")

    def __init__(self, target: Target, interest: Interest) -> None:
        self.target, self.interest = target, interest


class Crowd:
    """All targets that stand for one subscription, by what they want."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._matcher: Matcher[Member] = Matcher()
        self._members: dict[Target, Member] = {}
        for target in targets:
            self.put(target)

    def put(self, target: Target) -> None:
        """Let it have what it wants now; who asks meanwhile finds the old or the new, or both."""
        before = self._members.pop(target, None)
        if is_alone(target):
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
        self, direct: tuple[Target, ...], queued: tuple[Target, ...], topic: str | None
    ) -> Callable[[Any], Choice]:
        """For one route: the numbers of those to call, in order, and those with a queue."""
        match = self._matcher.match
        numbers = {target: number for number, target in enumerate(direct)}
        boxes = {target: number for number, target in enumerate(queued)}

        def choose(event: Any) -> Choice:
            found = {each.target for each in match(event, topic=topic)}
            called = sorted([numbers[each] for each in found if each in numbers])
            waiting = sorted([boxes[each] for each in found if each in boxes])
            return called, [queued[number] for number in waiting]

        return choose
