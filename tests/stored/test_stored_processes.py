"""Several processes over one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from stored_events import Sale, numbers, sales
from stored_program import Program

import polycast as pc
from polycast.stores import Flight, GroupMember, open_store
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]
OpenBus = Callable[..., pc.Bus]
Start = Callable[..., Program]


def test_a_durable_goes_from_process_to_process(
    start: Start, shop: pc.Bus, eventually: Eventually
) -> None:
    first: Recorder[Any] = Recorder()
    sub = shop.subscribe(Sale, first, durable="billing")
    shop.publish_many(sales(0, 1))
    eventually(lambda: len(first.events) == 2)
    elsewhere = start(durable="billing")
    elsewhere.hear("ready")
    eventually(lambda: sub.state == "taken over")
    shop.publish_many(sales(2, 3))
    eventually(lambda: len(elsewhere.got()) == 2)
    elsewhere.tell("flush")  # so that what it has handled is acknowledged
    assert elsewhere.hear("flushed") == [True]
    back: Recorder[Any] = Recorder()
    shop.subscribe(Sale, back, durable="billing")
    shop.publish(Sale(4))
    eventually(lambda: back.events)
    elsewhere.end()
    assert (numbers(first), elsewhere.got(), numbers(back)) == ([0, 1], [2, 3], [4])
    tokens = [said[2] for said in elsewhere.heard if said[0] == "got"]
    assert first.deliveries[-1].token < min(tokens)
    assert max(tokens) < back.deliveries[0].token


def test_another_definition_is_refused_in_another_process(start: Start, shop: pc.Bus) -> None:
    shop.subscribe(Sale, print, durable="billing", where=lambda sale: sale.number > 5)
    [difference] = start(durable="billing").hear("changed")
    assert difference == {"where": ["sale.number > 5", "nothing"]} or "where" in difference


def test_what_a_killed_process_had_not_handled_comes_again(
    start: Start, shop: pc.Bus, eventually: Eventually
) -> None:
    elsewhere = start(durable="billing", hold=[1])
    elsewhere.hear("ready")
    shop.publish_many(sales(0, 1, 2))
    elsewhere.hear("began")
    elsewhere.kill()
    seen: Recorder[Any] = Recorder()
    shop.subscribe(Sale, seen, durable="billing")
    eventually(lambda: 2 in numbers(seen))
    assert shop.flush(5)
    # The first may come again: its acknowledgement may not have been on disk.
    assert numbers(seen) in ([1, 2], [0, 1, 2])


@pytest.mark.parametrize("level", ["strong_set", "list", "sorted_set"])
def test_what_a_killed_member_had_goes_to_another(
    level: str, start: Start, open_bus: OpenBus, eventually: Eventually
) -> None:
    elsewhere = start(group="crew", durable="crew", level=level, hold=[0])
    elsewhere.hear("ready")
    bus, seen = open_bus(heartbeat_timeout=0.5), Recorder[Any]()
    bus.publish(Sale(0))
    _, token = elsewhere.hear("began")
    bus.subscribe(Sale, seen, group="crew", durable="crew", level=level)
    bus.publish_many(sales(*range(1, 10)))
    elsewhere.kill()
    eventually(lambda: len(seen.events) == 10)
    assert sorted(numbers(seen)) == list(range(10))
    [first] = [each for each in seen.deliveries if each.position == 1]
    assert (first.count, first.token > token) == (2, True)
    if level != "strong_set":
        assert numbers(seen) == list(range(10))


def test_a_member_that_stood_still_too_long_is_refused(
    start: Start, open_bus: OpenBus, eventually: Eventually
) -> None:
    elsewhere = start(group="crew", durable="crew", ack="manual", hold=[0], heartbeat_timeout=0.6)
    elsewhere.hear("ready")
    bus, seen = open_bus(heartbeat_timeout=0.6), Recorder[Any]()
    bus.publish(Sale(0))
    elsewhere.hear("began")
    bus.subscribe(Sale, seen, group="crew", durable="crew")
    elsewhere.stop()
    eventually(lambda: seen.events)
    elsewhere.tell("go")
    elsewhere.go_on()
    number, why = elsewhere.hear("refused")
    assert number == 0
    assert "another member" in why or "taken away" in why
    bus.close()  # and it works again: it is the only one now
    with open_bus() as bus:
        bus.publish_many(sales(1, 2))
        eventually(lambda: sorted(elsewhere.got()) == [1, 2])


def test_what_was_claimed_by_a_bus_that_nobody_buries_any_more_is_free(
    path: Path, open_bus: OpenBus, eventually: Eventually
) -> None:
    bus, seen = open_bus(heartbeat_timeout=0.3), Recorder[Any]()
    bus.subscribe(Sale, seen, group="crew", durable="crew", ack="manual")
    bus.publish(Sale(0))
    eventually(lambda: seen.events)
    file = apsw.Connection(str(path))  # as if it had claimed after it had counted as dead
    file.set_busy_timeout(10_000)
    file.execute("DELETE FROM buses")
    file.close()
    eventually(lambda: len(seen.deliveries) == 2)
    assert [each.count for each in seen.deliveries] == [1, 2]


def test_what_was_claimed_by_a_bus_that_was_dead_and_buried_is_free(
    path: Path, open_bus: OpenBus, eventually: Eventually
) -> None:
    with open_bus() as bus:
        bus.subscribe(Sale, print, group="crew", durable="crew").detach()
        receipt = bus.publish(Sale(0))
    position = receipt.position
    assert position is not None
    store = open_store(path)
    # It joined when it had been buried, and was killed before it knew.
    store.write(lambda tx: tx.join(GroupMember("crew", 1_000, position))).result()
    claim = Flight("crew", position, receipt.identity.publisher, 1_000, 7, attempts=1)
    assert store.write(lambda tx: tx.claim(claim)).result()
    store.close()
    bus, seen = open_bus(heartbeat_timeout=0.3), Recorder[Any]()
    bus.subscribe(Sale, seen, group="crew", durable="crew")
    eventually(lambda: seen.events)
    assert numbers(seen) == [0]


def test_several_processes_share_the_work_of_a_group(
    start: Start, shop: pc.Bus, eventually: Eventually
) -> None:
    programs = [start(group="crew", publisher=f"worker-{n}") for n in range(2)]
    for program in programs:
        program.hear("ready")
    for n in range(0, 200, 20):
        shop.publish_many(sales(*range(n, n + 20)))
    eventually(lambda: sum(len(each.got()) for each in programs) >= 200)
    for program in programs:
        program.end()
    assert sorted(programs[0].got() + programs[1].got()) == list(range(200))


UNKNOWN = """
from dataclasses import dataclass
from stored_events import Sale

