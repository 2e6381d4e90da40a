"""Types as descriptions tell of them: where a class is not here, one is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polycast.errors import NotDecodableError
from polycast.matching import Definition, Selector, TopicPattern
from polycast.routing.evaluable import is_ambiguous
from polycast.typesystem import (
    Registry,
    describe,
    described_conforms,
    described_conforms_exactly,
    is_made,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from polycast.events import Record
    from polycast.matching.interest import SelectedType
    from polycast.stores import View
    from polycast.typesystem import Description


@dataclass(frozen=True, slots=True)
class DescribedSelector(Selector[Any]):
    """A selector where some classes are made from descriptions: then these decide."""

    registry: Registry = field(kw_only=True, compare=False, repr=False)

    def _covers_class(self, cls: type) -> bool:
        if not any(map(is_made, (cls, *self.types))):
            return Selector._covers_class(self, cls)
        described, lookup = describe(cls), self.registry.describe
        targets = [describe(target) for target in self.types]
        if self.every and self.exact:
            return described_conforms_exactly(described, *targets, lookup=lookup)
        decide = described_conforms_exactly if self.exact else described_conforms
        verdicts = (decide(described, target, lookup=lookup) for target in targets)
        return all(verdicts) if self.every else any(verdicts)


class DescribedTypes:
    """The types of records and of stored subscriptions."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._learnt = 0  # descriptions of the store
        self._classes: dict[str, type] = {}
        self._ambiguous: dict[str, bool] = {}

    def learn(self, view: View) -> list[Description]:
        """Learn the descriptions that have come into the store; those that are new here."""
        new = view.descriptions(after=self._learnt)
        self._learnt += len(new)
        unknown = [each for each in new if self.registry.described(each.hash) is None]
        for description in unknown:
            self.registry.add(description)
        if unknown:
            self._ambiguous = {}
        return unknown

    def class_of(self, record: Record) -> type:
        """The class of a record here; `object` if nobody has described it."""
        known = self._classes.get(record.hash)
        if known is None:
            try:
                known = self.registry.class_for(record.name, record.version, record.hash)
            except NotDecodableError:
                return object
            self._classes[record.hash] = known
        return known

    def is_ambiguous(self, digest: str, versions: Counter[str]) -> bool:
        """Whether events of a description may be read otherwise where their class is."""
        known = self._ambiguous.get(digest)
        if known is None:
            known = self._ambiguous[digest] = is_ambiguous(digest, self.registry, versions)
        return known

    def selector(
        self, definition: Definition, private: Mapping[str, Description]
    ) -> DescribedSelector:
        """What a definition selects; `NotDecodableError` if its types were not learnt before."""
        types = tuple(self._selected(wanted, private) for wanted in definition.types)
        pattern = None if definition.topic is None else TopicPattern(definition.topic)
        about = (definition.every, definition.exact, pattern)
        return DescribedSelector(types, *about, registry=self.registry)

    def _selected(self, wanted: SelectedType, private: Mapping[str, Description]) -> type:
        if self.is_private(wanted) and wanted.hash in private:
            return self.registry.made_apart(private[wanted.hash])
        return self.registry.class_for(wanted.name, wanted.version, wanted.hash)

    def is_private(self, wanted: SelectedType) -> bool:
        """Whether a subscription means by a type what nobody else knows."""
        unknown = self.registry.described(wanted.hash) is None
        return unknown and self.registry.resolve(wanted.name, version=wanted.version) is None


def class_named(registry: Registry, name: str) -> type | None:
    """The class of a name: the real one if it is here, else one made from its description."""
    known = registry.resolve(name)
    described = registry.describe(name) if known is None else None
    return known if described is None else registry.made(described)
