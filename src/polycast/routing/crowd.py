"""Many subscriptions to the same events: an index over their filters instead of asking each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.matching import Matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polycast.routing.plan import Target

__all__ = ["Crowd", "is_alone"]

MANY = 48  # targets of one class and topic with filters

Choice = tuple[list[int], list["Target"]]


def is_alone(target: Target) -> bool:
    """Whether it stands for one subscription, so that its filter alone decides."""
    interests = target.interests()
    return len(interests) == 1 and interests[0].group is None


class Crowd:
    """All targets that stand for one subscription, by what they want."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._matcher: Matcher[Any] = Matcher()
        for target in targets:
            self.add(target)

    def add(self, target: Target) -> None:
        """Let it have what it wants."""
        if is_alone(target):
            [interest] = target.interests()
            self._matcher.add(target, interest.selector, interest.where)

    def remove(self, target: Target) -> None:
        """Let it have nothing more."""
        if target in self._matcher:
            self._matcher.remove(target)

    def wanting(self, event: Any, topic: str | None) -> list[Target]:
        """Who wants an event."""
        return self._matcher.match(event, topic=topic)

    def chooser(
        self, direct: tuple[Target, ...], queued: tuple[Target, ...], topic: str | None
    ) -> Callable[[Any], Choice]:
        """For one route: the numbers of those to call, in order, and those with a queue."""
        match = self._matcher.match
        numbers = {target: number for number, target in enumerate(direct)}
        boxes = frozenset(queued)

        def choose(event: Any) -> Choice:
            found = match(event, topic=topic)
            called = sorted(numbers[each] for each in found if each in numbers)
            return called, [each for each in found if each in boxes]

        return choose
