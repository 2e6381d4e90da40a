"""What is explained, in the process and by the shell, is what becomes of events."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from explained_world import (
    FILTERS,
    SURE,
    Letter,
    LocalNote,
    LocalWare,
    Priced,
    Sellable,
    Toy,
    Ware,
    federation,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.cli import main

OpenBus = Callable[..., pc.Bus]
ROOT_TYPES: tuple[Any, ...] = (Ware, Toy, Letter)
LOCAL_TYPES: tuple[Any, ...] = (LocalWare, LocalNote)
SELECTED: tuple[Any, ...] = (object, Priced, Sellable, Ware | Letter, *ROOT_TYPES, *LOCAL_TYPES)
names = itertools.count(1)


@dataclass(frozen=True)
class Sent:
    """An event, as it is published."""

    event: Any
    topic: str | None
    context: str | None


@dataclass(frozen=True)
class Case:
    """A subscription, what was published before it, and what comes."""

    what: Any
    where: str
    exact: bool
    topic: str | None
    context: str | None
    since: str | None
    level: str
    before: list[Sent]
    after: list[Sent]


def sent() -> st.SearchStrategy[Sent]:
    topic = st.sampled_from([None, "/a", "/a/b", "/c"])
    price, name = st.integers(0, 10), st.sampled_from("ab")
    at_root = st.one_of(
        st.builds(Letter, name), *(st.builds(cls, price, name) for cls in (Ware, Toy))
    )
    local = st.one_of(*(st.builds(cls, price, name) for cls in (*LOCAL_TYPES, Ware)))
    return st.one_of(
        st.builds(Sent, at_root, topic, st.none()), st.builds(Sent, local, topic, st.just("us"))
    )


CASES = st.builds(
    Case,
    what=st.sampled_from(SELECTED),
    where=st.sampled_from(sorted(FILTERS)),
    exact=st.sampled_from([False, False, True]),
    topic=st.sampled_from([None, None, "/a/**", "/c"]),
    context=st.sampled_from([None, "us"]),
    since=st.sampled_from([None, "beginning"]),
    level=st.sampled_from(["strong_set", "sorted_set"]),
    before=st.lists(sent(), max_size=3),
    after=st.lists(sent(), min_size=1, max_size=5),
)


@pytest.fixture
def market(open_bus: OpenBus) -> pc.Bus:
    return open_bus(federation=federation())


def publish(bus: pc.Bus, each: Sent) -> int:
    there = bus if each.context is None else bus.within(each.context)
    return there.publish(each.event, topic=each.topic).position


def shown(url: str, *words: object) -> Any:
    """What `polycast explain` says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["explain", url, *map(str, words), "--json"]) == 0
    return json.loads(out.getvalue())


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_what_is_explained_is_what_becomes_of_an_event(
    market: pc.Bus, url: str, case: Case
) -> None:
    there = market if case.context is None else market.within(case.context)
    name, got = f"d{next(names)}", []
    positions = {publish(market, each): each for each in case.before}
    about: dict[str, Any] = {"exact": case.exact, "topic": case.topic, "since": case.since}
    try:
        sub = there.subscribe(
            case.what,
            lambda event, delivery: got.append(delivery.position),
            where=FILTERS[case.where],
            durable=name,
            level=case.level,
            **about,
        )
    except (pc.FilterMistakeError, pc.BadOptionError):
        return  # it asks for what its type has not
    try:
        said: dict[int, pc.Explanation] = {}
        for each in case.after:
            explained = sub.explain(each.event, topic=each.topic)
            position = publish(market, each)
            positions[position] = each
            if each.context is None or (case.context and type(each.event) in LOCAL_TYPES):
                said[position] = explained
        assert market.flush(10)
        for position, explained in said.items():
            assert explained.delivered is (position in got), (positions[position], str(explained))
        for position, each in positions.items():
            told = shown(url, name, "--position", position)
            check(case, each, told, is_delivered=position in got)
            if is_plain(case, each) and position in said:
                assert [line.removeprefix("  ") for line in told["reasons"][1:-1]] == list(
                    said[position].reasons[:-1]
                )
        check_words(sub, shown(url, name))
    finally:
        sub.cancel()


def check(case: Case, each: Sent, told: Any, *, is_delivered: bool) -> None:
    """A verdict of the shell is true, and it has one wherever all that it takes is data."""
    if told["delivered"] is not None:
        assert told["delivered"] is is_delivered, (each, told)
    elif case.where in SURE:
        # What an event is in a context, and what is registered, only the subscriber knows.
        is_from_elsewhere = case.context is not None and each.context is None
        assert is_from_elsewhere or case.what is Sellable, (each, told)
    assert told["fate"].startswith("it was delivered") or not is_delivered, (each, told)


def is_plain(case: Case, each: Sent) -> bool:
    """Whether the shell knows all that the subscriber does."""
    here = case.context is None and each.context is None
    return here and case.where in SURE and case.what is not Sellable


def check_words(sub: pc.Subscription[Any], told: Any) -> None:
    """Both say the same of what it means."""
    mine, theirs = list(sub.explain().reasons), list(told["means"])
    asked = [line for line in mine if line.startswith("the broker")]
    if asked:
        assert asked == [told["at_broker"]]
    for line in theirs:
        if line.startswith("in effect") or (line == told["at_broker"] and not asked):
            continue
        is_said = [
            each for each in mine if each == line or each.startswith(f"{line}; a part is op")
        ]
        assert is_said, (line, mine)
