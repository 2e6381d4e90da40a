"""Takes what is published, gives it a position, and brings it to the targets of the plan."""

from __future__ import annotations

import gc
import sys
import threading
from abc import get_cache_token
from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from functools import partial
from types import CellType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from polycast.errors import BadOption, NotAvailable
from polycast.routing.codegen import UNROLLED, Route, Shape, call_names, make_route, names_for
from polycast.routing.crowd import Crowd, is_alone, is_crowd
from polycast.routing.plan import Plan, Target
from polycast.routing.turn import Turn
from polycast.stores import Entry, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.stores import Publisher, Recent

__all__ = ["Dispatcher"]

TOPICS_KEPT = 4_096
IDENTITIES_KEPT = 100_000
Hits = list[tuple[Target, object]]


class Dispatcher:
    """The direct engine: the plan, its generated routes, and the order of the log.

    `changing` guards plan and routes, `order` positions and queues. Taken in that order, and
    neither is held while a callback runs.
    """

    def __init__(
        self,
        publisher: Publisher,
        *,
        clock: Clock,
        log: Recent | None,
        admit: Callable[[type], object],
    ) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise NotAvailable(
                "a bus in a Python without the GIL",
                why="its turn-taking relies on the GIL (see polycast/routing/codegen.py)",
                instead="Run it with the ordinary build of Python, or with PYTHON_GIL=1",
            )
        self.publisher, self.clock, self.log, self.admit = publisher, clock, log, admit
        self.plan, self.turn = Plan(), Turn()
        self.newest: Callable[[], int] = self.turn.newest
        self.order, self.changing = threading.Lock(), threading.RLock()
        self.version, self._stopped = 0, False
        self._refuse: Callable[[], None] = lambda: None
        self._retried: OrderedDict[Identity, Receipt] = OrderedDict()
        # What publish looks up. Its keys would keep classes alive, so a full collection empties
        # it; `_made` has everything again, weakly.
        self.routes: dict[type, Callable[[Any], Receipt]] = {}
        self.topic_routes: dict[tuple[type, str], Callable[[Any], Receipt]] = {}
        self._made: WeakKeyDictionary[type, dict[str | None, Route]] = WeakKeyDictionary()
        self._crowd: Crowd | None = None  # made when many want events of one class
        self._dense: WeakKeyDictionary[type, set[str | None]] = WeakKeyDictionary()
        _dispatchers.add(self)

    # -- changing the plan ---------------------------------------------------------------------

    def add(self, target: Target, begin: Callable[[int], None]) -> None:
        """Put a target into the plan; `begin` is told the first position it is meant for."""
        with self.changing:
            self.plan.add(target)
            if self._crowd is not None:
                self._crowd.put(target)
            stale = self._routes_to(target)
            if any(selector.registrable for selector in self.plan.selectors(target)):
                stale = self._all_routes()  # from now on they have to look for ABC.register
            with self.order:
                self._expire(stale)
                try:
                    begin(self.newest() + 1)
                except BaseException:
                    self._take_out(target)
                    raise

    def change(self, target: Target) -> None:
        """A target's filter, members or way of being called have changed."""
        with self.changing:
            if target not in self.plan:
                return
            stale = self._routes_to(target)
            self.plan.remove(target)
            self.plan.add(target)
            if self._crowd is not None:
                self._crowd.put(target)
            stale += self._routes_to(target)
            with self.order:
                self._expire(stale)

    def remove(self, target: Target) -> None:
        """Take a target out of the plan."""
        with self.changing:
            stale = self._routes_to(target)
            self._take_out(target)
            with self.order:
                self._expire(stale)

    def _take_out(self, target: Target) -> None:
        self.plan.remove(target)
        if self._crowd is not None:
            self._crowd.remove(target)

    def stop(self, refuse: Callable[[], None]) -> None:
        """Let `refuse` answer every further publish."""
        with self.changing:
            self._refuse, self._stopped = refuse, True
            with self.order:
                self._expire(self._all_routes())

    def _all_routes(self) -> list[tuple[type, str | None]]:
        return [(cls, topic) for cls, made in list(self._made.items()) for topic in made]

    def _routes_to(self, target: Target) -> list[tuple[type, str | None]]:
        chosen = self.plan.selectors(target)
        return [
            (cls, topic)
            for cls, made in list(self._made.items())
            for topic in made
            if any(selector.covers(cls, topic) for selector in chosen)
        ]

    def _expire(self, stale: list[tuple[type, str | None]]) -> None:
        self.version += 1
        for cls, topic in stale:
            self._dense.get(cls, set()).discard(topic)
            route = self._made[cls].pop(topic, None)
            if route is not None:
                route.stale.cell_contents = True
            self.routes.pop(cls, None)
            if topic is not None:
                self.topic_routes.pop((cls, topic), None)

    # -- routes ----------------------------------------------------------------------------------

    def route(self, cls: type, topic: str | None) -> Callable[[Any], Receipt]:
        """The generated function for events of a class on a topic."""
        self._refuse()
        if self._stopped:  # what callbacks publish while the bus drains
            return partial(self.post, topic=topic)
        self.admit(cls)
        with self.changing:
            made = self._made.setdefault(cls, {})
            if topic not in made:
                if len(made) > TOPICS_KEPT:
                    self._expire([(cls, each) for each in made])
                made[topic] = self._make(cls, topic)
            run = made[topic].run
            if topic is None:
                self.routes[cls] = run
            else:
                self.topic_routes[cls, topic] = run
            return run

    def _make(self, cls: type, topic: str | None) -> Route:
        targets = self.plan.targets(cls, topic)
        if any(target.blocking for target in targets):
            # A publisher that may have to wait takes the slow path, which knows how.
            return Route(partial(self.post, topic=topic), CellType(False))
        calls = [(target, call) for target in targets if (call := target.direct) is not None]
        direct = tuple(target for target, _ in calls)
        chosen = set(direct)
        queued = tuple(target for target in targets if target not in chosen)
        if topic not in self._dense.get(cls, ()) and is_crowd(targets):
            return self._make_crowded(cls, topic, calls, queued)
        tests = tuple(target.test_for(cls, topic) for target in queued)
        wants = tuple(target.test_for(cls, topic) for target in direct)
        few = direct if len(direct) <= UNROLLED else ()
        written = [_written(target, number, cls, topic) for number, target in enumerate(few)]
        shape = Shape(
            queued=tuple(test is not None for test in tests),
            direct=tuple(each for each, _ in written) if few else (None,) * len(direct),
            logged=self.log is not None,
            turn=any(target.inline for target in targets),
            topic=topic is not None,
            registrable=self.plan.registrable(cls),
        )
        names = self._names(shape, topic, direct)
        names.update(names_for(queued, tests))
        names.update(call_names(tuple(call for _, call in calls), wants))
        for _, values in written:
            names.update(values)
        return make_route(shape, self.turn.cells, names)

    def _make_crowded(
        self,
        cls: type,
        topic: str | None,
        calls: list[tuple[Target, Callable[[Any], object]]],
        queued: tuple[Target, ...],
    ) -> Route:
        """A route that asks an index who wants an event, and only groups for themselves."""
        if self._crowd is None:
            self._crowd = Crowd(self.plan)
        direct = tuple(target for target, _ in calls)
        groups = tuple(target for target in queued if not is_alone(target))
        shape = Shape(
            queued=(),
            direct=(),
            logged=self.log is not None,
            turn=any(target.inline for target in (*direct, *queued)),
            topic=topic is not None,
            registrable=self.plan.registrable(cls),
            crowded=True,
        )
        names = self._names(shape, topic, direct)
        names["calls"] = tuple(call for _, call in calls)
        names["boxes"] = tuple((target, target.test_for(cls, topic)) for target in groups)
        dense = partial(self._too_dense, cls, topic)
        names["choose"] = self._crowd.chooser(direct, queued, topic, dense)
        return make_route(shape, self.turn.cells, names)

    def _too_dense(self, cls: type, topic: str | None) -> None:
        """So many want most events that the next route asks each; until the plan changes."""
        with self.changing, self.order:
            self._expire([(cls, topic)])
            self._dense.setdefault(cls, set()).add(topic)

    def _names(
        self, shape: Shape, topic: str | None, direct: tuple[Target, ...]
    ) -> dict[str, object]:
        return {
            "Receipt": Receipt,
            "Entry": Entry,
            "publisher": self.publisher,
            "topic": topic,
            "order": self.order,
            "append": self.log.append if self.log is not None else None,
            "time": self.clock.time,
            "pending": self.turn.pending,
            "give_turn": self.turn.give,
            "contended": partial(self.post, topic=topic),
            "token": get_cache_token,
            "known": get_cache_token(),
            "registered": partial(self._registered, topic=topic, turn=shape.turn),
            "again": partial(self._again, topic=topic, turn=shape.turn),
            "rest": partial(self._rest, direct, topic),
            "raised": partial(self._raised, direct, topic),
            "interrupted": partial(self._interrupted, direct, topic),
        }

    # -- the slow side of a route ---------------------------------------------------------------

    def _raised(
        self,
        direct: tuple[Target, ...],
        topic: str | None,
        step: int,
        event: object,
        here: int,
        error: Exception,
    ) -> None:
        number, called = divmod(step, 2)
        if called:
            direct[number].failed(self._entry(event, here, topic), error)
        else:
            direct[number].unfit(error)

    def _interrupted(
        self, direct: tuple[Target, ...], topic: str | None, step: int, event: Any, here: int
    ) -> None:
        """A callback raised what is for the publisher; those after it get the event first."""
        if step < 0:
            self.turn.give()
        else:
            self._rest(direct, topic, step // 2 + 1, event, here)

    def _rest(
        self, direct: tuple[Target, ...], topic: str | None, number: int, event: Any, here: int
    ) -> Receipt:
        """The plan changed while an event was going round: go on with those it still has."""
        self.turn.own()
        try:
            with self.changing:
                still = [target for target in direct[number:] if target in self.plan]
            entry = self._entry(event, here, topic)
            self._run_inline(entry, self._matching(still, event, topic))
        finally:
            self.turn.give()
        return Receipt(here, self.publisher)

    def _again(self, event: Any, *, topic: str | None, turn: bool) -> Receipt:
        """The plan changed before the event had gone to anyone: publish it by the new plan."""
        if turn:
            self.turn.give()
        return self.post(event, topic=topic)

    def _registered(self, event: Any, *, topic: str | None, turn: bool) -> Receipt:
        """A class was registered with some ABC, so old verdicts may be wrong."""
        if turn:
            self.turn.give()
        with self.changing, self.order:
            self._expire([(type(event), topic)])
        return self.route(type(event), topic)(event)

    # -- the slow path, for everything ------------------------------------------------------------

    def post(
        self,
        event: Any,
        *,
        topic: str | None = None,
        priority: int = 0,
        expires: float | None = None,
        headers: Mapping[str, str] | None = None,
        given: Identity | None = None,
    ) -> Receipt:
        """Publish by asking each target: what the generated routes do, said plainly."""
        return self.post_many([event], topic, priority, expires, headers, given)[0]

    def post_many(
        self,
        events: list[Any],
        topic: str | None = None,
        priority: int = 0,
        expires: float | None = None,
        headers: Mapping[str, str] | None = None,
        given: Identity | None = None,
    ) -> list[Receipt]:
        """Publish all or nothing, in one run of positions."""
        if not events:
            return []
        for event in events:
            self.admit(type(event))
        about = (topic, priority, expires, headers, given)
        asked: list[object] | None = None
        while True:
            self._refuse()
            with self.changing:
                version = self.version
                targets = [self.plan.targets(type(event), topic) for event in events]
            # Other subscriptions may come and go; filters are asked again only if these changed.
            ask: list[object] = [(t, *map(id, t.interests())) for each in targets for t in each]
            if ask != asked:
                asked = ask
                hits = [
                    self._matching(each, event, topic)
                    for each, event in zip(targets, events, strict=True)
                ]
            # Who is called in this thread is asked once: it may change meanwhile.
            parts = [_parted(each) for each in hits]
            queued, inline = [part[False] for part in parts], [part[True] for part in parts]
            with ExitStack() as room:
                self._reserve(hits, room)
                with self._turn_if(any(inline)) as nested:
                    entries = self._accept(events, queued, version, about)
                    room.close()  # what was accepted is in the queues
                    accepted = entries if isinstance(entries, list) else []
                    for number, entry in enumerate(accepted):
                        for target, _ in queued[number]:
                            target.wake()
                        work = partial(self._run_inline, entry, inline[number])
                        self.turn.put_off(work) if nested else work()
            if isinstance(entries, Receipt):
                return [entries]
            if entries is not None:
                return [entry.receipt() for entry in entries]

    def _matching(self, targets: Collection[Target], event: Any, topic: str | None) -> Hits:
        hits: Hits = []
        if self._crowd is not None and is_crowd(targets):
            found = self._crowd.wanting(event, topic)
            hits = [(target, True) for target in targets if target in found]
            targets = [target for target in targets if not is_alone(target)]
        for target in targets:
            test = target.test_for(type(event), topic)
            try:
                verdict = True if test is None else test(event)
                if verdict:
                    hits.append((target, verdict))
            except Exception as error:
                target.unfit(error)
        return hits

    def _reserve(self, hits: list[Hits], room: ExitStack) -> None:
        """Wait until all that can make a publisher wait have room for what they get."""
        for target, count in Counter(t for each in hits for t, _ in each if t.blocking).items():
            target.reserve(count, inside=self.turn.is_mine())
            room.callback(target.release, count)

    @contextmanager
    def _turn_if(self, needed: bool) -> Iterator[bool]:  # noqa: FBT001
        """Take the turn if somebody is called in this thread; True if it was ours before."""
        if needed:
            with self.turn.hold() as nested:
                yield nested
        else:
            yield False

    def _accept(
        self,
        events: list[Any],
        queued: list[Hits],
        version: int,
        about: tuple[Any, ...],
    ) -> list[Entry] | Receipt | None:
        """Give positions and fill the queues; None if the plan has changed meanwhile.

        An identity that was published before gets the receipt it got then.
        """
        given: Identity | None = about[-1]
        with self.order:
            if given is not None and (known := self._receipt_of(given)) is not None:
                return known
            if self.version != version:
                return None
            moment = self.turn.moment(self.clock.time())
            entries = [
                Entry(self.turn.advance(), event, moment, self.publisher, *about)
                for event in events
            ]
            for entry, hits in zip(entries, queued, strict=True):
                if self.log is not None:
                    self.log.append(entry)
                for target, verdict in hits:
                    target.put(entry, verdict)
            if given is not None:
                self._retried[given] = entries[0].receipt()
                if len(self._retried) > IDENTITIES_KEPT:
                    self._retried.popitem(last=False)
        return entries

    def _receipt_of(self, given: Identity) -> Receipt | None:
        """The receipt of an identity that was published before."""
        ours = self.publisher
        if (given.publisher, given.epoch) != (ours.name, ours.epoch):
            return self._retried.get(given)
        if not 0 < given.sequence <= self.turn.newest():
            raise BadOption("identity", given, accepted="one that this bus has given before")
        return Receipt(given.sequence, ours)

    def _run_inline(self, entry: Entry, hits: Hits) -> None:
        """With the turn: bring one event to those who are called in this thread."""
        for target, verdict in hits:
            call = target.direct
            if call is None:
                target.put(entry, verdict)
                target.wake()
            elif entry.expires is not None and self.clock.time() >= entry.expires:
                target.expired()
            else:
                try:
                    call(entry.event)
                except Exception as error:
                    target.failed(entry, error)

    def _entry(self, event: object, here: int, topic: str | None) -> Entry:
        moment = self.turn.moment(self.clock.time())
        return Entry(here, event, moment, self.publisher, topic)


def _written(
    target: Target, number: int, cls: type, topic: str | None
) -> tuple[str | None, dict[str, Any]]:
    """The filter of a target that is called directly, as an expression, and what that names."""
    where = target.interests()[0].where
    return (None, {}) if where is None else where.on(topic).expression(f"where_{number}", cls)


def _parted(hits: Hits) -> dict[bool, Hits]:
    """Those who are called in the publisher's thread, and those who are not."""
    parts: dict[bool, Hits] = {False: [], True: []}
    for hit in hits:
        parts[hit[0].inline].append(hit)
    return parts


_dispatchers: WeakSet[Dispatcher] = WeakSet()


def _let_go(
    phase: str, info: Mapping[str, int], dispatchers: WeakSet[Dispatcher] = _dispatchers
) -> None:
    """Before a full collection: hold no class only because its events were published.

    The set is a default, because this is also called while the interpreter goes down.
    """
    if phase == "start" and info["generation"] == 2:
        for dispatcher in list(dispatchers):
            dispatcher.routes.clear()
            dispatcher.topic_routes.clear()


gc.callbacks.append(_let_go)
