"""What can be asked of filters from elsewhere: each text is parsed once, whoever has it.

A type that comes may change what a name stands for. Then only the filters that mention the name are
looked at again, and of these only those that mention the type itself are parsed again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from polycast.errors import FilterError
from polycast.filters import Filter
from polycast.filters.tree.nodes import Attribute, Call, Reach, Variable, walk
from polycast.filters.tree.relaxation import EVERYTHING, relaxed
from polycast.routing.evaluable import VARIABLE, Effort, NameMeanings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from polycast.filters.tree.nodes import Node
    from polycast.typesystem import Description, Registry

NO_EFFORT = Effort()


class EvaluableFilter(NamedTuple):
    """What can be asked of a filter."""

    where: Filter[Any] | None
    is_whole: bool
    """Whether that is all of it."""
    effort: Effort = NO_EFFORT


@dataclass(slots=True)
class _Text:
    """One text, however many have it."""

    data: object
    where: Filter[Any] | None = None  # None: it could not be parsed
    outcome: EvaluableFilter | None = None  # None: it has to be looked at again
    classes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    is_parsed: bool = False
    routes: dict[int, None] = field(default_factory=dict)


class FilterCache:
    """The filters of some routes, by the numbers of these. For one thread."""

    def __init__(
        self,
        registry: Registry,
        class_named: Callable[[str], type | None],
        *,
        longest: int = sys.maxsize,
        weighs: bool = False,
    ) -> None:
        self._registry, self._class_named = registry, class_named
        self._longest = longest  # bytes of a filter; longer ones are not read
        self._weighs = weighs  # whether anybody wants to know what asking takes
        self._names: NameMeanings | None = None
        self._texts: dict[bytes, _Text] = {}
        self._keys: dict[int, bytes] = {}
        self._mentioning: dict[str, dict[bytes, _Text]] = {}
        self._stale: dict[int, None] = {}
        self.parsed = 0
        """How many texts were parsed so far."""

    @property
    def names(self) -> NameMeanings:
        """What names stand for by now."""
        if self._names is None:
            self._names = NameMeanings(self._registry)
        return self._names

    def add(self, number: int, data: object) -> EvaluableFilter:
        """What can be asked for a route with this filter."""
        key = msgspec.msgpack.encode(data)
        if len(key) > self._longest:
            return EvaluableFilter(None, is_whole=False)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _Text(data)
        text.routes[number] = None
        self._keys[number] = key
        return self._outcome(key, text)

    def remove(self, number: int) -> None:
        """The route is gone."""
        self._stale.pop(number, None)
        key = self._keys.pop(number, None)
        if key is None:
            return
        text = self._texts[key]
        del text.routes[number]
        if not text.routes:
            del self._texts[key]
            self._mention(key, text, frozenset())

    def learn(self, new: Iterable[Description]) -> None:
        """Types have come: some names may stand for something else."""
        if self._names is None:
            return
        if self._names.are_outdated():
            self.refresh()
        self._concern(frozenset().union(*map(self._names.add, new)))

    def refresh(self) -> None:
        """Classes may have come or gone meanwhile."""
        if self._names is not None:
            before, self._names = self._names, None
            self._concern(self.names.unlike(before))

    def _concern(self, changed: frozenset[str]) -> None:
        stale = self._stale
        for name in changed:
            for text in self._mentioning.get(name, {}).values():  # there may be very many
                text.outcome = None
                if name in text.classes:
                    text.is_parsed = False
                for number in text.routes:
                    stale[number] = None

    @property
    def waiting(self) -> Collection[int]:
        """The routes that have to be looked at again."""
        return self._stale.keys()

    def again(self, limit: int) -> list[tuple[int, EvaluableFilter]]:
        """Some routes whose filters may have to be asked in another way, and in which."""
        found: list[tuple[int, EvaluableFilter]] = []
        while self._stale and len(found) < limit:
            number, _ = self._stale.popitem()
            key = self._keys[number]
            found.append((number, self._outcome(key, self._texts[key])))
        return found

    # -- one text ----------------------------------------------------------------------------------

    def _outcome(self, key: bytes, text: _Text) -> EvaluableFilter:
        if text.outcome is None:
            if not text.is_parsed:
                self._parse(key, text)
            text.outcome = self._judged(text.where)
        return text.outcome

    def _judged(self, where: Filter[Any] | None) -> EvaluableFilter:
        if where is None:  # it names a class that nobody has described
            return EvaluableFilter(None, is_whole=False)
        can_ask = self.names.can_ask
        if can_ask(where.tree):
            return EvaluableFilter(where, is_whole=True, effort=self._effort(where.tree))
        less = relaxed(where.tree, can_ask)  # of parts that are cheap there may be very many
        if not self.names.is_affordable(less):
            return EvaluableFilter(EVERYTHING, is_whole=False)
        return EvaluableFilter(Filter(less), is_whole=False, effort=self._effort(less))

    def _effort(self, tree: Node) -> Effort:
        return self.names.effort(tree) if self._weighs else NO_EFFORT

    def _parse(self, key: bytes, text: _Text) -> None:
        classes: set[str] = set()

        def class_named(name: str) -> type | None:
            classes.add(name)
            return self._class_named(name)

        self.parsed += 1
        text.is_parsed = True
        try:
            text.where = Filter.from_json(text.data, class_named=class_named)
        except FilterError:
            text.where = None
        text.classes = frozenset(classes)
        names = text.classes
        if text.where is not None:
            names |= _mentioned(text.where.tree)
        self._mention(key, text, names)

    def _mention(self, key: bytes, text: _Text, names: frozenset[str]) -> None:
        for name in text.names - names:
            del self._mentioning[name][key]
            if not self._mentioning[name]:
                del self._mentioning[name]
        for name in names - text.names:
            self._mentioning.setdefault(name, {})[key] = text
        text.names = names


def _mentioned(tree: Node) -> frozenset[str]:
    """All names that a tree goes by, but those of classes."""
    found = set()
    for node in walk(tree):
        if isinstance(node, Attribute | Reach):
            found.add(node.name)
        elif isinstance(node, Call):
            found.add(node.method)
        elif isinstance(node, Variable):
            found.add(VARIABLE)
    return frozenset(found)
