"""Which condition of a filter failed, and why."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc
from polycast.testing import TestBus


@dataclass
class Talk:
    stars: int = 5
    room: str | None = None


def said(where: object, event: object) -> list[str]:
    return [str(verdict) for verdict in pc.Filter(where).verdicts(event)]  # type: ignore[arg-type]


def test_each_condition_is_told_as_far_as_it_is_asked() -> None:
    assert said(lambda t: t.stars > 3 and t.room == "A" and t.stars < 9, Talk()) == [
        "`(event.stars > 3) and (event.room == 'A') and (event.stars < 9)` is False",
        "  `event.stars > 3` is True",
        "  `event.room == 'A'` is False",
        "  `event.stars < 9` is not asked any more",
    ]


def test_a_condition_that_fails_says_why() -> None:
    [whole, _, failed] = pc.lift(lambda t: t.stars > 3 and t.room.lower()).verdicts(Talk())
    assert whole.passes is None
    assert "AttributeError" in failed.text


def test_what_fails_ends_an_or() -> None:
    found = said(lambda t: t.room.lower() or t.stars > 3, Talk())
    assert "fails" in found[1]
    assert "not asked" in found[2]


def test_a_value_that_is_not_a_truth_value_is_shown() -> None:
    assert said(lambda t: t.stars, Talk()) == ["`event.stars` is True (5)"]


def test_the_operand_of_not_is_told() -> None:
    assert said(lambda t: not t.stars > 3, Talk())[1] == "  `event.stars > 3` is True"


def test_a_subscription_explains_which_condition_failed() -> None:
    with TestBus() as bus:
        sub = bus.subscribe(Talk, print, where=lambda t: t.stars > 3 and t.room == "A")
        explanation = sub.explain(Talk())
        assert explanation.delivered is False
        assert "  `event.room == 'A'` is False" in explanation.reasons


@settings(max_examples=100)
@given(stars=st.integers(0, 9), room=st.none() | st.text(max_size=2))
def test_the_first_verdict_is_that_of_the_filter(stars: int, room: str | None) -> None:
    where = pc.lift(lambda t: (t.stars > 4 or len(t.room) == 1) and t.room != "a")
    event = Talk(stars, room)
    assert (where.verdicts(event)[0].passes is True) == where.matches(event)
