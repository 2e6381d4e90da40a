"""Subscriptions with engine="spark": what the pipeline has routed is brought, once and in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_events import Refund, Sale, numbers, sales
from stored_player import Player

import polycast as pc
from polycast.errors import NotRoutableError
from polycast.testing import ManualClock, Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
LEVELS = ["weak_set", "strong_set", "list", "sorted_set"]


def big(sale: Sale) -> bool:
    """A filter that can be looked into."""
    return sale.number > 5


def small(sale: Sale) -> bool:
    """A filter that cannot."""
    found = False
    for number in range(3):
        found = found or sale.number == number
    return found


# -- what is brought -------------------------------------------------------------------------------


def test_nothing_comes_before_it_is_routed(
    shop: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen, direct = Recorder[Any](), Recorder[Any]()
    sub = shop.subscribe(Sale, seen, durable="billing", engine="spark")
    shop.subscribe(Sale, direct)
    player.learn(sub)
    shop.publish_many(sales(0, 1, 2))
    assert shop.flush(5)  # which does not wait for the pipeline
    assert (numbers(seen), numbers(direct)) == ([], [0, 1, 2])
    player.play(2)
    eventually(lambda: len(seen.events) == 2)
    player.play()
    eventually(lambda: len(seen.events) == 3)
    assert numbers(seen) == [0, 1, 2]


def test_only_what_is_taken_comes(shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(
        Sale, seen, durable="big", engine="spark", where=lambda sale: sale.number > 5
    )
    player.learn(sub)
    shop.publish_many([Refund(7), *sales(*range(10)), Refund(8)])
    player.play()
    assert shop.flush(5)
    assert numbers(seen) == [6, 7, 8, 9]


@pytest.mark.parametrize("level", LEVELS)
def test_all_levels_get_all(level: Any, shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", engine="spark", level=level))
    for n in range(0, 1_500, 100):
        shop.publish_many(sales(*range(n, n + 100)))
    player.play(700, lambda: 600)
    player.play(cut=lambda: 7)
    assert shop.flush(10)
    assert sorted(numbers(seen)) == list(range(1_500))
    if level in ("list", "sorted_set"):
        assert numbers(seen) == list(range(1_500))


@pytest.mark.parametrize("since", ["beginning", 3])
def test_what_is_before_the_route_is_matched_here_at_once(
    since: Any, shop: pc.Bus, player: Player
) -> None:
    shop.publish_many(sales(*range(10)))
    player.play(4)  # it is behind, and has routed for nobody
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", engine="spark", since=since))
    first = 0 if since == "beginning" else 2
    shop.publish_many(sales(10, 11))
    assert shop.flush(5)
    assert numbers(seen) == list(range(first, 10))
    player.play(cut=lambda: 3)
    assert shop.flush(5)
    assert numbers(seen) == list(range(first, 12))


def test_a_new_definition_holds_from_the_place_of_the_old(shop: pc.Bus, player: Player) -> None:
    before, after = Recorder[Any](), Recorder[Any]()
    player.learn(shop.subscribe(Sale, before, durable="d", engine="spark"))
    shop.publish_many(sales(*range(10)))
    player.play(4)
    assert shop.flush(5)
    player.learn(shop.subscribe(Sale, after, durable="d", engine="spark", where=big, replace=True))
    shop.publish_many(sales(*range(10, 13)))
    assert [route.until for route in player.routes()] == [11, None]
    assert shop.flush(5)
    assert (numbers(before), numbers(after)) == ([0, 1, 2, 3], [6, 7, 8, 9])
    player.play(cut=lambda: 4)
    assert shop.flush(5)
    assert (numbers(before), numbers(after)) == ([0, 1, 2, 3], [6, 7, 8, 9, 10, 11, 12])


def test_the_same_definition_goes_on_with_its_route(shop: pc.Bus, player: Player) -> None:
    sub = shop.subscribe(Sale, print, durable="d", engine="spark")
    player.learn(sub)
    shop.publish_many(sales(0, 1))
    sub.detach()
    shop.publish_many(sales(2, 3))
    player.play(3)
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="d", engine="spark")
    assert len(player.routes()) == 1
    player.play()
    assert shop.flush(5)
    assert numbers(seen) == [0, 1, 2, 3]


def test_the_engine_is_not_part_of_the_definition(
    shop: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", engine="spark"))
    shop.publish_many(sales(0, 1, 2))
    player.play(1)
    assert shop.flush(5)
    shop.subscribe(Sale, seen, durable="d")
    eventually(lambda: len(seen.events) == 3)
    assert [route.until for route in player.routes()] == [4]
    shop.publish(Sale(3))
    player.play()
    eventually(lambda: len(seen.events) == 4)
    sub = shop.subscribe(Sale, seen, durable="d", engine="spark")
    shop.publish(Sale(4))
    eventually(lambda: sub.mailbox.route is not None)
    assert shop.flush(5)
    player.play()
    assert shop.flush(5)
    assert numbers(seen) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("where", [small, lambda sale: sale.number < 9 and small(sale)])
def test_who_is_unsure_is_asked_here(where: Any, shop: pc.Bus, player: Player) -> None:
    live, late = Recorder[Any](), Recorder[Any]()
    options: dict[str, Any] = {"engine": "spark", "where": where}
    player.learn(shop.subscribe(Sale, live, durable="live", **options))
    shop.subscribe(Sale, print, durable="late", **options).detach()
    shop.publish_many(sales(*range(20)))
    player.play()
    shop.subscribe(Sale, late, durable="late", **options)
    assert shop.flush(5)
    assert numbers(live) == numbers(late) == [0, 1, 2]


def test_without_stretches_it_is_matched_here(shop: pc.Bus, player: Player) -> None:
    """They may have gone if somebody's cursor was moved, or was put back."""
    sub = shop.subscribe(Sale, print, durable="d", engine="spark", where=big)
    player.learn(sub)
    sub.detach()
    shop.publish_many(sales(*range(30)))
    player.play(cut=lambda: 10)
    player.drop(21)
    assert player.stretches() == [(21, 31)]
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="d", engine="spark", where=big)
    assert shop.flush(5)
    assert numbers(seen) == list(range(6, 30))


