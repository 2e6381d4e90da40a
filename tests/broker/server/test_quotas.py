"""How much an owner may have at a broker, over all its connections and tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from shop import Gift, Order

import polycast as pc
from polycast.broker.server.access import Principal, Rights
from polycast.broker.server.authorization import Authorization
from polycast.broker.server.broker import Broker
from polycast.broker.server.client_session import ClientSession
from polycast.broker.server.limits import Quota
from polycast.broker.server.ownership import (
    DAY,
    PUBLISHER,
    SUBSCRIPTION,
    Usage,
    forget_owners,
    set_subscription_owner,
    size_of_run,
)
from polycast.broker.server.prometheus import metrics_text
from polycast.broker.server.request_handler import WorkScope, take
from polycast.broker.server.run import Serving
from polycast.broker.wire.calls import STEPS
from polycast.broker.wire.protocol import PROTOCOL, Hello, Step, encode, frames
from polycast.errors import LimitReachedError
from polycast.stores import Advert, Run, Transaction
from polycast.stores import OpenBus as OpenedBus
from polycast.stores.memory_store import MemoryStore
from polycast.testing import ManualClock, Recorder

OpenBus = Callable[..., pc.Bus]
Serve = Callable[..., Serving]
Eventually = Callable[[Callable[[], object]], None]
ALL = "publish = ['*']\nsubscribe = ['*']\nowner = 'shop'"
WHO = Principal("till", Rights.of(publish=["*"]), owner="shop")


class Shop:
    """A broker where the owner `shop` has two tokens and a quota."""

    def __init__(self, serving: Serving, opened: Callable[..., pc.Bus]) -> None:
        self.serving, self.broker, self.open = serving, serving.broker, opened


@pytest.fixture
def shop(tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus) -> Callable[..., Shop]:
    def make(url: str = "memory:", **quota: int) -> Shop:
        path = tmp_path / "tokens.toml"
        known, secrets = tokens(
            one=f"{ALL}\ndescribe = ['shop.*']",
            two=ALL,
            other="publish = ['*']\nsubscribe = ['*']",
            boss="admin = true\nowner = 'shop'",
        )
        lines = [f"{key} = {value}" for key, value in quota.items()]
        path.write_text("\n".join([path.read_text(), "[[owner]]", "name = 'shop'", *lines]))
        assert known.reload_if_changed() is None
        serving = serve(url, tokens=known)
        return Shop(serving, lambda name: open_bus(serving.url, token=secrets[name]))

    return make


def test_connections_are_counted_over_all_tokens_of_an_owner(
    shop: Any, eventually: Eventually
) -> None:
    here = shop(connections=2)
    first, _ = here.open("one"), here.open("two")
    with pytest.raises(
        LimitReachedError,
        match=r"'shop' has 2 connections .* asks for 1 more; up to 2 are accepted",
    ) as caught:
        here.open("two")
    assert caught.value.data == {"limit": 2, "used": 2, "owner": "shop", "quota": "connections"}
    here.open("other")
    here.open("boss")  # admins are not limited
    first.close()
    eventually(lambda: here.broker.usage.held["connections"]["shop"] == 1)
    here.open("two")


def test_who_comes_again_waits_for_room(shop: Any, eventually: Eventually) -> None:
    """Others of the owner may go; it is not the end of a bus that was let in before."""
    here = shop(connections=1)
    bus = here.open("one")
    here.broker.usage.held["connections"]["shop"] += 1  # somebody else is there by now
    for each in here.serving.peers():
        each.shutdown(2)
    eventually(lambda: not bus._engine.store.is_up)
    here.broker.usage.held["connections"]["shop"] = 0
    eventually(lambda: bus._engine.store.is_up)
    assert bus.publish(Order(1)).position == 1


def test_a_client_that_comes_again_takes_the_place_that_it_had() -> None:
    """Also while the broker has not noticed that its connection before is gone."""
    broker = Broker()
    broker.usage = Usage(broker.store, broker.clock, lambda owner: Quota(connections=1))
    found: list[str] = []

    async def talk() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(come(broker, "same", first, found))
        await asyncio.wait_for(first.wait(), 5)
        again = asyncio.create_task(come(broker, "same", second, found))
        await asyncio.wait_for(running, 5)
        await asyncio.wait_for(second.wait(), 5)
        await asyncio.wait_for(come(broker, "another", asyncio.Event(), found), 5)
        again.cancel()
        await asyncio.wait([again])

    asyncio.run(talk())
    assert found[0] == "its client has come again"
    assert "'shop' has 1 connections" in found[1]


async def come(broker: Broker, client: str, let_in: asyncio.Event, found: list[str]) -> None:
    """Be a client that says nothing more; why its connection ended is added to `found`."""
    sent = [next(frames([encode(Hello(PROTOCOL, client))], 1_000))]

    async def receive() -> bytes | None:
        if not sent:
            let_in.set()
            await asyncio.Event().wait()
        return sent.pop()

    async def send(data: bytes) -> None:
        del data

    found.append(str(await ClientSession(broker, send, principal=WHO, place="here").run(receive)))


def test_subscriptions_are_counted_over_all_connections_of_an_owner(shop: Any) -> None:
    here = shop(subscriptions=2)
    one, two, other = (here.open(each) for each in ("one", "two", "other"))
    kept = one.subscribe(Order, print)
    two.subscribe(Order, print)
    with pytest.raises(LimitReachedError, match=r"has 2 subscriptions at this broker"):
        two.subscribe(Gift, print)
    other.subscribe(Order, print)
    kept.cancel()
    one.flush(5)
    two.subscribe(Gift, print)


def test_names_of_durable_subscriptions_are_counted_in_the_store(shop: Any, tmp_path: Path) -> None:
    here = shop(f"sqlite:///{tmp_path / 'events.db'}", durable=2)
    one, two = here.open("one"), here.open("two")
    kept = one.subscribe(Order, print, durable="first")
    two.subscribe(Order, print, group="second")
    for options in ({"durable": "third"}, {"group": "third"}):
        with pytest.raises(LimitReachedError, match=r"has 2 names of durable .* up to 2"):
            two.subscribe(Order, print, **options)
    one.subscribe(Order, print, group="second")  # it is there
    kept.cancel()
    here.broker.store.write(forget_owners).result(5)
    here.broker.usage.count(here.broker.store.write(forget_owners).result(5))
    two.subscribe(Order, print, durable="third")


def kinds_of(name: str) -> list[type]:
    """Three types that no other test has described."""
    made = [make_dataclass(f"Kind{n}", [("n", int)], frozen=True) for n in range(3)]
    return [pc.event(name=f"{name}{n}")(each) for n, each in enumerate(made)]


def test_types_are_counted_under_the_names_of_an_owner(shop: Any) -> None:
    here = shop(types=2)
    one = here.open("one")
    kinds = kinds_of("shop.Kind")
    for kind in kinds[:2]:
        one.publish(kind(1))
    one.publish(kinds[0](2))
    with pytest.raises(LimitReachedError, match=r"has 2 descriptions of types .* 1 more; up to 2"):
        one.publish(kinds[2](1))


def test_types_that_are_private_to_connections_are_counted_too(shop: Any) -> None:
    here = shop(types=2)
    kinds = kinds_of("shop.Secret")
    two = here.open("two")
    for kind in kinds[:2]:
        two.subscribe(kind, print)
    with pytest.raises(LimitReachedError, match=r"has 2 descriptions of types"):
        here.open("two").subscribe(kinds[2], print)


def test_bytes_of_a_day_are_counted_over_all_connections(shop: Any) -> None:
    here = shop(bytes_per_day=3_000)
    one, two, other = (here.open(each) for each in ("one", "two", "other"))
    one.publish(Order(1))
    two.publish(Order(2, "x" * 2_000))
    with pytest.raises(LimitReachedError, match=r"of events stored today .* up to 3,000") as caught:
        one.publish(Order(3, "x" * 1_000))
    assert caught.value.data["limit"] == 3_000
    assert 2_000 < caught.value.data["used"] < 3_000
    other.publish(Order(3, "x" * 1_000))
    here.open("boss").publish(Order(4, "x" * 1_000))
    text = metrics_text(here.broker).decode()
    used = caught.value.data["used"]
    assert f'polycast_owner_bytes_today{{owner="shop"}} {float(used)}' in text
    assert 'polycast_owner_connections{owner="shop"} 2.0' in text


def test_dead_letters_have_as_much_room_by_themselves(shop: Any) -> None:
    here = shop(bytes_per_day=5_000)
    one = here.open("one")
    fails = Recorder[Order](fail=lambda order: KeyError())
    one.subscribe(Order, fails, durable="orders", attempts=1)
    one.publish(Order(1, "x" * 1_000))
    assert one.flush(5)
    assert here.broker.usage.letters_today("shop") > 1_000
    assert here.broker.usage.events_today("shop") > 1_000


def test_who_has_published_all_that_it_may_still_handles_what_comes(shop: Any) -> None:
    here = shop(bytes_per_day=1_500)
    one = here.open("one")
    fails = Recorder[Order](fail=lambda order: KeyError())
    one.subscribe(Order, fails, durable="orders", attempts=1)
    one.publish(Order(1, "x" * 1_000))
    with pytest.raises(LimitReachedError):
        one.publish(Order(1, "x" * 1_000))
    assert one.flush(5)
    assert len(one.dead_letters()) == 1
    with here.broker.store.view() as view:
        assert view.subscriptions()[0].cursor == 2


class Days:
    """The usage of one owner at some brokers over one store, on a clock that is turned by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)

    def broker(self) -> Usage:
        return Usage(self.store, self.clock, lambda owner: Quota(bytes_per_day=1_000))


