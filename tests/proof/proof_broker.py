"""Brokers over one store, their clients, and a network between them: all are hurt, and judged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from proof_history import Op
from proof_kills import CAST, LEASE, Troupe, Verdict, Worker, flooded, pause
from proof_proxy import HOST, Proxy
from proof_serving import BrokerJob
from proof_workers import Listening

__all__ = [
    "CLIENTS",
    "HURTS",
    "WATCHERS",
    "Company",
    "flooded_over_a_broker",
    "memory_of",
    "port_of",
]

SERVING = Path(__file__).with_name("proof_serving.py")
WATCHERS: dict[str, list[Listening]] = {
    "w1": [
        Listening("watching", "Event", "list", above=30, transactional=False, durable=False),
        Listening("all in order", "Talk", "sorted_set", transactional=False, durable=False),
    ],
}
"""They keep nothing, so nobody kills them; whatever becomes of brokers, they miss nothing."""
CLIENTS: dict[str, list[Listening]] = CAST | WATCHERS
CEILING = 40 * 1024  # KiB that a process may grow by: a window on its way, and copies of it
CALM = {"pause": 0.15}  # what a group of three gets through while it is hurt


class Company(Troupe):
    """A troupe that plays over a network."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        brokers: int = 2,
        heartbeat: float = 1.0,
        cast: dict[str, list[Listening]] = CLIENTS,
        publishers: int = 3,
        publishing: dict[str, Any] | None = None,
    ) -> None:
        publishing = publishing or CALM
        super().__init__(folder, seed=seed, cast=cast, publishers=publishers, publishing=publishing)
        self.store = self.url
        self._job = BrokerJob(self.store, heartbeat=heartbeat, patience=2 * heartbeat)
        self.brokers = [self._broker(f"b{n}") for n in range(1, brokers + 1)]
        self.proxies = [
            Proxy(lambda each=broker: port_of(each), seed=seed * 100 + n)
            for n, broker in enumerate(self.brokers)
        ]
        self._open = ExitStack()

    def _broker(self, name: str) -> Worker:
        return Worker(name, lambda life: self._job, self.folder, SERVING)

    def url_of(self, name: str) -> str:
        """All brokers; not everybody begins with the same one."""
        first = sum(map(ord, name)) % len(self.proxies)
        places = [f"{HOST}:{each.port}" for each in self.proxies]
        return "polycast://" + ",".join(places[first:] + places[:first])

    # -- the run -----------------------------------------------------------------------------------

    def __enter__(self) -> Company:
        for proxy in self.proxies:
            self._open.enter_context(proxy)
        for broker in self.brokers:
            broker.start()
        self._wait_ready(self.brokers)
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._open.close()

    def _everybody(self) -> list[Worker]:
        return [*super()._everybody(), *self.brokers]

    def kill(self, victims: list[Worker], *, counted_as: str = "kills") -> None:
        """Kill some and start them again; a broker comes back where it was."""
        brokers = sum(each in self.brokers for each in victims)
        self.verdict.figures["kills of a broker"] += brokers
        super().kill(victims, counted_as=counted_as)

    # -- what happens to it ------------------------------------------------------------------------

    def disturb(self) -> None:
        """Hurt somebody, or the network, at a random moment."""
        pause(self.dice.uniform(0.0, 0.25))
        what = self.dice.choices(list(HURTS), [weight for weight, _ in HURTS.values()])[0]
        HURTS[what][1](self)
        self.verdict.figures[what] += 1

    def kill_a_broker(self) -> None:
        """One of them."""
        self.kill([self.dice.choice(self.brokers)])

    def kill_all_brokers(self) -> None:
        """Nobody can be reached for a while."""
        self.kill(list(self.brokers))

    def kill_a_client(self) -> None:
        """A publisher or a subscriber."""
        self.kill([self.dice.choice(self._mortals())])

    def kill_both(self) -> None:
        """A broker and a client of it at once."""
        self.kill([self.dice.choice(self.brokers), self.dice.choice(self._mortals())])

    def kill_everybody(self) -> None:
        """But for those who keep nothing."""
        self.kill([*self._mortals(), *self.brokers])

    def cut(self) -> None:
        """Connections, between two pieces of what is sent."""
        self.dice.choice(self.proxies).cut()

    def cut_in_a_frame(self) -> None:
        """Connections, wherever that is in a frame."""
        self.dice.choice(self.proxies).cut_after(self.dice.choice((10, 500, 5_000)))

    def stall(self) -> None:
        """Connections that are neither dead nor alive."""
        self.dice.choice(self.proxies).stall()

    def stall_for_a_while(self) -> None:
        """What was said comes when it has been said again elsewhere."""
        proxy = self.dice.choice(self.proxies)
        proxy.stall()
        pause(self.dice.uniform(0.0, 3.0) * self._job.heartbeat)
        proxy.flow()

    def delay(self) -> None:
        """All that is sent, or no longer."""
        self.dice.choice(self.proxies).longest = self.dice.choice((0.0, 0.0, 0.01, 0.05))

    def part(self) -> None:
        """One broker cannot be reached, longer than members may be silent."""
        proxy = self.dice.choice(self.proxies)
        proxy.is_open = False
        proxy.stall()
        pause(LEASE * self.dice.uniform(1.0, 2.0))
        proxy.is_open = True

    def _mortals(self) -> list[Worker]:
        kept = [each for each in self.subscribers if self.cast[each.name][0].durable]
        return [*self.publishers, *kept]

    def done(self, kind: str) -> list[Op]:
        """What happened so far, of one kind."""
        return [op for op in self._history() if op.kind == kind]

    def lose(self, broker: Worker) -> None:
        """Kill a broker for good."""
        self.proxies[self.brokers.index(broker)].is_open = False
        self.brokers.remove(broker)
        broker.kill()
        broker.ended()

    # -- its end -----------------------------------------------------------------------------------

    def finish(self) -> Verdict:
        """The same, with a network that is well; then brokers end as they should."""
        for proxy in self.proxies:
            proxy.longest = 0.0
        self.await_ready()
        verdict = super().finish()
        for broker in self.brokers:
            grown = memory_of(broker, "VmHWM") - int(broker.told().split()[1])
            verdict.figures[f"{broker.name} grew by KiB"] = grown
        self._end(self.brokers)
        verdict.figures["connections"] = sum(each.accepted for each in self.proxies)
        return verdict


