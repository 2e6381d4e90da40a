"""Compiles the plan for one class, topic and publisher's context: a generated route."""

from __future__ import annotations

from abc import get_cache_token
from functools import partial
from types import CellType
from typing import TYPE_CHECKING, Any

from polycast.errors.failures import FAILURES, check_has_run
from polycast.routing.context_target import (
    ContextGroupTarget,
    ContextTarget,
    EarlyTranslation,
    lazy_test,
    shares_translation,
)
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
from polycast.routing.recipient_query import LiveForm
from polycast.routing.route_cache import RouteKey
from polycast.routing.target_table import is_single, pays_to_index
from polycast.routing.translation import ContextRemoved
from polycast.runtime import LATEST, interrupted, owner_test
from polycast.stores import Entry, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from polycast.routing.dispatcher import Dispatcher
    from polycast.routing.publish import MemoryPublisher
    from polycast.routing.target_table import Candidates, Target
    from polycast.stores import Recent


class RouteCompiler:
    """Compiles what the plan says of the recipients of events that come one way."""

    def __init__(
        self,
        publisher: MemoryPublisher,
        dispatcher: Dispatcher,
        *,
        log: Recent | None,
        isolated: bool,
    ) -> None:
        self._publisher, self._dispatcher = publisher, dispatcher
        self._plan, self._lock = dispatcher.plan, dispatcher.inline_lock
        self._log, self._isolated = log, isolated

    def make(self, cls: type, key: RouteKey) -> Route:
        """The route for events of a class; it may be the slow path."""
        topic = key.topic
        [(_, targets), *others] = self._dispatcher.candidates(cls, topic, key.source)
        others_at = self._context_targets(cls, key, others)
        if others_at is None or any(target.blocking for target in targets):
            # A publisher that may have to wait takes the slow path, which knows how.
            return Route(partial(self._publisher.post, metadata=key.metadata()), CellType(False))
        route = self._make_free(cls, key, targets, others_at)
        # For those who are called in this thread it is translated ahead; others may be faster.
        is_late = any(each.inline for each in others_at) and any(t.direct is None for t in targets)
        if not (self._isolated or is_late or any(target.copies for target in targets)):
            return route
        # What can be changed is copied, or translated, on the slow path, before anybody has it.
        return guarded(route, partial(self._publisher.post, metadata=key.metadata()))

    def _make_free(
        self, cls: type, key: RouteKey, targets: tuple[Target, ...], others_at: list[ContextTarget]
    ) -> Route:
        """A route that hands the very object to those in its own context."""
        topic = key.topic
        is_indexed = not self._dispatcher.routes.is_dense(cls, key) and pays_to_index(targets)
        late = [each for each in others_at if each.inline] if targets else []
        targets = (*map(EarlyTranslation, late), *targets, *others_at)
        calls = [(target, call) for target in targets if (call := target.direct) is not None]
        direct = tuple(target for target, _ in calls)
        chosen = set(direct)
        queued = tuple(target for target in targets if target not in chosen)
        if is_indexed and not any(each.inline for each in others_at):
            return self._make_indexed(cls, key, calls, queued)
        tests = tuple(target.test_for(cls, topic) for target in queued)
        wants = tuple(target.test_for(cls, topic) for target in direct)
        few = direct if len(direct) <= UNROLLED else ()
        written = [expression_of(target, number, cls, topic) for number, target in enumerate(few)]
        shape = RouteShape(
            queued=tuple(test is not None for test in tests),
            direct=tuple(each for each, _ in written) if few else (None,) * len(direct),
            logged=self._log is not None,
            locked=any(target.inline for target in targets),
            topic=topic is not None,
            registrable=self._plan.targets.registrable(cls),
            within=key.source is not None,
        )
        names = self._names(shape, key, direct)
        names.update(names_for(queued, tests))
        names.update(call_names(tuple(call for _, call in calls), wants))
        for _, values in written:
            names.update(values)
        return make_route(shape, self._lock.cells, names)

    def _context_targets(
        self, cls: type, key: RouteKey, others: list[Candidates]
    ) -> list[ContextTarget] | None:
        """Those in other contexts; None if they need the slow path."""
        if not self._plan.translation.can_leave(cls, key.source):
            return None  # that is counted there
        if not all(shares_translation(targets) for _, targets in others):
            return None
        try:
            if key.source is not None and any(map(self._plan.translation.way_again, dict(others))):
                return None  # their root form has to be kept
            if key.source is None or len(others) < 2:
                return [self._context_target(*each, key) for each in others]
            if not shares_translation(tuple(target for _, targets in others for target in targets)):
                return None
            # They share a root form, which is made once.
            inner = [self._context_target(*each, RouteKey(key.topic)) for each in others]
            return [
                ContextGroupTarget(
                    self._plan.translation.way_out(key.source),
                    inner,
                    self._dispatcher.translation_failed,
                )
            ]
        except ContextRemoved:
            return None

    def _context_target(
        self, context: str | None, targets: tuple[Target, ...], key: RouteKey
    ) -> ContextTarget:
        made, topic, _targets_now = self._dispatcher.version, key.topic, self._plan.targets
        return ContextTarget(
            context,
            targets,
            see=self._plan.translation.way(key.source, context),
            again=self._plan.translation.way_again(context),
            fixed=self._plan.translation.fixed(key.source, context),
            match=lambda there: self._plan.wanting(targets, there, topic),
            tests=[lazy_test(target, topic) for target in targets],
            failed=self._dispatcher.translation_failed,
            is_gone=lambda target: (
                self._dispatcher.version != made and target not in self._plan.targets
            ),
        )

    def _make_indexed(
        self,
        cls: type,
        key: RouteKey,
        calls: list[tuple[Target, Callable[[Any], object]]],
        queued: tuple[Target, ...],
    ) -> Route:
        """A route that asks an index who wants an event, and only groups for themselves."""
        topic, direct = key.topic, tuple(target for target, _ in calls)
        groups = tuple(target for target in queued if not is_single(target))
        shape = RouteShape(
            queued=(),
            direct=(),
            logged=self._log is not None,
            locked=any(target.inline for target in (*direct, *queued)),
            topic=topic is not None,
            registrable=self._plan.targets.registrable(cls),
            indexed=True,
            within=key.source is not None,
        )
        names = self._names(shape, key, direct)
        names["calls"] = tuple(call for _, call in calls)
        names["boxes"] = [(target, target.test_for(cls, topic)) for target in groups]
        dense = partial(self._too_dense, cls, key)
        names["choose"] = self._plan.index.chooser(direct, queued, topic, dense)
        return make_route(shape, self._lock.cells, names)

    def _too_dense(self, cls: type, key: RouteKey) -> None:
        """So many want most events that the next route asks each; until the plan changes."""
        with self._dispatcher.changing, self._dispatcher.order:
            self._dispatcher.expire([(cls, key)])
            self._dispatcher.routes.mark_dense(cls, key)

    def _names(
        self, shape: RouteShape, key: RouteKey, direct: tuple[Target, ...]
    ) -> dict[str, object]:
        return {
            "FAILURES": FAILURES,
            "has_run": _has_run,
            "Receipt": Receipt,
            "Entry": Entry,
            "publisher": self._dispatcher.publisher,
            "topic": key.topic,
            "context": key.source,
            "order": self._dispatcher.order,
            "is_ordering": owner_test(self._dispatcher.order),
            "LATEST": LATEST,
            "refuse_nested": _refuse_nested,
            "append": self._log.append if self._log is not None else None,
            "time": self._dispatcher.clock.time,
            "pending": self._lock.pending,
            "give_turn": self._lock.give,
            "contended": partial(self._publisher.post, metadata=key.metadata()),
            "token": get_cache_token,
            "known": get_cache_token(),
            "registered": partial(self._registered, key=key, locked=shape.locked),
            "again": partial(self._again, key=key, locked=shape.locked),
            "rest": partial(self._rest, direct, key),
            "raised": partial(self._raised, direct, key),
            "interrupted": partial(self._interrupted, direct, key),
        }

    # -- the slow side of a route ---------------------------------------------------------------

    def _raised(
        self,
        direct: tuple[Target, ...],
        key: RouteKey,
        step: int,
        event: object,
        here: int,
        error: BaseException,
    ) -> None:
        if self._dispatcher.home.is_elsewhere():
            raise error
        number, called = divmod(step, 2)
        if called:
            direct[number].failed(self._entry(event, here, key), error)
        else:
            direct[number].unfit(error)

    def _interrupted(
        self, direct: tuple[Target, ...], key: RouteKey, step: int, event: Any, here: int
    ) -> None:
        """A callback raised what is for the publisher; those after it get the event first."""
        if self._dispatcher.home.is_elsewhere():
            return
        if step < 0:
            self._lock.give()
        else:
            self._rest(direct, key, step // 2 + 1, event, here)

    def _rest(
        self, direct: tuple[Target, ...], key: RouteKey, number: int, event: Any, here: int
    ) -> Receipt:
        """The plan changed while an event was going round: go on with those it still has."""
        self._dispatcher.home.check("going on after a callback that has forked")
        self._lock.own()
        try:
            with self._dispatcher.changing:
                rest = direct[number:]
                still = [
                    box
                    for box in rest
                    if box in self._plan.targets or isinstance(box, ContextTarget)
                ]
            entry = self._entry(event, here, key)
            hits = self._plan.wanting(still, event, key.topic)
            form = LiveForm(event, key.source)
            self._publisher.run_inline(entry, [(*hit, form) for hit in hits])
        finally:
            self._lock.give()
        return Receipt(here, self._dispatcher.publisher)

    def _again(self, event: Any, *, key: RouteKey, locked: bool) -> Receipt:
        """The plan changed before the event had gone to anyone: publish it by the new plan."""
        if locked:
            self._lock.give()
        return self._publisher.post(event, key.metadata())

    def _registered(self, event: Any, *, key: RouteKey, locked: bool) -> Receipt:
        """A class was registered with some ABC, so old verdicts may be wrong."""
        if locked:
            self._lock.give()
        with self._dispatcher.changing, self._dispatcher.order:
            self._dispatcher.expire([(type(event), key)])
        return self._publisher.route(type(event), key.topic, key.source)(event)

    def _entry(self, event: object, here: int, key: RouteKey) -> Entry:
        moment = self._lock.moment(self._dispatcher.clock.time())
        return Entry(here, event, moment, self._dispatcher.publisher, key.topic, context=key.source)


def _refuse_nested() -> None:
    raise interrupted("publish()")


_has_run = partial(check_has_run, "a callback in the publisher's thread")