def add(usage: Usage, size: int) -> None:
    """Store an event of so many bytes."""
    run = Run("shop.Order", 1, "h", pc.Identity("p", 1, 1), "json", [b"x" * size])
    usage.add_runs(WHO, [run])


def test_what_was_stored_outlives_a_broker_and_is_shared() -> None:
    days = Days()
    first, second = days.broker(), days.broker()
    add(first, 100)
    add(second, 200)
    first.save()
    second.save()
    first.save()  # there is nothing new
    assert second.events_today("shop") == 700
    third = days.broker()
    add(third, 100)
    with pytest.raises(LimitReachedError):
        add(third, 1)
    assert third.events_today("shop") == 1_000


def test_a_new_day_begins_with_nothing() -> None:
    days = Days()
    usage = days.broker()
    add(usage, 800)
    days.clock.advance(DAY)
    add(usage, 400)  # while yesterday is not saved yet
    usage.save()
    assert usage.events_today("shop") == 600
    with pytest.raises(LimitReachedError):
        add(usage, 201)
    late = days.broker()
    add(late, 200)
    with pytest.raises(LimitReachedError):
        add(late, 1)


def test_headers_count_for_each_event_that_is_stored_with_them() -> None:
    identity = pc.Identity("p", 1, 1)
    head = ("shop.Order", 1, "h", identity, "json")
    plain, headed = (
        Run(*head, [b"{}"] * 10, headers=headers) for headers in ({}, {"note": "x" * 1_000})
    )
    assert size_of_run(headed) - size_of_run(plain) == 10 * 1_004