HURTS: dict[str, tuple[int, Callable[[Company], None]]] = {
    "a broker": (25, Company.kill_a_broker),
    "all brokers": (8, Company.kill_all_brokers),
    "a client": (20, Company.kill_a_client),
    "a broker and a client": (12, Company.kill_both),
    "everybody": (4, Company.kill_everybody),
    "cuts": (8, Company.cut),
    "cuts in a frame": (8, Company.cut_in_a_frame),
    "stalls": (4, Company.stall),
    "slow networks": (4, Company.stall_for_a_while),
    "delays": (4, Company.delay),
    "partitions": (3, Company.part),
    "pauses": (4, Company.pause_a_member),
}
"""What happens, and how often in a hundred."""


def port_of(broker: Worker) -> int | None:
    """Where a broker serves, if it is ready."""
    words = broker.told().split()
    return int(words[3]) if len(words) > 3 else None


def memory_of(worker: Worker, what: str = "VmRSS") -> int:
    """How much memory a process has now, in KiB; `VmHWM` is the most that it had."""
    assert worker.process is not None
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0])


def flooded_over_a_broker(folder: Path, *, seed: int, events: int, size: int) -> Verdict:
    """A flood, where neither the broker nor its clients grow by half of what is published."""
    verdict = flooded(
        folder, seed=seed, events=events, size=size, played_by=Company, ceiling=CEILING
    )
    for name in ("b1", "b2"):
        grown = verdict.figures[f"{name} grew by KiB"]
        if grown > CEILING:
            verdict.problems.append(f"{name} grew by {grown} KiB")
    return verdict
