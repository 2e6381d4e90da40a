"""Takes what is published, gives it a position, and brings it to the targets of the plan."""

from __future__ import annotations

import gc
import sys
from abc import get_cache_token
from functools import partial
from types import CellType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from polycast.errors import NotAvailableError
from polycast.errors.failures import FAILURES, check_has_run
from polycast.forks import Home, in_child
from polycast.locks import interrupted, is_inside, owner_test
from polycast.routing.context_target import (
    ContextGroupTarget,
    ContextTarget,
    EarlyTranslation,
    lazy_test,
    shares_translation,
)
from polycast.routing.indexed_targets import TargetIndex, is_single, pays_to_index
from polycast.routing.inline_lock import InlineLock, StarvationGuard, forget_other_threads
from polycast.routing.plan import Choice, Plan, Target
from polycast.routing.publish import Posting
from polycast.routing.publish_codegen import (
    UNROLLED,
    Route,
    RouteShape,
    call_names,
    expression_of,
    guarded,
    make_route,
    names_for,
)
from polycast.routing.publish_metadata import PublishMetadata, RouteKey
from polycast.routing.translation import ContextRemoved
from polycast.runtime import SYSTEM, Runtime
from polycast.stores import Entry, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polycast.config import Clock
    from polycast.routing.translation import Candidates
    from polycast.stores import Publisher, Recent

__all__ = ["Dispatcher"]

TOPICS_KEPT = 4_096


