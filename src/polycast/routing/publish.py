"""The slow path of publish, for everything: what the generated routes do, said plainly."""

from __future__ import annotations

from abc import get_cache_token
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from polycast.errors import BadOptionError
from polycast.errors.failures import FAILURES, check_has_run
from polycast.events.isolation import copier
from polycast.locks import check_free
from polycast.routing.indexed_targets import is_single, pays_to_index
from polycast.routing.inline_lock import BUSES
from polycast.routing.plan import Plan, Target
from polycast.routing.translation import (
    ContextRemoved,
    ContextTranslation,
    EventViews,
    TranslationFailed,
)
from polycast.stores import Entry, Receipt

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator, Sequence

    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.forks import Home
    from polycast.matching import Interest
    from polycast.routing.indexed_targets import TargetIndex
    from polycast.routing.inline_lock import InlineLock, StarvationGuard
    from polycast.routing.publish_metadata import PublishMetadata
    from polycast.routing.translation import Candidates
    from polycast.stores import Publisher, Recent

__all__ = ["Hit", "Posting"]

IDENTITIES_KEPT = 100_000
TOPICS_KEPT = 4_096
ROUNDS = 3  # how often a publisher may be overtaken by changes of the plan
Again = Callable[[], Any] | None  # makes an event anew, if it may be another each time
Own = Callable[[], Any] | None  # gives an object to each taker; None: they share it
Seen = tuple[Any, str | None, Again, Own]  # an event as it is in a context
Wanting = list[tuple[Target, object]]  # who wants an event, and the verdict of its filter
Wants = list[tuple[Target, tuple["Interest", ...]]]  # who is asked, and what it is that he wants
Hit = tuple[Target, object, Seen]  # who wants it, the verdict of its filter, and what it sees


class RecipientQuery:
    """One event, who was asked whether he wants it, and what the answer was."""

    __slots__ = ("_answers", "_copies", "_first", "era", "failed", "hits", "sight")

    def __init__(self, sight: EventViews, era: int) -> None:
        self.sight, self.era = sight, era
        self.hits: list[Hit] = []
        self.failed: dict[str, BaseException] = {}  # the contexts it could not get to
        # Nearly always one round is enough, and nobody looks at this.
        self._first: list[tuple[Wants, Wanting]] = []
        self._answers: dict[Target, tuple[tuple[Interest, ...], object]] | None = None
        self._copies: tuple[Own] | None = None

    def copies(self, snapshot: Callable[[Any], Own]) -> Own:
        """What gives the event as it is now to each taker; it may say that it cannot be copied."""
        if self._copies is None:
            self._copies = (snapshot(self.sight.event),)
        return self._copies[0]

    def once_more(self) -> None:
        """The plan has changed: whoever is the same is not asked again."""
        self.hits, self.failed = [], {}
        if self._answers is None:
            self._answers = {}
            for asked, wanting in self._first:
                self._note(self._answers, asked, wanting)

    def wanting(
        self, targets: Sequence[Target], match: Callable[[list[Target]], Wanting]
    ) -> Wanting:
        """Those of them who want it."""
        asked = [(target, target.interests()) for target in targets]
        answers = self._answers
        if answers is None:
            found = match(list(targets))
            self._first.append((asked, found))
            return found
        new = [each for each in asked if not _same(answers.get(each[0]), each[1])]
        if new:
            self._note(answers, new, match([target for target, _ in new]))
        return [(target, said) for target in targets if (said := answers[target][1])]

    def _note(
        self,
        answers: dict[Target, tuple[tuple[Interest, ...], object]],
        asked: Wants,
        wanting: Wanting,
    ) -> None:
        found = dict(wanting)
        answers.update({target: (wants, found.get(target)) for target, wants in asked})


def _same(before: tuple[tuple[Interest, ...], object] | None, now: tuple[Interest, ...]) -> bool:
    return before is not None and len(before[0]) == len(now) and all(map(is_, before[0], now))