def test_a_stretch_that_nobody_can_read_is_matched_here(
    shop: pc.Bus, player: Player, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", engine="spark", where=big))
    shop.publish_many(sales(*range(10)))
    player.play_nonsense()
    shop.publish_many(sales(10, 11))
    player.play()
    assert shop.flush(5)
    assert numbers(seen) == [6, 7, 8, 9, 10, 11]
    assert "is matched here" in caplog.text


# -- queues ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["strong_set", "list", "sorted_set"])
def test_a_short_queue_reads_on_from_its_own_place(
    level: Any, shop: pc.Bus, player: Player
) -> None:
    slow, fast = Recorder[Any](), Recorder[Any]()
    options: dict[str, Any] = {"engine": "spark", "level": level}
    even = shop.subscribe(
        Sale, slow, durable="slow", queue=5, where=lambda sale: sale.number % 2 == 0, **options
    )
    player.learn(even, shop.subscribe(Sale, fast, durable="fast", **options))
    for n in range(0, 1_000, 100):
        shop.publish_many(sales(*range(n, n + 100)))
        player.play(130, lambda: 40)
    player.play()
    assert shop.flush(10)
    assert sorted(numbers(fast)) == list(range(1_000))
    assert numbers(slow) == list(range(0, 1_000, 2))


def test_what_a_paused_one_cannot_hold_waits_in_the_log(
    shop: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=5, durable="d", engine="spark")
    player.learn(sub)
    sub.pause()
    shop.publish_many(sales(*range(100)))
    player.play(60)
    eventually(lambda: len(sub.mailbox.queue) == 5)
    sub.resume()
    eventually(lambda: len(seen.events) == 60)
    player.play()
    assert shop.flush(5)
    assert numbers(seen) == list(range(100))


@pytest.mark.parametrize(
    ("policy", "kept"), [("drop_oldest", [7, 8, 9]), ("drop_newest", [0, 1, 2])]
)
def test_a_policy_that_drops_does_so(
    policy: Any, kept: list[int], shop: pc.Bus, player: Player, eventually: Eventually
) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=3, overflow=policy, durable="d", engine="spark")
    player.learn(sub)
    sub.pause()
    shop.publish_many(sales(*range(10)))
    player.play()
    eventually(lambda: sub.mailbox.counts.dropped == 7)
    sub.resume()
    assert shop.flush(5)
    assert numbers(seen) == kept


def test_who_publishes_does_not_wait_for_one_that_blocks(shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, seen, queue=2, overflow="block", durable="d", engine="spark")
    player.learn(sub)
    sub.pause()
    shop.publish_many(sales(*range(20)))
    player.play()
    assert "nobody who publishes waits" in str(sub.explain())
    sub.resume()
    assert shop.flush(5)
    assert numbers(seen) == list(range(20))


def test_in_line_and_asynchronous_callbacks_are_called(shop: pc.Bus, player: Player) -> None:
    inline: list[int] = []
    awaited: list[int] = []

    async def take(sale: Sale) -> None:
        awaited.append(sale.number)

    options: dict[str, Any] = {"engine": "spark"}
    player.learn(
        shop.subscribe(
            Sale, lambda s: inline.append(s.number), durable="i", dispatch="inline", **options
        ),
        shop.subscribe(Sale, take, durable="a", **options),
    )
    shop.publish_many(sales(*range(50)))
    player.play()
    assert shop.flush(5)
    assert inline == awaited == list(range(50))


