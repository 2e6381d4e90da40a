"""The benchmark asks every contender the same, and says what it leaves out."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import matching_contenders
import matching_ours
import matching_peers
import matching_peers_figures
import matching_rules
import msgspec
import pytest
import ready10
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_contenders import POLYCAST, POLYCAST_JSON, LeftOut, Running
from matching_rules import Has, Is, Like, Rule, Within
from matching_workloads import SMALL, WORKLOADS, reduced
from measure import Effort
from peer_evaluators import nested

import polycast as pc

SAMPLE = 60
FORMS = {"event-ruler": (matching_rules.event_ruler, nested)}
mixes = st.sampled_from([*ready10.MIXES.values()])
seeds = st.integers(0, 10**6)


def answers(peer: str, rule: Rule, events: list[dict[str, object]]) -> list[bool]:
    write, holds = FORMS[peer]
    written = json.loads(write(rule))
    return [holds(written, event) for event in events]


@pytest.mark.parametrize("peer", FORMS)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(mix=mixes, seed=seeds)
def test_a_subscription_of_ready10_means_the_same_to_a_peer(
    peer: str, mix: ready10.Mix, seed: int
) -> None:
    (subscription,) = ready10.subscriptions(1, mix, seed=seed)
    (test,) = ready10.functions([subscription])
    events = ready10.events(SAMPLE, seed=seed)

    found = answers(
        peer, matching_rules.of_ready10(subscription), [asdict(event) for event in events]
    )

    assert found == [bool(test(event)) for event in events]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(mix=mixes, seed=seeds)
def test_polycast_is_asked_the_very_filter_of_ready10(mix: ready10.Mix, seed: int) -> None:
    (subscription,) = ready10.subscriptions(1, mix, seed=seed)

    assert matching_rules.tree(matching_rules.of_ready10(subscription)) == ready10.tree(
        subscription
    )


@pytest.mark.parametrize("name", WORKLOADS)
def test_all_contenders_find_the_same_in_a_workload(name: str) -> None:
    work = WORKLOADS[name](40, count=SAMPLE)
    paths = [path for rule in work.rules for path, _ in rule]
    lines = work.events
    whole = [msgspec.json.decode(line, type=work.kind) for line in lines]
    small = [msgspec.json.decode(line, type=reduced(work.kind, paths)) for line in lines]
    plain = [json.loads(line) for line in lines]
    matched = 0
    for rule in work.rules:
        test = pc.Filter(matching_rules.tree(rule))
        wanted = [test.matches(event) for event in whole]
        assert [test.matches(event) for event in small] == wanted
        for peer in FORMS:
            assert answers(peer, rule, plain) == wanted
        matched += sum(wanted)
    assert matched > 0


def test_a_wrong_bound_is_noticed() -> None:
    event = {"alpha": 0.5}
    assert answers("event-ruler", (("alpha", Within(0.5, 0.7)),), [event]) == [True]
    assert answers("event-ruler", (("alpha", Within(0.5, 0.7, strictly=True)),), [event]) == [False]


def test_all_of_these_is_any_of_these_to_who_has_no_such_pattern() -> None:
    rule: Rule = (("tags[]", Has(("a", "b"))),)
    one = [{"tags": ["a"]}]
    assert {peer: answers(peer, rule, one) for peer in FORMS} == {"event-ruler": [True]}


def test_stars_that_counting_does_not_say_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a\*b\*c\*"):
        Like(("a", "b", "c", ""))


def test_two_conditions_at_one_place_are_not_lost() -> None:
    rule: Rule = (("a", Is((1,))), ("a", Is((2,))))
    for write, _ in FORMS.values():
        with pytest.raises(matching_rules.NotExpressible, match="two conditions at a"):
            write(rule)


def test_a_struct_holds_only_what_the_rules_ask() -> None:
    work = SMALL["city lots, COMPLEX"](1, count=5)
    paths = [path for rule in work.rules for path, _ in rule]
    lot = msgspec.json.decode(work.events[0], type=reduced(work.kind, paths))
    assert lot.__struct_fields__ == ("geometry",)
    assert lot.geometry.__struct_fields__ == ("type", "coordinates")
    assert set(lot.geometry.coordinates[0].__struct_fields__) == {"x", "z"}


def test_the_page_has_a_place_for_every_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks" / "matching-peers.md").read_text(
        "utf-8"
    )
    for table in matching_peers_figures.tables([], {}):
        assert page.count(f"| {' | '.join(table.columns)} |\n") == 1


def test_there_is_code_for_the_peers_that_are_fetched_and_for_no_other() -> None:
    def plain(name: str) -> str:
        return name.replace("_", "-")

    peers = {peer.name for peer in matching_contenders.PEERS}
    assert {plain(each.name) for each in matching_contenders.SOURCES.iterdir()} == peers
    assert peers == set(FORMS) == set(matching_contenders.NAMES) - {POLYCAST, POLYCAST_JSON}


# -- leaving out -----------------------------------------------------------------------------------


def test_a_peer_without_its_tool_is_left_out_with_the_name_of_the_tool() -> None:
    with pytest.raises(LeftOut, match=r"^not installed: javac, mvn$"):
        matching_contenders.PEERS[0].command(find=lambda tool: tool if tool == "java" else None)


def test_a_tool_that_fails_is_quoted_in_one_line(tmp_path: Path) -> None:
    script = "import sys; sys.exit('first\\n[ERROR] the registry says: 403 Forbidden\\nlast')"
    with pytest.raises(LeftOut, match=r"failed: \[ERROR\] .*: 403 Forbidden$") as caught:
        matching_contenders.asked([sys.executable, "-c", script], tmp_path)
    assert "\n" not in matching_contenders.left_out("event-ruler", caught.value)


def test_a_tool_that_does_not_end_is_left_out(tmp_path: Path) -> None:
    endless = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(LeftOut, match="took more than 0 s"):
        matching_contenders.asked(endless, tmp_path, limit=0.0)


def test_a_contender_that_is_too_slow_ends_and_says_the_limit() -> None:
    with pytest.raises(LeftOut, match="more than 0 s"):
        Running("slow", [sys.executable, "-c", "input()"], limit=0.0)


def test_a_contender_that_breaks_is_quoted() -> None:
    with pytest.raises(LeftOut, match="it ended: no such rule"):
        Running("broken", [sys.executable, "-c", "exit('no such rule')"], limit=30.0)


def test_a_contender_answers_one_command_after_the_other() -> None:
    script = "print('0.5', flush=True)\nwhile True: print(*input().split()[1:], flush=True)"
    with Running("echo", [sys.executable, "-c", script], limit=30.0) as echo:
        assert echo.built == ["0.5"]
        assert echo.counts(7) == [7]
        assert echo.run(3) >= 0.0
        assert [events for events, _, _ in echo.spent] == [3]


def test_polycast_obeys_as_the_peers_do() -> None:
    work = SMALL["city lots, ANYTHING-BUT"](1, count=5)
    for way in (matching_ours.OBJECTS, matching_ours.JSON):
        _, events, count = matching_ours.built(work, way)
        counts, first, second = matching_ours.obey(events, count, ["count 3", "run 2", "run 1"])
        assert sum(map(int, counts.split())) == int(first) + int(second)


def counting(name: str, number: int) -> Running:
    script = f"print(0, flush=True)\nwhile input(): print({number}, flush=True)"
    return Running(name, [sys.executable, "-c", script], limit=30.0)


def test_who_finds_something_else_takes_no_part(capsys: pytest.CaptureFixture[str]) -> None:
    with counting(POLYCAST, 1) as one, counting("same", 1) as same, counting("other", 2) as other:
        taking = matching_peers.Race({each.name: each for each in (one, same, other)})
        matching_peers._agree(taking, "a workload")
        assert [*taking.running] == [POLYCAST, "same"]
        assert taking.missing == {"other": "other matches"}
    assert capsys.readouterr().out == "left out: other; it finds other matches in a workload\n"


def test_polycast_itself_is_never_left_out() -> None:
    with counting(POLYCAST, 1) as one, counting(POLYCAST_JSON, 2) as other:
        taking = matching_peers.Race({each.name: each for each in (one, other)})
        with pytest.raises(RuntimeError, match="polycast, JSON: other matches"):
            matching_peers._agree(taking, "a workload")


def test_who_breaks_in_a_race_is_left_out_and_the_others_begin_anew() -> None:
    script = "print(0, flush=True); input(); exit('too much')"
    with counting(POLYCAST, 1) as one:
        broken = Running("broken", [sys.executable, "-c", script], limit=30.0)
        taking = matching_peers.Race({POLYCAST: one, "broken": broken})
        effort = Effort(rounds=1, slice=1e-9)
        assert [*matching_peers._raced(taking, effort)] == [POLYCAST]
        assert taking.missing == {"broken": "it ended: too much"}