def taking(usage: Usage, *names: str) -> Callable[[Transaction], None]:
    """Work of a client that takes some names."""

    def take(tx: Transaction) -> None:
        usage.begin()
        for name in names:
            usage.add_durable(tx, WHO, name)
            set_subscription_owner(tx, name, "shop")

    return take


def test_at_its_limit_names_are_counted_once_a_second() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    usage = Usage(store, clock, lambda owner: Quota(durable=1))
    usage.count(Counter(shop=1))  # as of a while ago
    store.write(taking(usage, "orders")).result(5)
    store.write(lambda tx: tx.remove_document(SUBSCRIPTION, "orders")).result(5)
    with pytest.raises(LimitReachedError):
        store.write(taking(usage, "more")).result(5)
    clock.advance(1.0)
    store.write(taking(usage, "more")).result(5)


def test_names_of_a_transaction_that_is_undone_are_not_counted() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    usage = Usage(store, clock, lambda owner: Quota(durable=2))
    store.write(taking(usage, "first")).result(5)
    for _ in range(2):
        with pytest.raises(LimitReachedError):
            store.write(taking(usage, "second", "third")).result(5)
    assert usage.durable("shop") == 1
    store.write(taking(usage, "second")).result(5)


def test_without_tokens_nobody_is_limited() -> None:
    broker = Broker()
    who = broker.identify(None)
    assert who is not None
    assert broker.usage.quota(who) is None


