"""What is another owner's, over the wire: letters, adverts, names, and what is left under them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from shop import Order

import polycast as pc
from polycast.broker.server.access import Principal, Rights
from polycast.broker.server.broker import Broker
from polycast.broker.server.client_session import ClientSession
from polycast.broker.server.ownership import (
    PUBLISHER,
    SUBSCRIPTION,
    forget_owners,
    owner_of_publisher,
    owner_of_subscription,
    set_publisher_owner,
    set_subscription_owner,
)
from polycast.broker.server.run import Serving
from polycast.broker.wire.calls import STEPS
from polycast.broker.wire.protocol import (
    PROTOCOL,
    Done,
    Hello,
    Step,
    Work,
    decode_from_broker,
    encode,
    frames,
)
from polycast.delivery.replay import REPLAYED
from polycast.events import Identity, Record, encode_record
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.routing.translation import letter_name
from polycast.stores import Flight, Letter, Run, StoredSubscription, Stray
from polycast.stores.claims import OUTLIVING
from polycast.testing import Recorder
from polycast.typesystem import describe

OpenBus = Callable[..., pc.Bus]
Serve = Callable[..., Serving]
Eventually = Callable[[Callable[[], object]], None]
ALL = "publish = ['*']\nsubscribe = ['*']"


@pytest.fixture
def two(tokens: Any, serve: Serve, open_bus: OpenBus) -> Callable[[], tuple[Any, ...]]:
    """A broker, and a bus of each of two tenants who may see all events."""

    def make(url: str = "memory:") -> tuple[Any, ...]:
        known, secrets = tokens(shop=f"{ALL}\ndescribe = ['shop.*']", thief=ALL)
        serving = serve(url, tokens=known)
        return (
            serving.broker,
            *(open_bus(serving.url, token=secrets[each]) for each in ("shop", "thief")),
        )

    return make


def store_of(bus: pc.Bus) -> Any:
    return bus._engine.store  # type: ignore[attr-defined]


def failing(bus: pc.Bus, **options: Any) -> Any:
    return bus.subscribe(Order, Recorder(fail=lambda order: KeyError()), attempts=1, **options)


def test_dead_letters_are_their_subscriptions_owners(two: Any) -> None:
    _, shop, thief = two()
    failing(shop, durable="orders")
    shop.publish(Order(1))
    assert shop.flush(5)
    [letter] = shop.dead_letters()
    assert (len(thief.dead_letters()), list(thief.dead_letters())) == (0, [])
    with pytest.raises(pc.AccessDeniedError, match=r"take out dead letter \d.*owner in common"):
        store_of(thief).write(lambda tx: tx.exhume([letter.number])).result(5)
    assert shop.dead_letters().purge() == 1


def test_letters_of_a_live_subscription_are_its_owners_too(
    two: Any, eventually: Eventually
) -> None:
    broker, shop, thief = two()
    failing(shop)
    shop.publish(Order(1))
    assert shop.flush(5)
    eventually(lambda: len(shop.dead_letters()) == 1)
    [letter] = shop.dead_letters()
    shop.close()
    broker.store.write(forget_owners).result(5)  # there are letters left, so they stay somebody's
    assert list(thief.dead_letters()) == []
    with pytest.raises(pc.AccessDeniedError, match="take out"):
        store_of(thief).write(lambda tx: tx.exhume([letter.number])).result(5)


def test_a_name_stays_with_its_owner_as_long_as_letters_are_left(two: Any) -> None:
    broker, shop, thief = two()
    kept = failing(shop, durable="orders")
    shop.publish(Order(1))
    assert shop.flush(5)
    kept.cancel()
    broker.store.write(forget_owners).result(5)
    with pytest.raises(
        pc.AccessDeniedError, match="'orders', which has gone and left dead letters"
    ):
        thief.subscribe(Order, print, durable="orders")
    shop.dead_letters().purge()
    thief.subscribe(Order, print, durable="orders")


def test_letters_are_found_behind_any_number_of_others(two: Any) -> None:
    broker, shop, thief = two()
    failing(shop, durable="orders")
    shop.publish(Order(1))
    assert shop.flush(5)
    with broker.store.view() as view:
        [letter] = view.letters()
    many = [msgspec.structs.replace(letter, subscription="theirs")] * 1_200
    broker.store.write(lambda tx: tx.exhume([letter.number])).result(5)
    broker.store.write(lambda tx: tx.bury([*many, letter, letter])).result(5)
    assert [each.subscription for each in shop.dead_letters()] == ["orders", "orders"]
    assert len(shop.dead_letters()) == 2
    assert len(thief.dead_letters()) == 0


def test_letters_of_many_names_come_in_the_same_order(two: Any) -> None:
    broker, shop, _ = two()
    failing(shop, durable="orders")
    shop.publish(Order(1))
    assert shop.flush(5)
    with broker.store.view() as view:
        [letter] = view.letters()
    names = [f"orders-{number}" for number in range(150)]

    def bury(tx: Any) -> None:
        for name in names:
            set_subscription_owner(tx, name, "shop")
        tx.bury([msgspec.structs.replace(letter, subscription=name) for name in names])
        tx.bury([msgspec.structs.replace(letter, subscription="theirs")] * 600)
        tx.bury([letter])

    broker.store.write(bury).result(5)
    assert [each.subscription for each in shop.dead_letters()] == ["orders", *names, "orders"]
    with store_of(shop).view() as view:
        found = view.letters(after=letter.number, limit=2)
    assert [each.subscription for each in found] == names[:2]


def test_adverts_are_withdrawn_by_their_owner(two: Any) -> None:
    broker, shop, thief = two()
    shop.advertise(Order)
    store_of(shop).newest()
    with broker.store.view() as view:
        [advert] = view.adverts()
    for work in (
        lambda tx: tx.withdraw(advert.number),
        lambda tx: tx.advertise(msgspec.structs.replace(advert, what="forged")),
    ):
        with pytest.raises(pc.AccessDeniedError, match="speak for bus"):
            store_of(thief).write(work).result(5)
    assert thief.health().advertised == (advert.what,)  # it may receive them


def test_hosts_processes_and_filters_of_others_are_not_shown(two: Any) -> None:
    broker, shop, thief = two()
    shop.subscribe(Order, print, durable="orders", where=lambda order: order.number == 424242)
    with store_of(thief).view() as view:
        assert [each.publisher for each in view.buses()] == [thief.publisher]
        assert view.subscriptions() == []
        assert view.subscription("orders") is None
    with broker.store.view() as view:
        assert len(view.buses()) == 2
        assert b"424242" in view.subscriptions()[0].definition


@pytest.mark.parametrize("name", ["orders", "team/orders"])
def test_nothing_is_left_under_a_name_for_who_takes_it_next(two: Any, name: str) -> None:
    broker, shop, thief = two()
    shop.publish(Order(1))
    [entry] = store_of(shop).read(1).entries
    forged = encode_record(msgspec.structs.replace(entry.record, payload=b"forged"))

    def plant(tx: Any) -> None:
        tx.put_document(OUTLIVING, f"{name}/1", forged)
        tx.put_document(REPLAYED, name, b"\x90")
        tx.fly([Flight(name, 1, "forger")])

    def plant_and_go(tx: Any) -> None:
        tx.save(StoredSubscription(name, definition(), 1, 1))
        plant(tx)
        tx.remove(name)

    for work in (plant, plant_and_go):
        store_of(thief).write(work).result(5)
    broker.store.write(forget_owners).result(5)
    shop.subscribe(Order, print, durable=name)
    with broker.store.view() as view:
        assert (view.documents(OUTLIVING), view.documents(REPLAYED)) == ({}, {})
        assert view.flights(name) == []
    with pytest.raises(pc.AccessDeniedError):
        store_of(thief).write(plant).result(5)


def definition() -> bytes:
    described = describe(Order)
    one = SelectedType(described.name, described.version, described.hash)
    return Definition(described.name, "RELIABLE", types=(one,)).encoded()


def forged_letter(record: Record, subscription: str) -> Letter:
    return Letter(0, subscription, 1, record, "forged", 1, 0.0)


def test_letters_of_contexts_are_of_events_that_were_published(two: Any) -> None:
    broker, shop, thief = two()
    shop.publish(Order(1))
    [entry] = store_of(thief).read(1).entries
    forged = msgspec.structs.replace(entry.record, payload=b"{}")
    name = letter_name("billing")
    with pytest.raises(pc.AccessDeniedError, match="bury what is not at position 1"):
        store_of(thief).write(lambda tx: tx.bury([forged_letter(forged, name)])).result(5)
    store_of(thief).write(lambda tx: tx.bury([forged_letter(entry.record, name)])).result(5)
    with broker.store.view() as view:
        assert view.count_letters() == 1
    with pytest.raises(pc.AccessDeniedError, match=r"under which the dead letters of a context"):
        thief.subscribe(Order, print, durable=name)


def test_who_may_only_receive_events_forges_none_as_a_letter_of_a_context(
    tokens: Any, serve: Serve, open_bus: OpenBus
) -> None:
    """Whoever replays the letters of a context, such as an admin, gives them to all in it."""
    known, secrets = tokens(
        shop=f"{ALL}\ndescribe = ['shop.*']", thief="publish = ['evil.*']\nsubscribe = ['*']"
    )
    serving = serve(tokens=known)
    shop, thief = (open_bus(serving.url, token=secrets[each]) for each in ("shop", "thief"))
    shop.publish(Order(1))
    [entry] = store_of(thief).read(1).entries
    identity = Identity(thief.publisher, 1, 1)
    forged = msgspec.structs.replace(entry.record, payload=b"{}", identity=identity)
    own = Identity(shop.publisher, 9, 9)
    letters = {
        thief: forged_letter(forged, letter_name("billing")),
        shop: forged_letter(msgspec.structs.replace(forged, identity=own), letter_name("billing")),
    }
    with pytest.raises(pc.AccessDeniedError, match="publish"):
        store_of(thief).write(lambda tx: tx.bury([letters[thief]])).result(5)
    store_of(shop).write(lambda tx: tx.bury([letters[shop]])).result(5)  # who may publish it
    with serving.broker.store.view() as view:
        assert [each.record.identity for each in view.letters()] == [own]


@pytest.mark.parametrize("name", ["orders", letter_name("other")])
def test_what_goes_astray_is_a_letter_of_its_own_context_and_of_no_subscription(
    two: Any, name: str
) -> None:
    broker, shop, _ = two()
    shop.subscribe(Order, print, durable="orders")
    described = describe(Order)
    head = (described.name, described.version, described.hash)
    run = Run(*head, Identity(shop.publisher, 1, 1), "json", [b"{}"], context="billing")
    appending = store_of(shop).submit([run], astray=[Stray(0, name, "forged")])
    with pytest.raises(pc.BrokerError, match="astray"):
        appending.result(5)
    with broker.store.view() as view:
        assert view.count_letters() == 0


def test_only_its_owner_is_told_again_what_a_client_was_answered() -> None:
    """Clients name themselves, and might name another."""
    broker = Broker()
    asked = Work(1, [Step("keep_bus", STEPS["keep_bus"].arguments(1, until=1.0))], True, 1)
    broker.store.write(lambda tx: tx.open_bus("p", until=1e12, address="", process=1)).result(5)
    again = msgspec.structs.replace(asked, steps=[])
    talks = [(admin(owner), work) for owner, work in (("a", asked), ("b", again), ("a", again))]
    assert asyncio.run(results_of(broker, talks)) == [[b"\xc3"], [], [b"\xc3"]]


def admin(owner: str) -> Principal:
    return Principal(owner, Rights.of(admin=True), owner=owner)


async def results_of(broker: Broker, talks: list[tuple[Principal, Work]]) -> list[list[bytes]]:
    """The results of some work, each over a connection of its own and all by one client's name."""
    running = asyncio.create_task(broker.run())
    found = []
    for who, work in talks:
        frames_of_it = frames([encode(Hello(PROTOCOL, "same")), encode(work)], 1_000_000)
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        receive, send = partial(said, frames_of_it, done), partial(heard, done)
        await ClientSession(broker, send, principal=who, place="here").run(receive)
        found.append((await done).results)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return found


