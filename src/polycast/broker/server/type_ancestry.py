"""What the types of a store are, for the rights on them: by what their owners have said of them."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from polycast.typesystem import Registry, ancestors, describe
from polycast.typesystem.conformance import structurally_conforms
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polycast.stores import Store, View
    from polycast.typesystem import Description

__all__ = ["MOST_ABOVE", "Ancestry", "Vocabulary"]

MOST_ABOVE = 100
"""Names of a class, aliases and supertypes included, beyond which no event of it is taken."""


class Ancestry(NamedTuple):
    """What is said of a class, by the description that a record pins."""

    names: tuple[str, ...]
    """Its own, its aliases, and those of the supertypes whose members it has."""
    steps: tuple[tuple[str, str], ...]
    """Each step from a type up to one of its supertypes, as it is claimed."""
    is_too_much: bool = False
    """Whether there are more than anybody looks through; then only its own name counts."""


class Vocabulary:
    """The descriptions that all go by; what is private to a subscription never is among them.

    It may be asked in any thread.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registry = Registry(classes=())
        self._lock = threading.Lock()
        self._learnt = 0
        self._known: dict[tuple[str, str], Ancestry] = {}
        self._derived: dict[str, list[Description]] = {}  # by the name of a supertype or alias
        self._called: dict[str, set[str]] = {}  # by its name, all that a type was ever called
        self.generation = 0
        """Grows when there is more to know."""

    def learn(self, view: View) -> None:
        """Know what the store knows by now."""
        with self._lock:
            new = view.descriptions(after=self._learnt)
            self._learnt += len(new)
            self._take(new)

    def add(self, descriptions: Iterable[Description]) -> None:
        """Know what is about to be kept; what is said next goes by it."""
        with self._lock:
            self._take(descriptions)

    def _take(self, descriptions: Iterable[Description]) -> None:
        new = [each for each in descriptions if self._registry.described(each.hash) is None]
        for each in new:
            self._registry.add(each)
            for above in dict.fromkeys((*each.supertypes, *each.aliases)):
                self._derived.setdefault(above, []).append(each)
            self._called.setdefault(each.name, set()).update(each.names)
        if new:
            self.generation += 1
            self._known = {}

    def described(self, digest: str) -> Description | None:
        """The description with a hash."""
        found = self._registry.described(digest)
        if found is None:
            with self._store.view() as view:
                self.learn(view)
            found = self._registry.described(digest)
        return found

    def unknown(self, descriptions: Iterable[Description]) -> list[Description]:
        """Those that nobody who may has said yet."""
        new = [each for each in descriptions if self._registry.described(each.hash) is None]
        if new:
            with self._store.view() as view:
                self.learn(view)
        return [each for each in new if self._registry.described(each.hash) is None]

    def pinned(self, name: str, version: int, digest: str) -> Description | None:
        """What a record says that it is, if it is what it says."""
        found = describe(STANDARD[name]) if name in STANDARD else self.described(digest)
        wanted = (name, version, digest)
        if found is None or (found.name, found.version, found.hash) != wanted:
            return None
        return found

    def newest(self, name: str) -> Description | None:
        """What a type that is known by its name only is."""
        return self._registry.describe(name)

    def below(self, name: str, names: Iterable[str]) -> frozenset[str]:
        """By which of these names, or of those that it had, something known derives from a type."""
        called = self._called.get(name, set()).union(names)
        return frozenset(each for each in called if each in self._derived)

    def derived(self, name: str) -> Sequence[Description]:
        """What is known to derive from a type of that name, in all versions."""
        return self._derived.get(name, ())

    def has_name(self, name: str) -> bool:
        """Whether anybody has described a type of that name."""
        return bool(self._registry.versions(name))

    def count(self, is_meant: Callable[[str], bool]) -> int:
        """How many descriptions there are of names that are meant."""
        return sum(is_meant(each.name) for each in self._registry.descriptions())

    def many_of(self, names: Iterable[str]) -> int:
        """How many descriptions there are of some names."""
        wanted = frozenset(names)
        return sum(each.name in wanted for each in self._registry.descriptions())

    def names(self, name: str, digest: str) -> tuple[str, ...]:
        """The wire name of a class, its aliases, and those of all its supertypes.

        A description says by itself what its supertypes are: only those count whose members it has.
        """
        found = self.ancestry(name, digest)
        return (name,) if found is None else found.names

    def ancestry(self, name: str, digest: str) -> Ancestry | None:
        """What is known of a class; None if nobody has said what it is."""
        known = self._known.get((name, digest))
        if known is None:
            description = describe(STANDARD[name]) if name in STANDARD else self.described(digest)
            if description is None or (description.name, description.hash) != (name, digest):
                return None
            generation = self.generation
            known = self._ancestry(description)
            with self._lock:
                if generation == self.generation:
                    self._known[name, digest] = known
        return known

    def _ancestry(self, description: Description) -> Ancestry:
        above = tuple(islice(ancestors(description, self._registry.describe), MOST_ABOVE + 1))
        if len(above) > MOST_ABOVE:
            return Ancestry((description.name,), (), is_too_much=True)
        meant = (each for each in above if self._has_members_of(description, each))
        names = tuple(dict.fromkeys((description.name, *meant)))
        return Ancestry(names, tuple(self._steps(description)))

    def _steps(self, description: Description) -> dict[tuple[str, str], None]:
        """All steps up, by the pinned description, and above it by those of each name."""
        found: dict[tuple[str, str], None] = {}
        waiting = [description]
        seen = {description.hash}
        while waiting:
            each = waiting.pop()
            for name in (*each.supertypes, *each.aliases):
                found[each.name, name] = None
                above = None if name in STANDARD else self._registry.describe(name)
                if name not in description.names and above and above.hash not in seen:
                    seen.add(above.hash)
                    waiting.append(above)
        return found

    def names_of_type(self, name: str) -> tuple[str, ...]:
        """The same of a type that is known by its name only."""
        found = self._registry.describe(name)
        return (name,) if found is None else (name, *self.names(found.name, found.hash))

    def _has_members_of(self, description: Description, name: str) -> bool:
        registry = self._registry
        return name in description.names or any(
            structurally_conforms(description, each, lookup=registry.describe)
            for each in registry.versions(name)
        )
