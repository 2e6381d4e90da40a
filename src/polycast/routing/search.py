"""A search through the log: which events somebody means, found from descriptions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from polycast.config import level_named
from polycast.errors import BadOptionError, NotDecodableError
from polycast.matching import Definition, Interest, definition_of, selector_for
from polycast.registered_names import RegisteredNames
from polycast.routing.plan import Plan
from polycast.stores import Store, Stored, StoredRoute, StoredSubscription, View
from polycast.typesystem import Registry, describe, describe_all
from polycast.typesystem.descriptions import Description  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polycast.stores.sqlite.store import Readable

PAGE = 2_000  # records read at a time
Fate = Literal["goes", "comes", "under way"]


class Place(msgspec.Struct, frozen=True):
    """How far a subscription has come: what it has handled, it can be given once more."""

    cursor: int
    under_way: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()  # after the cursor: of a group

    def fate(self, position: int) -> Fate:
        """What becomes of an event that is to be given to it."""
        if position in self.under_way:
            return "under way"
        return "goes" if position < self.cursor or position in self.done else "comes"


def place_of(view: View, kept: StoredSubscription) -> Place:
    """The place of a subscription."""
    flights = view.flights(kept.name)
    return Place(
        kept.cursor,
        frozenset(flight.position for flight in flights if not flight.done),
        frozenset(flight.position for flight in flights if flight.done),
    )


class Search(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is looked for, as data: it goes to other processes as text."""

    wanted: tuple[Definition, ...]
    """An event is meant if all of them want it."""
    asked: bool = True
    """Whether the first of them was asked for, and is not what a subscription wants."""
    descriptions: tuple[Description, ...] = ()  # of their types, which the store may not have
    place: Place | None = None
    """Of the subscription that is to have them; without it, all go."""
    most: int = 0
    """How many of those that go are listed."""

    def encoded(self) -> str:
        """As text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> Search:
        """From such a text."""
        return _decode(text)


class SearchResult(msgspec.Struct):
    """What was found; several can be added up, in the order of the log."""

    events: int = 0
    types: dict[str, int] = {}
    first: int | None = None
    last: int | None = None
    going: int = 0
    """How many can be given to the subscription once more."""
    coming: int = 0
    """How many it gets anyway: they are not before its place."""
    under_way: int = 0
    """How many it is busy with."""
    listed: list[tuple[int, str]] = []
    """The first of those that go: position and publisher."""

    def add(self, stored: Stored, search: Search) -> None:
        """One more event."""
        position, record = stored.position, stored.record
        self.events += 1
        self.types[record.name] = self.types.get(record.name, 0) + 1
        self.first, self.last = self.first or position, position
        fate = "goes" if search.place is None else search.place.fate(position)
        self.coming += fate == "comes"
        self.under_way += fate == "under way"
        self.going += fate == "goes"
        if fate == "goes" and len(self.listed) < search.most:
            self.listed.append((position, record.identity.publisher))

    def extend(self, later: SearchResult, most: int) -> None:
        """What was found after that."""
        self.events += later.events
        for name, count in later.types.items():
            self.types[name] = self.types.get(name, 0) + count
        self.first, self.last = self.first or later.first, later.last or self.last
        self.going += later.going
        self.coming += later.coming
        self.under_way += later.under_way
        self.listed += later.listed[: most - len(self.listed)]


# Made once: the first use of a type of nested Structs must not happen in two threads at once.
_decode = msgspec.json.Decoder(Search).decode


class History:
    """Answers a search, a stretch of the log at a time."""

    def __init__(
        self, search: Search, store: Store | Readable, names: RegisteredNames | None = None
    ) -> None:
        names = names or RegisteredNames()
        self._search, self._store = search, store
        registry = Registry(classes=names.classes)
        for description in search.descriptions:
            registry.add(description)
        self._plan = Plan(registry, names.get)
        routes = [
            StoredRoute(number, "", definition.encoded(), 1)
            for number, definition in enumerate(search.wanted)
        ]
        with store.view() as view:
            self._plan.routes.move_to(routes, view)
        if search.asked and 0 in self._plan.routes.unsure:
            raise BadOptionError(
                "where",
                search.wanted[0].where,
                why="it asks for what only the classes have, or cannot be looked into",
                accepted="a filter of attributes, or imports= with the modules of the classes",
            )

    @property
    def is_sure(self) -> bool:
        """Whether the subscription certainly wants what is found."""
        known = self._search.place is None or len(self._search.wanted) > self._search.asked
        return known and not self._plan.routes.unsure

    def matching(self, low: int, high: int) -> Iterator[list[Stored]]:
        """The events that are meant between two positions, a page at a time."""
        types = self._types()
        while low < high and types != []:
            page = self._store.read(low, limit=PAGE, until=high, types=types)
            # A broker may have looked at some and shown none of them.
            low = page.upto if page.upto > low else high
            yield self._meant(page.entries)

    def findings(self, low: int, high: int) -> SearchResult:
        """What is between two positions."""
        result = SearchResult()
        for page in self.matching(low, high):
            for stored in page:
                result.add(stored, self._search)
        return result

    def _meant(self, entries: list[Stored]) -> list[Stored]:
        matched = self._plan.match(entries)
        every = len(self._search.wanted)
        pairs = zip(matched.positions, matched.recipients, strict=True)
        meant = {position for position, numbers in pairs if len(numbers) == every}
        return [stored for stored in entries if stored.position in meant]

    def _types(self) -> list[int] | None:
        """The numbers of the types that can be meant; None if that is all of them."""
        if any(definition.context is not None for definition in self._search.wanted):
            return None  # what they are in a context, only that knows
        kinds, types = self._store.types(), self._plan.routes.types
        selectors = [route.selector for route in self._plan.routes.entries.values()]
        numbers = [
            number
            for number, kind in kinds.items()
            if all(selector.covers_class(types.class_of(kind)) for selector in selectors)
        ]
        return None if len(numbers) == len(kinds) else numbers


# -- making one ------------------------------------------------------------------------------------


def search_for(
    view: View,
    what: object = None,
    *,
    where: Callable[[Any], object] | None = None,
    topic: str | None = None,
    exact: bool = False,
    to: str | None = None,
    most: int = 0,
) -> Search:
    """What `subscribe` would take, or what a durable subscription wants, or only both.

    `what` may be the wire name of a type, too.
    """
    kept = None if to is None else _durable(view, to)
    wanted: list[Definition] = []
    descriptions: tuple[Description, ...] = ()
    if kept is None or what is not None or where is not None or topic is not None:
        asked, descriptions = _asked(view, what, where, topic, exact=exact)
        wanted.append(asked)
    is_asked = bool(wanted)
    if kept is not None:
        route = view.route(kept.name)
        own = Definition.decoded(kept.definition if route is None else route.definition)
        missing = _missing(view, own)
        if not missing:
            wanted.append(own)
        elif not is_asked:
            raise BadOptionError(
                "to",
                to,
                why=f"the store has no description of {missing}, so what it wants is not known",
                accepted="the same with a type; what it does not want of that, it leaves out",
            )
    place = None if kept is None else place_of(view, kept)
    return Search(tuple(wanted), is_asked, descriptions, place, most)


def known_types(view: View) -> Registry:
    """The types that a store describes."""
    registry = Registry()
    for description in view.descriptions():
        registry.add(description)
    return registry


def _durable(view: View, name: str) -> StoredSubscription:
    kept = view.subscription(name)
    if kept is None or not kept.durable:
        names = [subscription.name for subscription in view.subscriptions() if subscription.durable]
        raise BadOptionError.choice(
            "to", name, names or ["a durable subscription, of which it has none"]
        )
    return kept


def _missing(view: View, definition: Definition) -> str:
    """The types of a definition that nobody has described."""
    registry = known_types(view)
    missing = []
    for selected in definition.types:
        try:
            registry.class_for(selected.name, selected.version, selected.hash)
        except NotDecodableError:
            missing.append(selected.name)
    return ", ".join(missing)


def _asked(
    view: View,
    what: object,
    where: Callable[[Any], object] | None,
    topic: str | None,
    *,
    exact: bool,
) -> tuple[Definition, tuple[Description, ...]]:
    if isinstance(what, str) and not what.startswith("/"):
        what = _named(view, what)
    meant = selector_for(object if what is None else what, topic=topic, exact=exact)
    selector, lifted = meant.parted(where)
    if lifted is not None:
        lifted.check(*selector.types, every=selector.every)
    interest = Interest(selector, lifted, level_named("sorted_set"))
    described = {
        description.hash: description
        for cls in selector.types
        for description in (describe(cls), *describe_all(cls))
    }
    return definition_of(interest, engine="spark"), tuple(described.values())


def _named(view: View, name: str) -> type:
    registry = known_types(view)
    known = registry.describe(name)
    if known is None:
        names = [description.name for description in registry.descriptions()]
        raise BadOptionError.choice("type", name, names or ["a type that somebody has published"])
    return registry.class_for(known.name, known.version, known.hash)
