"""The slow path of publish, for everything: what the generated routes do, said plainly."""

from __future__ import annotations

from abc import get_cache_token
from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from polycast.errors import BadOption
from polycast.routing.crossing import Astray, Crossing, Gone, Sight
from polycast.routing.crowd import is_alone, is_crowd
from polycast.routing.plan import Plan, Target
from polycast.stores import Entry, Receipt

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Mapping

    from polycast.config import Clock
    from polycast.events import Identity
    from polycast.routing.crossing import Party
    from polycast.routing.crowd import Crowd
    from polycast.routing.turn import Turn
    from polycast.stores import Publisher, Recent

__all__ = ["Hit", "Posting"]

IDENTITIES_KEPT = 100_000
TOPICS_KEPT = 4_096
Seen = tuple[Any, str | None]  # an event as it is in a context
Hit = tuple[Target, object, Seen]  # who wants it, the verdict of its filter, and what it sees
Asked = tuple[list[Hit], list[tuple[str, Exception]]]  # and the contexts it could not get to


class Posting:
    """Publishes by asking each target. `Dispatcher` has the fields."""

    publisher: Publisher
    clock: Clock
    log: Recent | None
    admit: Callable[[type], object]
    plan: Plan
    turn: Turn
    order: threading.Lock
    changing: threading.RLock
    version: int
    _refuse: Callable[[], None]
    _crowd: Crowd | None

    def __init__(self) -> None:
        self.crossing = Crossing()
        self.astray: Callable[[Entry, str, Exception], None] = lambda *_: None
        """Told of an event that a function kept from getting to a context."""
        self._retried: OrderedDict[Identity, Receipt] = OrderedDict()
        # Emptied when the plan changes, and by a full collection: it would keep classes alive.
        self.known_parties: dict[tuple[type, str | None, str | None], list[Party]] = {}
        self._token: object = None  # of what ABCs say

    def post(
        self,
        event: Any,
        *,
        topic: str | None = None,
        priority: int = 0,
        expires: float | None = None,
        headers: Mapping[str, str] | None = None,
        given: Identity | None = None,
        context: str | None = None,
    ) -> Receipt:
        """Publish one event."""
        return self.post_many([event], topic, priority, expires, headers, given, context)[0]

    def post_many(
        self,
        events: list[Any],
        topic: str | None = None,
        priority: int = 0,
        expires: float | None = None,
        headers: Mapping[str, str] | None = None,
        given: Identity | None = None,
        context: str | None = None,
    ) -> list[Receipt]:
        """Publish all or nothing, in one run of positions; `context` is the publisher's."""
        if not events:
            return []
        for event in events:
            self.admit(type(event))
        about = (topic, priority, expires, headers, given, None, context)
        asked: list[object] | None = None
        while True:
            self._refuse()
            with self.changing:
                version = self.version
                parties = [self.parties(type(event), topic, context) for event in events]
            # Other subscriptions may come and go; filters are asked again only if these changed.
            ask: list[object] = [
                (t, *map(id, t.interests())) for each in parties for _, some in each for t in some
            ]
            if ask != asked:
                asked = ask
                answers = [
                    self._asked(each, event, topic, context)
                    for each, event in zip(parties, events, strict=True)
                ]
                hits = [found for found, _ in answers]
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
                        if context is not None:
                            self.crossing.leaves(type(entry.event), context)
                        for target, _, _ in queued[number]:
                            target.wake()
                        for where, error in answers[number][1]:
                            self.astray(entry, where, error)
                        work = partial(self._run_inline, entry, inline[number])
                        self.turn.put_off(work) if nested else work()
            if isinstance(entries, Receipt):
                return [entries]
            if entries is not None:
                return [entry.receipt() for entry in entries]

    def parties(self, cls: type, topic: str | None, source: str | None) -> list[Party]:
        """Who can want events of a class published in a context; `changing` is held."""
        token = get_cache_token()
        if self._token != token or len(self.known_parties) > TOPICS_KEPT:
            self.known_parties, self._token = {}, token
        key = (cls, topic, source)
        found = self.known_parties.get(key)
        if found is None:
            found = self.crossing.parties(self.plan, cls, topic, source)
            self.known_parties[key] = found
        return found

    def _asked(
        self, parties: list[Party], event: Any, topic: str | None, source: str | None
    ) -> Asked:
        """Who wants an event, in all contexts; and those to which it could not get."""
        hits: list[Hit] = []
        astray: dict[str, Exception] = {}
        sight = Sight(event, source, self.crossing)
        for context, targets in parties:
            try:
                there = sight.seen(context) if targets else event
            except Astray as found:
                astray[found.context] = found.error
                continue
            except Gone:
                continue
            wanting = self._matching(targets, there, topic)
            hits += [(target, verdict, (there, context)) for target, verdict in wanting]
        return hits, list(astray.items())

    def seen_by(self, context: str | None, entry: Entry, *, again: bool = False) -> Entry | None:
        """An entry as a context sees it; None if it does not get there.

        What comes again may come because the context has been mended since.
        """
        error: Astray | None = None
        for at in (entry.position, None) if again else (entry.position,):
            try:
                return self.crossed(context, entry, at)
            except Astray as found:
                error = found
        assert error is not None
        self.astray(entry, error.context, error.error)
        return None

    def crossed(self, context: str | None, entry: Entry, at: int | None) -> Entry | None:
        """The same by the context at a position, or as it is now; `Astray` if a function raises."""
        if context == entry.context:
            return entry
        if self.crossing.becomes(type(entry.event), entry.context, context, at) is None:
            return None
        sight = Sight(entry.event, entry.context, self.crossing, at=at)
        try:
            return _seen_as(entry, (sight.seen(context), context))
        except Gone:
            return None

    def _matching(
        self, targets: Collection[Target], event: Any, topic: str | None
    ) -> list[tuple[Target, object]]:
        hits: list[tuple[Target, object]] = []
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

    def _reserve(self, hits: list[list[Hit]], room: ExitStack) -> None:
        """Wait until all that can make a publisher wait have room for what they get."""
        for target, count in Counter(t for each in hits for t, *_ in each if t.blocking).items():
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
        queued: list[list[Hit]],
        version: int,
        about: tuple[Any, ...],
    ) -> list[Entry] | Receipt | None:
        """Give positions and fill the queues; None if the plan has changed meanwhile.

        An identity that was published before gets the receipt it got then.
        """
        given: Identity | None = about[4]
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
        if not 0 < given.sequence <= self.turn.newest():
            raise BadOption("identity", given, accepted="one that this bus has given before")
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
                    call(seen[0])
                except Exception as error:
                    target.failed(_seen_as(entry, seen), error)


def _parted(hits: list[Hit]) -> dict[bool, list[Hit]]:
    """Those who are called in the publisher's thread, and those who are not."""
    parts: dict[bool, list[Hit]] = {False: [], True: []}
    for hit in hits:
        parts[hit[0].inline].append(hit)
    return parts


def _seen_as(entry: Entry, seen: Seen) -> Entry:
    """The entry of an event as another context sees it."""
    event, context = seen
    return entry if context == entry.context else replace(entry, event=event, context=context)
