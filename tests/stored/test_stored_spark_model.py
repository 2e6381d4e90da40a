"""Random programs: whatever happens meanwhile, who is routed for by the pipeline misses nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from stored_events import BigSale, Refund, Sale
from stored_player import Player

import polycast as pc
from polycast.stores import tidy_routing

DEADLINE = 20.0
STEPS = 60
NAMES = ["billing", "audit", "crew"]
LEVELS = ["sorted_set", "list", "strong_set"]


def odd(event: Any) -> bool:
    """A filter that cannot be looked into."""
    found = False
    for digit in str(event.number):
        found = digit in "13579"
    return found


@dataclass(frozen=True)
class Wish:
    """What a subscription wants, and how that is said."""

    what: Any
    where: Callable[[Any], bool] | None = None
    topic: str | None = None

    def holds(self, event: Any, topic: str | None) -> bool:
        """The verdict, by hand."""
        on_topic = self.topic is None or (topic is not None and topic.startswith("/a"))
        fits = isinstance(event, self.what) and on_topic
        return fits and (self.where is None or self.where(event))


WISHES = [
    Wish(Sale),
    Wish(Sale, lambda sale: sale.number % 2 == 0),
    Wish(Sale, odd),
    Wish(Sale | Refund, lambda event: event.number % 3 == 0 and odd(event)),
    Wish(Refund),
    Wish(BigSale, lambda sale: sale.note == "x"),
    Wish(Sale, lambda sale: sale.number > 40, topic="/a/**"),
]


@dataclass
class Life:
    """A durable subscription as the model knows it."""

    name: str
    wish: Wish
    level: str
    place: int  # all before it has been looked at
    options: dict[str, Any]
    begin: int = 0  # of its route
    engine: str = ""
    bus: int | None = None
    handle: Any = None
    got: list[int] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)


class Program:
    """Does at random what can be done, with the pipeline behind the log or in step with it."""

    def __init__(self, url: str, seed: int, *, engines: list[str], in_step: bool) -> None:
        self.random = random.Random(seed)
        self.engines, self.in_step = engines, in_step
        self.buses = [pc.Bus(url, publisher=f"bus-{n}") for n in range(2)]
        self.player = Player(Path(url.removeprefix("sqlite:///")))
        self.log: list[tuple[Any, str | None]] = []  # from position 1 on
        self.lives: dict[str, Life] = {}
        self.past: list[Life] = []

    # -- what happens ------------------------------------------------------------------------------

    def run(self) -> list[tuple[str, list[int]]]:
        """Do it; what each has got in its life."""
        doings = [self.publish] * 5 + [self.attach] * 4 + [self.play] * 4
        doings += [self.replace, self.detach, self.cancel, self.tidy, self.settle]
        # Whether or not the pipeline is played, chance has to be the same for all.
        chances = [random.Random(self.random.random()) for _ in range(STEPS)]
        for chance in chances:
            self.random = chance
            self.random.choice(doings)()
        for name in sorted(self.lives):
            if self.lives[name].bus is None:
                self._attach(self.lives[name], 0)
        self.settle(play=True)
        self.past += self.lives.values()
        return [(life.name, life.got) for life in self.past]

    def publish(self) -> None:
        kinds: list[Callable[[int], Any]] = [Sale, Refund, lambda n: BigSale(n, "x"), BigSale]
        topic = self.random.choice([None, "/a", "/a/b", "/b"])
        many = [
            self.random.choice(kinds)(len(self.log) + n)
            for n in range(self.random.choice([1, 7, 40]))
        ]
        self.random.choice(self.buses).publish_many(many, topic=topic)
        self.log += [(event, topic) for event in many]

    def play(self) -> None:
        most, cut = self.random.randint(1, 60), self.random.randint(1, 25)
        if "spark" in self.engines:
            self.player.play(most, lambda: self.random.randint(1, cut))

    def attach(self) -> None:
        """Begin, come back, or take over; perhaps by the other engine."""
        name = self.random.choice(NAMES)
        life = self.lives.get(name)
        wish, level = self.random.choice(WISHES), self.random.choice(LEVELS)
        since = self.random.choice([None, "beginning", max(1, len(self.log) - 5)])
        options = {"queue": self.random.choice([3, 10_000])}
        bus = self.random.randrange(2)
        if life is None:
            end = len(self.log) + 1
            place = end if since is None else 1 if since == "beginning" else min(since, end)
            if since is not None:
                options["since"] = since
            life = self.lives[name] = Life(name, wish, level, place, options)
        else:
            self.settle()
        self._attach(life, bus)

    def _attach(self, life: Life, bus: int, **more: Any) -> None:
        engine = self.random.choice(self.engines)
        end = len(self.log) + 1
        life.handle = self.buses[bus].subscribe(
            life.wish.what,
            lambda event: life.got.append(event.number),
            durable=life.name,
            engine=engine,
            level=life.level,
            where=life.wish.where,
            **({} if life.wish.topic is None else {"topic": life.wish.topic}),
            **life.options,
            **more,
        )
        life.options.pop("since", None)
        if engine == "spark" and (life.engine != "spark" or more):
            life.begin = end
            self.player.learn(life.handle)
        life.engine, life.bus = engine, bus

    def replace(self) -> None:
        life = self.lives.get(self.random.choice(NAMES))
        wish, bus = self.random.choice(WISHES), self.random.randrange(2)
        if life is not None and wish is not life.wish:
            self.settle(play=self.in_step)
            life.wish = wish
            self._attach(life, bus, replace=True)

    def detach(self) -> None:
        life = self.lives.get(self.random.choice(NAMES))
        if life is not None and life.bus is not None:
            self.settle(play=self.in_step)
            life.handle.detach()
            life.bus = None

    def cancel(self) -> None:
        life = self.lives.get(self.random.choice(NAMES))
        if life is not None and life.bus is not None:
            self.settle(play=self.in_step)
            life.handle.cancel()
            self.past.append(self.lives.pop(life.name))

    def tidy(self) -> None:
        self.player.store.write(tidy_routing).result()

    # -- what must come of it ----------------------------------------------------------------------

    def settle(self, *, play: bool = False) -> None:
        """Wait until all that is routed is handled, and compare."""
        if play and "spark" in self.engines:
            self.player.play()
        high = self.player.high()
        for bus in self.buses:
            assert bus.flush(DEADLINE)
        for life in self.lives.values():
            if life.bus is not None:
                direct = life.engine == "direct"
                self._look(life, len(self.log) + 1 if direct else max(high, life.begin))
                got = life.got if life.level != "strong_set" else sorted(life.got)
                assert got == life.expected, life

    def _look(self, life: Life, upto: int) -> None:
        for event, topic in self.log[life.place - 1 : upto - 1]:
            if life.wish.holds(event, topic):
                life.expected.append(event.number)
        life.place = max(life.place, upto)

    def close(self) -> None:
        for bus in self.buses:
            bus.close()
        self.player.store.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., list[tuple[str, list[int]]]]]:
    """Run a program over a file of its own."""
    files = iter(range(100))
    with ExitStack() as stack:

        def one(seed: int, **how: Any) -> list[tuple[str, list[int]]]:
            program = Program(f"sqlite:///{tmp_path / f'{next(files)}.db'}", seed, **how)
            stack.callback(program.close)
            return program.run()

        yield one


@pytest.mark.parametrize("seed", range(8))
def test_everybody_gets_what_the_reference_says_once_and_in_order(seed: int, run: Any) -> None:
    run(seed, engines=["spark"], in_step=False)


@pytest.mark.parametrize("seed", range(8))
def test_who_goes_from_engine_to_engine_misses_nothing(seed: int, run: Any) -> None:
    run(seed, engines=["spark", "direct"], in_step=False)


@pytest.mark.parametrize("seed", range(4))
def test_both_engines_give_the_same(seed: int, run: Any) -> None:
    routed = run(seed, engines=["spark"], in_step=True)
    direct = run(seed, engines=["direct"], in_step=True)
    assert [(name, sorted(got)) for name, got in routed] == [
        (name, sorted(got)) for name, got in direct
    ]