class Dispatcher(Posting):
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
        snapshot: Callable[[Any], Callable[[], Any] | None] = lambda event: None,
        isolated: bool = False,
        runtime: Runtime = SYSTEM,
        translation_failed: Callable[[Entry, str, BaseException], None] = lambda *_: None,
    ) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise NotAvailableError(
                "a bus in a Python without the GIL",
                why="its turn-taking relies on the GIL (see polycast/routing/publish_codegen.py)",
                instead="Run it with the ordinary build of Python, or with PYTHON_GIL=1",
            )
        super().__init__(translation_failed)
        self.home, self.runtime = Home(), runtime
        self.publisher, self.clock, self.log, self.admit = publisher, clock, log, admit
        self.plan, self.inline_lock = Plan(), InlineLock(runtime.lock)
        self.snapshot, self.isolated = snapshot, isolated
        self.starvation_guard = StarvationGuard(self.inline_lock.is_mine, runtime.condition)
        self.newest: Callable[[], int] = self.inline_lock.newest
        self.order, self.changing = runtime.rlock(), runtime.rlock()
        self.version, self._stopped = 0, False
        self.refuse: Callable[[], None] = lambda: None
        # What publish looks up. Its keys would keep classes alive, so a full collection empties
        # it; `_made` has everything again, weakly.
        self.routes: dict[type, Callable[[Any], Receipt]] = {}
        self.topic_routes: dict[tuple[type, str], Callable[[Any], Receipt]] = {}
        self.context_routes: dict[str, dict[type, Callable[[Any], Receipt]]] = {}
        self._made: WeakKeyDictionary[type, dict[RouteKey, Route]] = WeakKeyDictionary()
        self._index: TargetIndex | None = None  # made when many want events of one class
        self._dense: WeakKeyDictionary[type, set[RouteKey]] = WeakKeyDictionary()
        _dispatchers.add(self)

    def _refuse_nested(self) -> None:
        raise interrupted("publish()")

    @property
    def passed_on(self) -> int:
        """The newest position of what callbacks have published, if that is not routed at once."""
        return 0

    def add(self, target: Target, begin: Callable[[int], None]) -> None:
        """Put a target into the plan; `begin` is told the first position it is meant for."""
        self.starvation_guard.wait()
        with self.changing:
            self.plan.add(target)
            if self._index is not None:
                self._index.put(target)
            stale = self._routes_to(target)
            if any(selector.registrable for _, selector in self.plan.choices(target)):
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
        self.starvation_guard.wait()
        with self.changing:
            if target not in self.plan:
                return
            stale = self._routes_to(target)
            self.plan.remove(target)
            self.plan.add(target)
            if self._index is not None:
                self._index.put(target)
            stale += self._routes_to(target)
            with self.order:
                self._expire(stale)

    def rewrite(self, target: Target) -> None:
        """A filter is asked in another way from now on; the target keeps its place."""
        with self.changing, self.order:
            self._expire(self._routes_to(target))

    def remove(self, target: Target) -> None:
        """Take a target out of the plan."""
        self.starvation_guard.wait()
        with self.changing:
            stale = self._routes_to(target)
            self._take_out(target)
            with self.order:
                self._expire(stale)

    def _take_out(self, target: Target) -> None:
        self.plan.remove(target)
        if self._index is not None:
            self._index.remove(target)

    def stop(self, refuse: Callable[[], None]) -> None:
        """Let `refuse` answer every further publish."""
        with self.changing:
            self.refuse, self._stopped = refuse, True
            with self.order:
                self._expire(self._all_routes())

    def leave(self) -> None:
        """In a process that was forked: what publishes looks here again, and is refused."""
        self.let_go()
        self.inline_lock.leave()
        for made in list(self._made.values()):
            for route in made.values():
                route.stale.cell_contents = True

    def let_go(self) -> None:
        """Hold no class only because its events were published."""
        self.routes.clear()
        self.topic_routes.clear()
        self.known_parties = {}
        for routes in self.context_routes.values():
            routes.clear()

    def replan(self) -> None:
        """Contexts have come, gone or changed."""
        if self.home.is_elsewhere():
            return  # a child may go on with them on a bus of its own
        self.starvation_guard.wait()
        with self.changing, self.order:
            self._expire(self._all_routes())
            # As in `add`: who got his position before this has seen the contexts as they were.
            start = self.newest() + 1
            oldest = None if self.log is None else self.log.oldest
            self.translation.turn(start, start if oldest is None else oldest)

    def _all_routes(self) -> list[tuple[type, RouteKey]]:
        return [(cls, lane) for cls, made in list(self._made.items()) for lane in made]

    def _routes_to(self, target: Target) -> list[tuple[type, RouteKey]]:
        chosen = self.plan.choices(target)
        return [
            (cls, lane)
            for cls, made in list(self._made.items())
            for lane in made
            if any(self._leads_to(choice, cls, lane) for choice in chosen)
        ]

    def _leads_to(self, choice: Choice, cls: type, lane: RouteKey) -> bool:
        """Whether events of a class can be what is chosen, in the context where it is."""
        context, selector = choice
        there = self.translation.becomes(cls, lane.source, context)
        return there is not None and selector.covers(there, lane.topic)

    def _expire(self, stale: list[tuple[type, RouteKey]]) -> None:
        self.version += 1
        self.known_parties = {}
        for cls, lane in stale:
            self._dense.get(cls, set()).discard(lane)
            route = self._made[cls].pop(lane, None)
            if route is not None:
                route.stale.cell_contents = True
            self.routes.pop(cls, None)
            if lane.source is not None:
                self.context_routes[lane.source].pop(cls, None)
            elif lane.topic is not None:
                self.topic_routes.pop((cls, lane.topic), None)

    def route(
        self, cls: type, topic: str | None, source: str | None = None
    ) -> Callable[[Any], Receipt]:
        """The generated function for events of a class on a topic, published in a context."""
        lane = RouteKey(topic, source)
        self.check_free("publish()")
        self.refuse()
        if self._stopped:  # what callbacks publish while the bus drains
            return partial(self.post, label=PublishMetadata(topic, context=source))
        self.admit(cls)
        with self.changing:
            made = self._made.setdefault(cls, {})
            if lane not in made:
                if len(made) > TOPICS_KEPT:
                    self._expire([(cls, each) for each in made])
                made[lane] = self._make(cls, lane)
            run = made[lane].run
            if source is not None:
                if topic is None:
                    self.context_routes.setdefault(source, {})[cls] = run
            elif topic is None:
                self.routes[cls] = run
            else:
                self.topic_routes[cls, topic] = run
            return run

    def _make(self, cls: type, lane: RouteKey) -> Route:
        topic = lane.topic
        [(_, targets), *others] = self.translation.parties(self.plan, cls, topic, lane.source)
        beyond = self._beyond(cls, lane, others)
        if beyond is None or any(target.blocking for target in targets):
            # A publisher that may have to wait takes the slow path, which knows how.
            return Route(partial(self.post, label=lane.label()), CellType(False))
        route = self._make_free(cls, lane, targets, beyond)
        # For those who are called in this thread it is translated ahead; others may be faster.
        is_late = any(each.inline for each in beyond) and any(t.direct is None for t in targets)
        if not (self.isolated or is_late or any(target.copies for target in targets)):
            return route
        # What can be changed is copied, or translated, on the slow path, before anybody has it.
        return guarded(route, partial(self.post, label=lane.label()))

    def _make_free(
        self, cls: type, lane: RouteKey, targets: tuple[Target, ...], beyond: list[ContextTarget]
    ) -> Route:
        """A route that hands the very object to those in its own context."""
        topic = lane.topic
        is_indexed = lane not in self._dense.get(cls, ()) and pays_to_index(targets)
        late = [each for each in beyond if each.inline] if targets else []
        targets = (*map(EarlyTranslation, late), *targets, *beyond)
        calls = [(target, call) for target in targets if (call := target.direct) is not None]
        direct = tuple(target for target, _ in calls)
        chosen = set(direct)
        queued = tuple(target for target in targets if target not in chosen)
        if is_indexed and not any(each.inline for each in beyond):
            return self._make_indexed(cls, lane, calls, queued)
        tests = tuple(target.test_for(cls, topic) for target in queued)
        wants = tuple(target.test_for(cls, topic) for target in direct)
        few = direct if len(direct) <= UNROLLED else ()
        written = [expression_of(target, number, cls, topic) for number, target in enumerate(few)]
        shape = RouteShape(
            queued=tuple(test is not None for test in tests),
            direct=tuple(each for each, _ in written) if few else (None,) * len(direct),
            logged=self.log is not None,
            turn=any(target.inline for target in targets),
            topic=topic is not None,
            registrable=self.plan.registrable(cls),
            within=lane.source is not None,
        )
        names = self._names(shape, lane, direct)
        names.update(names_for(queued, tests))
        names.update(call_names(tuple(call for _, call in calls), wants))
        for _, values in written:
            names.update(values)
        return make_route(shape, self.inline_lock.cells, names)

    def _beyond(
        self, cls: type, lane: RouteKey, others: list[Candidates]
    ) -> list[ContextTarget] | None:
        """Those in other contexts; None if they need the slow path."""
        if not self.translation.can_leave(cls, lane.source):
            return None  # that is counted there
        if not all(shares_translation(targets) for _, targets in others):
            return None
        try:
            if lane.source is not None and any(map(self.translation.way_again, dict(others))):
                return None  # their root form has to be kept
            if lane.source is None or len(others) < 2:
                return [self._beyond_in(*each, lane) for each in others]
            if not shares_translation(tuple(target for _, targets in others for target in targets)):
                return None
            # They share a root form, which is made once.
            inner = [self._beyond_in(*each, RouteKey(lane.topic)) for each in others]
            return [
                ContextGroupTarget(
                    self.translation.way_out(lane.source), inner, self.translation_failed
                )
            ]
        except ContextRemoved:
            return None

    def _beyond_in(
        self, context: str | None, targets: tuple[Target, ...], lane: RouteKey
    ) -> ContextTarget:
        made, topic = self.version, lane.topic
        return ContextTarget(
            context,
            targets,
            see=self.translation.sight(lane.source, context),
            again=self.translation.way_again(context),
            fixed=self.translation.fixed(lane.source, context),
            match=lambda there: self._matching(targets, there, topic),
            tests=[lazy_test(target, topic) for target in targets],
            astray=self.translation_failed,
            is_gone=lambda target: self.version != made and target not in self.plan,
        )

    def _make_indexed(
        self,
        cls: type,
        lane: RouteKey,
        calls: list[tuple[Target, Callable[[Any], object]]],
        queued: tuple[Target, ...],
    ) -> Route:
        """A route that asks an index who wants an event, and only groups for themselves."""
        if self._index is None:
            self._index = TargetIndex(self.plan)
        topic, direct = lane.topic, tuple(target for target, _ in calls)
        groups = tuple(target for target in queued if not is_single(target))
        shape = RouteShape(
            queued=(),
            direct=(),
            logged=self.log is not None,
            turn=any(target.inline for target in (*direct, *queued)),
            topic=topic is not None,
            registrable=self.plan.registrable(cls),
            indexed=True,
            within=lane.source is not None,
        )
        names = self._names(shape, lane, direct)
        names["calls"] = tuple(call for _, call in calls)
        names["boxes"] = [(target, target.test_for(cls, topic)) for target in groups]
        dense = partial(self._too_dense, cls, lane)
        names["choose"] = self._index.chooser(direct, queued, topic, dense)
        return make_route(shape, self.inline_lock.cells, names)

    def _too_dense(self, cls: type, lane: RouteKey) -> None:
        """So many want most events that the next route asks each; until the plan changes."""
        with self.changing, self.order:
            self._expire([(cls, lane)])
            self._dense.setdefault(cls, set()).add(lane)

    def _names(
        self, shape: RouteShape, lane: RouteKey, direct: tuple[Target, ...]
    ) -> dict[str, object]:
        return {
            "FAILURES": FAILURES,
            "has_run": _has_run,
            "Receipt": Receipt,
            "Entry": Entry,
            "publisher": self.publisher,
            "topic": lane.topic,
            "context": lane.source,
            "order": self.order,
            "is_ordering": owner_test(self.order),
            "is_inside": is_inside,
            "refuse_nested": self._refuse_nested,
            "append": self.log.append if self.log is not None else None,
            "time": self.clock.time,
            "pending": self.inline_lock.pending,
            "give_turn": self.inline_lock.give,
            "contended": partial(self.post, label=lane.label()),
            "token": get_cache_token,
            "known": get_cache_token(),
            "registered": partial(self._registered, lane=lane, turn=shape.turn),
            "again": partial(self._again, lane=lane, turn=shape.turn),
            "rest": partial(self._rest, direct, lane),
            "raised": partial(self._raised, direct, lane),
            "interrupted": partial(self._interrupted, direct, lane),
        }

    # -- the slow side of a route ---------------------------------------------------------------

    def _raised(
        self,
        direct: tuple[Target, ...],
        lane: RouteKey,
        step: int,
        event: object,
        here: int,
        error: BaseException,
    ) -> None:
        if self.home.is_elsewhere():
            raise error
        number, called = divmod(step, 2)
        if called:
            direct[number].failed(self._entry(event, here, lane), error)
        else:
            direct[number].unfit(error)

    def _interrupted(
        self, direct: tuple[Target, ...], lane: RouteKey, step: int, event: Any, here: int
    ) -> None:
        """A callback raised what is for the publisher; those after it get the event first."""
        if self.home.is_elsewhere():
            return
        if step < 0:
            self.inline_lock.give()
        else:
            self._rest(direct, lane, step // 2 + 1, event, here)

    def _rest(
        self, direct: tuple[Target, ...], lane: RouteKey, number: int, event: Any, here: int
    ) -> Receipt:
        """The plan changed while an event was going round: go on with those it still has."""
        self.home.check("going on after a callback that has forked")
        self.inline_lock.own()
        try:
            with self.changing:
                rest = direct[number:]
                still = [box for box in rest if box in self.plan or isinstance(box, ContextTarget)]
            entry = self._entry(event, here, lane)
            hits = self._matching(still, event, lane.topic)
            self._run_inline(entry, [(*hit, (event, lane.source, None, None)) for hit in hits])
        finally:
            self.inline_lock.give()
        return Receipt(here, self.publisher)

    def _again(self, event: Any, *, lane: RouteKey, turn: bool) -> Receipt:
        """The plan changed before the event had gone to anyone: publish it by the new plan."""
        if turn:
            self.inline_lock.give()
        return self.post(event, lane.label())

    def _registered(self, event: Any, *, lane: RouteKey, turn: bool) -> Receipt:
        """A class was registered with some ABC, so old verdicts may be wrong."""
        if turn:
            self.inline_lock.give()
        with self.changing, self.order:
            self._expire([(type(event), lane)])
        return self.route(type(event), lane.topic, lane.source)(event)

    def _entry(self, event: object, here: int, lane: RouteKey) -> Entry:
        moment = self.inline_lock.moment(self.clock.time())
        return Entry(here, event, moment, self.publisher, lane.topic, context=lane.source)


_has_run = partial(check_has_run, "a callback in the publisher's thread")


_dispatchers: WeakSet[Dispatcher] = WeakSet()


def _let_go(
    phase: str, info: Mapping[str, int], dispatchers: WeakSet[Dispatcher] = _dispatchers
) -> None:
    """Before a full collection: hold no class only because its events were published.

    The set is a default, because this is also called while the interpreter goes down.
    """
    if phase == "start" and info["generation"] == 2:
        for dispatcher in list(dispatchers):
            dispatcher.let_go()


def _leave_all() -> None:
    forget_other_threads()
    for dispatcher in list(_dispatchers):
        dispatcher.leave()


in_child(_leave_all)


gc.callbacks.append(_let_go)
