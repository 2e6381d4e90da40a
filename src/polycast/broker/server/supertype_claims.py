"""What types that are known would come to be, by what somebody says of a type above them.

An event is what its hash says, but above its class types are known by name. So who describes a type
says something of all events of its subtypes, also of those that were published long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from polycast.typesystem import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polycast.broker.server.type_ancestry import Vocabulary
    from polycast.typesystem import Description

__all__ = ["Ascent"]

MOST_STEPS = 10_000  # looked at for one message: what has more above it is not for all

IsFree = Callable[[str, str], bool]


class Ascent:
    """Where some descriptions lead that are new, with what is known already."""

    def __init__(self, new: Sequence[Description], vocabulary: Vocabulary, is_free: IsFree) -> None:
        self._vocabulary, self._is_free, self._left = vocabulary, is_free, MOST_STEPS
        self._clear: set[str] = set()  # names above which all steps are free
        self._new: dict[str, list[Description]] = {}
        self._called: dict[str, set[str]] = {}
        for each in new:
            self._called.setdefault(each.name, set()).update(each.names)
            for name in each.names:
                self._new.setdefault(name, []).append(each)
        about = self._called.items()
        self._raised = {name: vocabulary.below(name, names) for name, names in about}

    def raises_nothing_known(self, new: Description) -> bool:
        """Whether it adds nothing above what is known, but by steps that are free.

        What has more above it than anybody looks through may lead anywhere.
        """
        return not self._raised[new.name] or self.adds_nothing(new)

    def adds_nothing(self, new: Description) -> bool:
        """Whether nothing is above it that was not before, but by steps that are free."""
        seen, wrong = set[str](), set[str]()
        for lower, above in self._steps(new):
            seen.add(above)
            if not self._is_free(lower, above):
                wrong.add(above)
        if self._left > 0 and not wrong:
            self._clear |= seen
            return True
        below = self._raised[new.name]
        return bool(below) and self._have_already(below, wrong) and self._left > 0

    def _have_already(self, names: frozenset[str], wrong: set[str]) -> bool:
        """Whether all that derives from some names, in any version, has this above it."""
        seen, waiting = set(names), list(names)
        while waiting and self._left > 0:
            for each in self._vocabulary.derived(waiting.pop()):
                above = set(islice(ancestors(each, self._vocabulary.newest), max(self._left, 0)))
                self._left -= len(above)
                if not wrong.issubset(above):
                    return False
                more = self._vocabulary.below(each.name, each.names) - seen
                seen |= more
                waiting += more
        return True

    def _steps(self, new: Description) -> Iterator[tuple[str, str]]:
        """The steps up from a type, and from each name above it once."""
        seen, waiting = set[str](), self._meant_by(new.name)
        while waiting:
            each = waiting.pop()
            for name in (*each.supertypes, *each.aliases):
                self._left -= 1
                if self._left <= 0:
                    return
                yield each.name, name
                if name not in seen and name not in self._clear:
                    seen.add(name)
                    waiting += self._meant_by(name)

    def _meant_by(self, name: str) -> list[Description]:
        """All that a name may mean now, or once what is new is known."""
        new, known = self._new, self._vocabulary.newest(name)
        found = [*new.get(name, ()), *(() if known is None else (known,))]
        for called in {each.name for each in found} - {name}:  # it is an alias
            newest = self._vocabulary.newest(called)
            found += [*new.get(called, ()), *(() if newest is None else (newest,))]
        return found
