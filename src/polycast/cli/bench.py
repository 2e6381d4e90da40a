"""`polycast bench`: how fast a store or a broker is, measured from here with events of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polycast.cli.declaration import add_command, add_place, whole
from polycast.cli.terminal import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from polycast.cli.terminal import Terminal

__all__ = ["declare"]


def declare(commands: Any) -> None:
    """Declare the command."""
    what = "measure how fast events get to subscribers, with a type and a topic of its own"
    example = "bench polycast://127.0.0.1:7788 --events 10000 --subscribers 4"
    more = "What it publishes stays in the log as long as the rule of retention keeps it."
    command = add_command(commands, "bench", run, what, example, more=more)
    add_place(command)
    command.add_argument(
        "--events", metavar="N", type=whole, default=10_000, help="how many (10,000)"
    )
    command.add_argument("--size", metavar="BYTES", type=whole, default=100, help="of each (100)")
    command.add_argument("--subscribers", metavar="K", type=whole, default=1, help="how many (1)")


def run(given: Namespace, terminal: Terminal) -> int:
    """Publish events of a type and on a topic of its own, and measure how they arrive."""
    import msgspec

    from polycast.cli.bench_rounds import EXPIRES, round_table
    from polycast.cli.formatting import count, size

    if not given.events or not given.subscribers:
        raise UsageError("--events and --subscribers are at least 1")
    rounds = _rounds(given)
    left = sum(figures.events for figures in rounds.values())
    data = {
        "place": given.store,
        "left": left,
        "events": given.events,
        "size": given.size,
        "subscribers": given.subscribers,
        "rounds": {name: msgspec.to_builtins(figures) for name, figures in rounds.items()},
    }
    of = f"of {size(given.size)}" if given.size else "without padding"
    title = (
        f"{given.store}: {count(given.events, 'event')} {of}, "
        f"{count(given.subscribers, 'subscriber')}"
    )
    terminal.show(data, [title, "", round_table(rounds)])
    if not terminal.as_json:
        terminal.note(
            f"{count(left, 'event')} of this stay in the log until its retention lets go of them; "
            f"nobody gets them after {EXPIRES / 60:g} minutes"
        )
    return 0


def _rounds(given: Namespace) -> dict[str, Any]:
    """Measure both rounds, with buses and subscriptions that end with them."""
    import uuid
    from contextlib import ExitStack

    from polycast.cli.bench_rounds import BATCH, SINGLE, Collector, Probe, batches, one_by_one
    from polycast.cli.targets import place_of
    from polycast.matching import topic as on_topic

    place, topic = place_of(given), f"/polycast/bench/{uuid.uuid4().hex[:12]}"
    collectors = [Collector() for _ in range(given.subscribers)]
    with ExitStack() as opened:
        publisher = opened.enter_context(place.bus())
        subscriber = opened.enter_context(place.bus())
        for collector in collectors:
            what, queue = on_topic(topic, Probe), given.events + SINGLE
            opened.enter_context(subscriber.subscribe(what, collector.take, queue=queue))
        return {
            f"batches of {BATCH}": batches(given, publisher, topic, collectors),
            "one by one": one_by_one(given, publisher, topic, collectors),
        }
