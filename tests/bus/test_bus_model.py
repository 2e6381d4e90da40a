"""A bus against a model of it that is slow and obvious."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from polycast.config import LEVELS
from polycast.testing import TestBus

ATTEMPTS = 3


@dataclass
class Thing:
    number: int
    failures: int  # how many attempts at it fail, for each subscription


@dataclass
class Special(Thing):
    pass


@dataclass
class Member:
    """What the model knows of one subscription, and what its callback has seen."""

    level: str
    what: type
    even: bool | None  # which numbers its filter lets through
    due: float | None  # the end of its lease
    expected: list[int] = field(default_factory=list)  # all it should handle or bury
    handled: list[int] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    handle: Any = None
    paused: bool = False
    over: bool = False

    def wants(self, thing: Thing) -> bool:
        fits = self.even is None or (thing.number % 2 == 0) is self.even
        return isinstance(thing, self.what) and fits

    def __call__(self, thing: Thing) -> None:
        assert not self.over, "called after its end"
        assert not self.paused, "called while paused"
        self.attempts[thing.number] += 1
        if self.attempts[thing.number] <= thing.failures:
            raise OSError(f"{thing.number} fails")
        self.handled.append(thing.number)


class BusMachine(RuleBasedStateMachine):
    """Publishes, subscribes, cancels, pauses, fails and lets time pass, in any order."""

    members = Bundle("members")

    @initialize()
    def begin(self) -> None:
        self.bus = TestBus()
        self.everyone: list[Member] = []
        self.things: dict[int, Thing] = {}

    # -- what can happen -------------------------------------------------------------------------

    @rule(
        target=members,
        level=st.sampled_from(sorted(LEVELS)),
        what=st.sampled_from([Thing, Special]),
        even=st.sampled_from([None, True, False]),
        dispatch=st.sampled_from(["pool", "inline"]),
        lease=st.sampled_from([None, None, 5.0]),
    )
    def subscribe(
        self, level: Any, what: type, even: bool | None, dispatch: Any, lease: float | None
    ) -> Member:
        self.settle()
        due = None if lease is None else self.bus.clock.monotonic() + lease
        member = Member(level, what, even, due)
        options: dict[str, Any] = {} if lease is None else {"lease": lease}
        if even is not None:
            options["where"] = lambda thing: (thing.number % 2 == 0) is even
        member.handle = self.bus.subscribe(
            what,
            lambda thing: member(thing),
            level=level,
            dispatch=dispatch,
            attempts=ATTEMPTS,
            backoff=1,
            **options,
        )
        self.everyone.append(member)
        return member

    @rule(
        special=st.booleans(),
        failures=st.sampled_from([0, 0, 0, 1, 2, 3]),
        many=st.integers(1, 3),
    )
    def publish(self, special: bool, failures: int, many: int) -> None:
        cls = Special if special else Thing
        first = len(self.things)
        batch = [cls(first + offset, failures) for offset in range(many)]
        for thing in batch:
            self.things[thing.number] = thing
            for member in self.everyone:
                if not member.over and member.wants(thing):
                    member.expected.append(thing.number)
        if many == 1:
            self.bus.publish(batch[0])
        else:
            self.bus.publish_many(batch)
        self.settle()

    @rule(member=consumes(members))
    def cancel(self, member: Member) -> None:
        self.settle()
        member.handle.cancel()
        member.over = True

    @rule(member=members)
    def pause(self, member: Member) -> None:
        self.settle()
        if not member.over:
            member.handle.pause()
            member.paused = True

    @rule(member=members)
    def resume(self, member: Member) -> None:
        if not member.over:
            member.paused = False
            member.handle.resume()
            self.settle()

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.settle()
        now = self.bus.clock.monotonic() + seconds
        for member in self.everyone:
            member.over = member.over or (member.due is not None and now >= member.due)
        self.bus.advance(seconds)

    def settle(self) -> None:
        self.bus.run_until_idle()

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def nobody_gets_what_it_does_not_want_or_twice(self) -> None:
        for member in getattr(self, "everyone", []):
            assert set(member.handled) <= set(member.expected)
            assert len(member.handled) == len(set(member.handled))

    @invariant()
    def ordered_levels_handle_in_log_order(self) -> None:
        for member in getattr(self, "everyone", []):
            if LEVELS[member.level].order != "none":
                assert member.handled == sorted(member.handled)

    @invariant()
    def attempts_are_bounded(self) -> None:
        for member in getattr(self, "everyone", []):
            most = ATTEMPTS if LEVELS[member.level].reliable else 1
            assert all(count <= most for count in member.attempts.values())

    @invariant()
    def states_agree(self) -> None:
        for member in getattr(self, "everyone", []):
            ended = member.handle.state in ("cancelled", "expired")
            assert ended == member.over

    def teardown(self) -> None:
        if not hasattr(self, "bus"):
            return
        for member in self.everyone:
            if not member.over and member.paused:
                member.paused = False
                member.handle.resume()
        leased = [member for member in self.everyone if member.due is not None]
        for member in leased:
            member.over = True
        for _ in range(4 * len(self.things) + 8):
            self.bus.advance(5)
        dead: dict[str, list[int]] = defaultdict(list)
        for letter in self.bus.dead_letters():
            dead[letter.subscription].append(letter.event.number)
        for member in self.everyone:
            if not member.over:
                self.check_end(member, dead[member.handle.name])
        self.bus.close()

    def check_end(self, member: Member, dead: list[int]) -> None:
        """All that was wanted is handled, or dead, or was lost where that is allowed."""
        reliable = LEVELS[member.level].reliable
        allowed = ATTEMPTS if reliable else 1
        wanted = [n for n in member.expected if self.things[n].failures < allowed]
        failed = [n for n in member.expected if self.things[n].failures >= allowed]
        assert sorted(member.handled) == wanted
        assert sorted(dead) == (failed if reliable else [])


BusMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestBusAgainstModel = BusMachine.TestCase
