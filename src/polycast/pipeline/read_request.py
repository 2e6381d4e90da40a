"""A request to read a table, as data that is sent to the workers."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from polycast.errors import BadOptionError, FilterError, NotATypeError
from polycast.filters import Filter
from polycast.matching import Selector, TopicPattern, path_of, selector_for
from polycast.matching.interest import SelectedType
from polycast.pipeline.code_distribution import CodeBundle, bundle_of
from polycast.routing.context_view import ContextView, draft_of
from polycast.routing.evaluable import NameMeanings
from polycast.routing.route_table import DescribedSelector, class_named
from polycast.stores import EventType
from polycast.stores import path_of as path_of_url
from polycast.stores.log_bounds import end_of, start_of
from polycast.stores.sqlite.readonly_store import ReadOnlyStore, open_readonly
from polycast.typesystem import Registry, TypeExpression, describe, describe_all
from polycast.typesystem.descriptions import Description  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from polycast.events import Record

MAX_ROWS = 100_000  # in a micro-batch: the more, the faster, and the later
MISFITS = ("raise", "skip")
Bound = int | str | datetime | None


class ReadRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which events of which store to read, and how they become rows.

    Without types it selects all events, each of which becomes a text.
    """

    store: str
    types: tuple[SelectedType, ...] = ()
    descriptions: tuple[Description, ...] = ()  # of the types, which the store may not have
    every: bool = False
    exact: bool = False
    topic: str | None = None
    where: str | None = None
    function: str | None = None  # in place of `where`, as `module:name`
    since: int | str = "beginning"
    until: int | str | None = None
    imports: tuple[str, ...] = ()
    functions: tuple[tuple[str, str, str], ...] = ()  # as in a CodeBundle
    misfits: Literal["raise", "skip"] = "raise"
    max_rows: int = MAX_ROWS
    partitions: int = 1
    context: str | None = None
    draft_of: tuple[str, ...] = ()  # the context as data, if it is not to be as the store has it
    impure: str | None = None

    def encoded(self) -> str:
        """Return the request as text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> ReadRequest:
        """Return the request of such a text."""
        return _decode(text)

    @property
    def bundle(self) -> CodeBundle:
        """The modules and functions that names may refer to."""
        return CodeBundle(self.imports, self.functions)

    def start(self, store: ReadOnlyStore) -> int:
        """The first position to read."""
        position = start_of(store, moment_of(self.since))
        assert position is not None
        return position

    def end(self, store: ReadOnlyStore) -> int:
        """The position before which to stop, as far as the log goes now."""
        return end_of(store, moment_of(self.until))

    def __str__(self) -> str:
        names = (" & " if self.every else " | ").join(kind.name for kind in self.types)
        return names or "all events"


# Made once: the first use of a type of nested Structs must not happen in two threads at once.
_decode = msgspec.json.Decoder(ReadRequest).decode


def moment_of(bound: int | str | None) -> object:
    """Return a bound of the log as it was given: a position, "beginning", or a time."""
    if not isinstance(bound, str) or bound == "beginning":
        return bound
    return datetime.fromisoformat(bound)


def request_for(
    url: object,
    what: object,
    *,
    where: Callable[[Any], object] | None = None,
    since: Bound = None,
    until: Bound = None,
    topic: str | None = None,
    exact: bool = False,
    imports: Iterable[str] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    misfits: str = "raise",
    max_rows: int = MAX_ROWS,
    partitions: int | None = None,
    context: object = None,
    impure: str | None = None,
) -> ReadRequest:
    """Make a request, and check it against the store, so that errors are raised at once."""
    path = path_of_url(url)
    if path is None:
        accepted = "'sqlite:///' and the path of a file; what is in memory is no other process's"
        raise BadOptionError("url", url, accepted=accepted)
    if misfits not in MISFITS:
        raise BadOptionError.choice("misfits", misfits, MISFITS)
    bundle = bundle_of(imports, functions)
    name, states = draft_of(context)
    selector: Selector[Any] | None = None
    chosen: tuple[tuple[Description, ...], ...]
    with open_readonly(path) as store:
        if what is None or isinstance(what, str):
            chosen = () if what is None else (_named(store, what),)
        else:
            meant = selector_for(what, topic=topic, exact=exact)
            selector = replace(meant, implied=None)
            where = where if meant.implied is None else meant.parted(where)[1]
            topic = None if selector.topic is None else selector.topic.text
            chosen = _described(store, selector)
        request = ReadRequest(
            os.path.abspath(path),
            tuple(SelectedType(first.name, first.version, first.hash) for first, *_ in chosen),
            tuple({part.hash: part for described in chosen for part in described}.values()),
            every=selector is not None and selector.every,
            exact=exact if selector is None else selector.exact,
            topic=topic,
            **_filter(where, bundle),
            since=_bound("since", since) or "beginning",
            until=_bound("until", until),
            imports=bundle.imports,
            functions=bundle.functions,
            misfits=misfits,  # type: ignore[arg-type]
            max_rows=_positive("max_rows", max_rows),
            partitions=_positive("partitions", partitions or os.cpu_count() or 1),
            context=name,
            draft_of=states,
            impure=impure,
        )
        request.start(store), request.end(store)  # whether there is such a stretch
    if topic is not None:
        selector_for(object, topic=topic)  # whether there can be such a topic
    return request


def _positive(option: str, given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise BadOptionError(option, given, accepted="a whole number from 1 on")
    return given


def _bound(option: str, given: Bound) -> int | str | None:
    if isinstance(given, datetime) and given.tzinfo is not None:
        return given.isoformat()
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    if given == "beginning" and option == "since":
        return "beginning"
    first = "'beginning', " if option == "since" else ""
    raise BadOptionError(
        option, given, accepted=f"{first}a position, or a datetime with a time zone"
    )


# -- types -----------------------------------------------------------------------------------------


def _known(store: ReadOnlyStore) -> Registry:
    registry = Registry()
    with store.view() as view:
        for description in view.descriptions():
            registry.add(description)
    return registry


def _named(store: ReadOnlyStore, name: str) -> tuple[Description, ...]:
    """The type of a name, as the store describes it."""
    registry = _known(store)
    described = registry.describe(name)
    if described is None:
        if name.startswith("/"):
            why, accepted = "a topic has no columns", "Name a type, and give topic="
            raise NotATypeError(name, why=why, accepted=accepted)
        names = [description.name for description in registry.descriptions()]
        raise BadOptionError.choice("type", name, names or ["a type that somebody has published"])
    return (described,)


def _described(
    store: ReadOnlyStore, selector: Selector[Any]
) -> tuple[tuple[Description, ...], ...]:
    """The descriptions of some classes, and of all that these mention, which may clash."""
    registry = _known(store)
    for cls in selector.types:
        registry.bind(cls)
    return tuple((describe(cls), *describe_all(cls)) for cls in selector.types)


# -- filters ---------------------------------------------------------------------------------------


def _filter(where: Callable[[Any], object] | None, bundle: CodeBundle) -> dict[str, str]:
    """The filter as data, or the name by which the workers find the function."""
    if where is None:
        return {}
    lifted: Filter[Any] = Filter(where)
    try:
        lifted.to_json()
        return {"where": str(lifted)}
    except FilterError as error:
        names = bundle.names()
        path = None if isinstance(where, Filter) else path_of(where)
        if path is not None and names.get(path) is where:
            return {"function": path}
        missing = f"; {names.why_not(path)}" if path is not None else ""
        raise BadOptionError(
            "where",
            where,
            why=f"{error}{missing}",
            accepted="a filter that can be looked into, or a function of a module in imports=",
        ) from None


# -- which records it selects; the same in every process that reads --------------------------------


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
        if not NameMeanings(known).can_ask(where.tree):
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