@dataclass
class Item:
    name: str
    prices: list[int]

@dataclass
class Odd(Sale):
    why: str = ""
    item: Item | None = None

    def total(self):
        return 1

import script_of_another_process as here  # so that the classes have a module others can name
with pc.Bus(url) as bus:
    if __name__ == "__main__":
        bus.publish(here.Odd(7, "because", here.Item("tea", [1, 2])))
"""


def test_a_class_that_is_not_here_is_made_and_loses_nothing(
    shop: pc.Bus, run_script: Callable[[str], None], eventually: Eventually
) -> None:
    every: Recorder[Any] = Recorder()
    seen: Recorder[Any] = Recorder()
    shop.subscribe(object, every, durable="every")
    shop.subscribe(Sale, seen, where=lambda sale: sale.number == 7)
    run_script(UNKNOWN)
    eventually(lambda: seen.events and every.events)
    [odd] = seen.events
    assert isinstance(odd, Sale)
    assert (odd.number, odd.why, odd.item.name, odd.item.prices) == (7, "because", "tea", [1, 2])
    with pytest.raises(pc.MethodNotHereError):
        odd.total()
    shop.publish(odd)
    eventually(lambda: len(seen.events) == 2)
    store = shop._engine.store  # type: ignore[attr-defined]
    first, again = (each.record for each in store.read(1).entries)
    assert (first.name, first.hash, first.payload) == (again.name, again.hash, again.payload)


def test_all_buses_see_what_is_advertised(
    open_bus: OpenBus, start: Start, eventually: Eventually
) -> None:
    one, other = open_bus(), open_bus()
    sales_to_come = one.advertise(Sale)
    one.advertise("/Chat/**", lease=60)
    assert len(other.health().advertised) == 2
    sales_to_come.cancel()
    eventually(lambda: len(other.health().advertised) == 1)
    one.close()
    assert other.health().advertised == ()
