"""Structured events by domain and type: as types wherever a type is."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_matcher import LinearMatcher

import polycast as pc
from polycast.filters.normal_form.disjunction import conjunctions
from polycast.filters.normal_form.ordered_domains import Interval, Points
from polycast.languages.etcl.values import fits

Eventually = Callable[[Callable[[], object]], None]
LONG = os.environ.get("POLYCAST_STRESS") == "long"
common = settings(max_examples=3_000 if LONG else 80, deadline=None, derandomize=not LONG)
NAMES = st.text("ab.*", max_size=5)
PATTERNS = st.text("ab.*", max_size=5)


def meant(domain: str, kind: str, event: pc.StructuredEvent) -> bool:
    """What a pair of patterns means, slowly."""
    pairs = ((domain, event.domain_name), (kind, event.type_name))
    return all(_fits(pattern or "*", name) for pattern, name in pairs)


def _fits(pattern: str, name: str) -> bool:
    parts = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(parts, name, re.DOTALL) is not None


@common
@given(PATTERNS, PATTERNS, NAMES, NAMES)
def test_patterns_mean_what_they_say(domain: str, kind: str, d: str, t: str) -> None:
    event = pc.StructuredEvent(d, t)
    matcher: pc.Matcher[str] = pc.Matcher()
    linear: LinearMatcher[str] = LinearMatcher()
    for each in (matcher, linear):
        each.add("it", pc.structured(domain, kind))
    wanted = ["it"] if meant(domain, kind, event) else []
    assert matcher.match(event) == linear.match(event) == wanted


@common
@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_with_stars_fits_as_file_names_do(pattern: str, name: str) -> None:
    assert fits(name, pattern) is fnmatch.fnmatchcase(name, pattern)


def test_every_name_may_be_written_in_several_ways() -> None:
    everything = pc.structured("*", "*")
    for domain, kind in (("", ""), ("", "%ALL"), ("*", "%ALL"), ("**", ""), ("", "*")):
        assert pc.structured(domain, kind) == everything
    assert everything == pc.topic("/x", everything) or everything.topic is None
    for domain in ("Finance", "F*"):
        with pytest.raises(pc.BadOptionError, match="%ALL"):
            pc.structured(domain, "%ALL")
    with pytest.raises(pc.BadOptionError, match="domain_name"):
        pc.structured(5, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "forms"),
    [
        ("Quote", [Points, Points]),
        ("Quote*", [Points, Interval]),
        ("Q*e", [Points, Interval, type(None), Interval]),
        ("a*b*c", [Points, Interval, type(None)]),
        ("*", [Points]),
    ],
)
def test_names_are_looked_up_as_far_as_possible(kind: str, forms: list[type]) -> None:
    implied = pc.structured("Finance", kind).implied
    assert implied is not None
    [row] = conjunctions(implied.tree)
    assert [type(each.form) for each in row] == forms


def test_only_structured_events_are_meant() -> None:
    matcher: pc.Matcher[int] = pc.Matcher()
    matcher.add(1, pc.structured("", ""))
    matcher.add(2, pc.structured("Finance", "Quote*"), pc.parse_filter("$price > 5", "etcl"))
    assert matcher.match({"domain_name": "Finance"}) == []
    assert matcher.match(pc.StructuredEvent("Finance", "Quotes", filterable_data={"price": 6})) == [
        *(1, 2),
    ]
    assert matcher.match(pc.StructuredEvent("Finance", "Quotes", filterable_data={"price": 5})) == [
        1
    ]


def test_many_names_are_looked_up_together() -> None:
    matcher: pc.Matcher[int] = pc.Matcher()
    for number in range(500):
        matcher.add(number, pc.structured(f"domain{number % 50}", f"type{number}*"))
    assert matcher.match(pc.StructuredEvent("domain7", "type57x")) == [57]
    assert matcher.match(pc.StructuredEvent("domain7", "type457")) == [457]


@pytest.fixture(params=["memory", "sqlite"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'events.db'}"
    with pc.Bus(url) as found:
        yield found


def test_it_is_subscribed_to_like_a_type(bus: pc.Bus, eventually: Eventually) -> None:
    seen: list[str] = []
    bus.subscribe(pc.structured("Finance", "Quote*"), lambda event: seen.append(event.event_name))
    about = pc.structured("*", "Quote")
    bus.subscribe(pc.topic("/here", about), lambda event: seen.append(f"{event.event_name} here"))
    bus.publish(pc.StructuredEvent("Finance", "QuoteChange", "one"))
    bus.publish(pc.StructuredEvent("Finance", "Trade", "two"))
    bus.publish(pc.StructuredEvent("Sports", "Quote", "three"), topic="/here")
    bus.publish(pc.StructuredEvent("Sports", "Quote", "four"), topic="/there")
    eventually(lambda: len(seen) == 2)
    assert sorted(seen) == ["one", "three here"]


def test_a_durable_one_is_the_same_again(tmp_path: Path, eventually: Eventually) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    seen: list[pc.StructuredEvent] = []
    with pc.Bus(url) as first:
        first.subscribe(pc.structured("Finance", "Q*e"), seen.append, durable="d")
    with pc.Bus(url) as second:
        second.publish(pc.StructuredEvent("Finance", "Quote"))
        second.publish(pc.StructuredEvent("Finance", "Quotes"))
        with pytest.raises(pc.DurableChangedError):
            second.subscribe(pc.structured("Finance", "Q*"), seen.append, durable="d")
        second.subscribe(pc.structured("Finance", "Q*e"), seen.append, durable="d")
        eventually(lambda: seen)
    assert seen == [pc.StructuredEvent("Finance", "Quote")]


def test_a_collection_takes_only_its_own(bus: pc.Bus, eventually: Eventually) -> None:
    quotes: pc.DAList[pc.StructuredEvent] = pc.DAList(pc.structured("Finance", "Quote*"), bus)
    seen: list[pc.StructuredEvent] = []
    quotes.contains(seen.append)
    quotes.add(pc.StructuredEvent("Finance", "Quote"))
    with pytest.raises(pc.NotATypeError):
        quotes.add(pc.StructuredEvent("Finance", "Trade"))
    bus.publish(pc.StructuredEvent("Finance", "Trade"))
    eventually(lambda: seen)
    assert len(seen) == 1
    assert "startswith('Quote')" in quotes.name


def test_an_explanation_says_why_not(bus: pc.Bus) -> None:
    subscription = bus.subscribe(pc.structured("Finance", "Quote*"), lambda event: None)
    told = str(subscription.explain(pc.StructuredEvent("Finance", "Trade")))
    assert "event.type_name.startswith('Quote')` is False" in told