def test_a_stream_and_a_collection_can_be_routed(shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    players = pc.DAList(Sale, shop).contains(seen, durable="contained", engine="spark")

    async def read() -> list[int]:
        stream = shop.stream(Sale, durable="streamed", engine="spark")
        player.learn(players, stream.subscription)
        shop.publish_many(sales(0, 1, 2))
        player.play()
        got = [(await anext(stream)).number for _ in range(3)]
        await stream.aclose()
        return got

    assert asyncio.run(read()) == [0, 1, 2]
    assert shop.flush(5)
    assert numbers(seen) == [0, 1, 2]


# -- cursors, flush, health ------------------------------------------------------------------------


def test_the_cursor_does_not_pass_what_is_not_routed(shop: pc.Bus, player: Player) -> None:
    seen: Recorder[Any] = Recorder()
    player.learn(shop.subscribe(Sale, seen, durable="d", engine="spark"))
    shop.publish_many(sales(*range(10)))
    player.play(4)
    assert shop.flush(5)
    assert player.cursors(["d"]) == [5]
    shop.close()
    assert player.cursors(["d"]) == [5]


def test_an_idle_cursor_moves_on_with_what_is_routed(
    open_bus: OpenBus, player: Player, clock: ManualClock, eventually: Eventually
) -> None:
    bus = open_bus(clock=clock)
    names = ["routed", "group", "direct"]
    player.learn(
        bus.subscribe(Refund, print, durable="routed", engine="spark"),
        bus.subscribe(Refund, print, durable="group", group="g", engine="spark"),
    )
    bus.subscribe(Refund, print, durable="direct")
    bus.publish_many(sales(*range(20)))
    player.play(10, lambda: 3)
    eventually(lambda: bus.health().pipeline.routed == 11)  # type: ignore[union-attr]
    assert player.cursors(names) == [1, 1, 1]

    def looked() -> bool:
        clock.advance(1.0)
        return player.cursors(names) == [11, 11, 21]

    eventually(looked)
    eventually(lambda: player.stretches() == [])


def test_flush_waits_for_what_is_routed(
    shop: pc.Bus, player: Player, in_thread: Callable[..., Any], eventually: Eventually
) -> None:
    go, done = threading.Event(), threading.Event()
    player.learn(
        shop.subscribe(Sale, lambda sale: go.wait(10), durable="d", engine="spark", queue=2)
    )
    shop.publish_many(sales(*range(20)))
    player.play(15)

    def flush() -> None:
        if shop.flush(10):
            done.set()

    in_thread(flush)
    assert not shop.flush(0.05)
    assert not done.is_set()
    go.set()
    eventually(done.is_set)
    assert player.cursors(["d"]) == [16]


def test_health_and_explain_say_how_far_the_pipeline_is(
    open_bus: OpenBus, path: Path, clock: ManualClock, eventually: Eventually
) -> None:
    bus = open_bus(clock=clock)
    sub = bus.subscribe(Sale, Recorder(), durable="d", engine="spark")
    bus.subscribe(Sale, print, durable="other", where=lambda sale: sale.number < 0)
    bus.publish_many(sales(*range(10)))
    assert any("never run on this store" in problem for problem in bus.health().problems)
    player = Player(path)
    player.learn(sub)
    player.play(4)
    assert bus.flush(5)
    eventually(lambda: bus.health().problems == ())
    health = bus.health()
    assert health.pipeline is not None
    assert (health.pipeline.routed, health.pipeline.behind) == (5, 6)
    assert {each.name: each.engine for each in health.subscriptions} == {
        "d": "spark",
        "other": "direct",
    }
    told = "routed what is before position 5, 6 events behind the log"
    assert told in str(sub.explain())
    eventually(lambda: bus._engine.source.routed.waits_since is not None)  # type: ignore[union-attr]
    clock.advance(60)
    assert any("has not moved for 60 s" in problem for problem in bus.health().problems)
    player.play()
    assert bus.flush(5)
    assert bus.health().ok
    player.store.close()


def test_without_such_subscriptions_health_does_not_speak_of_it(shop: pc.Bus) -> None:
    sub = shop.subscribe(Sale, print, durable="d")
    shop.publish(Sale(1))
    assert shop.health().pipeline is None
    assert "pipeline" not in str(sub.explain())


# -- what is refused -------------------------------------------------------------------------------


def test_a_filter_that_nobody_else_can_ask_is_refused(shop: pc.Bus, player: Player) -> None:
    def local(sale: Sale) -> bool:
        return small(sale)

    with pytest.raises(NotRoutableError, match="engine='direct' takes any filter"):
        shop.subscribe(Sale, print, durable="d", engine="spark", where=local)
    assert (player.routes(), player.cursors(["d"])) == ([], [])
    assert shop.health().subscriptions == ()


def test_it_needs_a_durable_name(shop: pc.Bus) -> None:
    with pytest.raises(pc.BadOptionError, match="it goes with durable='name'"):
        shop.subscribe(Sale, print, engine="spark", group="crew")


def test_the_store_knows_the_types_before_any_event(shop: pc.Bus, player: Player) -> None:
    shop.subscribe(Sale, print, durable="d", engine="spark")
    with player.store.view() as view:
        assert [each.name for each in view.descriptions()] == ["stored_events.Sale"]
