"""A store, brokers, publishers and subscribers in one process, drawn and hurt by one seed."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import random
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from proof_checker import Expected, check
from proof_events import TYPES, Event
from proof_history import Op, digest
from proof_kills import SUBTYPES
from simulation_disk import SimulatedDisk
from simulation_judge import Claim, judge
from simulation_runtime import runtime_for
from simulation_scheduler import Death, Party, Scheduler
from simulation_wire import Network, Serving

import polycast as pc
from polycast.broker.server.application import application
from polycast.broker.server.broker import Broker
from polycast.broker.server.maintenance import BEAT
from polycast.broker.server.origins import Admission, HostPolicy
from polycast.broker.wire.messages import PATH, Limits
from polycast.bus import exit_hook
from polycast.delivery.settlement import _tokens
from polycast.errors import PolycastError
from polycast.events import Identity
from polycast.runtime import Runtime
from polycast.stores.sqlite import SqliteStore

__all__ = ["Outcome", "Plan", "Wish", "World", "simulate"]

HEARTBEAT = 1.0  # seconds without a sign after which a bus counts as dead
PATIENCE = 120.0  # seconds until all has to be quiet, once nothing is hurt any more
STRONG = ("strong_bag", "strong_set", "array", "list", "sorted_bag", "sorted_set")
SETS = ("strong_set", "list", "sorted_set", "weak_set")


class Planned(Exception):
    """A callback fails on purpose."""


@dataclass(frozen=True)
class Wish:
    """One subscription of an actor."""

    name: str
    type: str
    level: str
    above: int = -1
    group: str = ""
    durable: bool = True
    manual: bool = False
    inline: bool = False
    slow: float = 0.0
    failing: float = 0.0
    lease: float | None = None
    queue: int = 10_000

    @property
    def kept_as(self) -> str:
        """The name that the store knows."""
        return self.group or self.name

    @property
    def in_transactions(self) -> bool:
        """Whether its effects are in a database of its own."""
        return self.durable and self.level in SETS

    def wants(self, kind: str, payload: dict[str, Any]) -> bool:
        """The plain evaluation of its filter."""
        return kind in SUBTYPES[self.type] and payload["size"] > self.above


@dataclass(frozen=True)
class Plan:
    """What a seed means: who is there, and what is done to them."""

    seed: int
    brokers: int
    actors: tuple[tuple[str, bool, tuple[Wish, ...], int], ...]
    """Name, whether it goes over a broker, its subscriptions, how many times it publishes."""
    hurts: tuple[tuple[float, str], ...]
    preemption: float
    delay: float

    @classmethod
    def of(cls, seed: int) -> Plan:
        """Draw it."""
        dice = random.Random(f"plan {seed}")
        brokers = dice.choice((0, 0, 0, 0, 1, 2))
        count = dice.randint(2, 4)
        names = [f"p{n}" for n in range(1, count + 1)]
        groups = ["crew"] if dice.random() < 0.5 else []
        kind = dice.choice(("Event", "Talk"))
        actors = []
        for name in names:
            wishes = [_wish(dice, f"{name}.{n}") for n in range(dice.choice((0, 1, 1, 2)))]
            if groups and dice.random() < 0.6:
                wishes.append(
                    Wish(f"{name}.crew", kind, "strong_set", group="crew", slow=_slow(dice))
                )
            publishes = dice.choice((0, 3, 6, 9)) if wishes else dice.choice((6, 12))
            actors.append((name, brokers > 0 and dice.random() < 0.8, tuple(wishes), publishes))
        kinds = ["kill", "kill", "kill", "pause", "clock", "power", "sync", "full", "away"]
        if brokers:
            kinds += ["broker", "broker", "cut", "cut", "stall", "part", "part"]
        hurts = sorted((1.8 * dice.random(), dice.choice(kinds)) for _ in range(dice.randint(1, 4)))
        return cls(
            seed,
            brokers,
            tuple(actors),
            tuple(hurts),
            dice.choice((0.0, 0.01, 0.05)),
            dice.choice((0.0, 0.02, 0.1)),
        )


def _slow(dice: random.Random) -> float:
    return dice.choice((0.0, 0.0, 0.01, 0.1))


def _wish(dice: random.Random, name: str) -> Wish:
    durable = dice.random() < 0.85
    level = dice.choice(STRONG if durable else (*STRONG, "weak_bag", "weak_set"))
    return Wish(
        name,
        dice.choice(("Event", "Talk", "Panel")),
        level,
        above=dice.choice((-1, -1, 30, 60)),
        durable=durable,
        manual=dice.random() < 0.2,
        inline=dice.random() < 0.2,
        slow=_slow(dice),
        failing=dice.choice((0.0, 0.0, 0.1)),
        lease=None if durable or dice.random() < 0.5 else dice.choice((0.5, 2.0)),
        queue=dice.choice((10_000, 10_000, 3)) if durable else 10_000,
    )


def filter_above(above: int) -> Callable[[Event], object] | None:
    """The filter of a wish, as a subscriber writes it."""
    return None if above < 0 else {30: lambda e: e.size > 30, 60: lambda e: e.size > 60}[above]


Handle = Callable[[Event, Any], None]


def _published(bus: Any, event: Event, identity: Identity | None) -> pc.Receipt:
    receipt: pc.Receipt = bus.publish(event, identity=identity)
    return receipt


def _acknowledged(delivery: pc.Delivery) -> None:
    delivery.ack()


@dataclass
class Parts:
    """What a fault may be planted in: each part of the world that can be another."""

    lies: str | None = None
    """Endings of files whose syncs are said to be done and are not."""
    loss: float = 0.0
    """How many frames are lost within a connection that goes on."""
    publish: Callable[[Any, Event, Identity | None], pc.Receipt] = _published
    options: Callable[[dict[str, Any]], dict[str, Any]] = lambda options: options
    """The options of a subscription, as they get to the bus."""
    handler: Callable[[Handle, Runtime], Handle] = lambda handle, runtime: handle
    acknowledge: Callable[[pc.Delivery], None] = _acknowledged
    is_careful: bool = True
    """Whether subscribers at set levels keep their effects in transactions."""


@dataclass
class Outcome:
    """What a seed has shown."""

    seed: int
    violations: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    events: int = 0
    effects: int = 0

    @property
    def wrong(self) -> list[str]:
        """All that is wrong."""
        return [*self.problems, *self.violations]

    def history(self) -> bytes:
        """All that happened, as bytes."""
        lines = [msgspec.json.encode(op) for op in self.ops]
        return b"\n".join([*(line.encode() for line in [*self.trace, *self.notes]), *lines])

    def fingerprint(self) -> str:
        """What tells one history from another."""
        return hashlib.blake2b(self.history(), digest_size=12).hexdigest()


class Actor:
    """One name, and the lives it has."""

    def __init__(
        self, world: World, name: str, url: str, wishes: tuple[Wish, ...], publishes: int
    ) -> None:
        self.world, self.name, self.url, self.wishes = world, name, url, wishes
        self.left, self.lives, self.made = publishes, 0, 0
        self.party: Party | None = None
        self.is_quiet = self.is_flushed = self.is_over = self.is_open = False
        self.bus: Any = None
        self.ends: list[tuple[float, Wish]] = []  # when leases have certainly run out

    def start(self) -> None:
        """Begin another life."""
        world = self.world
        self.lives += 1
        self.ends.clear()
        party = self.party = world.party(f"{self.name}.{self.lives}")
        self.is_quiet = self.is_flushed = self.is_over = self.is_open = False
        runtime = world.runtime(party)
        runtime.thread(lambda: self._live(party, runtime), name="main").start()

    def _live(self, party: Party, runtime: Runtime) -> None:
        try:
            self._work(party, runtime)
        except Death:
            raise
        except BaseException:
            self.world.problem(f"{party.name}: {traceback.format_exc()}")
        self.is_over = True

    def _work(self, party: Party, runtime: Runtime) -> None:
        world, dice = self.world, random.Random(f"{self.world.seed} {party.name}")
        bus = self._opened(runtime)
        if bus is None:
            return
        self.bus, self.is_open = bus, True
        world.buses.append(bus)
        try:
            for wish in self.wishes:
                self._subscribe(bus, wish, party, runtime)
            while self.left > 0 and not world.is_closing:
                runtime.sleep(0.12 * dice.random())
                self.left -= 1
                self._publish(bus, dice, party)
                self._look(bus)
            self.is_quiet = True
            while not world.is_closing:
                self._look(bus)
                runtime.sleep(0.1)
            while not world.is_over:
                self.is_flushed = bus.flush(5.0)
                self._look(bus)
                runtime.sleep(0.2)
        except PolycastError as error:
            world.note(f"{party.name} ended: {type(error).__name__}")
        with suppress(PolycastError):
            bus.close(5.0)
        for wish in self.wishes:
            world.write("detached", party, subscription=wish.name)

    def _look(self, bus: Any) -> None:
        """Whoever sees in `health()` that the store has failed opens the bus again."""
        while self.ends and self.ends[0][0] <= self.world.scheduler.now:
            wish = self.ends.pop(0)[1]
            assert self.party is not None
            self.world.write("ended", self.party, subscription=wish.name)
        failure = bus._engine.store.failure
        if failure is not None:
            raise failure

    def _opened(self, runtime: Runtime) -> Any:
        for _ in range(200):
            self.world.wait_for_host(runtime)
            try:
                return pc.Bus(
                    self.url,
                    clock=runtime,
                    publisher=self.name,
                    heartbeat_timeout=HEARTBEAT,
                    publish_timeout=1.0,
                    connect_timeout=5.0,
                )
            except PolycastError as error:
                self.world.note(f"{self.name} cannot open: {type(error).__name__}")
                runtime.sleep(0.1)
        self.world.problem(f"{self.name} could not open its bus in twenty seconds")
        return None

    def _subscribe(self, bus: Any, wish: Wish, party: Party, runtime: Runtime) -> None:
        world = self.world
        options: dict[str, Any] = {"level": wish.level, "attempts": 20, "queue": wish.queue}
        if wish.durable:
            options |= {"durable": wish.kept_as, "since": "beginning", "ack_timeout": 120.0}
        if wish.group:
            options["group"] = wish.group
        if wish.manual:
            options["ack"] = "manual"
        if wish.inline:
            options["dispatch"] = "inline"
        if wish.lease is not None:
            options["lease"] = wish.lease
        world.write("subscribed", party, subscription=wish.name)
        handle = world.parts.handler(Handler(world, wish, party), runtime)
        options["where"] = filter_above(wish.above)
        if wish.lease is not None:  # a moment later it must be over
            self.ends.append((world.scheduler.now + wish.lease + 0.2, wish))
        bus.subscribe(TYPES[wish.type], handle, **world.parts.options(options))

    def _publish(self, bus: Any, dice: random.Random, party: Party) -> None:
        world = self.world
        events = [self._event(dice) for _ in range(dice.choice((1, 1, 1, 3)))]
        for event in events:
            kind = type(event).__name__
            world.write("attempted", party, key=event.key, type=kind, payload=asdict(event))
        if len(events) > 1:
            try:
                receipts = bus.publish_many(events)
            except pc.PublishUnknownError:
                return
            for event, receipt in zip(events, receipts, strict=True):
                world.accepted(party, event, receipt)
            return
        (event,), identity = events, None
        for _ in range(5):
            try:
                receipt = world.parts.publish(bus, event, identity)
                world.accepted(party, event, receipt)
                return
            except pc.PublishUnknownError as error:
                identity = error.identity
                world.write("unknown", party, key=event.key, identity=identity)

    def _event(self, dice: random.Random) -> Event:
        self.made += 1
        cls = TYPES[dice.choice(("Talk", "Keynote", "Panel"))]
        return cls(f"{self.name}.{self.made}", dice.randint(0, 100), "x" * dice.choice((1, 500)))


class Handler:
    """What a subscriber does with an event."""

    def __init__(self, world: World, wish: Wish, party: Party) -> None:
        self._world, self._wish, self._party = world, wish, party

    def __call__(self, event: Event, delivery: pc.Delivery) -> None:
        world, wish, party = self._world, self._wish, self._party
        seen = {
            "subscription": wish.name,
            "key": event.key,
            "identity": delivery.identity,
            "position": delivery.position,
            "count": delivery.count,
            "token": world.token(delivery),
        }
        world.write("begun", party, **seen)
        if wish.slow:
            world.scheduler.sleep(wish.slow)
        if world.scheduler.dice.random() < wish.failing and delivery.count < 5:
            world.write("failed", party, **seen, why="planned")
            raise Planned
        marked = digest(asdict(event))
        if not (wish.in_transactions and world.parts.is_careful):
            world.write("effect", party, **seen, digest=marked)
        else:
            database = world.database(wish.kept_as)
            with delivery.transaction(database) as fresh:
                if fresh:
                    op = Op("effect", party.name, world.tick(), **seen, digest=marked)
                    row = (msgspec.json.encode(op),)
                    database.execute("INSERT INTO effects VALUES (?)", row)
        if wish.manual:
            try:
                world.parts.acknowledge(delivery)
            except PolycastError as error:
                world.note(f"{wish.name} could not acknowledge {event.key}: {type(error).__name__}")
            else:
                world.write("settled", party, **seen)


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
        self._is_off = False  # nobody is started again before the host is
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
            self.wait_for_host(runtime)
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

    def wait_for_host(self, runtime: Runtime) -> None:
        """Open nothing on a disk that has just failed."""
        while self._is_off:
            runtime.sleep(0.05)

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
        self._is_off = False

    def _sync(self) -> None:
        """Fail a sync, and start the host anew.

        What was to be synced is gone from the disk, though not from memory.
        """
        self.disk.fail_next_sync()
        self._is_off = True
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
        if self.disk.is_away or self._is_off:
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
            exit_hook._open.discard(bus)
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
