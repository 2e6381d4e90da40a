"""What a broker takes from a client, and what becomes of one that asks for more."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from shop import Gift, Order
from websockets.sync.client import connect

import polycast as pc
from polycast.server.access import load_tokens, new_token
from polycast.server.guarding import OWNER, disown
from polycast.server.serving import Serving
from polycast.stores import Run
from polycast.testing import Recorder
from polycast.typesystem import describe
from polycast.wire.frames import decode_from_broker, encode, frames
from polycast.wire.messages import PATH, PROTOCOL, Call, Hello, Limits, Refused, Welcome


@pc.event(name="shop.Hollow")
@dataclass(frozen=True)
class Hollow:
    """It has nothing that an order has."""


OpenBus = Callable[..., pc.Bus]
Serve = Callable[..., Serving]
Eventually = Callable[[Callable[[], object]], None]


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["polycast://", "polycast://host:port", "polycast://host:0", "polycast://a,", "polycast://t@h"],
)
def test_an_address_that_is_none_is_told(url: str) -> None:
    with pytest.raises(pc.BadOption, match="polycast://host:7788"):
        pc.Bus(url)


def test_a_broker_that_is_not_there_is_told_at_once() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(pc.BrokerUnreachable, match="polycast serve") as found:
        pc.Bus(f"polycast://127.0.0.1:{port}")
    assert found.value.address == f"polycast://127.0.0.1:{port}"


def test_the_next_address_is_tried(serve: Serve, open_bus: OpenBus) -> None:
    there = serve().url.removeprefix("polycast://")
    bus = open_bus(f"polycast://127.0.0.1:1,{there}")
    assert bus.publish(Order(1)).position == 1


def test_a_bus_needs_no_subscription_to_be_closed(serve: Serve) -> None:
    with pc.Bus(serve().url) as bus:
        assert "at polycast://" in repr(bus)
    assert bus.health().state == "closed"


# -- life of a connection --------------------------------------------------------------------------


def test_what_is_small_is_sent_at_once_on_both_sides(serve: Serve, open_bus: OpenBus) -> None:
    serving = serve()
    open_bus(serving.url)
    [there] = serving.peers()
    assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_was_asked_meanwhile_is_answered_by_the_next_broker(
    tmp_path: Path, serve: Serve, open_bus: OpenBus, in_thread: Any, eventually: Eventually
) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    first = serve(url)
    bus, seen, receipts = open_bus(first.url), Recorder[Order](), list[Any]()
    bus.subscribe(Order, seen)
    bus.publish(Order(1))
    first.stop()
    publishing: threading.Thread = in_thread(lambda: receipts.append(bus.publish(Order(2))))
    again = Serving(first.broker.__class__(url), port=first.port)
    with again:
        publishing.join(10)
        eventually(lambda: len(seen.events) == 2)
        assert [receipt.position for receipt in receipts] == [2]
        assert bus.flush(5)
        bus.close()


def test_a_publish_that_nobody_answers_is_unknown(serve: Serve, open_bus: OpenBus) -> None:
    serving = serve()
    bus = open_bus(serving.url, publish_within=0.2)
    first = bus.publish(Order(1))
    serving.stop()
    with pytest.raises(pc.PublishUnknown) as found:
        bus.publish(Order(2))
    assert found.value.identity.sequence == first.identity.sequence + 1


def test_another_store_at_the_same_address_ends_a_bus(
    serve: Serve, open_bus: OpenBus, eventually: Eventually
) -> None:
    first = serve()
    bus = open_bus(first.url)
    bus.publish(Order(1))
    first.stop()
    with Serving(first.broker.__class__(), port=first.port):
        eventually(lambda: any("another store" in each for each in bus.health().problems))
        with pytest.raises(pc.BrokerRefused, match="open a new bus"):
            bus.publish(Order(2))


def test_the_clock_is_that_of_the_broker(serve: Serve, open_bus: OpenBus) -> None:
    from polycast.testing import ManualClock

    clock = ManualClock(start=1_000_000.0)
    bus = open_bus(serve(clock=clock).url)
    seen: Recorder[Order] = Recorder()
    bus.subscribe(Order, seen)
    bus.publish(Order(1), expires=60.0)
    assert bus.flush(5)
    assert seen.deliveries[0].time.timestamp() == clock.time()


# -- protocol --------------------------------------------------------------------------------------


def talk(url: str, *messages: Any) -> list[Any]:
    """Say something to a broker, and hear the first that it says."""
    with connect(url.replace("polycast", "ws") + PATH, compression=None, proxy=None) as there:
        for frame in frames(map(encode, messages), 1_000_000):
            there.send(frame)
        return list(decode_from_broker(there.recv(5)))


def test_a_client_is_welcome(serve: Serve) -> None:
    [welcome] = talk(serve().url, Hello(PROTOCOL, "me"))
    assert isinstance(welcome, Welcome)
    assert welcome.limits == Limits()


def test_another_version_of_the_protocol_is_refused_with_both(serve: Serve) -> None:
    [refused] = talk(serve().url, Hello(PROTOCOL + 1, "me"))
    assert isinstance(refused, Refused)
    assert refused.code == "protocol"
    assert f"version {PROTOCOL} " in refused.text
    assert f"version {PROTOCOL + 1};" in refused.text


@pytest.mark.parametrize(
    "message",
    [
        Call(1, "newest", b"\x90"),
        Hello(PROTOCOL, ""),
        Hello(PROTOCOL, "x" * 65),
        Hello(PROTOCOL, "me", "p" * 201),
    ],
)
def test_a_wrong_beginning_is_refused(serve: Serve, message: Any) -> None:
    [refused] = talk(serve().url, message)
    assert (refused.number, refused.code) == (0, "bad-frame")


@pytest.mark.parametrize(
    "call", [Call(1, "close", b"\x90"), Call(1, "newest", b"\x91\x01"), Call(1, "find", b"\xc1")]
)
def test_a_call_that_is_none_ends_the_connection(serve: Serve, call: Call) -> None:
    said = talk(serve().url, Hello(PROTOCOL, "me"), call)
    assert said[-1].code == "bad-frame"


def test_what_the_web_asks_is_answered(serve: Serve, open_bus: OpenBus) -> None:
    serving = serve()
    bus = open_bus(serving.url)
    bus.subscribe(Order, print, where=lambda order: order.number < 0)
    bus.publish(Order(1))
    bus.flush(5)
    base = serving.url.replace("polycast", "http")
    for path in ("/livez", "/readyz"):
        assert urllib.request.urlopen(base + path, timeout=5).status == 200
    figures = urllib.request.urlopen(f"{base}/metrics", timeout=5).read().decode()
    assert "polycast_events_published_total 1.0" in figures
    assert "polycast_connections 1.0" in figures
    assert "polycast_subscriptions 1.0" in figures
    assert "polycast_log_newest_position 1.0" in figures


# -- limits ----------------------------------------------------------------------------------------


def test_a_message_that_is_too_large_is_refused_before_it_is_sent(
    serve: Serve, open_bus: OpenBus
) -> None:
    bus = open_bus(serve(limits=Limits(frame=10_000)).url)
    with pytest.raises(pc.LimitReached, match="takes up to 10000"):
        bus.publish(Order(1, "x" * 20_000))
    assert bus.publish(Order(2)).position == 1


def test_more_events_a_second_than_allowed_are_refused(serve: Serve, open_bus: OpenBus) -> None:
    bus = open_bus(serve(limits=Limits(rate=10)).url)
    bus.publish_many([Order(n) for n in range(10)])
    with pytest.raises(pc.LimitReached, match="10 events a second"):
        bus.publish_many([Order(n) for n in range(10)])


def test_more_subscriptions_than_allowed_are_refused(serve: Serve, open_bus: OpenBus) -> None:
    bus = open_bus(serve(limits=Limits(subscriptions=2)).url)
    seen = [Recorder[Order](), Recorder[Order]()]
    for each in seen:
        bus.subscribe(Order, each)
    with pytest.raises(pc.LimitReached, match="more than 2 subscriptions"):
        bus.subscribe(Order, print)
    bus.publish(Order(1))
    assert bus.flush(5)
    assert [len(each.events) for each in seen] == [1, 1]


def test_many_questions_at_once_wait_for_their_turn(serve: Serve, open_bus: OpenBus) -> None:
    import asyncio

    bus = open_bus(serve(limits=Limits(pending=4)).url)

    async def publish_all() -> list[Any]:
        return await asyncio.gather(*(bus.publish_async(Order(n)) for n in range(200)))

    receipts = asyncio.run(publish_all())
    assert [receipt.position for receipt in receipts] == list(range(1, 201))


def test_who_reads_slowly_loses_nothing(
    serve: Serve, open_bus: OpenBus, eventually: Eventually
) -> None:
    url = serve(limits=Limits(window=2_000)).url
    shop, desk, seen = open_bus(url), open_bus(url), Recorder[Order]()
    desk.subscribe(Order, seen)
    for n in range(0, 2_000, 100):
        shop.publish_many([Order(m) for m in range(n, n + 100)])
    eventually(lambda: len(seen.events) == 2_000)
    assert [event.number for event in seen.events] == list(range(2_000))


# -- rights ----------------------------------------------------------------------------------------

Tokens = Callable[..., dict[str, str]]


@pytest.fixture
def tokens(tmp_path: Path) -> Callable[..., tuple[Any, dict[str, str]]]:
    """A file of tokens, and the secret of each."""

    def make(**rights: str) -> tuple[Any, dict[str, str]]:
        secrets, lines = {}, []
        for name, text in rights.items():
            secrets[name], digest = new_token()
            lines.append(f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\n{text}\n')
        path = tmp_path / "tokens.toml"
        path.write_text("\n".join(lines))
        path.chmod(0o600)
        return load_tokens(str(path)), secrets

    return make


def test_without_a_token_nobody_gets_in(serve: Serve, tokens: Any, open_bus: OpenBus) -> None:
    known, secrets = tokens(till="publish = ['*']")
    url = serve(tokens=known).url
    for token in (None, "guessed"):
        with pytest.raises(pc.AccessDenied, match="no token was given, or one that"):
            pc.Bus(url, token=token)
    assert open_bus(url, token=secrets["till"]).publish(Order(1)).position == 1


def test_rights_say_what_is_published_and_received(
    serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(
        till="publish = ['shop.Order', 'shop.Gift']",
        desk="subscribe = ['shop.Gift']",
    )
    url = serve(tokens=known).url
    till, desk = open_bus(url, token=secrets["till"]), open_bus(url, token=secrets["desk"])
    seen: Recorder[Order] = Recorder()
    desk.subscribe(Order, seen, since="beginning")
    till.publish_many([Order(1), Gift(2), Order(3)])
    assert desk.flush(5)
    assert [event.number for event in seen.events] == [2]
    with pytest.raises(pc.AccessDenied, match=r"publish shop\.Order"):
        desk.publish(Order(4))
    with pytest.raises(pc.AccessDenied, match="subscribe"):
        till.subscribe(Order, print)


def test_who_may_not_may_not_disturb_others(serve: Serve, tokens: Any, open_bus: OpenBus) -> None:
    known, secrets = tokens(boss="admin = true", till="publish = ['*']")
    serving = serve(tokens=known)
    boss, till = (open_bus(serving.url, token=secrets[name]) for name in ("boss", "till"))
    boss.subscribe(Order, Recorder(fail=lambda order: KeyError()), durable="kept", attempts=1)
    till.publish(Order(1))
    assert boss.flush(5)
    [letter] = serving.broker.store.write(lambda tx: tx.letters()).result(5)
    store = till._engine.store  # type: ignore[attr-defined]
    assert list(till.dead_letters()) == []  # it may not see them
    for work in (
        lambda tx: tx.remove("kept"),
        lambda tx: tx.exhume([letter.number]),
        lambda tx: tx.put_document("retention", "", b"{}"),
        lambda tx: tx.remove_bus(tx.buses()[0].id),
        lambda tx: tx.keep_bus(tx.buses()[0].id, until=0.0),
        lambda tx: tx.documents("owner"),
        lambda tx: tx.take_routing(),
    ):
        with pytest.raises(pc.AccessDenied):
            store.write(work).result(5)
    with pytest.raises(pc.AccessDenied):
        store.truncate(5)
    assert len(boss.dead_letters()) == 1
    figures = f"{serving.url.replace('polycast', 'http')}/metrics"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(figures, timeout=5)


def test_a_publisher_belongs_to_the_token_that_opened_it_first(
    serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(
        till="publish = ['*']",
        forger="publish = ['*']",
        spare="publish = ['*']\nowner = 'till'",
        boss="admin = true",
    )
    url = serve(tokens=known).url
    till = open_bus(url, token=secrets["till"], publisher="till-7")
    receipt = till.publish(Order(1))
    till.close()
    with pytest.raises(pc.AccessDenied, match=r"as the publisher 'till-7'.*owner in common"):
        open_bus(url, token=secrets["forger"], publisher="till-7")
    forger = open_bus(url, token=secrets["forger"])
    identity = pc.Identity("till-7", receipt.identity.epoch, receipt.identity.sequence + 1)
    with pytest.raises(pc.AccessDenied, match="publish as the publisher 'till-7'"):
        forger.publish(Order(2), identity=identity)
    for name in ("spare", "boss"):
        assert open_bus(url, token=secrets[name], publisher="till-7").publish(Order(3)).position


def test_a_publisher_that_is_open_without_a_token_is_not_given_to_one(
    tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(forger="publish = ['*']")
    store = f"sqlite:///{tmp_path / 'events.db'}"
    url = serve(store, tokens=known).url
    here = open_bus(store, publisher="till-7")
    with pytest.raises(pc.AccessDenied, match="open a bus as the publisher 'till-7'"):
        open_bus(url, token=secrets["forger"], publisher="till-7")
    here.close()
    open_bus(url, token=secrets["forger"], publisher="till-7").publish(Order(1))


@pytest.mark.parametrize("kind", [{"durable": "orders"}, {"group": "orders"}])
def test_a_subscription_belongs_to_the_token_that_made_it(
    serve: Serve, tokens: Any, open_bus: OpenBus, kind: dict[str, Any]
) -> None:
    known, secrets = tokens(
        desk="publish = ['*']\nsubscribe = ['*']",
        thief="subscribe = ['*']",
        other_desk="subscribe = ['*']\nowner = 'desk'",
        boss="admin = true",
    )
    url = serve(tokens=known).url
    desk, seen = open_bus(url, token=secrets["desk"]), Recorder[Order]()
    mine = desk.subscribe(Order, seen, **kind)
    thief = open_bus(url, token=secrets["thief"])
    with pytest.raises(pc.AccessDenied, match=r"use the subscription .*orders.*owner in common"):
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
    tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus
) -> None:
    known, secrets = tokens(desk="subscribe = ['*']", thief="subscribe = ['*']")
    store = f"sqlite:///{tmp_path / 'events.db'}"
    first, second = serve(store, tokens=known), serve(store, tokens=known)
    desk = open_bus(first.url, token=secrets["desk"])
    kept = desk.subscribe(Order, print, durable="orders")
    thief = open_bus(second.url, token=secrets["thief"])
    with pytest.raises(pc.AccessDenied):
        thief.subscribe(Order, print, durable="orders")
    kept.cancel()
    second.broker.store.write(disown).result(5)
    with second.broker.store.view() as view:
        assert not [each for each in view.documents(OWNER) if each.startswith("subscription/")]


def test_a_bus_closes_well_at_another_broker_than_it_was_opened_at(
    tmp_path: Path, serve: Serve, tokens: Any, open_bus: OpenBus, eventually: Eventually
) -> None:
    known, secrets = tokens(till="publish = ['*']")
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
    known, secrets = tokens(boss="admin = true", till="publish = ['*']")
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
    known, secrets = tokens(till="publish = ['shop.Order']", boss="admin = true")
    url = serve(tokens=known).url
    open_bus(url, token=secrets["boss"]).publish(Order(1))
    till = open_bus(url, token=secrets["till"])
    assert till.publish(Gift(2)).position == 2
    claimed = msgspec.structs.replace(describe(Hollow), supertypes=("shop.Order",))
    store = till._engine.store  # type: ignore[attr-defined]
    store.describe([claimed]).result(5)
    head = (claimed.name, 1, claimed.hash, pc.Identity(till.publisher, 1, 9), "json", [b"{}"])
    with pytest.raises(pc.AccessDenied, match=r"publish shop\.Hollow"):
        store.submit([Run(*head)]).result(5)


def test_a_token_that_is_taken_away_ends_its_connections(
    serve: Serve, tokens: Any, open_bus: OpenBus, tmp_path: Path, eventually: Eventually
) -> None:
    known, secrets = tokens(till="publish = ['*']", desk="subscribe = ['*']")
    serving = serve(tokens=known)
    bus = open_bus(serving.url, token=secrets["till"])
    bus.publish(Order(1))
    text = (tmp_path / "tokens.toml").read_text()
    (tmp_path / "tokens.toml").write_text(text[text.index("[[token]]", 5) :])
    eventually(lambda: bus._engine.store.failure is not None)  # type: ignore[attr-defined]
    with pytest.raises(pc.AccessDenied):
        bus.publish(Order(2))


# -- TLS -------------------------------------------------------------------------------------------


def test_a_bus_over_tls(serve: Serve, open_bus: OpenBus, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))

    def context() -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(found)
        return found

    url = serve(tls=context).url
    assert url.startswith("polycasts://")
    bus = open_bus(url, tls=tmp_path / "authority.pem")
    assert bus.publish(Order(1)).position == 1
    with pytest.raises(pc.BrokerUnreachable, match="certificate"):
        pc.Bus(url)
