"""Which records of a log a read request selects; the same in every process that reads."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from polycast.errors import BadOptionError
from polycast.filters import Filter
from polycast.matching import TopicPattern
from polycast.routing.context_view import ContextView
from polycast.routing.evaluable import runnable_by
from polycast.routing.route_table import DescribedSelector, class_named
from polycast.stores import EventType
from polycast.typesystem import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polycast.events import Record
    from polycast.pipeline.read_request import ReadRequest
    from polycast.stores.sqlite.readonly_store import ReadOnlyStore
    from polycast.typesystem import Description, TypeExpression


class RecordSelection:
    """Selects by type, topic, context and filter; it learns the store's types as they come."""

    def __init__(self, request: ReadRequest) -> None:
        self.request, self._names = request, request.bundle.names()
        # What else this process has imported must not matter.
        self.registry = Registry(classes=self._names.classes)
        for description in request.descriptions:
            self.registry.add(description)
        get = self._names.get
        self.view = ContextView(self.registry, get, request.context, request.draft_of)
        self.numbers: list[int] | None = []
        """The types whose records are read; None for all."""
        self._revision = -1
        self._verdicts: dict[EventType, bool] = {}
        self._topics: dict[str | None, bool] = {}
        self._checked: set[EventType] = set()

    def refresh(self, store: ReadOnlyStore) -> None:
        """Learn which types the store has now, and check the filter against them."""
        with store.view() as view:
            if view.revision() != self._revision:
                for description in view.descriptions():
                    self.registry.add(description)
                self._revision = view.revision()
                self.view.look(view)
                self.view.check(view.newest(), self.request.impure, self.request.imports)
        types = store.types()
        self.numbers = None
        if self.request.types:
            types = {number: kind for number, kind in types.items() if self.covers(kind)}
            self.numbers = list(types)
        is_free = self.request.function is None and self.request.context is None
        if self.where is not None and is_free:
            self._check_filter(self.where, set(types.values()))

    # -- types -------------------------------------------------------------------------------------

    @cached_property
    def targets(self) -> list[Description]:
        """The requested types."""
        described = [self.registry.described(kind.hash) for kind in self.request.types]
        return [description for description in described if description is not None]

    def covers(self, kind: EventType) -> bool:
        """Whether events of a type are selected, here or in another context's form."""
        verdict = self._verdicts.get(kind)
        if verdict is None:
            cls = self.registry.class_for(kind.name, kind.version, kind.hash)
            verdict = self._selector.covers_class(cls) or (
                self.request.context is not None
                and any(map(self._selector.covers_class, self.view.classes_here(cls)))
            )
            self._verdicts[kind] = verdict
        return verdict

    def covers_record(self, record: Record) -> bool:
        """Whether the type of a record is selected."""
        kind = EventType(record.name, record.version, record.hash)
        return not self.request.types or self.covers(kind)

    def covers_class(self, cls: type) -> bool:
        """Whether the class of a translated event is selected."""
        return not self.request.types or self._selector.covers_class(cls)

    @cached_property
    def _selector(self) -> DescribedSelector:
        request, registry = self.request, self.registry
        types = tuple(
            registry.class_for(kind.name, kind.version, kind.hash) for kind in request.types
        )
        return DescribedSelector(types, request.every, request.exact, registry=registry)

    # -- topics and filter -------------------------------------------------------------------------

    def is_on_topic(self, topic: str | None) -> bool:
        """Whether the request accepts a topic."""
        if self.request.topic is None:
            return True
        if topic not in self._topics:
            pattern = TopicPattern(self.request.topic or "**")
            self._topics[topic] = topic is not None and pattern.matches(topic)
        return self._topics[topic]

    @cached_property
    def where(self) -> Filter[Any] | None:
        """The filter, if there is one."""
        request = self.request
        if request.function is not None:
            function = self._names.get(request.function)
            if function is None:
                why = self._names.why_not(request.function)
                accepted = "a function that is registered"
                raise BadOptionError("where", request.function, why=why, accepted=accepted)
            return Filter(function)
        if request.where is None:
            return None
        data = {"format": 1, "filter": request.where}
        return Filter.from_json(data, class_named=partial(class_named, self.registry))

    def _check_filter(self, where: Filter[Any], types: set[EventType]) -> None:
        """Refuse a filter that uses more than the attributes of a class that is not imported."""
        if types <= self._checked:
            return
        stored = [self.registry.described(kind.hash) for kind in types]
        known = self._closure([*self.targets, *filter(None, stored)])
        if not runnable_by(known)(where.tree):
            raise BadOptionError(
                "where",
                str(where),
                why="it asks for methods, properties or comparisons that only the classes have",
                accepted="a filter of attributes, or imports= with the modules of the classes",
            )
        self._checked = types

    def _closure(self, waiting: list[Description]) -> Registry:
        """Some types, and all types that they mention."""
        known = Registry(classes=self._names.classes)
        while waiting:
            description = waiting.pop()
            if known.described(description.hash) is None:
                known.add(description)
                names = {name for part in description.attributes for name in _names(part.type)}
                mentioned = map(self.registry.describe, names.union(description.supertypes))
                waiting += filter(None, mentioned)
        return known


def _names(expression: TypeExpression) -> Iterator[str]:
    yield expression.name
    for argument in expression.arguments:
        yield from _names(argument)
