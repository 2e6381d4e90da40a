"""The public type descriptions, who may add to them, and those that are private to one client."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from polycast.broker.wire.protocol import decode_description
from polycast.errors import AccessDeniedError, LimitReachedError
from polycast.typesystem import Description, Registry, ancestors, describe
from polycast.typesystem.conformance import structurally_conforms
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Generator,
        Iterable,
        Iterator,
        Sequence,
    )

    import msgspec

    from polycast.broker.server.access import Principal
    from polycast.broker.server.authorization import Authorization
    from polycast.broker.server.ownership import ConnectionUsage, Usage
    from polycast.stores import Store, View


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
        self._unstored: set[str] = set()  # hashes of what is not known to be stored
        self._uncounted: list[str] = []  # names of descriptions whose owner was not looked up yet
        self._of_owner: Counter[str | None] = Counter()
        self.generation = 0
        """Grows with each change."""

    def learn(self, view: View) -> None:
        """Load new descriptions of the store."""
        with self._lock:
            new = view.descriptions(after=self._learnt)
            self._learnt += len(new)
            self._unstored.difference_update(description.hash for description in new)
            self._take(new)

    def add(self, descriptions: Sequence[Description]) -> None:
        """Add descriptions that are about to be stored; the next message may need them."""
        with self._lock:
            self._unstored.update(description.hash for description in descriptions)
            self._take(descriptions)

    def _take(self, descriptions: Iterable[Description]) -> None:
        new = self._not_described(descriptions)
        for description in new:
            self._registry.add(description)
            self._uncounted.append(description.name)
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
        """The descriptions that are not public yet, or may not be stored: a write may fail."""
        new = self._not_described(descriptions, or_in=self._unstored)
        if new:
            with self._store.view() as view:
                self.learn(view)
        return self._not_described(new, or_in=self._unstored)

    def _not_described(
        self, descriptions: Iterable[Description], *, or_in: Container[str] = ()
    ) -> list[Description]:
        described = self._registry.described
        return [new for new in descriptions if new.hash in or_in or described(new.hash) is None]

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

    def count(self, owner: str | None, owner_of: Callable[[str], str | None]) -> int:
        """How many descriptions have a name of an owner; each name is looked up once."""
        with self._lock:
            self._of_owner.update(map(owner_of, self._uncounted))
            self._uncounted = []
            return self._of_owner[owner]

    def recount(self) -> None:
        """Look up all owners again: they have changed."""
        with self._lock:
            self._uncounted = [description.name for description in self._registry.descriptions()]
            self._of_owner = Counter()

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
SMALL = 2_000  # bytes of descriptions that need no turn of their own


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
    """Decode and hash descriptions; yields after a few small ones, and after each large one."""
    if len(raw) > MOST:
        text = f"{len(raw):,} descriptions at once; up to {MOST:,} are accepted"
        raise LimitReachedError("types", text, {"limit": MOST})
    descriptions: list[Description] = []
    read = 0
    for data in raw:
        size = memoryview(data).nbytes
        if size > LARGEST:
            text = f"a description of {size:,} bytes; up to {LARGEST:,} are accepted"
            raise LimitReachedError("types", text, {"limit": LARGEST})
        descriptions.append(decode_description(data))
        _ = descriptions[-1].hash  # hashing costs as much as decoding
        read += size
        if read > SMALL:
            read = 0
            yield
    return descriptions


MOST_REMEMBERED = 2_000  # rejected descriptions, kept for error messages


class TypeAuthorization:
    """Judges descriptions by the describe grants of a client and by the owners of supertypes."""

    def __init__(
        self,
        principal: Principal,
        catalog: TypeCatalog,
        owner_of: Callable[[str], str | None],
        usage: Usage,
    ) -> None:
        self.catalog, self.owner_of = catalog, owner_of
        self._principal, self._usage = principal, usage
        self._is_open = principal.rights.admin
        self._over_quota: tuple[frozenset[str], LimitReachedError] | None = None
        self._raising: frozenset[str] = frozenset()  # descriptions rejected by `describable`

    def may_describe(self, description: Description) -> bool:
        """Whether the client may describe a type for everybody; no one may a standard type."""
        return self._is_open or self._principal.rights.may_describe(description.names)

    def describable(self, new: Sequence[Description]) -> frozenset[str]:
        """The hashes of the descriptions that the client may publish for everybody.

        A description must not turn known types, and thereby events that are already stored, into
        subtypes of another owner's type, unless the client may publish events of that type.
        """
        allowed = [description for description in new if self.may_describe(description)]
        if self._is_open:
            return frozenset(description.hash for description in allowed)
        claims = SupertypeClaims(new, self.catalog, self._may_derive)
        harmless = frozenset(
            description.hash for description in allowed if claims.raises_nothing_known(description)
        )
        before = self._raising if len(self._raising) < MOST_REMEMBERED else frozenset()
        self._raising = before.union(description.hash for description in allowed) - harmless
        return harmless

    def raises_nothing(self, description: Description) -> bool:
        """The same for one description, whatever else its transaction has described."""
        claims = SupertypeClaims([description], self.catalog, self._may_derive)
        return self._is_open or claims.adds_nothing(description)

    def crosses_owners(self, below: str, above: str) -> bool:
        """Whether a step up the ancestry leads to another owner's type."""
        if above in STANDARD or self.owner_of(below) == self.owner_of(above):
            return False
        return self.owner_of(above) is not None or self.catalog.has_name(above)

    def _may_derive(self, below: str, above: str) -> bool:
        rights, names = self._principal.rights, self.catalog.names_of_type
        return not self.crosses_owners(below, above) or rights.may_publish(names(above), None)

    def refuse_form(self, name: str, digest: str) -> None:
        """Refuse to publish an event in a form that is not in the catalog, and say why."""
        if self._over_quota is not None and digest in self._over_quota[0]:
            error = self._over_quota[1]
            raise LimitReachedError(error.code, str(error), error.data)
        owner = self.owner_of(name)
        whose = "" if owner in (None, self._principal.owner) else f", which belongs to {owner!r}"
        what = f"the type {name} in a form that nobody with a right to has described{whose}"
        if digest in self._raising:
            self.refuse_raised("publish", what)
        self.refuse_undescribed("publish", what, name)

    def refuse_undescribed(self, action: str, what: str, name: str) -> None:
        """Refuse an action that needs a type which no client with a grant has described."""
        needs = f"describe grant that covers it, such as describe = [{name!r}]"
        raise AccessDeniedError(action, what, token=self._principal.name, needs=needs)

    def refuse_raised(self, action: str, what: str) -> None:
        """Refuse an action that would make known types subtypes of another owner's."""
        needs = "publish grant that covers what its known subtypes would be of another owner's"
        raise AccessDeniedError(action, what, token=self._principal.name, needs=needs)

    def is_public(self, digest: str) -> bool:
        """Whether the catalog has a description."""
        return self.catalog.described(digest) is not None

    def check_quota(self, new: Collection[Description]) -> None:
        """Refuse more descriptions than the owner may have, and later the events of them."""
        self._over_quota = None
        if not new or self._usage.quota(self._principal) is None:
            return
        used = self.catalog.count(self._principal.owner, self.owner_of)
        try:
            self._usage.check(self._principal, "types", used, len(new))
        except LimitReachedError as error:
            self._over_quota = frozenset(description.hash for description in new), error
            raise


MOST_STEPS = 10_000  # per message; a description with more above it is not made public


class SupertypeClaims:
    """The supertypes that some new descriptions claim, together with those known already."""

    def __init__(
        self, new: Sequence[Description], catalog: TypeCatalog, is_free: Callable[[str, str], bool]
    ) -> None:
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
