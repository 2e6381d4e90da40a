"""Which types a client may describe for everybody."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from polycast.errors import AccessDeniedError, LimitReachedError
from polycast.typesystem import ancestors
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from polycast.broker.server.access import Principal
    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.broker.server.usage import Usage
    from polycast.typesystem import Description

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
        used = self.catalog.count(lambda name: self.owner_of(name) == self._principal.owner)
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
