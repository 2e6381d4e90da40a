"""Openings of a bus and leases while somebody sets the wall clock, against a simple model.

The model knows when everything really ends, by a clock that nobody sets. Processes that crash give
no sign any more, and are not seen to have ended: it is only by silence that others can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace
from stored_events import Sale

from polycast.config import level_named
from polycast.delivery import Timers
from polycast.matching import Interest
from polycast.matching.selectors import selector_for
from polycast.stores import StoredSubscription, Transaction
from polycast.stores.liveness import wall_offset
from polycast.stores.memory_store import MemoryStore
from polycast.subscriptions.attach import AttachRequest
from polycast.subscriptions.heartbeat import BEATS, Heartbeat
from polycast.testing import ManualClock

DAY = 86_400.0
SLACK = 3.0  # seconds: what counts as no step, and those of the model between two looks
NAMES = ["a", "b", "c"]


@dataclass
class Process:
    """One that has the store open."""

    heartbeat: Heartbeat
    timers: Timers
    heartbeat_timeout: float
    began: float
    crashed: float | None = None

    @property
    def looks_every(self) -> float:
        return self.heartbeat_timeout / BEATS + SLACK


@dataclass
class Lease:
    """What the model knows of a subscription."""

    term: float
    end: float  # by the monotonic clock
    holder: Process
    attached: bool = True
    written: float = 0.0  # when the deadline was written
    soonest: float = 0.0  # when anybody may believe that it is over
    offset: float = 0.0  # of the wall clock, when it was written
    token: int = field(default=0)


class SetClocks(RuleBasedStateMachine):
    """Processes that come, go and crash; leases; and a clock that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store: Any = MemoryStore(clock=self.clock)
        self.processes: list[Process] = []
        self.leases: dict[str, Lease] = {}

    def living(self) -> list[Process]:
        return [each for each in self.processes if each.crashed is None]

    def now(self) -> float:
        return self.clock.monotonic()

    def kept(self, name: str) -> StoredSubscription | None:
        with self.store.view() as view:
            found: StoredSubscription | None = view.subscription(name)
            return found

    # -- what happens ------------------------------------------------------------------------------

    @precondition(lambda self: len(self.living()) < 4)
    @rule(heartbeat_timeout=st.sampled_from([5.0, 10.0, 60.0]))
    def start(self, heartbeat_timeout: float) -> None:
        for lease in self.leases.values():
            # Who has just come believes the wall clock, if nobody attached knows better.
            believed = self.now() + lease.end + lease.offset - self.clock.time()
            lease.soonest = min(lease.soonest, believed)
        timers = Timers(self.clock, threaded=False)
        heartbeat = Heartbeat(
            self.store,
            "shop",
            self.clock,
            timers,
            heartbeat_timeout=heartbeat_timeout,
            clock_stepped=lambda: self.write_again(process),
        )
        process = Process(heartbeat, timers, heartbeat_timeout, self.now())
        heartbeat.start()
        self.processes.append(process)

    @precondition(lambda self: self.living())
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.living())).crashed = self.now()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), name=st.sampled_from(NAMES), term=st.sampled_from([20.0, 100.0]))
    def attach(self, data: st.DataObject, name: str, term: float) -> None:
        process = data.draw(st.sampled_from(self.living()))
        heartbeat = process.heartbeat
        interest = Interest(selector_for(Sale), None, level_named("list"), durable=name)
        who = (heartbeat.bus.id, self.clock, heartbeat.detector)
        attachment = self.store.write(AttachRequest(interest, *who, lease=term).attach).result()
        known = self.leases.get(name)
        if known is not None and (self.is_held(known) or self.now() < known.soonest):
            assert attachment.before == known.token, f"{name} was lost"
        self.leases[name] = lease = Lease(term, self.now() + term, process)
        lease.token = attachment.kept.token
        self.was_written(lease)

    @precondition(lambda self: any(e.attached for e in self.leases.values()))
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        attached = [n for n, e in self.leases.items() if e.attached and e.holder.crashed is None]
        if not attached:
            return
        name = data.draw(st.sampled_from(attached))
        lease = self.leases[name]
        lease.holder.heartbeat.look_at_clock()

        def let_go(tx: Transaction) -> None:
            kept = tx.subscription(name)
            assert kept is not None
            tx.save(replace(kept, holder=None))

        self.store.write(let_go).result()
        lease.attached = False

    @rule(seconds=st.sampled_from([-DAY, DAY, -4 * 365 * DAY, -60.0, 60.0, -2.0, 2.0, -0.5, 0.5]))
    def set_clock(self, seconds: float) -> None:
        self.clock.step(seconds)

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1.0)
            for name, lease in list(self.leases.items()):
                if self.is_held(lease) and lease.end <= self.now():  # as its mailbox does it
                    self.store.write(lambda tx, name=name: tx.remove(name)).result()
                    del self.leases[name]
            for each in self.living():
                while each.timers.run_due():
                    pass

    # -- what the leases of a bus do ---------------------------------------------------------------

    def is_held(self, lease: Lease) -> bool:
        return lease.attached and lease.holder.crashed is None

    def write_again(self, process: Process) -> None:
        """Its deadlines follow the wall clock."""
        for name, lease in self.leases.items():
            if self.is_held(lease) and lease.holder is process:
                kept = self.kept(name)
                assert kept is not None, f"{name} was lost"
                again = replace(kept, lease=lease.end + wall_offset(self.clock))
                self.store.write(lambda tx, again=again: tx.save(again)).result()
                process.heartbeat.detector.moved(again)
                self.was_written(lease)

    def was_written(self, lease: Lease) -> None:
        lease.written, lease.soonest, lease.offset = self.now(), lease.end, wall_offset(self.clock)

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def nobody_who_lives_is_buried_and_all_the_dead_are(self) -> None:
        with self.store.view() as view:
            there = {each.id for each in view.buses()}
        for process in self.processes:
            is_there = process.heartbeat.bus.id in there
            if process.crashed is None:
                assert is_there, "a bus that lives was buried"
                continue
            for other in self.living():
                watched = self.now() - max(process.crashed, other.began)
                if watched > process.heartbeat_timeout + 2 * other.looks_every:
                    assert not is_there, "a dead bus lives for ever"

    @invariant()
    def no_lease_ends_early_and_none_lives_for_ever(self) -> None:
        for name, lease in list(self.leases.items()):
            is_there = self.kept(name) is not None
            if self.is_held(lease):
                assert is_there, f"{name} was lost while somebody was attached"
                continue
            if not is_there:
                assert self.now() >= lease.soonest - SLACK, f"{name} was lost"
                del self.leases[name]
                continue
            gone = max(lease.written, lease.holder.crashed or 0.0)
            for other in self.living():
                watched = self.now() - max(gone, other.began)
                buried = lease.holder.heartbeat_timeout if lease.attached else 0.0
                assert watched <= lease.term + buried + 3 * other.looks_every, f"{name} stays"


def test_a_sign_of_life_is_another_one_even_if_the_clock_is_set_back_each_time() -> None:
    machine = SetClocks()
    machine.start(heartbeat_timeout=10.0)
    machine.start(heartbeat_timeout=10.0)
    for _ in range(20):
        machine.clock.step(-2.0)
        machine.clock.advance(2.0)
        for each in machine.living():
            each.timers.run_due()
        machine.nobody_who_lives_is_buried_and_all_the_dead_are()


class TestSetClocks(SetClocks.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
