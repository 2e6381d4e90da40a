"""Every store keeps which context an event comes from, its root form, and what contexts were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from store_drafts import MakeDrafts, make_drafts

from polycast.errors import NotSerialisableError
from polycast.events import Identity, Root
from polycast.stores import (
    ContextVersion,
    Draft,
    Effect,
    EventType,
    Letter,
    Retention,
    Run,
    Store,
    StoredSubscription,
    Stray,
    Transaction,
    retain,
)
from polycast.stores.sqlite import SqliteStore, back_up, restore
from polycast.stores.sqlite.event_log import (
    OF_ROOT,
    OF_TYPE,
    count_records,
    merged_by_position,
    skip_records,
)
from polycast.testing import ManualClock

ORDER = Root("shop.Order", 1, "shop.Order".ljust(32, "0"), b'{"eur":4}')


def abroad(sequence: int, name: str = "us.Order", root: Root | None = ORDER) -> Draft:
    """An event of the context us."""
    return replace(make_drafts(sequence, name=name)[0], context="us", root=root)


def own(sequence: int, name: str = "shop.Order") -> Draft:
    """An event of the context us that is what it is in the root."""
    draft = make_drafts(sequence, name=name)[0]
    return replace(draft, context="us", root=Root(draft.name, draft.version, draft.hash, b""))


def numbers(store: Store, *names: str) -> list[int]:
    return [number for number, each in store.types().items() if each.name in names]


def found(store: Store, *names: str, **options: int) -> list[int]:
    batch = store.read(1, types=numbers(store, *names), **options)  # type: ignore[arg-type]
    return [each.position for each in batch.entries]


# -- records ---------------------------------------------------------------------------------------


def test_a_record_knows_its_context_and_its_root_form(store: Store) -> None:
    drafts = [abroad(1), own(2), abroad(3, root=None), *make_drafts(4)]
    store.append(drafts)
    records = [each.record for each in store.read(1).entries]
    assert records == [draft.at(each.time) for draft, each in zip(drafts, records, strict=True)]
    assert [each.context for each in records] == ["us", "us", "us", None]
    assert [each.is_own_root for each in records] == [False, True, False, False]


def test_a_run_has_one_class_of_root_forms(store: Store) -> None:
    about = ("us.Order", 1, "7" * 32, Identity("till", 1, 1), "json", [b"1", b"2"])
    run = Run(*about, context="us", root=replace(ORDER, payload=b""), roots=[b"a", b"b"])  # type: ignore[arg-type]
    assert store.append([run]) == [1, 2]
    stored = store.read(1).entries
    assert [each.record for each in stored] == [
        draft.at(each.record.time) for draft, each in zip(run.drafts(), stored, strict=True)
    ]
    forms = [each.record.root for each in stored]
    assert forms == [replace(ORDER, payload=b"a"), replace(ORDER, payload=b"b")]


def test_a_record_that_could_not_leave_its_context_can_have_a_root_form_late(store: Store) -> None:
    store.append([abroad(1, root=None), abroad(2), *make_drafts(3, name="a.A"), own(4)])
    assert store.write(lambda tx: [tx.give_root(at, ORDER) for at in range(1, 6)]).result() == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert [each.record.root for each in store.read(1).entries][:3] == [ORDER, ORDER, None]
    assert found(store, "shop.Order") == [1, 2, 4]


def test_a_root_form_that_is_the_event_itself_can_come_late(store: Store) -> None:
    draft = abroad(1, root=None)
    store.append([draft])
    itself = Root(draft.name, draft.version, draft.hash, b"")
    assert store.write(lambda tx: tx.give_root(1, itself)).result()
    [stored] = store.read(1).entries
    assert stored.record.is_own_root


def test_a_root_form_that_is_undone_was_never_there(store: Store) -> None:
    store.append([abroad(1, root=None)])

    def give_up(tx: Transaction) -> None:
        tx.give_root(1, ORDER)
        raise KeyError("no")

    with pytest.raises(KeyError):
        store.write(give_up).result()
    assert [each.record.root for each in store.read(1).entries] == [None]
    assert store.write(lambda tx: tx.give_root(1, ORDER)).result()
    assert found(store, "shop.Order") == [1]


def test_what_is_astray_is_a_letter_with_the_event(store: Store) -> None:
    store.append(make_drafts(1, 2))
    astray = [Stray(1, "context us", "it raised")]
    events = [abroad(3, root=None), abroad(4, root=None)]
    for _ in range(2):  # a retry is the same event, and one letter is enough
        assert store.submit(events, astray=astray).result() == [3, 4]
    with store.view() as view:
        [letter] = view.letters()
    assert (letter.subscription, letter.position, letter.reason) == ("context us", 4, "it raised")
    assert letter.record.identity == store.read(4).entries[0].record.identity


def test_runs_that_differ_in_their_context_alone_are_told_apart(store: Store) -> None:
    def run(sequence: int, context: str | None, root: Root | None) -> Run:
        first = Identity("till", 1, sequence)
        return Run("a.A", 1, "h", first, "json", [b"1"], context=context, root=root)

    itself = Root("a.A", 1, "h", b"")
    store.append([run(1, None, None), run(2, "us", None), run(3, "us", itself), run(4, "uk", None)])
    records = [each.record for each in store.read(1).entries]
    assert [(each.context, each.root) for each in records] == [
        (None, None),
        ("us", None),
        ("us", itself),
        ("uk", None),
    ]


@pytest.mark.parametrize(
    ("root", "roots"), [(None, [b"a", b"b"]), (ORDER, [b"a"]), (ORDER, [b"a", b"b", b"c"])]
)
def test_a_run_with_other_root_forms_than_events_cannot_be_made(
    root: Root | None, roots: list[bytes]
) -> None:
    about = ("us.Order", 1, "7" * 32, Identity("till", 1, 1), "json", [b"1", b"2"])
    with pytest.raises(ValueError, match="as many as events are accepted"):
        Run(*about, context="us", root=root, roots=roots)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        replace(abroad(2), context=None),
        replace(abroad(2), root=replace(ORDER, payload=b"")),
        Run("a", 1, "h", Identity("p", 1, 2), "json", [b""], context="us", root=ORDER, roots=[b""]),
    ],
    ids=["no context", "no payload", "no payload in a run"],
)
def test_what_contradicts_itself_is_refused_with_all_beside_it(
    store: Store, bad: Draft | Run
) -> None:
    with pytest.raises(NotSerialisableError):
        store.append([abroad(1), bad])
    assert (store.newest(), store.types()) == (0, {})


def test_a_dead_letter_keeps_the_context_and_the_root_form(store: Store) -> None:
    letters = [Letter(0, "a", n, abroad(n).at(1.0), "it failed", 1, 2.0) for n in (1, 2)]
    store.write(lambda tx: tx.bury(letters)).result(10)
    with store.view() as view:
        kept = [letter.number for letter in view.letters()]
        assert [each.record for each in view.letters()] == [each.record for each in letters]
    taken = store.write(lambda tx: tx.exhume(kept)).result(10)
    assert [each.record.root for each in taken] == [ORDER, ORDER]


# -- reading by type -------------------------------------------------------------------------------


def test_the_classes_of_root_forms_have_numbers_too(store: Store) -> None:
    store.append(
        [*make_drafts(1, name="a.A"), abroad(2), own(3, name="b.B"), abroad(4, name="c.C")]
    )
    assert [each.name for each in store.types().values()] == [
        "a.A",
        "us.Order",
        "shop.Order",
        "b.B",
        "c.C",
    ]
    assert store.types()[3] == EventType(ORDER.name, ORDER.version, ORDER.hash)


def test_a_record_is_found_by_its_class_and_by_that_of_its_root_form(store: Store) -> None:
    store.append([abroad(1), *make_drafts(2), own(3), abroad(4, root=None), abroad(5)])
    assert found(store, "shop.Order") == [1, 2, 3, 5]
    assert found(store, "us.Order") == [1, 4, 5]
    assert found(store, "shop.Order", "us.Order") == [1, 2, 3, 4, 5]
    assert found(store) == []


def test_a_limit_counts_each_record_once(store: Store) -> None:
    store.append([abroad(n) if n % 2 else make_drafts(n)[0] for n in range(1, 11)])
    wanted = numbers(store, "shop.Order", "us.Order")
    batches = [store.read(at, types=wanted, limit=4) for at in (1, 5, 9)]
    assert [[each.position for each in batch.entries] for batch in batches] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10],
    ]
    assert [batch.upto for batch in batches] == [5, 9, 11]


def test_very_many_types_are_read_with_their_root_forms(store: Store) -> None:
    drafts = [abroad(n, name=f"us.T{n}") for n in range(150)]
    forms = [replace(ORDER, name=f"shop.T{n}") for n in range(150)]
    store.append([replace(each, root=form) for each, form in zip(drafts, forms, strict=True)])
    assert found(store, *(each.name for each in forms)) == list(range(1, 151))
    everything = [each.name for each in (*forms, *drafts)]
    assert found(store, *everything) == list(range(1, 151))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """Sixty records of four types, some with root forms of one of these."""
    store = SqliteStore(tmp_path_factory.mktemp("mixed") / "store.db", clock=ManualClock())
    kinds = ("shop.Order", "us.Order", "a.A", "b.B")
    for n in range(60):
        name = kinds[(n * 7 + n // 3) % 4]
        is_abroad = name != "shop.Order" and n % 2
        store.append([abroad(n, name=name) if is_abroad else make_drafts(n, name=name)[0]])
    yield store
    store.close()


@given(
    types=st.lists(st.integers(0, 5), max_size=4, unique=True),
    low=st.integers(1, 62),
    width=st.integers(0, 62),
    count=st.integers(0, 20),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_counting_agrees_with_reading(
    mixed: SqliteStore, types: list[int], low: int, width: int, count: int
) -> None:
    high = min(low + width, 61)
    there = [each.position for each in mixed.read(low, types=types, until=high).entries]
    with mixed.snapshot() as connection:
        assert count_records(connection, types, low, high) == len(there)
        cut = skip_records(connection, types, low, high, count)
    assert cut == (there[count] if len(there) > count else high)


def test_reading_root_forms_uses_the_index_and_sorts_nothing(mixed: SqliteStore) -> None:
    with mixed.snapshot() as connection:
        sql = f"EXPLAIN QUERY PLAN {merged_by_position([OF_TYPE] * 2 + [OF_ROOT] * 3)}"
        values = [0] * (2 * 3 + 3 * 4 + 1)
        plan = [str(row[-1]) for row in connection.execute(sql, values)]
    searches = [step for step in plan if step.startswith(("SEARCH log", "SCAN log"))]
    by = "SEARCH log USING INDEX log_by_{0} ({0}=? AND rowid>? AND rowid<?)"
    assert searches == [by.format("type")] * 2 + [by.format("root")] * 3
    assert not [step for step in plan if "B-TREE" in step]


# -- contexts --------------------------------------------------------------------------------------


@pytest.fixture
def filled(store: Store, drafts: MakeDrafts) -> Store:
    """Ten events."""
    store.append(drafts(*range(1, 11)))
    return store


def put(store: Store, name: str, body: bytes = b"{}") -> ContextVersion:
    return store.write(lambda tx: tx.put_context(name, body)).result(10)


def end(store: Store, name: str) -> None:
    store.write(lambda tx: tx.end_context(name)).result(10)


def revision(store: Store) -> int:
    with store.view() as view:
        return view.revision()


def test_a_new_store_has_no_contexts(store: Store) -> None:
    with store.view() as view:
        assert (view.context("us"), view.contexts(), view.contexts(at=1)) == (None, [], [])
        assert view.in_effect(1) == Effect(0, 0, 0)


def test_a_context_begins_after_the_end_of_the_log(filled: Store, drafts: MakeDrafts) -> None:
    assert put(filled, "us", b"x") == ContextVersion(1, "us", b"x", 11)
    filled.append(drafts(11))
    assert put(filled, "uk", b"y") == ContextVersion(2, "uk", b"y", 12)
    with filled.view() as view:
        assert view.context("us") == ContextVersion(1, "us", b"x", 11)
        assert [[each.name for each in view.contexts(at=at)] for at in (10, 11, 12)] == [
            [],
            ["us"],
            ["us", "uk"],
        ]


def test_a_new_version_takes_the_place_of_the_one_before(filled: Store, drafts: MakeDrafts) -> None:
    put(filled, "us", b"old")
    filled.append(drafts(11, 12))
    assert put(filled, "us", b"new") == ContextVersion(2, "us", b"new", 13)
    with filled.view() as view:
        assert view.context("us") == ContextVersion(2, "us", b"new", 13)
        assert view.contexts(at=12) == [ContextVersion(1, "us", b"old", 11, 13)]
        assert view.contexts(at=13) == [ContextVersion(2, "us", b"new", 13)]
        assert len(view.contexts()) == 2


def test_the_same_body_again_changes_nothing(filled: Store, drafts: MakeDrafts) -> None:
    first = put(filled, "us", b"x")
    filled.append(drafts(11))
    before = revision(filled)
    assert put(filled, "us", b"x") == first
    assert revision(filled) == before
    with filled.view() as view:
        assert view.contexts() == [first]


def test_a_version_that_no_event_met_leaves_nothing_but_its_number(filled: Store) -> None:
    put(filled, "us", b"old")
    assert put(filled, "us", b"new") == ContextVersion(2, "us", b"new", 11)
    end(filled, "us")
    with filled.view() as view:
        assert (view.contexts(), view.turns(0, 99)) == ([], [])
    assert put(filled, "us", b"old").number == 3


def test_a_context_that_ended_is_in_effect_where_it_was(filled: Store, drafts: MakeDrafts) -> None:
    put(filled, "us")
    filled.append(drafts(11))
    end(filled, "us")
    before = revision(filled)
    end(filled, "us")
    end(filled, "nobody")
    assert revision(filled) == before
    with filled.view() as view:
        assert view.context("us") is None
        assert view.contexts(at=11) == [ContextVersion(1, "us", b"{}", 11, 12)]
        assert view.contexts(at=12) == []


def test_every_change_of_a_context_is_a_revision(filled: Store, drafts: MakeDrafts) -> None:
    seen = [revision(filled)]
    for change in (
        lambda: put(filled, "us", b"1"),
        lambda: put(filled, "us", b"2"),
        lambda: filled.append(drafts(11)),
        lambda: put(filled, "us", b"3"),
        lambda: end(filled, "us"),
    ):
        change()
        seen.append(revision(filled))
    steps = [after - before for before, after in pairwise(seen)]
    assert [step > 0 for step in steps] == [True, True, False, True, True]


def test_contexts_turn_the_plan_as_routes_do(filled: Store, drafts: MakeDrafts) -> None:
    filled.write(lambda tx: tx.begin_route("a", b"{}")).result(10)
    filled.append(drafts(11))
    put(filled, "us", b"1")
    filled.append(drafts(12))
    put(filled, "us", b"2")
    put(filled, "uk")
    filled.append(drafts(13))
    end(filled, "us")
    filled.append(drafts(14))
    filled.write(lambda tx: tx.begin_route("b", b"{}")).result(10)
    with filled.view() as view:
        assert view.turns(0, 99) == [11, 12, 13, 14, 15]
        assert (view.turns(11, 14), view.turns(13, 15)) == ([12, 13], [14])
        assert [view.last_turn(at) for at in (10, 11, 12, 14, 99)] == [0, 11, 12, 14, 15]
        assert [view.in_effect(at) for at in (10, 11, 12, 13, 14, 15)] == [
            Effect(0, 0, 0),
            Effect(1, 1, 0),
            Effect(1, 2, 1),
            Effect(1, 4, 2),
            Effect(1, 4, 1),
            Effect(2, 5, 1),
        ]


def test_versions_that_ended_are_forgotten_and_others_are_not(
    filled: Store, drafts: MakeDrafts
) -> None:
    for n, body in enumerate((b"1", b"2", b"3"), 11):
        put(filled, "us", body)
        filled.append(drafts(n))
    filled.write(lambda tx: tx.forget_contexts(12)).result(10)
    with filled.view() as view:
        assert [(each.body, each.until) for each in view.contexts()] == [(b"2", 13), (b"3", None)]
    assert put(filled, "us", b"4").number == 4


def test_a_number_is_never_given_again(filled: Store, drafts: MakeDrafts) -> None:
    put(filled, "us")
    filled.append(drafts(11))
    end(filled, "us")
    filled.write(lambda tx: tx.forget_contexts(99)).result(10)
    assert filled.write(lambda tx: tx.begin_route("a", b"{}")).result(10).number == 2
    assert put(filled, "us").number == 3


def test_a_change_that_raises_puts_no_context(filled: Store) -> None:
    def work(tx: Transaction) -> None:
        tx.put_context("us", b"{}")
        raise LookupError

    before = revision(filled)
    assert isinstance(filled.write(work).exception(10), LookupError)
    with filled.view() as view:
        assert (view.contexts(), view.revision()) == ([], before)


def test_retention_forgets_what_contexts_were_when_the_events_of_that_time_are_gone(
    filled: Store, drafts: MakeDrafts, clock: ManualClock
) -> None:
    filled.write(lambda tx: tx.save(StoredSubscription("a", b"{}", 1, 13))).result(10)
    put(filled, "us", b"1")
    filled.append(drafts(11, 12))
    put(filled, "us", b"2")
    filled.append(drafts(13, 14))
    end(filled, "us")
    filled.append(drafts(15))
    Retention(delivered=True).keep_in(filled)
    with filled.view() as view:
        assert len(view.contexts()) == 2
    assert retain(filled, lambda _: clock.time()) == 12
    with filled.view() as view:
        assert [each.body for each in view.contexts()] == [b"2"]
    filled.write(lambda tx: tx.move("a", token=0, cursor=15)).result(10)
    retain(filled, lambda _: clock.time())
    with filled.view() as view:
        assert view.contexts() == []


def test_a_restored_store_has_the_contexts_and_their_events(
    open_sqlite: Callable[..., SqliteStore], tmp_path: Path
) -> None:
    store = open_sqlite()
    put(store, "us", b"1")
    store.append([abroad(1)])
    put(store, "us", b"2")
    back_up(store.path, tmp_path / "copy.db")
    restore(tmp_path / "copy.db", tmp_path / "new.db")
    new = open_sqlite(tmp_path / "new.db")
    with new.view() as view, store.view() as old:
        assert view.contexts() == old.contexts()
    assert new.read(1) == store.read(1)
    assert found(new, "shop.Order") == [1]
