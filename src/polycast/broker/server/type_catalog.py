"""The catalog of public type descriptions, by which rights are checked, and those of one client."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from polycast.broker.wire.protocol import decode_description
from polycast.errors import LimitReachedError
from polycast.typesystem import Registry, ancestors, describe
from polycast.typesystem.conformance import structurally_conforms
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    import msgspec

    from polycast.broker.server.authorization import Authorization
    from polycast.broker.server.usage import ConnectionUsage
    from polycast.stores import Store, View
    from polycast.typesystem import Description

MOST_ABOVE = 100
"""Names above a class, aliases included; an event of a class with more is refused."""


class Ancestry(NamedTuple):
    """The supertypes of a class, by the description that a record pins."""

    names: tuple[str, ...]
    """Its own name, its aliases, and those of the supertypes whose members it has."""
    steps: tuple[tuple[str, str], ...]
    """Each claimed step from a type up to one of its supertypes."""
    is_too_much: bool = False
    """Whether there are more than `MOST_ABOVE`; then only its own name counts."""


class TypeCatalog:
    """The descriptions that are public; those private to a client are never among them.

    For any thread.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registry = Registry(classes=())
        self._lock = threading.Lock()
        self._learnt = 0
        self._known: dict[tuple[str, str], Ancestry] = {}
        self._derived: dict[str, list[Description]] = {}  # by the name of a supertype or alias
        self._called: dict[str, set[str]] = {}  # by name, all names that a type ever had
        self.generation = 0
        """Grows with each change."""

    def learn(self, view: View) -> None:
        """Load new descriptions of the store."""
        with self._lock:
            new = view.descriptions(after=self._learnt)
            self._learnt += len(new)
            self._take(new)

    def add(self, descriptions: Iterable[Description]) -> None:
        """Add descriptions that are about to be stored; the next message may need them."""
        with self._lock:
            self._take(descriptions)

    def _take(self, descriptions: Iterable[Description]) -> None:
        new = [
            description
            for description in descriptions
            if self._registry.described(description.hash) is None
        ]
        for description in new:
            self._registry.add(description)
            for above in dict.fromkeys((*description.supertypes, *description.aliases)):
                self._derived.setdefault(above, []).append(description)
            self._called.setdefault(description.name, set()).update(description.names)
        if new:
            self.generation += 1
            self._known = {}

    def described(self, digest: str) -> Description | None:
        """The description with a hash."""
        description = self._registry.described(digest)
        if description is None:
            with self._store.view() as view:
                self.learn(view)
            description = self._registry.described(digest)
        return description

    def unknown(self, descriptions: Iterable[Description]) -> list[Description]:
        """The descriptions that are not public yet."""
        new = [
            description
            for description in descriptions
            if self._registry.described(description.hash) is None
        ]
        if new:
            with self._store.view() as view:
                self.learn(view)
        return [
            description for description in new if self._registry.described(description.hash) is None
        ]

    def pinned(self, name: str, version: int, digest: str) -> Description | None:
        """The description that a record pins; None if name, version and hash do not agree."""
        description = describe(STANDARD[name]) if name in STANDARD else self.described(digest)
        wanted = (name, version, digest)
        if (
            description is None
            or (description.name, description.version, description.hash) != wanted
        ):
            return None
        return description

    def newest(self, name: str) -> Description | None:
        """The newest description of a name."""
        return self._registry.describe(name)

    def below(self, name: str, names: Iterable[str]) -> frozenset[str]:
        """The names of a type, now and before, that known types derive from."""
        called = self._called.get(name, set()).union(names)
        return frozenset(known for known in called if known in self._derived)

    def derived(self, name: str) -> Sequence[Description]:
        """The known types that derive from a name, in all versions."""
        return self._derived.get(name, ())

    def has_name(self, name: str) -> bool:
        """Whether a type of a name is described."""
        return bool(self._registry.versions(name))

    def count(self, is_meant: Callable[[str], bool]) -> int:
        """How many descriptions have a name for which a predicate holds."""
        return sum(is_meant(description.name) for description in self._registry.descriptions())

    def names(self, name: str, digest: str) -> tuple[str, ...]:
        """The wire name of a class, its aliases, and those of all its supertypes.

        A description claims its supertypes itself: only those count whose members it has.
        """
        ancestry = self.ancestry(name, digest)
        return (name,) if ancestry is None else ancestry.names

    def ancestry(self, name: str, digest: str) -> Ancestry | None:
        """The ancestry of a class; None if it is not described."""
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
        meant = (name for name in above if self._has_members_of(description, name))
        names = tuple(dict.fromkeys((description.name, *meant)))
        return Ancestry(names, tuple(self._steps(description)))

    def _steps(self, description: Description) -> dict[tuple[str, str], None]:
        """All steps up: from the pinned description, and above it from the newest of each name."""
        steps: dict[tuple[str, str], None] = {}
        waiting = [description]
        seen = {description.hash}
        while waiting:
            below = waiting.pop()
            for name in (*below.supertypes, *below.aliases):
                steps[below.name, name] = None
                above = None if name in STANDARD else self._registry.describe(name)
                if name not in description.names and above and above.hash not in seen:
                    seen.add(above.hash)
                    waiting.append(above)
        return steps

    def names_of_type(self, name: str) -> tuple[str, ...]:
        """The same for a type without a hash, by its newest description."""
        newest = self._registry.describe(name)
        return (name,) if newest is None else (name, *self.names(newest.name, newest.hash))

    def _has_members_of(self, description: Description, name: str) -> bool:
        registry = self._registry
        return name in description.names or any(
            structurally_conforms(description, version, lookup=registry.describe)
            for version in registry.versions(name)
        )


