"""Every store keeps the contract: the same tests for the one in memory and the one in a file."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from store_drafts import MakeDrafts

from polycast.errors import NotSerialisableError, StoreClosedError
from polycast.events import Identity
from polycast.stores import (
    Advert,
    Draft,
    EventType,
    Flight,
    GroupMember,
    Letter,
    LogPage,
    Store,
    StoredSubscription,
    Transaction,
)
from polycast.testing import ManualClock
from polycast.typesystem import describe


def found(batch: LogPage) -> list[int]:
    return [each.position for each in batch.entries]


# -- appending -------------------------------------------------------------------------------------


def test_an_empty_store_has_nothing(store: Store) -> None:
    nothing = LogPage([], 1, more=store.is_remote)  # who asks a broker is not told
    assert (store.newest(), store.oldest(), store.read(1)) == (0, 1, nothing)
    assert store.types() == {}


def test_positions_count_from_one_without_gaps(store: Store, drafts: MakeDrafts) -> None:
    assert store.append(drafts(1, 2)) == [1, 2]
    assert store.append(drafts(3)) == [3]
    assert (store.oldest(), store.newest()) == (1, 3)


def test_appending_nothing_gives_no_positions(store: Store) -> None:
    assert store.append([]) == []


def test_a_record_comes_back_as_it_was_appended(store: Store, clock: ManualClock) -> None:
    draft = Draft(
        "a.B", 3, "f" * 32, Identity("p", 2, 9), "msgpack", b"\0", "/t", 5, 9.5, {"k": "v"}
    )
    store.append([draft])
    (stored,) = store.read(1).entries
    assert (stored.position, stored.record) == (1, draft.at(clock.time()))


def test_a_retry_has_the_position_it_had(store: Store, drafts: MakeDrafts) -> None:
    store.append(drafts(1, 2, 3))
    assert store.append(drafts(2)) == [2]
    assert store.append(drafts(3, 4, 1, 5)) == [3, 4, 1, 5]
    assert found(store.read(1)) == [1, 2, 3, 4, 5]


def test_a_retry_within_one_call_is_appended_once(store: Store, drafts: MakeDrafts) -> None:
    assert store.append(drafts(1, 2, 1, 3, 2)) == [1, 2, 1, 3, 2]
    assert store.newest() == 3


def test_a_retry_of_another_type_leaves_no_type_behind(store: Store, drafts: MakeDrafts) -> None:
    store.append(drafts(1))
    assert store.append(drafts(1, name="shop.Bill")) == [1]
    assert [each.name for each in store.types().values()] == ["shop.Order"]


def test_publishers_and_epochs_do_not_share_sequences(store: Store, drafts: MakeDrafts) -> None:
    store.append(drafts(1))
    assert store.append(drafts(1, publisher="other") + drafts(1, epoch=2)) == [2, 3]
    assert store.find(Identity("till", 2, 1)) == 3
    assert store.find(Identity("till", 3, 1)) is None


@pytest.mark.parametrize("bad", [{"headers": {"k": "\ud800"}}, {"priority": 2**70}])
def test_what_cannot_be_written_fails_alone(
    store: Store, drafts: MakeDrafts, bad: dict[str, object]
) -> None:
    (good,) = drafts(1)
    fields = {name: getattr(good, name) for name in good.__struct_fields__}
    future = store.submit([good, Draft(**{**fields, **bad})])  # type: ignore[arg-type]
    with pytest.raises(NotSerialisableError):
        future.result(10)
    assert store.append(drafts(2)) == [1]


def test_time_never_goes_back(store: Store, drafts: MakeDrafts, clock: ManualClock) -> None:
    store.append(drafts(1))
    clock._passed = -5.0  # somebody set the clock of the machine back
    store.append(drafts(2))
    clock._passed = 1.0
    store.append(drafts(3))
    times = [each.record.time for each in store.read(1).entries]
    assert times == [1_700_000_000.0, 1_700_000_000.0, 1_700_000_001.0]


def test_threads_that_append_at_once_each_have_one_run(store: Store, drafts: MakeDrafts) -> None:
    given: dict[int, list[list[int]]] = {}

    def publish(epoch: int) -> None:
        given[epoch] = [store.append(drafts(n, n + 1, epoch=epoch)) for n in range(0, 40, 2)]

    threads = [threading.Thread(target=publish, args=(epoch,)) for epoch in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    runs = [run for runs in given.values() for run in runs]
    assert all(second == first + 1 for first, second in runs)
    assert sorted(position for run in runs for position in run) == list(range(1, 241))
    for epoch, mine in given.items():
        assert mine == sorted(mine)
        assert store.find(Identity("till", epoch, 39)) == mine[-1][1]


# -- reading ---------------------------------------------------------------------------------------


@pytest.fixture
def mixed(store: Store, drafts: MakeDrafts) -> Store:
    """Orders at 1, 2, 4, 5, 7, 8; bills at 3, 6, 9."""
    for n in range(1, 10):
        store.append(drafts(n, name="shop.Bill" if n % 3 == 0 else "shop.Order"))
    return store


def test_types_are_numbered_as_they_come(mixed: Store) -> None:
    names = {number: each.name for number, each in mixed.types().items()}
    assert names == {1: "shop.Order", 2: "shop.Bill"}
    assert isinstance(mixed.types()[1], EventType)


@pytest.mark.parametrize(
    ("options", "positions", "upto"),
    [
        ({"start": 1}, [1, 2, 3, 4, 5, 6, 7, 8, 9], 10),
        ({"start": 0}, [1, 2, 3, 4, 5, 6, 7, 8, 9], 10),
        ({"start": -3}, [1, 2, 3, 4, 5, 6, 7, 8, 9], 10),
        ({"start": 4, "limit": 2}, [4, 5], 6),
        ({"start": 8, "limit": 2}, [8, 9], 10),
        ({"start": 4, "until": 6}, [4, 5], 6),
        ({"start": 4, "until": 99}, [4, 5, 6, 7, 8, 9], 10),
        ({"start": 4, "until": 4}, [], 4),
        ({"start": 4, "until": 2}, [], 4),
        ({"start": 10}, [], 10),
        ({"start": 50}, [], 50),
        ({"start": 1, "limit": 0}, [], 1),
        ({"start": 10, "limit": 0}, [], 10),
        ({"start": 1, "types": [2]}, [3, 6, 9], 10),
        ({"start": 1, "types": [2], "limit": 2}, [3, 6], 7),
        ({"start": 1, "types": [2], "limit": 3}, [3, 6, 9], 10),
        ({"start": 1, "types": [2], "limit": 2, "until": 9}, [3, 6], 9),
        ({"start": 4, "types": [2], "until": 6}, [], 6),
        ({"start": 1, "types": [2], "limit": 0}, [], 1),
        ({"start": 4, "types": [2, 1], "limit": 4}, [4, 5, 6, 7], 8),
        ({"start": 4, "types": {1, 2, 17}}, [4, 5, 6, 7, 8, 9], 10),
        ({"start": 1, "types": [17]}, [], 10),
        ({"start": 1, "types": []}, [], 10),
    ],
)
def test_a_read_gives_what_was_asked_and_how_far_it_looked(
    mixed: Store, options: dict[str, int], positions: list[int], upto: int
) -> None:
    batch = mixed.read(**options)
    assert (found(batch), batch.upto) == (positions, upto)


def test_many_types_come_in_the_order_of_the_log(store: Store, drafts: MakeDrafts) -> None:
    for n in range(1, 6):
        store.append([drafts(n * 1000 + kind, name=f"t{kind}")[0] for kind in range(230)])
    wanted = [number for number in store.types() if number % 2]
    batch = store.read(1, types=wanted, limit=300)
    assert found(batch) == [p for p in range(1, 1151) if (p - 1) % 230 % 2 == 0][:300]
    assert batch.upto == found(batch)[-1] + 1


def test_a_moment_is_found_by_its_time(
    store: Store, drafts: MakeDrafts, clock: ManualClock
) -> None:
    for n in range(1, 6):
        store.append(drafts(n * 2, n * 2 + 1))
        clock.advance(1)
    start = clock.time() - 5
    asked = [start - 1, start, start + 0.5, start + 1, start + 4, start + 4.5]
    assert [store.position_at(each) for each in asked] == [1, 1, 3, 3, 9, 11]
    store.truncate(6)
    assert store.position_at(start) == 6


# -- letting go ------------------------------------------------------------------------------------


def test_what_is_let_go_is_not_read_any_more(mixed: Store) -> None:
    assert mixed.truncate(4) == 3
    assert (mixed.oldest(), found(mixed.read(1, limit=2))) == (4, [4, 5])
    assert mixed.find(Identity("till", 1, 3)) is None
    assert mixed.truncate(4) == 0


def test_the_newest_is_never_let_go(mixed: Store, drafts: MakeDrafts) -> None:
    assert mixed.truncate(99) == 8
    assert (mixed.oldest(), mixed.newest()) == (9, 9)
    assert mixed.append(drafts(10)) == [10]


def test_letting_go_of_nothing_is_nothing(store: Store) -> None:
    assert store.truncate(5) == 0


# -- the state -------------------------------------------------------------------------------------


def test_a_change_that_raises_changes_nothing(store: Store) -> None:
    def work(transaction: Transaction) -> None:
        transaction.put_document("kind", "name", b"body")
        transaction.save(StoredSubscription("s", b"", 1, 1))
        raise KeyError("no")

    before = store.write(lambda t: t.put_document("kind", "other", b"kept"))
    future = store.write(work)
    after = store.write(lambda t: t.revision())
    before.result(10)
    with pytest.raises(KeyError):
        future.result(10)
    assert after.result(10) == 1
    with store.view() as view:
        assert view.documents("kind") == {"other": b"kept"}
        assert view.subscriptions() == []


def test_a_transaction_sees_its_own_changes(store: Store) -> None:
    def work(transaction: Transaction) -> list[str]:
        transaction.save(StoredSubscription("b", b"x", 1, 1))
        transaction.save(StoredSubscription("a", b"x", 1, 1))
        return [each.name for each in transaction.subscriptions()]

    assert store.write(work).result(10) == ["a", "b"]


def test_a_view_is_of_one_moment_or_holds_others_up(store: Store, drafts: MakeDrafts) -> None:
    with store.view() as view:
        assert (view.newest(), view.oldest()) == (0, 1)
    store.append(drafts(1))
    with store.view() as view:
        assert (view.newest(), view.oldest()) == (1, 1)


def test_descriptions_are_kept_once(store: Store) -> None:
    @dataclass
    class Order:
        item: str
        price: float = 1.0

    @dataclass
    class Bill:
        total: int

    for each in (Order, Bill, Order):
        store.write(lambda t, each=each: t.describe(describe(each))).result(10)  # type: ignore[misc]
    with store.view() as view:
        assert view.descriptions() == [describe(Order), describe(Bill)]
        assert view.revision() == 2


def test_each_opening_of_a_bus_has_the_next_epoch(store: Store) -> None:
    def opened(publisher: str) -> tuple[int, int]:
        made = store.write(
            lambda t: t.open_bus(publisher, until=5.0, address="here", process=7)
        ).result(10)
        with store.view() as view:
            assert made in view.buses()
        return made.id, made.epoch

    assert [opened(each) for each in ("p", "q", "p")] == [(1, 1), (2, 1), (3, 2)]
    assert store.write(lambda t: t.keep_bus(2, until=9.0)).result(10)
    store.write(lambda t: t.remove_bus(1)).result(10)
    with store.view() as view:
        assert [(each.id, each.until) for each in view.buses()] == [(2, 9.0), (3, 5.0)]
    assert not store.write(lambda t: t.keep_bus(1, until=9.0)).result(10)
    assert opened("p") == (4, 3)


def test_a_bus_that_is_removed_lets_go_of_all_it_had(store: Store) -> None:
    def arrange(transaction: Transaction) -> None:
        for bus in (1, 2):
            transaction.join(GroupMember("g", bus, 5))
            transaction.advertise(Advert(0, bus, "shop.Order"))
            transaction.save(StoredSubscription(f"s{bus}", b"", 1, 1, holder=bus, token=4))
            transaction.fly([Flight("g", bus, holder=bus, token=7)])

    store.write(arrange).result(10)
    store.write(lambda t: t.remove_bus(1)).result(10)
    with store.view() as view:
        assert view.members("g") == [GroupMember("g", 2, 5)]
        assert [each.bus for each in view.adverts()] == [2]
        assert [(each.holder, each.token) for each in view.subscriptions()] == [(None, 4), (2, 4)]
        assert [(each.holder, each.token) for each in view.flights("g")] == [(None, 8), (2, 7)]


def test_who_is_in_a_group_and_not_open_is_astray(store: Store) -> None:
    bus = store.write(lambda t: t.open_bus("p", until=5.0, address="", process=1)).result(10).id

    def arrange(transaction: Transaction) -> list[int]:
        for name, member in [("g", bus), ("g", 77), ("h", 77), ("h", 78)]:
            transaction.join(GroupMember(name, member, 1))
        return transaction.strays()

    assert store.write(arrange).result(10) == [77, 78]
    store.write(lambda t: t.remove_bus(77)).result(10)
    store.write(lambda t: t.remove_bus(bus)).result(10)
    store.write(lambda t: t.join(GroupMember("g", bus, 1))).result(10)
    with store.view() as view:
        assert view.strays() == [bus, 78]


def test_a_subscription_is_kept_with_all_it_has(store: Store) -> None:
    kept = StoredSubscription("n", b"\0def", 3, 5, False, True, False, 9, 2, 4, 12.5)
    store.write(lambda t: t.save(kept)).result(10)
    with store.view() as view:
        assert view.subscription("n") == kept
        assert view.subscription("m") is None
        assert view.lapsed(12.4) == []
        assert view.lapsed(12.5) == ["n"]


def test_who_takes_over_has_a_higher_token_than_anybody_before(store: Store) -> None:
    tokens = []
    for name in ("n", "m", "n"):
        tokens.append(
            store.write(lambda t, n=name: t.take_over(StoredSubscription(n, b"", 1, 1))).result(10)
        )  # type: ignore[misc]
        with store.view() as view:
            assert view.subscription(name) == StoredSubscription(name, b"", 1, 1, token=tokens[-1])
        store.write(lambda t, n=name: t.remove(n)).result(10)  # type: ignore[misc]
    assert tokens == sorted(set(tokens))


def test_a_cursor_moves_only_with_the_current_token(store: Store) -> None:
    store.write(lambda t: t.save(StoredSubscription("n", b"", 1, 1, token=3))).result(10)
    moves = [
        store.write(lambda t, token=token: t.move("n", token=token, cursor=token)).result(10)  # type: ignore[misc]
        for token in (2, 3, 4)
    ]
    assert moves == [False, True, False]
    assert not store.write(lambda t: t.move("m", token=0, cursor=1)).result(10)
    with store.view() as view:
        assert view.subscription("n") == StoredSubscription("n", b"", 1, 3, token=3)


def test_a_removed_subscription_takes_its_flights_and_members_along(store: Store) -> None:
    def arrange(transaction: Transaction) -> None:
        for name in ("a", "b"):
            transaction.save(StoredSubscription(name, b"", 1, 1))
            transaction.fly([Flight(name, 1)])
            transaction.join(GroupMember(name, 1, 1))

    store.write(arrange).result(10)
    store.write(lambda t: t.remove("a")).result(10)
    with store.view() as view:
        assert [each.name for each in view.subscriptions()] == ["b"]
        assert (view.flights("a"), view.members("a")) == ([], [])
        assert (view.flights("b"), view.members("b")) == (
            [Flight("b", 1)],
            [GroupMember("b", 1, 1)],
        )


def test_a_flight_is_claimed_once(store: Store) -> None:
    claims = [
        store.write(lambda t, bus=bus: t.claim(Flight("g", 5, holder=bus))).result(10)  # type: ignore[misc]
        for bus in (1, 2)
    ]
    assert claims == [True, False]
    with store.view() as view:
        assert view.flight("g", 5) == Flight("g", 5, holder=1)
        assert view.flight("g", 6) is None


def test_flights_that_nobody_holds_are_free_when_they_are_due(store: Store) -> None:
    flights = [
        Flight("g", 1, holder=1),
        Flight("g", 2, done=True),
        Flight("g", 3, due=10.0, attempts=2),
        Flight("g", 4, publisher="p", token=3),
        Flight("g", 5),
        Flight("h", 6),
    ]
    store.write(lambda t: t.fly(flights)).result(10)
    with store.view() as view:
        assert view.free("g", at=9.0, limit=9) == [flights[3], flights[4]]
        assert view.free("g", at=10.0, limit=2) == [flights[2], flights[3]]
        assert view.flights("g") == flights[:5]


def test_flights_land(store: Store) -> None:
    def work(transaction: Transaction) -> list[int]:
        transaction.fly([Flight("g", n, done=n % 2 == 0) for n in range(1, 2001)])
        transaction.land("g", range(3, 1900))
        transaction.land("g", [7, 1950])
        transaction.land_before("g", 1990)
        return [each.position for each in transaction.flights("g")]

    kept = [n for n in (1, *range(1900, 2001)) if n % 2 or n >= 1990]
    assert store.write(work).result(10) == kept


def test_dead_letters_are_kept_listed_and_taken_out(store: Store, drafts: MakeDrafts) -> None:
    letters = [
        Letter(0, name, n, drafts(n)[0].at(5.0), "why", 3, 6.0) for n, name in enumerate("aabab")
    ]
    store.write(lambda t: t.bury(letters)).result(10)
    with store.view() as view:
        assert [each.number for each in view.letters()] == [1, 2, 3, 4, 5]
        assert [each.number for each in view.letters(subscription="a", after=1)] == [2, 4]
        assert [each.number for each in view.letters(after=1, limit=2)] == [2, 3]
        assert (view.count_letters(), view.count_letters(subscription="b")) == (5, 2)
        assert view.letters(limit=1)[0].record == letters[0].record
    out = store.write(lambda t: t.exhume([5, 2, 9, 2])).result(10)
    assert [(each.number, each.position) for each in out] == [(2, 1), (5, 4)]
    store.write(lambda t: t.bury(letters[:1])).result(10)
    with store.view() as view:
        assert [letter.number for letter in view.letters()] == [1, 3, 4, 6]


def test_adverts_are_kept_until_withdrawn(store: Store) -> None:
    numbers = [
        store.write(lambda t, what=what: t.advertise(Advert(0, 1, what, 9.0))).result(10)  # type: ignore[misc]
        for what in ("a", "b")
    ]
    store.write(lambda t: t.withdraw(numbers[0])).result(10)
    with store.view() as view:
        assert view.adverts() == [Advert(numbers[1], 1, "b", 9.0)]


def test_documents_are_kept_by_kind_and_name(store: Store) -> None:
    def work(transaction: Transaction) -> None:
        transaction.put_document("k", "b", b"2")
        transaction.put_document("k", "a", b"1")
        transaction.put_document("k", "b", b"3")
        transaction.put_document("other", "b", b"4")
        transaction.remove_document("other", "nobody")
        transaction.remove_document("other", "b")

    store.write(work).result(10)
    with store.view() as view:
        assert view.documents("k") == {"a": b"1", "b": b"3"}
        assert (view.document("k", "a"), view.document("other", "b")) == (b"1", None)
        assert view.revision() == 5


# -- its life --------------------------------------------------------------------------------------


def test_who_watches_is_called_after_each_change(store: Store, drafts: MakeDrafts) -> None:
    woken = threading.Semaphore(0)
    store.watch(woken.release)
    store.append(drafts(1))
    assert woken.acquire(timeout=10)
    store.write(lambda t: t.put_document("k", "n", b"")).result(10)
    assert woken.acquire(timeout=10)


def test_a_closed_store_takes_nothing(store: Store, drafts: MakeDrafts) -> None:
    store.close()
    with pytest.raises(StoreClosedError):
        store.submit(drafts(1)).result(10)
    with pytest.raises(StoreClosedError):
        store.write(lambda t: None).result(10)
    store.close()
    assert store.failure is None


@pytest.mark.parametrize("types", [None, [1]])
def test_a_read_ends_with_the_record_that_makes_up_its_size(
    store: Store, drafts: MakeDrafts, types: list[int] | None
) -> None:
    large = [replace(each, payload=b"x" * 1_000) for each in drafts(1, 2, 3, 4)]
    store.append(large)
    found = [store.read(start, types=types, size=1_500) for start in (1, 3)]
    assert [[each.position for each in batch.entries] for batch in found] == [[1, 2], [3, 4]]
    assert [batch.upto for batch in found] == [3, 5]
    assert len(store.read(1, types=types, size=0).entries) == 1  # a read gets on


def test_a_size_does_not_let_a_read_pass_what_it_has_not_looked_at(
    store: Store, drafts: MakeDrafts
) -> None:
    store.append([*drafts(1, 2), *drafts(3, name="shop.Other"), *drafts(4)])
    assert store.read(1, size=1_000_000).upto == 5
    assert store.read(1, limit=2, size=1_000_000).upto == 3


@pytest.mark.parametrize("types", [None, [1]])
def test_a_read_tells_whether_there_may_be_more(
    store: Store, drafts: MakeDrafts, types: list[int] | None
) -> None:
    store.append([replace(each, payload=b"x" * 1_000) for each in drafts(1, 2, 3, 4)])
    assert store.read(1, types=types, limit=3).more
    assert store.read(1, types=types, size=1_500).more
    for start, options in [(1, {}), (3, {"limit": 3}), (5, {"size": 1}), (1, {"until": 3})]:
        # Who asks a broker is not told.
        assert store.read(start, types=types, **options).more == store.is_remote


def test_news_tell_whether_there_may_be_more(store: Store, drafts: MakeDrafts) -> None:
    store.append([replace(each, payload=b"x" * 1_000) for each in drafts(1, 2, 3, 4)])
    if store.is_remote:
        return  # they are sent, and not before somebody has asked once
    assert (store.news(1, size=1_500).upto, store.news(1, size=1_500).more) == (3, True)
    assert store.news(1, limit=2).more
    assert not any(store.news(start, limit=2, size=5_000).more for start in (3, 4, 5))
