"""Publishers and subscribers of a simulation: names, and the lives they have."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from proof_events import TYPES, Event
from proof_history import Op, digest
from simulation_scheduler import Death, Party

import polycast as pc
from polycast.errors import PolycastError
from polycast.events import Identity
from polycast.runtime import Runtime

if TYPE_CHECKING:
    from simulation_plan import Wish
    from simulation_world import World

__all__ = ["HEARTBEAT", "Actor", "Handle", "Parts", "PlannedError"]

HEARTBEAT = 1.0  # seconds without a sign after which a bus counts as dead


class PlannedError(Exception):
    """A callback fails on purpose."""


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
            raise PlannedError
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
