"""The store in memory, the one in a file and a small model do the same, whatever is asked."""

from __future__ import annotations

import tempfile
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace
from reference_store import ReferenceStore
from store_drafts import make_drafts

from polycast.events import Identity, Root
from polycast.stores import (
    Advert,
    ContextVersion,
    Draft,
    Flight,
    GroupMember,
    Letter,
    Routed,
    StoredRoute,
    StoredSubscription,
    Stretch,
    Transaction,
    View,
    tidy_routing,
)
from polycast.stores.memory_store import MemoryStore
from polycast.stores.sqlite import SqliteStore
from polycast.testing import ManualClock

names = st.sampled_from(["a", "b", "c"])
buses = st.integers(1, 4)
places = st.integers(-1, 30)
maybe = st.none() | places
identities = st.tuples(st.sampled_from(["p", "q"]), st.integers(1, 2), st.integers(0, 12))
classes = st.sampled_from(["t.A", "t.B", "t.C"])


def make_draft(identity: tuple[str, int, int], name: str, within: str, form: str | None) -> Draft:
    """An event of the root, or of a context with a root form of some class."""
    publisher, epoch, sequence = identity
    (made,) = make_drafts(sequence, name=name, publisher=publisher, epoch=epoch)
    if not within:
        return made
    root = (
        None if form is None else Root(form, 1, form.ljust(32, "0"), b"" if form == name else b"r")
    )
    return replace(made, context=within, root=root)


draft = st.builds(
    make_draft, identities, classes, st.sampled_from(["", "", "us", "uk"]), st.none() | classes
)
kept = st.builds(
    StoredSubscription,
    name=names,
    definition=st.binary(max_size=3),
    start=places,
    cursor=places,
    durable=st.booleans(),
    group=st.booleans(),
    pinned=st.booleans(),
    until=maybe,
    token=st.integers(0, 2),
    holder=st.none() | buses,
    lease=st.none() | st.floats(0, 10),
)
flight = st.builds(
    Flight,
    name=names,
    position=st.integers(1, 12),
    publisher=st.sampled_from(["", "p"]),
    holder=st.none() | buses,
    token=st.integers(0, 3),
    attempts=st.integers(0, 3),
    due=st.floats(0, 10),
    done=st.booleans(),
)
letter = st.builds(
    lambda name, each, reason: Letter(0, name, 3, each.at(7.0), reason, 2, 8.0),
    names,
    draft,
    st.text(max_size=4),
)


class Model:
    """The log as a list of pairs, with the first position kept; who was routed for where."""

    def __init__(self) -> None:
        self.log: dict[int, Draft] = {}
        self.effect: dict[int, dict[str, bytes]] = {}  # by position, up to the end of the log
        self.now: dict[str, bytes] = {}
        self.contexts: dict[int, dict[str, bytes]] = {}  # the same for contexts
        self.contexts_now: dict[str, bytes] = {}
        self.routed: dict[int, bytes] = {}  # who takes what at a position
        self.token = 0

    def note_effect(self) -> None:
        for position in range(len(self.effect) + 1, max(self.log, default=0) + 1):
            self.effect[position] = dict(self.now)
            self.contexts[position] = dict(self.contexts_now)

    def append(self, drafts: list[Draft]) -> list[int]:
        given = []
        for each in drafts:
            where = {other.identity: position for position, other in self.log.items()}
            if each.identity not in where:
                self.log[max(self.log, default=0) + 1] = each
            given.append(where.get(each.identity, max(self.log)))
        self.note_effect()
        return given

    def truncate(self, before: int) -> int:
        gone = [p for p in self.log if p < before and p != max(self.log)]
        for position in gone:
            del self.log[position]
        return len(gone)