class Posting:
    """Publishes by asking each target. `Dispatcher` has the fields."""

    home: Home
    publisher: Publisher
    clock: Clock
    log: Recent | None
    admit: Callable[[type], object]
    plan: Plan
    inline_lock: InlineLock
    starvation_guard: StarvationGuard
    order: threading.RLock
    changing: threading.RLock
    version: int
    refuse: Callable[[], None]
    _index: TargetIndex | None
    snapshot: Callable[[Any], Own]
    isolated: bool

    def __init__(self, translation_failed: Callable[[Entry, str, BaseException], None]) -> None:
        BUSES.add(self)
        self.translation = ContextTranslation()
        self.translation_failed = translation_failed
        """Told of an event that a function kept from getting to a context."""
        self._retried: OrderedDict[Identity, Receipt] = OrderedDict()
        # Emptied when the plan changes, and by a full collection: it would keep classes alive.
        self.known_parties: dict[tuple[type, str | None, str | None], list[Candidates]] = {}
        self._token: object = None  # of what ABCs say

    def check_free(self, operation: str) -> None:
        """Refuse what has interrupted a change of the plan, or of the log, in this very thread."""
        self.home.check(operation)
        check_free(operation, *self.locks())

    def locks(self) -> list[Any]:
        """What is held for such a change."""
        return [self.order, self.changing]

    def post(self, event: Any, label: PublishMetadata) -> Receipt:
        """Publish one event."""
        return self.post_many([event], label)[0]

    def post_many(self, events: list[Any], label: PublishMetadata) -> list[Receipt]:
        """Publish all or nothing, in one run of positions."""
        if not events:
            return []
        self.check_free("publish()")
        for event in events:
            self.admit(type(event))
        topic, context = label.topic, label.context
        asking: list[RecipientQuery] = []
        entries: list[Entry] | Receipt | None = None
        rounds = 0
        with ExitStack() as held:
            while entries is None:
                self.refuse()
                rounds += 1
                if rounds == ROUNDS:
                    held.enter_context(self.starvation_guard.hold_changes())
                with self.changing:
                    version, era = self.version, self.translation.era
                    parties = [self.parties(type(event), topic, context) for event in events]
                if not asking or asking[0].era != era:  # what they are asked about has changed
                    asking = [
                        RecipientQuery(EventViews(each, context, self.translation), era)
                        for each in events
                    ]
                else:
                    for each in asking:
                        each.once_more()
                for each, found in zip(asking, parties, strict=True):
                    if self.isolated:
                        each.copies(self.snapshot)
                    self._ask(each, found, topic)
                entries = self._post(events, asking, version, label, held)
        return [entries] if isinstance(entries, Receipt) else [each.receipt() for each in entries]

    def _post(
        self,
        events: list[Any],
        asking: list[RecipientQuery],
        version: int,
        label: PublishMetadata,
        held: ExitStack,
    ) -> list[Entry] | Receipt | None:
        """Bring events to those who want them; None if the plan has changed meanwhile."""
        context, hits = label.context, [each.hits for each in asking]
        # Who is called in this thread is asked once: it may change meanwhile.
        parts = [_parted(each) for each in hits]
        queued, inline = [part[False] for part in parts], [part[True] for part in parts]
        with ExitStack() as room:
            self.reserve(hits, room)
            with self._turn_if(any(inline)) as nested:
                owns = [each.copies(self.snapshot) if self.isolated else None for each in asking]
                entries = self._accept(events, owns, queued, version, label)
                room.close()  # what was accepted is in the queues
                if not isinstance(entries, list):
                    return entries
                held.close()
                for number, entry in enumerate(entries):
                    if context is not None:
                        self.translation.leaves(type(entry.event), context)
                    for target, _, _ in queued[number]:
                        target.wake()
                    for where, error in asking[number].failed.items():
                        self.translation_failed(entry, where, error)
                    work = partial(self._run_inline, entry, inline[number])
                    self.inline_lock.put_off(work) if nested else work()
        return entries

    def parties(self, cls: type, topic: str | None, source: str | None) -> list[Candidates]:
        """Who can want events of a class published in a context; `changing` is held."""
        token = get_cache_token()
        if self._token != token or len(self.known_parties) > TOPICS_KEPT:
            self.known_parties, self._token = {}, token
        key = (cls, topic, source)
        found = self.known_parties.get(key)
        if found is None:
            found = self.translation.parties(self.plan, cls, topic, source)
            self.known_parties[key] = found
        return found

    def _ask(self, asking: RecipientQuery, parties: list[Candidates], topic: str | None) -> None:
        """Find who wants an event, in all contexts; each is asked once, unless it has changed."""
        for context, targets in parties:
            if not targets:
                continue
            try:
                there = asking.sight.seen(context)
            except TranslationFailed as found:
                asking.failed[found.context] = found.error
                continue
            except ContextRemoved:
                continue
            own = None if context == asking.sight.source else copier(there)
            # Copies are of an event that no function has changed.
            asked = own() if own is not None and self.plan.asks_opaque(targets) else there
            wanting = asking.wanting(targets, partial(self._matching, event=asked, topic=topic))
            if context == asking.sight.source:
                shared = (there, context, None, None)
                for target, verdict in wanting:
                    seen = self._copied(asking) if target.copies else shared
                    asking.hits.append((target, verdict, seen))
            elif wanting:
                seen = (there, context, asking.sight.anew(context), own)
                asking.hits += [(target, verdict, seen) for target, verdict in wanting]

    def _copied(self, asking: RecipientQuery) -> Seen:
        """What those see who want an object of their own of what is published in their context."""
        return asking.sight.event, asking.sight.source, None, asking.copies(self.snapshot)

    def seen_by(self, context: str | None, entry: Entry, *, again: bool = False) -> Entry | None:
        """An entry as a context sees it; None if it does not get there.

        What comes again may come because the context has been mended since.
        """
        error: TranslationFailed | None = None
        for at in (entry.position, None) if again else (entry.position,):
            try:
                return self.crossed(context, entry, at)
            except TranslationFailed as found:
                error = found
        assert error is not None
        self.translation_failed(entry, error.context, error.error)
        return None

    def crossed(self, context: str | None, entry: Entry, at: int | None) -> Entry | None:
        """The same by the context at a position, or now; `TranslationFailed` if it raises."""
        if context == entry.context:
            return entry
        if self.translation.becomes(type(entry.event), entry.context, context, at) is None:
            return None
        sight = EventViews(entry.fresh(), entry.context, self.translation, at=at)
        try:
            there = sight.seen(context)
            return _seen_as(entry, (there, context, sight.anew(context), copier(there)))
        except ContextRemoved:
            return None

    def _matching(
        self, targets: Collection[Target], event: Any, topic: str | None
    ) -> list[tuple[Target, object]]:
        hits: list[tuple[Target, object]] = []
        if self._index is not None and pays_to_index(targets):
            found = self._index.wanting(event, topic)
            hits = [(target, True) for target in targets if target in found]
            targets = [target for target in targets if not is_single(target)]
        for target in targets:
            test = target.test_for(type(event), topic)
            try:
                verdict = True if test is None else test(event)
                if verdict:
                    hits.append((target, verdict))
            except FAILURES as error:
                target.unfit(error)
        return hits

    def reserve(self, hits: list[list[Hit]], room: ExitStack) -> None:
        """Wait until all that can make a publisher wait have room for what they get."""
        for target, many in Counter(t for each in hits for t, *_ in each if t.blocking).items():
            target.reserve(many, inside=self.inline_lock.is_mine())
            room.callback(target.release, many)

    @contextmanager
    def _turn_if(self, needed: bool) -> Iterator[bool]:  # noqa: FBT001
        """Take the turn if somebody is called in this thread; True if it was ours before."""
        if needed:
            with self.inline_lock.hold() as nested:
                yield nested
        else:
            yield False

    def _accept(
        self,
        events: list[Any],
        owns: list[Own],
        queued: list[list[Hit]],
        version: int,
        label: PublishMetadata,
    ) -> list[Entry] | Receipt | None:
        """Give positions and fill the queues; None if the plan has changed meanwhile.

        An identity that was published before gets the receipt it got then.
        """
        given = label.given
        about = (label.topic, label.priority, label.expires, label.headers, given, None)
        where = (label.context, None)
        with self.order:
            if given is not None and (known := self._receipt_of(given)) is not None:
                return known
            if self.version != version:
                return None
            moment = self.inline_lock.moment(self.clock.time())
            entries = [
                Entry(
                    self.inline_lock.advance(), event, moment, self.publisher, *about, *where, own
                )
                for event, own in zip(events, owns, strict=True)
            ]
            for entry, hits in zip(entries, queued, strict=True):
                if self.log is not None:
                    self.log.append(entry)
                for target, verdict, seen in hits:
                    target.put(_seen_as(entry, seen), verdict)
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
        if not 0 < given.sequence <= self.inline_lock.newest():
            raise BadOptionError("identity", given, accepted="one that this bus has given before")
        return Receipt(given.sequence, ours)

    def _run_inline(self, entry: Entry, hits: list[Hit]) -> None:
        """With the turn: bring one event to those who are called in this thread."""
        for target, verdict, seen in hits:
            call = target.direct
            if call is None:
                target.put(_seen_as(entry, seen), verdict)
                target.wake()
            elif entry.expires is not None and self.clock.time() >= entry.expires:
                target.expired()
            else:
                try:
                    event, own = seen[0], seen[3]
                    if (said := call(event if own is None else own())) is not None:
                        check_has_run("a callback in the publisher's thread", said)
                except FAILURES as error:
                    target.failed(_seen_as(entry, seen), error)


def _parted(hits: list[Hit]) -> dict[bool, list[Hit]]:
    """Those who are called in the publisher's thread, and those who are not."""
    parts: dict[bool, list[Hit]] = {False: [], True: []}
    for hit in hits:
        parts[hit[0].inline].append(hit)
    return parts


def _seen_as(entry: Entry, seen: Seen) -> Entry:
    """The entry of an event as another context sees it."""
    event, context, again, own = seen
    if context == entry.context and own is entry.own:
        return entry
    return replace(entry, event=event, context=context, again=again, own=own)