LARGEST = 300_000  # bytes of a description: some 2,000 fields
MOST = 2_000  # descriptions in one message, and of those that are private to one client
SMALL = 2_000  # bytes of a description that needs no turn of its own


class PrivateDescriptions:
    """Descriptions that one client may not publish for everybody.

    They describe the types of its own subscriptions. They affect no other client's rights and
    routes, and no event can be published with them.
    """

    def __init__(self) -> None:
        self.descriptions: dict[str, Description] = {}

    def sort(
        self,
        descriptions: Sequence[Description],
        authorization: Authorization,
        catalog: TypeCatalog,
        usage: ConnectionUsage,
    ) -> tuple[list[Description], list[str]]:
        """New public descriptions, and the hashes of new private ones."""
        new = catalog.unknown(descriptions)
        allowed = authorization.types.describable(new)
        public = [description for description in new if description.hash in allowed]
        private = [description for description in new if description.hash not in allowed]
        hashes = [description.hash for description in private]
        many = len(self.descriptions.keys() | set(hashes))
        if many > MOST:
            text = (
                f"{len(private)} more descriptions without a describe grant that covers their "
                f"names, such as {private[-1].name!r}; {len(self.descriptions)} are there, up to "
                f"{MOST} are accepted from one connection"
            )
            raise LimitReachedError("types", text, {"limit": MOST})
        usage.hold(authorization.principal, "types", many)
        authorization.types.check_quota(public)
        self.descriptions.update(zip(hashes, private, strict=True))
        catalog.add(public)
        return public, hashes


def read_descriptions(raw: Sequence[msgspec.Raw]) -> Generator[None, None, list[Description]]:
    """Decode and hash descriptions one at a time; yields between two of them."""
    if len(raw) > MOST:
        text = f"{len(raw):,} descriptions at once; up to {MOST:,} are accepted"
        raise LimitReachedError("types", text, {"limit": MOST})
    descriptions: list[Description] = []
    for data in raw:
        size = memoryview(data).nbytes
        if size > LARGEST:
            text = f"a description of {size:,} bytes; up to {LARGEST:,} are accepted"
            raise LimitReachedError("types", text, {"limit": LARGEST})
        descriptions.append(decode_description(data))
        _ = descriptions[-1].hash  # hashing costs as much as decoding
        if size > SMALL:
            yield
    return descriptions
