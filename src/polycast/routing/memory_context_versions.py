"""What contexts were at each position of a log in memory."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polycast.contexts import FederationMember

    Versions = tuple[
        tuple[int, FederationMember | None], ...
    ]  # from where on; None: it is not there

__all__ = ["Eras"]


class Eras:
    """Contexts by position, as far back as somebody can ask for.

    The first version of a context is for all that was before it, too: as over a store.
    """

    def __init__(self) -> None:
        self._versions: dict[str, Versions] = {}  # replaced, and never changed

    def turn(self, members: Mapping[str, FederationMember], start: int, oldest: int) -> None:
        """Contexts have changed from a position on; nobody asks for what is before the oldest."""
        found: dict[str, Versions] = {}
        for name in dict.fromkeys((*self._versions, *members)):
            # One that begins where the next does was never in effect.
            versions = tuple(each for each in self._versions.get(name, ()) if each[0] < start)
            member = members.get(name)
            if member is not (versions[-1][1] if versions else None):
                versions = (*versions, (start, member))
            if versions:
                found[name] = versions[_last_begun(versions, oldest) :]
        self._versions = found

    def member(self, name: str, at: int) -> FederationMember | None:
        """A context at a position; None if it was not there."""
        versions = self._versions.get(name)
        return versions[_last_begun(versions, at)][1] if versions else None

    def __len__(self) -> int:
        return sum(map(len, self._versions.values()))


def _last_begun(versions: Versions, position: int) -> int:
    """Which of the versions is in effect at a position."""
    return max(0, bisect_right(versions, position, key=itemgetter(0)) - 1)
