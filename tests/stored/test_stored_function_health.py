"""What fails each time is named over a store, too, wherever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from explained_world import LocalWare, Ware, federation
from stored_player import Player

import polycast as pc
from polycast.testing import Recorder

OpenBus = Callable[..., pc.Bus]
Eventually = Callable[[Callable[[], object]], None]


def broken(price: int) -> bool:
    """Nobody can look into it."""
    raise KeyError(price)


def told(bus: pc.Bus, part: str) -> list[str]:
    """The problems that speak of something."""
    return [each for each in bus.health().problems if part in each]


FILTERS: dict[str, Any] = {
    "lifted": lambda ware: 10 / ware.price > 2,
    "opaque": lambda ware: broken(ware.price),
    "split": lambda ware: ware.price < 5 and broken(ware.price),
}


@pytest.mark.parametrize("group", [None, "crew"])
@pytest.mark.parametrize("where", sorted(FILTERS))
def test_a_filter_that_always_fails_is_named(
    shop: pc.Bus, eventually: Eventually, where: str, group: str | None
) -> None:
    options: dict[str, Any] = {} if group is None else {"group": group}
    sub = shop.subscribe(Ware, Recorder(), where=FILTERS[where], **options)
    shop.publish_many([Ware(0)] * 4)
    eventually(lambda: "4 of 4" in "".join(told(shop, sub.mailbox.name)))
    [problem] = told(shop, "the filter of")
    assert "4 of 4 times, the last 4 in a row" in problem
    assert ("ZeroDivisionError" if where == "lifted" else "KeyError: 0") in problem
    sub.cancel()
    assert shop.health().ok


def test_a_filter_that_has_answered_again_is_no_problem(
    shop: pc.Bus, eventually: Eventually
) -> None:
    shop.subscribe(Ware, Recorder(), where=FILTERS["lifted"])
    shop.publish_many([Ware(0)] * 4)
    eventually(lambda: told(shop, "filter"))
    shop.publish(Ware(9))
    assert shop.flush(5)
    assert shop.health().ok


def test_what_was_before_a_subscription_says_nothing_of_its_filter(shop: pc.Bus) -> None:
    shop.publish_many([Ware(0)] * 4)
    shop.subscribe(Ware, Recorder(), where=FILTERS["lifted"])
    assert shop.flush(5)
    assert shop.health().ok


def test_a_filter_that_the_pipeline_asks_is_named(
    shop: pc.Bus, player: Player, path: Path, eventually: Eventually
) -> None:
    del path
    where = FILTERS["lifted"]
    sub = shop.subscribe(Ware, Recorder(), where=where, durable="d", engine="spark")
    shop.publish_many([Ware(0)] * 4)
    player.learn(sub)
    player.play()
    eventually(lambda: told(shop, "the filter of d fails"))


def test_a_function_of_a_context_that_always_fails_is_named(
    open_bus: OpenBus, eventually: Eventually
) -> None:
    bus = open_bus(federation=federation())
    sub = bus.within("us").subscribe(LocalWare, Recorder())
    bus.publish_many([Ware(9)] * 4)
    eventually(lambda: told(bus, "no Ware gets into it: 4 of 4 times"))
    [problem] = told(bus, "of context 'us' fails")
    assert "no Ware gets into it: 4 of 4 times" in problem
    assert "ValueError: no such price" in problem
    bus.publish(Ware(1))
    assert bus.flush(5)
    assert not told(bus, "of context 'us'")
    sub.cancel()