async def said(sent: Iterator[bytes], done: asyncio.Future[Done]) -> bytes | None:
    """The next frame; the end when all is answered."""
    frame = next(sent, None)
    if frame is None:
        await asyncio.wait_for(asyncio.shield(done), 5)
    return frame


async def heard(done: asyncio.Future[Done], data: bytes) -> None:
    for each in decode_from_broker(data):
        if isinstance(each, Done):
            done.set_result(each)


def test_a_connection_whose_token_has_another_owner_by_now_ends(
    tokens: Any, tmp_path: Path
) -> None:
    known, secrets = tokens(shop=ALL)
    broker, path = Broker(tokens=known), tmp_path / "tokens.toml"
    who = broker.identify(secrets["shop"])
    assert who is not None

    async def talk() -> str:
        async def receive() -> bytes | None:
            broker.refresh_tokens()
            assert connection.authorization is before  # it is as it was
            path.write_text(path.read_text() + "owner = 'new'")
            broker.refresh_tokens()
            return None

        async def send(data: bytes) -> None:
            del data

        connection = ClientSession(broker, send, principal=who, place="here")
        before = connection.authorization
        broker.sessions.add(connection)
        return str(await connection.run(receive))

    assert asyncio.run(talk()) == "its token has another owner now"


def test_owners_are_found_in_a_store_that_has_them_elsewhere(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    first = Broker(url)

    def as_before(tx: Any) -> None:
        tx.save(StoredSubscription("orders", definition(), 1, 1))
        tx.put_document(PUBLISHER, "subscription/orders", b"shop")
        set_publisher_owner(tx, "till", "shop")

    first.store.write(as_before).result(5)
    first.close()
    second = Broker(url)
    with second.store.view() as view:
        assert owner_of_subscription(view, "orders") == owner_of_publisher(view, "till") == "shop"
        assert list(view.documents(PUBLISHER)) == ["publisher/till"]
    second.close()


def test_a_letter_that_is_refused_is_told_of(two: Any, caplog: Any, eventually: Eventually) -> None:
    broker, shop, _ = two()
    failing(shop)
    shop.publish(Order(1))
    eventually(lambda: len(shop.dead_letters()) == 1)
    [letter] = shop.dead_letters()
    broker.store.write(lambda tx: set_subscription_owner(tx, letter.subscription, "thief")).result(
        5
    )
    shop.publish(Order(2))
    eventually(lambda: "was not kept: use the subscription" in caplog.text)


def test_a_subscription_that_is_gone_is_noticed_whoever_has_its_name_by_then(
    two: Any, eventually: Eventually
) -> None:
    broker, shop, thief = two()
    mine = shop.subscribe(Order, print, durable="orders")

    def take_over(tx: Any) -> None:
        tx.remove("orders")
        tx.remove_document(SUBSCRIPTION, "orders")

    broker.store.write(take_over).result(5)
    eventually(lambda: mine.state == "cancelled")
    thief.subscribe(Order, print, durable="orders")
