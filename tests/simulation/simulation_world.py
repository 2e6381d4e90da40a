"""A store, brokers, publishers and subscribers in one process, drawn and hurt by one seed."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from proof_checker import Expected, check
from proof_events import Event
from proof_history import Op
from simulation_actors import HEARTBEAT, Actor, Parts
from simulation_disk import SimulatedDisk
from simulation_judge import Claim, judge
from simulation_outcome import Outcome
from simulation_plan import Plan, Wish
from simulation_runtime import runtime_for
from simulation_scheduler import Death, Party, Scheduler
from simulation_wire import Network, Serving

import polycast as pc
from polycast.broker.server.broker import BEAT, Broker
from polycast.broker.server.network_policy import Admission, HostPolicy
from polycast.broker.server.run import application
from polycast.broker.wire.protocol import PATH, Limits
from polycast.bus import lifecycle
from polycast.delivery.settlement import _tokens
from polycast.errors import PolycastError
from polycast.runtime import Runtime
from polycast.stores.sqlite import SqliteStore

__all__ = ["World", "simulate"]

PATIENCE = 120.0  # seconds until all has to be quiet, once nothing is hurt any more


class World:
    """All of it."""

    def __init__(self, plan: Plan, folder: Path, parts: Parts) -> None:
        self.plan, self.seed, self.parts = plan, plan.seed, parts
        self.dice = random.Random(f"world {plan.seed}")
        self.scheduler = Scheduler(plan.seed, preemption=plan.preemption, delay=plan.delay)
        self.disk = SimulatedDisk(self.scheduler, folder, lies=parts.lies)
        self.network = Network(self.scheduler, self.dice, path=PATH, loss=parts.loss)
        self.wall = 0.0
        self.is_closing = self.is_over = False
        self.ops: list[Op] = []
        self.notes: list[str] = []
        self.problems: list[str] = []
        self.parties: list[Party] = []
        self.buses: list[Any] = []
        self._ticks = 0
        self._loops: list[Any] = []
        self._tokens = next(_tokens)  # those before belong to others in this process
        self._databases: dict[str, sqlite3.Connection] = {}
        self.interruptions: list[tuple[int, str]] = []
        self.addresses = [f"127.0.0.1:{7001 + n}" for n in range(plan.brokers)]
        self.brokers: dict[str, Party] = {}
        remote = "polycast://" + ",".join(self.addresses)
        local = f"sqlite:///{self.disk.path}"
        self.actors = [
            Actor(self, name, remote if over else local, wishes, publishes)
            for name, over, wishes, publishes in plan.actors
        ]

    # -- what is written down ----------------------------------------------------------------------

    def tick(self) -> int:
        """The next moment."""
        self._ticks += 1
        return self._ticks

    def write(self, kind: Any, party: Party, **fields: Any) -> None:
        """Write down an operation; the dead write nothing."""
        if party.is_dead:
            raise Death(party.name)
        op = Op(kind, party.name, self.tick(), **fields)
        self.ops.append(op)

    def token(self, delivery: pc.Delivery) -> int:
        """The token of a delivery, as if this were the first world of the process."""
        return delivery.token - self._tokens

    def accepted(self, party: Party, event: Event, receipt: pc.Receipt) -> None:
        """A publisher has its receipt."""
        identity, position = receipt.identity, receipt.position
        self.write("accepted", party, key=event.key, identity=identity, position=position)

    def note(self, text: str) -> None:
        """Say what may be of interest."""
        self.notes.append(f"{self.scheduler.now:.3f} {text}")

    def problem(self, text: str) -> None:
        """Say what is wrong."""
        self.problems.append(f"{self.scheduler.now:.3f} {text}")

    def database(self, name: str) -> sqlite3.Connection:
        """The database of a subscriber; it outlives its processes."""
        if name not in self._databases:
            database = sqlite3.connect(":memory:", check_same_thread=False)
            database.execute("CREATE TABLE effects (op)")
            database.commit()
            self._databases[name] = database
        return self._databases[name]

    # -- processes ---------------------------------------------------------------------------------

    def party(self, name: str) -> Party:
        """A new process."""
        party = Party(name, wall=self.wall)
        self.parties.append(party)
        self.scheduler.parties.append(party)
        return party

    def runtime(self, party: Party) -> Runtime:
        """What it runs on."""
        dial = self.network.dial(party)
        layer = self.disk.layer.name
        return runtime_for(self.scheduler, party, vfs=layer, dial=dial)

    def start_broker(self, address: str) -> None:
        """Begin another life of a broker."""
        number = sum(party.name.startswith(address) for party in self.parties) + 1
        party = self.brokers[address] = self.party(f"{address}.{number}")
        runtime = self.runtime(party)
        runtime.thread(lambda: self._serve(address, party, runtime), name="serve").start()

    def _serve(self, address: str, party: Party, runtime: Runtime) -> None:
        broker = None
        for _ in range(200):
            try:
                limits = Limits(heartbeat=1.0)
                broker = Broker(f"sqlite:///{self.disk.path}", clock=runtime, limits=limits)
                break
            except PolycastError as error:
                self.note(f"{address} cannot open: {type(error).__name__}")
                runtime.sleep(0.1)
        if broker is None:
            self.problem(f"{address} could not open its store in twenty seconds")
            return
        policy = HostPolicy.of(["127.0.0.1"], Admission())
        loop = runtime.event_loop()
        self._loops.append(loop)
        serving = Serving(self.network, address, loop, application(broker, policy))
        self.network.listening[address] = serving
        try:
            loop.run_until_complete(self._run(broker))
        except Death:
            raise
        except BaseException:
            self.problem(f"{party.name}: {traceback.format_exc()}")
        finally:
            if not party.is_dead:
                self.network.end_of(party, address)
                broker.close()
                loop.close()

    async def _run(self, broker: Broker) -> None:
        running = asyncio.create_task(broker.run())
        while not self.is_over and broker.is_ready:
            await asyncio.wait([running], timeout=0.1)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    def kill(self, party: Party) -> None:
        """End a process as `kill -9` does."""
        self.note(f"kill {party.name}")
        self.interruptions.append((self.tick(), party.name))
        address = next((a for a, p in self.brokers.items() if p is party), None)
        self.scheduler.kill(party)
        self.disk.release(party)
        self.network.end_of(party, address)

    # -- what is done to them ----------------------------------------------------------------------

    def hurt(self, how: str) -> None:
        """Do one thing to somebody."""
        self.note(f"hurt {how}")
        if how in ("cut", "stall", "part"):
            self.network.hurt(how)
        else:
            getattr(self, f"_{how}")()

    def _somebody(self) -> Party | None:
        living = [actor.party for actor in self.actors if actor.party and not actor.party.is_dead]
        return self.dice.choice(living) if living else None

    def _kill(self) -> None:
        party = self._somebody()
        if party is not None:
            self.kill(party)

    def _broker(self) -> None:
        self.kill(self.dice.choice(list(self.brokers.values())))

    def _pause(self) -> None:
        party = self._somebody()
        if party is not None:
            self._stand_still(party, self.dice.choice((0.3, 1.0, 2.0)))

    def _clock(self) -> None:
        """Set the wall clock of the host."""
        self.wall += self.dice.choice((-1, 1)) * self.dice.choice((0.5, 30.0, 86_400.0))
        for party in self.parties:
            party.wall = self.wall

    def _power(self) -> None:
        for party in self.parties:
            if not party.is_dead:
                self.kill(party)
        self.disk.lose_power(self.dice)

    def _sync(self) -> None:
        """Fail a sync, and lose power soon.

        What was to be synced is gone from the disk, though not from memory. Whoever opens the
        store meanwhile finds it there.
        """
        self.disk.fail_next_sync()
        self._later.append((self.scheduler.now + 0.3, lambda: self.hurt("power")))

    def _full(self) -> None:
        self.disk.full_until = self.scheduler.now + 0.3 * self.dice.random()

    def _away(self) -> None:
        """Take the file away for a while."""
        self._without_file(0.5 * self.dice.random())

    def _stand_still(self, party: Party, seconds: float) -> None:
        scheduler = self.scheduler
        self.interruptions.append((self.tick(), party.name))
        scheduler.hold(party)
        self._later.append((scheduler.now + seconds, lambda: scheduler.resume(party)))

    def _without_file(self, seconds: float) -> None:
        is_open = all(actor.is_open for actor in self.actors) and all(
            address in self.network.listening for address in self.addresses
        )
        if is_open and not self.disk.is_away:  # whoever opens it just then would make another one
            self.disk.move_away()
            self._later.append((self.scheduler.now + seconds, self.disk.move_back))

    def _restart(self) -> None:
        if self.disk.is_away:
            return
        for address, party in list(self.brokers.items()):
            if not party.tasks or party.is_dead:
                self._begin_again(party)
                self.start_broker(address)
        for actor in self.actors:
            party = actor.party
            if party is not None and (party.is_dead or actor.is_over):
                self._begin_again(party)
                actor.start()

    def _begin_again(self, party: Party) -> None:
        if not party.is_dead:
            self.kill(party)

    def run(self) -> None:
        """The whole story."""
        scheduler = self.scheduler
        self._later: list[tuple[float, Callable[[], None]]] = []
        for address in self.addresses:
            self.start_broker(address)
        for actor in self.actors:
            actor.start()
        hurts = list(self.plan.hurts)
        while hurts or self._later or not self._all("is_quiet"):
            scheduler.sleep(0.05)
            self._do_later()
            while hurts and hurts[0][0] <= scheduler.now:
                self.hurt(hurts.pop(0)[1])
            if self.dice.random() < 0.2:
                self._restart()
            if scheduler.now > PATIENCE:
                self.problem("the publishers do not come to an end")
                break
        self.network.heal()
        self.is_closing = True
        self._settle()
        self.is_over = True
        end = scheduler.now + 30.0
        while not self._all("is_over") and scheduler.now < end:
            scheduler.sleep(0.1)
        for actor in self.actors:
            if not actor.is_over:
                self.problem(f"{actor.name} does not close: {scheduler.stacks()}")
        while any(party.tasks for party in self.brokers.values()) and scheduler.now < end:
            scheduler.sleep(0.1)

    def _do_later(self) -> None:
        now = self.scheduler.now
        due = [work for at, work in self._later if at <= now]
        self._later = [entry for entry in self._later if entry[0] > now]
        for work in due:
            work()

    def _all(self, what: str) -> bool:
        return all(getattr(actor, what) for actor in self.actors)

    def _settle(self) -> None:
        """Wait until everybody has handled all there is, and the dead are buried."""
        scheduler, quiet_since = self.scheduler, None
        is_awaited = bool(self.interruptions) and any(
            wish.group for actor in self.actors for wish in actor.wishes
        )  # what a dead member of a group has is given to others when it is buried
        looks = 2 * BEAT if self.plan.brokers else 0.0
        quiet_for = HEARTBEAT + looks + 0.5 if is_awaited else 0.2
        end = scheduler.now + PATIENCE
        while scheduler.now < end:
            scheduler.sleep(0.25)
            self._restart()
            if not self._all("is_flushed"):
                quiet_since = None
            elif quiet_since is None:
                quiet_since = scheduler.now
            elif scheduler.now - quiet_since >= quiet_for:
                return
        for actor in self.actors:
            if not actor.is_flushed:
                health = actor.bus.health() if actor.bus is not None else None
                self.problem(f"{actor.name} is not quiet after {PATIENCE:g} s: {health}")

    def end(self) -> None:
        """Let nobody go on."""
        for party in self.parties:
            self.scheduler.kill(party)
        for bus in self.buses:
            bus._finalizer.detach()  # a process that was killed runs no finalisers
            lifecycle._open.discard(bus)
        for loop in self._loops:
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]
        self.disk.close()

    # -- judgement ---------------------------------------------------------------------------------

    def judged(self) -> list[str]:
        """What both judges say."""
        ops = [*self.ops, *self._log(), *self._effects()]
        ops.sort(key=lambda op: op.at)
        self.ops = ops
        wishes = [wish for actor in self.actors for wish in actor.wishes]
        expected = [
            Expected(wish.name, wish.wants, wish.level, wish.group, durable=wish.durable)
            for wish in wishes
        ]
        told = [str(each) for each in check(ops, expected, seed=self.seed)]
        told += [f"second judge: {each}" for each in self._second(ops, wishes)]
        return told

    def _second(self, ops: list[Op], wishes: list[Wish]) -> list[Any]:
        names = {wish.name: wish.kept_as for wish in wishes}
        renamed = [
            msgspec.structs.replace(op, subscription=names.get(op.subscription, op.subscription))
            if op.kind not in ("subscribed", "ended", "detached")
            else op
            for op in ops
        ]
        claims = [
            Claim(
                wish.kept_as,
                wish.level,
                lambda op, wish=wish: wish.wants(op.type, op.payload or {}),
                complete=wish.durable,
                is_group=bool(wish.group),
                in_transactions=wish.in_transactions,
            )
            for wish in {wish.kept_as: wish for wish in wishes}.values()
        ]
        return judge(renamed, claims, self.interruptions)

    def _log(self) -> Iterator[Op]:
        store = SqliteStore(str(self.disk.path))
        try:
            start, more = 1, True
            while more:
                page = store.read(start)
                for stored in page.entries:
                    record = stored.record
                    payload = msgspec.msgpack.decode(record.payload)
                    kind = record.name.rpartition(".")[2]
                    yield Op(
                        "log",
                        "",
                        self.tick(),
                        key=payload["key"],
                        type=kind,
                        payload=payload,
                        identity=record.identity,
                        position=stored.position,
                    )
                start, more = page.upto, page.more
            with store.view() as view:
                for letter in view.letters():
                    yield Op(
                        "buried",
                        "",
                        self.tick(),
                        subscription=letter.subscription,
                        identity=letter.record.identity,
                        position=letter.position,
                    )
        finally:
            store.close()

    def _effects(self) -> Iterator[Op]:
        for database in self._databases.values():
            for (row,) in database.execute("SELECT op FROM effects"):
                yield msgspec.json.decode(row, type=Op)


def simulate(seed: int, *, parts: Parts | None = None, plan: Plan | None = None) -> Outcome:
    """Run one seed, and judge it."""
    gc.collect()
    gc.disable()
    logging.disable(logging.CRITICAL)  # a simulated disk fails all the time
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None  # the dead leave much
    shared = Path("/dev/shm")
    try:
        with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
            return _simulated(World(plan or Plan.of(seed), Path(folder), parts or Parts()))
    finally:
        gc.collect()
        gc.enable()
        sys.unraisablehook = hook
        logging.disable(logging.NOTSET)


def _simulated(world: World) -> Outcome:
    outcome, scheduler = Outcome(world.seed), world.scheduler
    try:
        world.run()
    except Exception:
        world.problem(traceback.format_exc())
    world.end()
    outcome.violations = world.judged()
    outcome.problems, outcome.notes = world.problems, world.notes
    outcome.ops, outcome.trace = world.ops, scheduler.trace
    outcome.steps, outcome.seconds = scheduler.steps, scheduler.now
    outcome.events = sum(op.kind == "log" for op in world.ops)
    outcome.effects = sum(op.kind == "effect" for op in world.ops)
    return outcome
