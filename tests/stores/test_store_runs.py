"""Runs of drafts, and what is under way, in both stores."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_drafts import MakeDrafts

from polycast.events import Identity
from polycast.stores import Draft, Flight, Run, Store, StoredSubscription


def run_of(first: int, *payloads: bytes, name: str = "shop.Order", publisher: str = "till") -> Run:
    identity = Identity(publisher, 1, first)
    return Run(name, 1, name, identity, "msgpack", list(payloads), topic="/a", headers={"h": "v"})


def test_a_run_is_appended_as_its_drafts_are(store: Store) -> None:
    run = run_of(5, b"one", b"two", b"")
    assert store.append([run]) == [1, 2, 3]
    stored = store.read(1).entries
    assert [each.record for each in stored] == [
        draft.at(each.record.time) for draft, each in zip(run.drafts(), stored, strict=True)
    ]


def test_runs_and_drafts_go_together_in_their_order(store: Store, drafts: MakeDrafts) -> None:
    mixed: list[Draft | Run] = [run_of(1, b"a", b"b"), *drafts(3), run_of(4, b"c", name="x.Y")]
    assert store.append(mixed) == [1, 2, 3, 4]
    found = [each.record for each in store.read(1).entries]
    assert [each.identity.sequence for each in found] == [1, 2, 3, 4]
    assert [each.name for each in found] == ["shop.Order", "shop.Order", "shop.Order", "x.Y"]


def test_a_run_that_is_there_in_part_is_completed(store: Store) -> None:
    store.append([run_of(2, b"b")])
    assert store.append([run_of(1, b"a", b"b", b"c")]) == [2, 1, 3]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 9),
            st.lists(st.binary(max_size=300), min_size=1, max_size=4),
            st.sampled_from(["a.A", "b.B"]),
            st.sampled_from(["till", "shop"]),
        ),
        max_size=5,
    )
)
def test_any_runs_give_positions_that_hold_their_identities(
    store: Store, given_runs: list[tuple[int, list[bytes], str, str]]
) -> None:
    runs = [run_of(f, *p, name=name, publisher=who) for f, p, name, who in given_runs]
    positions = store.append(runs)
    identities = [identity for run in runs for identity in run.identities()]
    assert positions == [store.find(identity) for identity in identities]


def test_what_is_under_way_is_what_is_not_done(store: Store) -> None:
    store.write(lambda tx: tx.save(StoredSubscription("n", b"", 1, 9))).result()
    flights = [Flight("n", 3, done=True), Flight("n", 4), Flight("n", 6), Flight("m", 2, done=True)]
    store.write(lambda tx: tx.fly(flights)).result()
    with store.view() as view:
        assert [each.position for each in view.under_way("n")] == [4, 6]
        assert view.under_way("m") == []
        assert view.held_back() == {"n": 4}
