"""Whether new descriptions would turn known types into subtypes of something else.

A record pins its own class by hash, but supertypes are known by name. So describing a type changes
what all events of its subtypes are, also those that were published long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from polycast.typesystem import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.typesystem import Description

__all__ = ["SupertypeClaims"]

MOST_STEPS = 10_000  # per message; a description with more above it is not made public

IsFree = Callable[[str, str], bool]


class SupertypeClaims:
    """The supertypes that some new descriptions claim, together with those known already."""

    def __init__(self, new: Sequence[Description], catalog: TypeCatalog, is_free: IsFree) -> None:
        self._catalog, self._is_free, self._left = catalog, is_free, MOST_STEPS
        self._clear: set[str] = set()  # names above which all steps are allowed
        self._new: dict[str, list[Description]] = {}
        self._called: dict[str, set[str]] = {}
        for description in new:
            self._called.setdefault(description.name, set()).update(description.names)
            for name in description.names:
                self._new.setdefault(name, []).append(description)
        about = self._called.items()
        self._raised = {name: catalog.below(name, names) for name, names in about}

    def raises_nothing_known(self, new: Description) -> bool:
        """Whether it adds nothing above known types, except by steps that are allowed.

        False for a description with more supertypes than `MOST_STEPS`.
        """
        return not self._raised[new.name] or self.adds_nothing(new)

    def adds_nothing(self, new: Description) -> bool:
        """Whether it adds no supertypes, except by steps that are allowed."""
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
        """Whether all types that derive from some names have these supertypes already."""
        seen, waiting = set(names), list(names)
        while waiting and self._left > 0:
            for derived in self._catalog.derived(waiting.pop()):
                above = set(islice(ancestors(derived, self._catalog.newest), max(self._left, 0)))
                self._left -= len(above)
                if not wrong.issubset(above):
                    return False
                more = self._catalog.below(derived.name, derived.names) - seen
                seen |= more
                waiting += more
        return True

    def _steps(self, new: Description) -> Iterator[tuple[str, str]]:
        """The steps up from a type, and once from each name above it."""
        seen, waiting = set[str](), self._meant_by(new.name)
        while waiting:
            below = waiting.pop()
            for name in (*below.supertypes, *below.aliases):
                self._left -= 1
                if self._left <= 0:
                    return
                yield below.name, name
                if name not in seen and name not in self._clear:
                    seen.add(name)
                    waiting += self._meant_by(name)

    def _meant_by(self, name: str) -> list[Description]:
        """All descriptions that a name may mean, new ones included."""
        new, known = self._new, self._catalog.newest(name)
        descriptions = [*new.get(name, ()), *(() if known is None else (known,))]
        for called in {description.name for description in descriptions} - {name}:  # it is an alias
            newest = self._catalog.newest(called)
            descriptions += [*new.get(called, ()), *(() if newest is None else (newest,))]
        return descriptions
