"""`delivery=` and `order=`: the eight levels by what they promise."""

from __future__ import annotations

from typing import Any

import pytest

import polycast as pc
from polycast.config import LEVELS
from polycast.testing import Recorder, TestBus

PROMISES = {
    "weak_bag": ("best_effort", "none"),
    "weak_set": ("at_most_once", "none"),
    "strong_bag": ("at_least_once", "none"),
    "strong_set": ("exactly_once", "none"),
    "array": ("at_least_once", "publisher"),
    "list": ("exactly_once", "publisher"),
    "sorted_bag": ("at_least_once", "total"),
    "sorted_set": ("exactly_once", "total"),
}


class Talk:
    """Something to subscribe to."""


def level_with(**options: Any) -> str:
    """The level of a subscription with some options."""
    with TestBus() as bus:
        sub = bus.subscribe(Talk, print, **options)
        return next(name for name, level in LEVELS.items() if level.promise in str(sub.explain()))


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_has_a_promise_in_words_that_names_it(level: str) -> None:
    delivery, order = PROMISES[level]
    named = level_with(level=level)
    assert level_with(delivery=delivery, order=order) == named


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, "sorted_set"),
        ({"delivery": "exactly_once"}, "sorted_set"),
        ({"delivery": "at_least_once"}, "sorted_bag"),
        ({"delivery": "at_most_once"}, "weak_set"),
        ({"delivery": "best_effort"}, "weak_bag"),
        ({"order": "publisher"}, "list"),
        ({"order": "none"}, "strong_set"),
        ({"group": "workers"}, "strong_set"),
        ({"group": "workers", "delivery": "at_least_once"}, "strong_bag"),
        ({"group": "workers", "order": "total"}, "sorted_set"),
    ],
)
def test_what_is_not_said_is_as_strong_as_the_default(options: dict[str, str], level: str) -> None:
    assert level_with(**options) == level_with(
        level=level, **{k: options[k] for k in options.keys() & {"group"}}
    )


@pytest.mark.parametrize("delivery", ["best_effort", "at_most_once"])
@pytest.mark.parametrize("order", ["publisher", "total"])
def test_what_may_be_lost_has_no_order(delivery: Any, order: Any) -> None:
    with TestBus() as bus, pytest.raises(pc.BadOptionError, match="keep no order"):
        bus.subscribe(Talk, print, delivery=delivery, order=order)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delivery": "exactly"}, "did you mean 'exactly_once'"),
        ({"order": "totally"}, "did you mean 'total'"),
        ({"order": ["total"]}, "one of 'none', 'publisher', 'total'"),
        ({"delivery": {}}, "one of 'best_effort'"),
        ({"level": "list", "order": "total"}, "level=, or delivery= and order="),
        ({"level": "list", "delivery": "exactly_once"}, "a level says both"),
    ],
)
def test_a_promise_that_there_is_not_is_refused(options: Any, said: str) -> None:
    with TestBus() as bus, pytest.raises(pc.BadOptionError, match=said):
        bus.subscribe(Talk, print, **options)


@pytest.mark.parametrize("option", ["level", "delivery", "order"])
def test_a_collection_decides_what_it_promises(option: Any) -> None:
    with TestBus() as bus, pytest.raises(pc.BadOptionError, match="the collection and its method"):
        pc.DAList(Talk, bus).contains(print, **{option: "list"})


def test_the_old_spelling_of_ack_timeout_works_and_warns() -> None:
    seen: Recorder[Talk] = Recorder()
    with TestBus() as bus:
        with pytest.warns(DeprecationWarning, match="ack_timeout="):
            bus.subscribe(Talk, seen, ack="manual", ack_within=5)
        bus.publish(Talk())
        bus.run_until_idle()
        bus.advance(5)
        bus.advance(1)
    assert len(seen.deliveries) == 2