@pytest.fixture(params=["memory", "sqlite"])
def stored(request: Any, tmp_path: Path) -> Any:
    """What makes a broker over each kind of store."""
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'events.db'}"
    return lambda: Broker(url)


def client_of(broker: Broker, rights: Rights, **quota: int) -> Authorization:
    """What stands between a client of the owner `shop` and the store."""
    broker.usage = Usage(broker.store, broker.clock, lambda owner: Quota(**quota))
    return broker.authorize(Principal("till", rights, owner="shop"))


def work(broker: Broker, authorization: Authorization, *steps: Step) -> list[bytes]:
    task = WorkScope("till", 0.0, authorization)
    return broker.store.write(lambda tx: take(tx, steps, task)).result(5)


def opening(name: str) -> Step:
    given = STEPS["open_bus"].arguments(name, until=1e12, address="here", process=1)
    return Step("open_bus", given)


def opened(result: bytes) -> int:
    return msgspec.msgpack.decode(result, type=OpenedBus).id


def test_open_buses_of_an_owner_are_counted_and_closed_ones_make_room(
    stored: Callable[[], Broker],
) -> None:
    broker = stored()
    try:
        authorization = client_of(broker, WHO.rights, buses=2)
        first, _ = work(broker, authorization, opening("one"), opening("two"))
        with pytest.raises(
            LimitReachedError, match=r"'shop' has 2 open buses .* up to 2 are accepted"
        ):
            work(broker, authorization, opening("three"))
        with pytest.raises(LimitReachedError):
            work(broker, authorization, opening("one"))
        boss = broker.authorize(Principal("boss", Rights.of(admin=True), owner="shop"))
        work(broker, boss, opening("boss"))
        closing = STEPS["remove_bus"].arguments(opened(first))
        authorization = client_of(broker, WHO.rights, buses=3)  # the boss has opened one, too
        work(broker, authorization, Step("remove_bus", closing), opening("three"))
    finally:
        broker.close()


def test_adverts_of_an_owner_are_counted_over_its_buses() -> None:
    broker = Broker()
    authorization = client_of(broker, WHO.rights, adverts=2)
    buses = [opened(each) for each in work(broker, authorization, opening("one"), opening("two"))]
    adverts = [
        Step("advertise", STEPS["advertise"].arguments(Advert(0, bus, "shop.Order")))
        for bus in buses
    ]
    number, _ = work(broker, authorization, *adverts)
    with pytest.raises(LimitReachedError, match=r"'shop' has 2 adverts .* up to 2 are accepted"):
        work(broker, authorization, adverts[0])
    authorization = client_of(broker, WHO.rights, adverts=2)
    taken_back = STEPS["withdraw"].arguments(msgspec.msgpack.decode(number))
    work(broker, authorization, Step("withdraw", taken_back), adverts[0])
    with broker.store.view() as view:
        assert len(view.adverts()) == 2


def test_who_may_do_nothing_opens_no_bus_and_takes_no_name_of_a_publisher() -> None:
    broker = Broker()
    authorization = client_of(broker, Rights.of())
    with pytest.raises(pc.AccessDeniedError, match="has no publish, subscribe or describe grant"):
        work(broker, authorization, opening("one"))
    with broker.store.view() as view:
        assert view.buses() == []
        assert view.documents(PUBLISHER) == {}


class Counting:
    """A transaction, and how often all buses or adverts were asked for."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.listed: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in ("buses", "adverts"):
            self.listed[name] += 1
        return getattr(self._tx, name)


def test_however_many_steps_are_about_buses_they_are_listed_once() -> None:
    broker = Broker()
    authorization = client_of(broker, WHO.rights)
    bus = opened(work(broker, authorization, opening("one"))[0])
    kept = Step("keep_bus", STEPS["keep_bus"].arguments(bus, until=1e12))
    told = Step("advertise", STEPS["advertise"].arguments(Advert(0, bus, "shop.Order")))
    unsaid = Step("withdraw", STEPS["withdraw"].arguments(7))
    steps = [opening("two"), kept, told, unsaid, opening("three")] * 20

    def many(tx: Transaction) -> Counter[str]:
        counting = Counting(tx)
        take(cast("Transaction", counting), steps, WorkScope("till", 0.0, authorization))
        return counting.listed

    assert broker.store.write(many).result(5) == {"buses": 1, "adverts": 1}
