"""Deadlines and ages while somebody sets the wall clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polycast.stores.liveness import (
    ALIVE_FOR,
    AgeClock,
    Countdown,
    has_ended,
    here,
    signed,
    term_of,
)
from polycast.testing import ManualClock

DAY = 86_400.0
moves = st.lists(
    st.tuples(
        st.sampled_from(["wait", "step"]),
        st.sampled_from([0.0, 0.4, 1.0, 7.0, 60.0, 3_600.0, DAY]),
        st.booleans(),
    ),
    max_size=30,
)


def move(clock: ManualClock, what: str, seconds: float, *, back: bool) -> float:
    """Let time pass, or set the clock; how much time has passed."""
    if what == "wait":
        clock.advance(seconds)
        return seconds
    clock.step(-seconds if back else seconds)
    return 0.0


def test_a_clock_that_is_set_goes_on_evenly_by_the_other() -> None:
    clock = ManualClock(1_000.0)
    clock.step(500)
    clock.advance(1)
    assert (clock.time(), clock.monotonic()) == (1_501.0, 1.0)
    clock.step(-1_000)
    assert (clock.time(), clock.monotonic()) == (501.0, 1.0)


@given(moves, st.sampled_from([1.0, 30.0, DAY]))
def test_what_is_counted_down_ends_after_its_time_whoever_sets_the_clock(
    moved: list[tuple[str, float, bool]], term: float
) -> None:
    clock = ManualClock()
    countdown, left = Countdown(clock), term
    deadline = clock.time() + term
    assert countdown.left("it", deadline, term=term) == term
    for what, seconds, back in moved:
        left -= move(clock, what, seconds, back=back)
        assert abs(countdown.left("it", deadline, term=term) - left) < 1e-3


def test_a_deadline_seen_first_is_believed_but_for_no_longer_than_was_given() -> None:
    clock = ManualClock(1_000.0)
    countdown = Countdown(clock)
    assert countdown.left("near", 1_010.0, term=60) == 10
    assert countdown.left("far", 1_000.0 + DAY, term=60) == 60
    assert countdown.left("over", 1.0, term=60) < 0
    assert countdown.left("near", 1_020.0, term=60) == 20  # it was prolonged
    assert countdown.left("new", 1.0, term=60, is_new=True) == 60
    countdown.moved("new", 2.0)
    clock.advance(5)
    assert countdown.left("new", 2.0, term=60) == 55
    countdown.keep(["far"])
    clock.step(-100)
    assert (countdown.left("far", 1_000.0 + DAY), countdown.left("near", 1_020.0)) == (55, 115)


@given(moves, st.sampled_from([10.0, 60.0, DAY]))
def test_setting_a_clock_makes_nothing_old_and_everything_gets_old(
    moved: list[tuple[str, float, bool]], age: float
) -> None:
    clock = ManualClock()
    ages, written, passed = AgeClock(clock), clock.time(), 0.0
    for what, seconds, back in moved:
        passed += move(clock, what, seconds, back=back)
        if ages.now(age) - written >= age + 1:  # less is within what counts as no step
            assert passed >= age
    if clock.time() < written:
        clock.step(written - clock.time())  # somebody sets it right
    clock.advance(age + 1)
    ages.now(age)
    clock.advance(age + 1)
    assert ages.now(age) - written >= age


def test_what_is_as_old_as_it_says_is_that_old_at_once() -> None:
    clock = ManualClock()
    ages = AgeClock(clock)
    clock.advance(5_000)
    assert ages.now(10) == clock.time()
    assert AgeClock(clock).now(10) == clock.time()


def test_a_process_says_for_how_long_it_may_be_silent() -> None:
    assert term_of(signed(0.5)) == 0.5
    for said in (
        "",
        here(),
        "elsewhere",
        f"{here()} heartbeat_timeout=nan",
        f"{here()} heartbeat_timeout=-1",
    ):
        assert term_of(said) == ALIVE_FOR


def test_a_process_that_has_ended_is_known_by_where_it_was() -> None:
    gone = 2**22 + 1  # no process has such a number
    assert has_ended(gone, here())
    assert has_ended(gone, signed(10.0))
    assert not has_ended(gone, f"elsewhere{signed(10.0)}")
