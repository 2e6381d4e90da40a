"""Tokens: who may do what at a broker, and what belongs to whom."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from shop import Gift, Order

import polycast as pc
from polycast.broker.server.ownership import SUBSCRIPTION, forget_owners
from polycast.broker.server.run import Serving
from polycast.stores import Run
from polycast.testing import Recorder
from polycast.typesystem import describe

OpenBus = Callable[..., pc.Bus]
Serve = Callable[..., Serving]
Eventually = Callable[[Callable[[], object]], None]


@pc.event(name="shop.Hollow")
@dataclass(frozen=True)
class Hollow:
    """It has nothing that an order has."""


def test_without_a_token_nobody_gets_in(serve: Serve, tokens: Any, open_bus: OpenBus) -> None:
    known, secrets = tokens(till="publish = ['*']\ndescribe = ['shop.*']")
    url = serve(tokens=known).url
    for token in (None, "guessed"):
        with pytest.raises(pc.AccessDeniedError, match="no token was given, or one that"):
            pc.Bus(url, token=token)
    assert open_bus(url, token=secrets["till"]).publish(Order(1)).position == 1


def test_rights_say_what_is_published_and_received(
    serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(
        till="publish = ['shop.Order', 'shop.Gift']\ndescribe = ['shop.*']",
        desk="subscribe = ['shop.Gift']",
    )
    url = serve(tokens=known).url
    till, desk = open_bus(url, token=secrets["till"]), open_bus(url, token=secrets["desk"])
    seen: Recorder[Order] = Recorder()
    desk.subscribe(Order, seen, since="beginning")
    till.publish_many([Order(1), Gift(2), Order(3)])
    assert desk.flush(5)
    assert [event.number for event in seen.events] == [2]
    with pytest.raises(pc.AccessDeniedError, match=r"publish shop\.Order"):
        desk.publish(Order(4))
    with pytest.raises(pc.AccessDeniedError, match="subscribe"):
        till.subscribe(Order, print)


def test_who_may_not_may_not_disturb_others(serve: Serve, tokens: Any, open_bus: OpenBus) -> None:
    known, secrets = tokens(boss="admin = true", till="publish = ['*']\ndescribe = ['shop.*']")
    serving = serve(tokens=known)
    boss, till = (open_bus(serving.url, token=secrets[name]) for name in ("boss", "till"))
    boss.subscribe(Order, Recorder(fail=lambda order: KeyError()), durable="kept", attempts=1)
    till.publish(Order(1))
    assert boss.flush(5)
    [letter] = serving.broker.store.write(lambda tx: tx.letters()).result(5)
    store = till._engine.store  # type: ignore[attr-defined]
    with serving.broker.store.view() as view:
        [other] = [each.id for each in view.buses() if each.publisher == boss.publisher]
    assert list(till.dead_letters()) == []  # it may not see them
    for work in (
        lambda tx: tx.remove("kept"),
        lambda tx: tx.exhume([letter.number]),
        lambda tx: tx.put_document("retention", "", b"{}"),
        lambda tx: tx.remove_bus(other),
        lambda tx: tx.keep_bus(other, until=0.0),
        lambda tx: tx.documents("owner"),
        lambda tx: tx.documents("subscription-owner"),
        lambda tx: tx.take_routing(),
    ):
        with pytest.raises(pc.AccessDeniedError):
            store.write(work).result(5)
    with pytest.raises(pc.AccessDeniedError):
        store.truncate(5)
    assert len(boss.dead_letters()) == 1
    figures = f"{serving.url.replace('polycast', 'http')}/metrics"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(figures, timeout=5)
    caught.value.close()


def test_a_publisher_belongs_to_the_token_that_opened_it_first(
    serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(
        till="publish = ['*']\ndescribe = ['shop.*']",
        forger="publish = ['*']",
        spare="publish = ['*']\nowner = 'till'",
        boss="admin = true",
    )
    url = serve(tokens=known).url
    till = open_bus(url, token=secrets["till"], publisher="till-7")
    receipt = till.publish(Order(1))
    till.close()
    with pytest.raises(pc.AccessDeniedError, match=r"as the publisher 'till-7'.*owner in common"):
        open_bus(url, token=secrets["forger"], publisher="till-7")
    forger = open_bus(url, token=secrets["forger"])
    identity = pc.Identity("till-7", receipt.identity.epoch, receipt.identity.sequence + 1)
    with pytest.raises(pc.AccessDeniedError, match="publish as the publisher 'till-7'"):
        forger.publish(Order(2), identity=identity)
    for name in ("spare", "boss"):
        assert open_bus(url, token=secrets[name], publisher="till-7").publish(Order(3)).position


def test_a_publisher_that_is_open_without_a_token_is_not_given_to_one(
    tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(forger="publish = ['*']\ndescribe = ['shop.*']")
    store = f"sqlite:///{tmp_path / 'events.db'}"
    url = serve(store, tokens=known).url
    here = open_bus(store, publisher="till-7")
    with pytest.raises(pc.AccessDeniedError, match="open a bus as the publisher 'till-7'"):
        open_bus(url, token=secrets["forger"], publisher="till-7")
    here.close()
    open_bus(url, token=secrets["forger"], publisher="till-7").publish(Order(1))


@pytest.mark.parametrize("kind", [{"durable": "orders"}, {"group": "orders"}])
def test_a_subscription_belongs_to_the_token_that_made_it(
    serve: Serve, tokens: Any, open_bus: OpenBus, kind: dict[str, Any]
) -> None:
    known, secrets = tokens(
        desk="publish = ['*']\nsubscribe = ['*']\ndescribe = ['shop.*']",
        thief="subscribe = ['*']",
        other_desk="subscribe = ['*']\nowner = 'desk'",
        boss="admin = true",
    )
    url = serve(tokens=known).url
    desk, seen = open_bus(url, token=secrets["desk"]), Recorder[Order]()
    mine = desk.subscribe(Order, seen, **kind)
    thief = open_bus(url, token=secrets["thief"])
    with pytest.raises(
        pc.AccessDeniedError, match=r"use the subscription .*orders.*owner in common"
    ):
        thief.subscribe(Order, print, **kind)
    desk.publish(Order(1))
    assert desk.flush(5)
    assert len(seen.events) == 1
    shared = open_bus(url, token=secrets["other_desk"]).subscribe(Order, print, **kind)
    open_bus(url, token=secrets["boss"]).subscribe(Order, print, **kind).cancel()
    shared.cancel()
    mine.cancel()
    thief.subscribe(Order, print, **kind)  # what is gone belongs to nobody


def test_who_belongs_to_what_outlives_neither_broker_nor_subscription(
    tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus, eventually: Eventually
) -> None:
    known, secrets = tokens(desk="subscribe = ['*']", thief="subscribe = ['*']")
    store = f"sqlite:///{tmp_path / 'events.db'}"
    first, second = serve(store, tokens=known), serve(store, tokens=known)
    desk = open_bus(first.url, token=secrets["desk"])
    kept = desk.subscribe(Order, print, durable="orders")
    thief = open_bus(second.url, token=secrets["thief"])
    with pytest.raises(pc.AccessDeniedError):
        thief.subscribe(Order, print, durable="orders")
    kept.cancel()

    def names() -> object:
        second.broker.store.write(forget_owners).result(5)
        with second.broker.store.view() as view:
            return view.documents(SUBSCRIPTION)

    eventually(lambda: names() == {})


def test_a_bus_closes_well_at_another_broker_than_it_was_opened_at(
    tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus, eventually: Eventually
) -> None:
    known, secrets = tokens(till="publish = ['*']\ndescribe = ['shop.*']")
    store = f"sqlite:///{tmp_path / 'events.db'}"
    first, second = serve(store, tokens=known), serve(store, tokens=known)
    both = f"{first.url},{second.url.removeprefix('polycast://')}"
    bus = open_bus(both, token=secrets["till"])
    first.stop()
    assert bus.publish(Order(1)).position == 1
    bus.close()
    with second.broker.store.view() as view:
        assert view.buses() == []


def test_a_transaction_shows_no_letters_that_may_not_be_seen(
    serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(boss="admin = true", till="publish = ['*']\ndescribe = ['shop.*']")
    url = serve(tokens=known).url
    boss, till = (open_bus(url, token=secrets[name]) for name in ("boss", "till"))
    boss.subscribe(Order, Recorder(fail=lambda order: KeyError()), durable="kept", attempts=1)
    till.publish(Order(1))
    assert boss.flush(5)
    store = till._engine.store  # type: ignore[attr-defined]

    def look(tx: Any) -> Any:
        tx.withdraw(0)  # something is written, so that the rest is asked inside
        return tx.letters()

    assert store.write(look).result(5) == []


def test_a_right_covers_only_subtypes_that_have_what_the_type_has(
    serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(
        till="publish = ['shop.Order']\ndescribe = ['shop.*']", boss="admin = true"
    )
    url = serve(tokens=known).url
    open_bus(url, token=secrets["boss"]).publish(Order(1))
    till = open_bus(url, token=secrets["till"])
    assert till.publish(Gift(2)).position == 2
    claimed = msgspec.structs.replace(describe(Hollow), supertypes=("shop.Order",))
    store = till._engine.store  # type: ignore[attr-defined]
    store.describe([claimed]).result(5)
    head = (claimed.name, 1, claimed.hash, pc.Identity(till.publisher, 1, 9), "json", [b"{}"])
    with pytest.raises(pc.AccessDeniedError, match=r"publish shop\.Hollow"):
        store.submit([Run(*head)]).result(5)


def test_a_token_that_is_taken_away_ends_its_connections(
    serve: Serve, tokens: Any, open_bus: OpenBus, tmp_path: Path, eventually: Eventually
) -> None:
    known, secrets = tokens(till="publish = ['*']\ndescribe = ['shop.*']", desk="subscribe = ['*']")
    serving = serve(tokens=known)
    bus = open_bus(serving.url, token=secrets["till"])
    bus.publish(Order(1))
    text = (tmp_path / "tokens.toml").read_text()
    (tmp_path / "tokens.toml").write_text(text[text.index("[[token]]", 5) :])
    eventually(lambda: bus._engine.store.failure is not None)  # type: ignore[attr-defined]
    with pytest.raises(pc.AccessDeniedError):
        bus.publish(Order(2))
