"""Those who want events in another context: to a generated route they are one target."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from polycast.errors.failures import check_has_run, failures_here
from polycast.events.isolation import copied, copier
from polycast.filters.tree.relaxation import all_open
from polycast.routing.translation import TranslationFailed
from polycast.stores import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from polycast.matching import Interest
    from polycast.routing.plan import Target

    Inner = tuple[Target, Callable[[Any], object] | None, Callable[[Any], object] | None]

    Maker = Callable[[], Any] | None
    There = tuple[Any, Maker, Maker]
    """An event there, what makes it anew, and what gives an object to each recipient."""
    Ready = tuple[Any, Any, TranslationFailed | None] | None
    """An event, what it is there and what makes that anew, and why it does not get there."""


def shares_translation(targets: tuple[Target, ...]) -> bool:
    """Whether all of them have a queue, or all are called directly: so one translation is enough.

    A publisher that may have to wait takes the slow path.
    """
    if any(target.blocking for target in targets):
        return False
    direct = [target.direct is not None for target in targets]
    return all(direct) or not any(target.inline for target in targets)


class CallsFailed(Exception):
    """Some callbacks in other contexts raised, or a translation did."""

    def __init__(self, reports: list[Callable[[Entry], None]]) -> None:
        super().__init__()
        self.reports = reports  # what is still to be said, once there is an entry


class ContextTarget:
    """The targets of one context, behind one translation. It lives as long as its route."""

    blocking = copies = watched = False

    def __init__(
        self,
        context: str | None,
        targets: tuple[Target, ...],
        *,
        see: Callable[[Any], Any],
        again: Callable[[Any], Any] | None,
        fixed: Collection[type],
        match: Callable[[Any], list[tuple[Target, object]]],
        tests: list[Callable[[Any], object] | None],
        failed: Callable[[Entry, str, BaseException], None],
        is_gone: Callable[[Target], bool],
    ) -> None:
        self._context, self._see, self._match = context, see, match
        self._again, self._fixed = again, fixed
        self._failed, self._is_gone = failed, is_gone
        self.inline = any(target.inline for target in targets)
        calls = [target.direct for target in targets]
        self._inner: list[Inner] = list(zip(targets, tests, calls, strict=True))
        self._are_open = all_open(wish.where for target in targets for wish in target.interests())
        self._put: deque[Target] = deque()
        self._ready: Ready = None

    @property
    def direct(self) -> Callable[[Any], object] | None:
        """What calls all of them, if they are called directly."""
        return self._call if self.inline else None

    def interests(self) -> tuple[Interest, ...]:
        """It has none of its own."""
        return ()

    def test_for(self, cls: type, topic: str | None) -> Callable[[Any], object] | None:
        """Who wants an event there, and as what."""
        del cls, topic
        return None if self.inline else self._test

    def counting(self, test: Callable[[Any], object]) -> Callable[[Any], object]:
        """Those who are asked count for themselves."""
        return test

    # -- those with a queue ------------------------------------------------------------------------

    def _test(self, event: Any) -> object:
        try:
            there = self._see(event)
        except TranslationFailed as error:
            return error
        own = None if type(event) in self._fixed else copier(there)
        hits = self._match(self._asked(there, own))
        if not hits:
            return None
        return (there, self._anew(event), own), hits

    def _asked(self, there: Any, own: Maker) -> Any:
        """What filters are asked about: copies are of an event that no function has changed."""
        return there if own is None or self._are_open else own()

    def _anew(self, event: Any) -> Maker:
        """What makes it anew, though those of its own context may change what they are given."""
        return None if self._again is None else partial(self._again, copied(event))

    def put(self, entry: Entry, verdict: Any) -> None:
        """Take an entry; called in log order, under the order lock."""
        if isinstance(verdict, TranslationFailed):
            self._failed(entry, verdict.context, verdict.error)
            return
        there, hits = verdict
        entry_there = self._entry_there(entry, there)
        for target, verdict_there in hits:
            target.put(entry_there, verdict_there)
            self._put.append(target)

    def wake(self) -> None:
        """Go on with what was put."""
        while self._put:
            try:
                target = self._put.popleft()
            except IndexError:  # another thread was faster
                return
            target.wake()

    def _entry_there(self, entry: Entry, form: There) -> Entry:
        event, again, own = form
        return Entry(
            entry.position,
            event,
            entry.time,
            entry.publisher,
            entry.topic,
            entry.priority,
            entry.expires,
            entry.headers,
            entry.given,
            entry.record,
            self._context,
            again,
            own,
        )

    # -- those who are called directly -------------------------------------------------------------

    def prepare(self, event: Any) -> None:
        """Translate an event before those in its own context, who may change it, are called."""
        try:
            self._ready = event, (self._see(event), self._anew(event)), None
        except TranslationFailed as error:  # it is told when it comes to those here
            self._ready = event, None, error

    def _prepared(self, event: Any) -> Any:
        """What was prepared, unless that was another event; the turn is held all the time."""
        ready, self._ready = self._ready, None
        if ready is None or ready[0] is not event:
            return self._see(event), None if self._again is None else self._anew(event)
        if ready[2] is not None:
            raise ready[2]
        return ready[1]

    def _call(self, event: Any) -> None:
        if self._ready is None and self._again is None:  # as nearly always, and a call less
            there, again = self._see(event), None
        else:
            there, again = self._prepared(event)
        own = None if type(event) in self._fixed else copier(there)
        asked = self._asked(there, own)
        reports: list[Callable[[Entry], None]] = []
        interrupt: BaseException | None = None
        for target, test, call in self._inner:
            if self._is_gone(target):
                continue
            try:
                if test is not None and not test(asked):
                    continue
            except failures_here() as error:
                target.unfit(error)
                continue
            try:
                assert call is not None
                if (said := call(there if own is None else own())) is not None:
                    check_has_run("a callback in the publisher's thread", said)
            except failures_here() as error:
                form = (there, again, own)
                reports.append(partial(self._report, target=target, form=form, error=error))
            except BaseException as error:  # for the publisher, when the others have the event
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if reports:
            raise CallsFailed(reports)

    def _report(self, entry: Entry, *, target: Target, form: There, error: BaseException) -> None:
        target.failed(self._entry_there(entry, form), error)

    def failed(self, entry: Entry, error: BaseException) -> None:
        """The translation raised, or some callbacks did."""
        if isinstance(error, TranslationFailed):
            self._failed(entry, error.context, error.error)
        elif isinstance(error, CallsFailed):
            for report in error.reports:
                report(entry)

    def unfit(self, error: BaseException) -> None:
        """No test of its own raises."""

    def expired(self) -> None:
        """What can expire takes the slow path."""

    def reserve(self, count: int, *, is_inside: Callable[[], bool]) -> None:
        """Nobody there makes a publisher wait."""

    def release(self, count: int) -> None:
        """Nothing was reserved."""


class EarlyTranslation(ContextTarget):
    """In front of all who are called directly: it has an event translated for who comes last."""

    inline = True

    def __init__(self, beyond: ContextTarget) -> None:
        self._call = beyond.prepare  # type: ignore[method-assign]


class ContextGroupTarget(ContextTarget):
    """Those of several contexts, behind one root form. They all have queues, or none has."""

    def __init__(
        self,
        out: Callable[[Any], Any],
        inner: list[ContextTarget],
        failed: Callable[[Entry, str, BaseException], None],
    ) -> None:
        self._out, self._contexts, self._failed = out, inner, failed
        self._see, self._again, self._ready = out, None, None
        self.inline = any(context.inline for context in inner)

    def _test(self, event: Any) -> object:
        try:
            root = self._out(event)
        except TranslationFailed as error:
            return error
        verdicts = [(context, context._test(root)) for context in self._contexts]
        return [pair for pair in verdicts if pair[1] is not None] or None

    def put(self, entry: Entry, verdict: Any) -> None:
        """Take an entry; called in log order, under the order lock."""
        if isinstance(verdict, TranslationFailed):
            self._failed(entry, verdict.context, verdict.error)
            return
        for context, verdict_there in verdict:
            context.put(entry, verdict_there)

    def wake(self) -> None:
        """Go on with what was put."""
        for context in self._contexts:
            context.wake()

    def prepare(self, event: Any) -> None:
        """The root form, and what that is in each context."""
        super().prepare(event)
        if self._ready is not None and self._ready[2] is None:
            for context in self._contexts:
                context.prepare(self._ready[1][0])

    def _call(self, event: Any) -> None:
        root, _ = self._prepared(event)
        reports: list[Callable[[Entry], None]] = []
        interrupt: BaseException | None = None
        for context in self._contexts:
            try:
                context._call(root)
            except failures_here() as error:
                reports.append(partial(context.failed, error=error))
            except BaseException as error:  # for the publisher, when the others have the event
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if reports:
            raise CallsFailed(reports)


def lazy_test(target: Target, topic: str | None) -> Callable[[Any], object] | None:
    """The filter of a target for events whose class is known when they come."""
    interests = target.interests()
    if len(interests) == 1 and interests[0].where is None and interests[0].group is None:
        return None
    known: tuple[type, Callable[[Any], object] | None] = (type(None), None)

    def test(there: Any) -> object:
        nonlocal known
        cls, ask = known
        if type(there) is not cls:  # nearly always it is the class of the event before
            ask = target.test_for(type(there), topic)
            known = (type(there), ask)
        return True if ask is None else ask(there)

    return test