class Stores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.db"
        self.clock = ManualClock()
        self.model = Model()
        self.reference = ReferenceStore(clock=self.clock)
        self.memory = MemoryStore(clock=self.clock)
        self.sqlite = SqliteStore(self.path, clock=self.clock)

    def teardown(self) -> None:
        self.sqlite.close()
        self.folder.cleanup()

    def both(self, ask: Any) -> Any:
        """Ask both stores, and the one that judges them, the same; they must agree."""
        expected = ask(self.reference)
        for store in (self.memory, self.sqlite):
            assert ask(store) == expected
        return expected

    def change(self, work: Any) -> Any:
        return self.both(lambda store: store.write(work).result(20))

    # -- the log -----------------------------------------------------------------------------------

    @rule(drafts=st.lists(draft, max_size=6))
    def append(self, drafts: list[Draft]) -> None:
        assert self.both(lambda store: store.append(drafts)) == self.model.append(drafts)

    @rule(groups=st.lists(st.lists(draft, max_size=3), min_size=2, max_size=5))
    def append_together(self, groups: list[list[Draft]]) -> None:
        def ask(store: Any) -> list[list[int]]:
            return [future.result(20) for future in [store.submit(each) for each in groups]]

        assert self.both(ask) == [self.model.append(each) for each in groups]

    @rule(drafts=st.lists(draft, min_size=1, max_size=3))
    def append_what_cannot_be_written(self, drafts: list[Draft]) -> None:
        fields = {name: getattr(drafts[-1], name) for name in Draft.__struct_fields__}
        bad = Draft(**{**fields, "topic": "\ud800"})

        def ask(store: Any) -> type[BaseException] | None:
            error = store.submit([*drafts, bad]).exception(20)
            return None if error is None else type(error)

        assert self.both(ask) is not None

    @rule(before=places)
    def truncate(self, before: int) -> None:
        assert self.both(lambda store: store.truncate(before)) == self.model.truncate(before)

    @rule(
        start=places,
        limit=st.integers(0, 5),
        until=maybe,
        types=st.none() | st.lists(st.integers(0, 4), max_size=4),
    )
    def read(self, start: int, limit: int, until: int | None, types: list[int] | None) -> None:
        self.both(lambda store: store.read(start, limit=limit, until=until, types=types))

    @rule(identity=identities)
    def find(self, identity: tuple[str, int, int]) -> None:
        wanted = Identity(*identity)
        expected = [p for p, each in self.model.log.items() if each.identity == wanted]
        assert self.both(lambda store: store.find(wanted)) == next(iter(expected), None)

    @rule(back=st.integers(-2, 20))
    def position_at(self, back: int) -> None:
        self.both(lambda store: store.position_at(self.clock.time() - back))

    @rule(seconds=st.integers(0, 3))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def reopen(self) -> None:
        self.sqlite.close()
        self.sqlite = SqliteStore(self.path, clock=self.clock)

    # -- the state ---------------------------------------------------------------------------------

    @rule(one=kept)
    def save(self, one: StoredSubscription) -> None:
        self.change(lambda t: t.save(one))

    @rule(one=kept)
    def take_over(self, one: StoredSubscription) -> None:
        self.change(lambda t: t.take_over(one))

    @rule(name=names, token=st.integers(0, 2), cursor=places)
    def move(self, name: str, token: int, cursor: int) -> None:
        self.change(lambda t: t.move(name, token=token, cursor=cursor))

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.change(lambda t: t.remove(name))
        self.model.now.pop(name, None)

    @rule(flights=st.lists(flight, max_size=6))
    def fly(self, flights: list[Flight]) -> None:
        self.change(lambda t: t.fly(flights))

    @rule(one=flight)
    def claim(self, one: Flight) -> None:
        self.change(lambda t: t.claim(one))

    @rule(name=names, positions=st.lists(st.integers(1, 12)), before=st.integers(1, 12))
    def land(self, name: str, positions: list[int], before: int) -> None:
        self.change(lambda t: (t.land(name, positions), t.land_before(name, before)))

    @rule(name=names, bus=buses, looked=places)
    def join(self, name: str, bus: int, looked: int) -> None:
        self.change(lambda t: t.join(GroupMember(name, bus, looked)))

    @rule(name=names, bus=buses)
    def leave(self, name: str, bus: int) -> None:
        self.change(lambda t: t.leave(name, bus))

    @rule(publisher=st.sampled_from(["p", "q"]), until=st.floats(0, 10))
    def open_bus(self, publisher: str, until: float) -> None:
        self.change(lambda t: t.open_bus(publisher, until=until, address="x", process=1))

    @rule(bus=buses, until=st.floats(0, 10))
    def keep_bus(self, bus: int, until: float) -> None:
        self.change(lambda t: t.keep_bus(bus, until=until))

    @rule(bus=buses)
    def remove_bus(self, bus: int) -> None:
        self.change(lambda t: t.remove_bus(bus))

    @rule(letters=st.lists(letter, max_size=3))
    def bury(self, letters: list[Letter]) -> None:
        self.change(lambda t: t.bury(letters))

    @rule(numbers=st.lists(st.integers(0, 12), max_size=4))
    def exhume(self, numbers: list[int]) -> None:
        self.change(lambda t: t.exhume(numbers))

    @rule(bus=buses, until=st.none() | st.floats(0, 10))
    def advertise(self, bus: int, until: float | None) -> None:
        self.change(lambda t: t.advertise(Advert(0, bus, "t.A", until)))

    @rule(number=st.integers(0, 12))
    def withdraw(self, number: int) -> None:
        self.change(lambda t: t.withdraw(number))

    @rule(kind=names, name=names, body=st.none() | st.binary(max_size=3))
    def document(self, kind: str, name: str, body: bytes | None) -> None:
        if body is None:
            self.change(lambda t: t.remove_document(kind, name))
        else:
            self.change(lambda t: t.put_document(kind, name, body))

    # -- contexts ----------------------------------------------------------------------------------

    @rule(name=names, body=st.binary(max_size=1))
    def put_context(self, name: str, body: bytes) -> None:
        version: ContextVersion = self.change(lambda t: t.put_context(name, body))
        assert (version.body, version.until) == (body, None)
        self.model.contexts_now[name] = body

    @rule(name=names)
    def end_context(self, name: str) -> None:
        self.change(lambda t: t.end_context(name))
        self.model.contexts_now.pop(name, None)

    @rule()
    def forget_contexts(self) -> None:
        self.change(lambda t: t.forget_contexts(t.oldest()))

    @invariant()
    def what_contexts_were_never_changes(self) -> None:
        oldest, end = min(self.model.log, default=1), max(self.model.log, default=0) + 1
        effect = {**self.model.contexts, end: self.model.contexts_now}

        def ask(store: Any) -> None:
            with store.view() as view:
                for at in range(oldest, end + 1):
                    assert {each.name: each.body for each in view.contexts(at=at)} == effect[at]

        self.both(ask)

    # -- routing -----------------------------------------------------------------------------------

    @rule(name=names, definition=st.binary(max_size=3))
    def begin_route(self, name: str, definition: bytes) -> None:
        route: StoredRoute = self.change(lambda t: t.begin_route(name, definition))
        assert route.start == max(self.model.log, default=0) + 1
        self.model.now[name] = definition

    @rule(name=names)
    def end_route(self, name: str) -> None:
        self.change(lambda t: t.end_route(name))
        self.model.now.pop(name, None)

    @rule()
    def take_routing(self) -> None:
        self.model.token = self.change(lambda t: t.take_routing()).token

    @rule(
        back=st.integers(0, 3),
        widths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        takers=st.binary(max_size=2),
        stale=st.sampled_from([False, False, False, True]),
    )
    def advance(self, back: int, widths: list[int], takers: bytes, stale: bool) -> None:
        """From where it has come or some cut before; beyond the log is refused."""
        high, end = len(self.model.routed) + 1, max(self.model.log, default=0) + 1
        places = [max(1, high - back)]
        for width in widths:
            places.append(places[-1] + width)
        stretches = [Stretch(low, upto, takers) for low, upto in pairwise(places)]
        new = [each for each in stretches if each.high > high]
        token = self.model.token - stale

        def ask(store: Any) -> Any:
            future = store.write(lambda t: t.advance(stretches, token=token))
            error = future.exception(20)
            return type(error) if error is not None else future.result()

        answer = self.both(ask)
        if stale:
            assert answer is False
        elif new and (new[0].low != high or new[-1].high > end):
            assert answer is ValueError
        else:
            assert answer is True
            self.model.routed |= {p: takers for each in new for p in range(each.low, each.high)}

    @rule()
    def tidy(self) -> None:
        def ask(store: Any) -> Any:
            with store.view() as view:
                before, awaited = view.stretches(0, limit=1_000), view.awaited()
            store.write(tidy_routing).result(20)
            with store.view() as view:
                kept = view.stretches(0, limit=1_000)
            assert kept == [each for each in before if each.high > awaited]

        self.both(ask)

    @invariant()
    def what_is_in_effect_at_a_position_never_changes(self) -> None:
        high, end = len(self.model.routed) + 1, max(self.model.log, default=0) + 1
        effect = {**self.model.effect, end: self.model.now}

        def ask(store: Any) -> Any:
            with store.view() as view:
                assert view.routed() == Routed(high, self.model.token)
                for at in range(high, end + 1):
                    there = {each.name: each.definition for each in view.routes(at=at)}
                    assert there == effect[at]
                return view.turns(high, end)

        turns = self.both(ask)
        for at in range(high + 1, end):
            assert at in turns or effect[at] == effect[at - 1]
            contexts = self.model.contexts
            if at - 1 in self.model.log:  # before that, they may be forgotten
                assert at in turns or contexts[at] == contexts[at - 1]

    @invariant()
    def the_same_figures_mean_the_same_routes_and_contexts(self) -> None:
        with self.memory.view() as view:
            first, end = max(view.routed().high, view.oldest()), view.newest() + 1
            found = [
                (view.in_effect(at), (view.routes(at=at), view.contexts(at=at)))
                for at in range(first, end + 1)
            ]
        for one, other in combinations(found, 2):
            assert (one[0] == other[0]) == (one[1] == other[1])

    @invariant()
    def what_was_found_out_is_kept_as_it_was(self) -> None:
        def ask(store: Any) -> list[Stretch]:
            with store.view() as view:
                kept: list[Stretch] = view.stretches(0, limit=1_000)
                return kept

        for each in self.both(ask):
            for position in range(each.low, each.high):
                assert self.model.routed[position] == each.takers

    @rule(one=kept, flights=st.lists(flight, max_size=2))
    def change_that_raises(self, one: StoredSubscription, flights: list[Flight]) -> None:
        def work(transaction: Transaction) -> None:
            transaction.save(one)
            transaction.fly(flights)
            transaction.open_bus("p", until=1.0, address="", process=1)
            raise LookupError

        def ask(store: Any) -> type[BaseException]:
            return type(store.write(work).exception(20))

        assert self.both(ask) is LookupError

    # -- all of it ---------------------------------------------------------------------------------

    @invariant()
    def the_logs_are_alike(self) -> None:
        oldest, newest = min(self.model.log, default=1), max(self.model.log, default=0)
        assert self.both(lambda store: (store.oldest(), store.newest())) == (oldest, newest)
        batch = self.both(lambda store: store.read(1))
        assert [each.position for each in batch.entries] == list(self.model.log)
        for stored, expected in zip(batch.entries, self.model.log.values(), strict=True):
            assert stored.record == expected.at(stored.record.time)
        self.both(lambda store: store.types())

    @invariant()
    def the_states_are_alike(self) -> None:
        def ask(store: Any) -> list[Any]:
            with store.view() as view:
                return everything(view)

        self.both(ask)

    @precondition(lambda self: self.model.log)
    @rule(kind=st.integers(1, 3))
    def a_rare_type_is_found(self, kind: int) -> None:
        self.both(lambda store: store.read(1, types=[kind]))


def everything(view: View) -> list[Any]:
    """All that a view can say."""
    by_name = [
        (view.subscription(n), view.flights(n), view.members(n), view.free(n, at=5.0, limit=2))
        for n in "abc"
    ]
    flights = [view.flight(n, position) for n in "abc" for position in (1, 5)]
    letters = [view.letters(subscription=n, after=2, limit=2) for n in "abc"]
    return [
        *(view.newest(), view.oldest(), view.revision(), view.buses(), view.subscriptions()),
        *(
            by_name,
            flights,
            letters,
            view.letters(),
            view.count_letters(),
            view.lapsed(5.0),
            view.held_back(),
            view.changed(3),
        ),
        *(view.count_letters(subscription="a"), view.adverts(), view.documents("a")),
        *(view.document("a", "b"), view.descriptions()),
        *(view.routed(), view.routes(), view.turns(2, 9), view.routes(at=4), view.awaited()),
        *([view.route(n) for n in "abc"], view.stretches(3, limit=2)),
        *([view.context(n) for n in "abc"], view.contexts(), view.contexts(at=4)),
        *([(view.in_effect(at), view.last_turn(at)) for at in (0, 4, 9)],),
    ]


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
