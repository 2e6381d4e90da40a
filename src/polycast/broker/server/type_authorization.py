"""Which types a client may describe for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polycast.broker.server.supertype_claims import SupertypeClaims
from polycast.errors import AccessDeniedError, LimitReachedError
from polycast.typesystem.standard_types import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from polycast.broker.server.access import Principal
    from polycast.broker.server.type_catalog import TypeCatalog
    from polycast.broker.server.usage import Usage
    from polycast.typesystem import Description

__all__ = ["TypeAuthorization"]

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
