"""What a broker takes from a client, and what becomes of one that asks for more."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import trustme
from shop import Order
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import polycast as pc
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import (
    PATH,
    PROTOCOL,
    Call,
    Hello,
    Limits,
    Refused,
    Welcome,
    decode_from_broker,
    encode,
    frames,
)
from polycast.matching import Definition
from polycast.stores.claims import SettleRequest, StoredProcedure
from polycast.testing import Recorder

OpenBus = Callable[..., pc.Bus]
Serve = Callable[..., Serving]
Eventually = Callable[[Callable[[], object]], None]


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["polycast://", "polycast://host:port", "polycast://host:0", "polycast://a,", "polycast://t@h"],
)
def test_an_address_that_is_none_is_told(url: str) -> None:
    with pytest.raises(pc.BadOptionError, match="polycast://host:7788"):
        pc.Bus(url)


def test_a_broker_that_is_not_there_is_told_at_once() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(pc.BrokerUnreachableError, match="polycast serve") as found:
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
    bus = open_bus(serving.url, publish_timeout=0.2)
    first = bus.publish(Order(1))
    serving.stop()
    with pytest.raises(pc.PublishUnknownError) as found:
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
        with pytest.raises(pc.BrokerRefusedError, match="open a new bus"):
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


def test_what_can_wait_comes_after_what_waits_and_before_what_comes_later(
    serve: Serve, open_bus: OpenBus
) -> None:
    store = open_bus(serve().url)._engine.store  # type: ignore[attr-defined]
    order, may_begin = list[str](), threading.Event()

    class Patient(StoredProcedure[list[Any]]):
        can_wait = True

        def asked(self) -> SettleRequest:
            order.append("patient")
            return SettleRequest("desk", [])

        def needless(self, asked: SettleRequest) -> list[Any]:
            return []

        def done(self, tx: Any, asked: SettleRequest) -> list[Any]:
            return []

        def heard(self, reply: list[Any]) -> None: ...

    def work(name: str) -> Callable[[Any], None]:
        return lambda tx: order.append(name)

    store.write(lambda tx: may_begin.wait(10))
    patient, first = store.write(Patient()), store.write(work("first"))
    later = list[Any]()
    first.add_done_callback(lambda done: later.append(store.write(work("later"))))
    may_begin.set()
    assert patient.result(10) == []
    later[0].result(10)
    assert order == ["first", "patient", "later"]


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
    with pytest.raises(pc.LimitReachedError, match="takes up to 10000"):
        bus.publish(Order(1, "x" * 20_000))
    assert bus.publish(Order(2)).position == 1


def test_more_events_a_second_than_allowed_are_refused(serve: Serve, open_bus: OpenBus) -> None:
    bus = open_bus(serve(limits=Limits(rate=10)).url)
    bus.publish_many([Order(n) for n in range(10)])
    with pytest.raises(pc.LimitReachedError, match="10 events a second"):
        bus.publish_many([Order(n) for n in range(10)])


def test_who_never_reads_what_fits_into_buffers_is_let_go_by_the_heartbeat(
    serve: Serve, eventually: Eventually
) -> None:
    serving = serve(limits=Limits(heartbeat=0.1))
    with closing(socket.create_connection(("127.0.0.1", serving.port))) as silent:
        lines = (
            f"GET {PATH} HTTP/1.1",
            "Host: localhost",
            "Upgrade: websocket",
            "Connection: Upgrade",
        )
        key = ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
        silent.sendall("\r\n".join((*lines, *key, "", "")).encode())
        assert b"101" in silent.recv(4_096)  # the last that it reads
        hello = next(frames([encode(Hello(PROTOCOL, "silent"))], 1_000))
        silent.sendall(bytes([0x82, 0x80 | len(hello), 0, 0, 0, 0]) + hello)  # masked by nothing
        eventually(lambda: serving.broker.opened)
        eventually(lambda: not serving.broker.sessions)


def test_definitions_of_one_subscription_are_counted_each(serve: Serve, open_bus: OpenBus) -> None:
    store = open_bus(serve(limits=Limits(subscriptions=3)).url)._engine.store  # type: ignore[attr-defined]
    one = Definition("anything", "list", topic="/**").encoded()
    with pytest.raises(pc.LimitReachedError, match="more than 3 subscriptions"):
        store.want("a", [one] * 4)
    for _ in range(2):  # what is said anew takes the place of what was said
        store.want("a", [one] * 2)
    store.want("b", [one])
    with pytest.raises(pc.LimitReachedError, match="more than 3 subscriptions"):
        store.want("c", [one])
    store.want("a", [])
    store.newest()  # what was only told is heard by then
    store.want("c", [one])


def test_more_subscriptions_than_allowed_are_refused(serve: Serve, open_bus: OpenBus) -> None:
    bus = open_bus(serve(limits=Limits(subscriptions=2)).url)
    seen = [Recorder[Order](), Recorder[Order]()]
    for each in seen:
        bus.subscribe(Order, each)
    with pytest.raises(pc.LimitReachedError, match="more than 2 subscriptions"):
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


# -- TLS -------------------------------------------------------------------------------------------


def certified(folder: Path) -> Callable[[], ssl.SSLContext]:
    """What a broker speaks TLS with; clients trust `authority.pem` in the folder."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))

    def context() -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(found)
        return found

    return context


def test_a_bus_over_tls(serve: Serve, open_bus: OpenBus, tmp_path: Path) -> None:
    url = serve(tls=certified(tmp_path)).url
    assert url.startswith("polycasts://")
    bus = open_bus(url, tls=tmp_path / "authority.pem")
    assert bus.publish(Order(1)).position == 1
    with pytest.raises(pc.BrokerUnreachableError, match="certificate"):
        pc.Bus(url)


def test_a_broker_that_stops_tells_all_although_one_has_said_goodbye_and_does_not_go(
    serve: Serve, around: ExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    serving = serve(tls=certified(tmp_path))
    trust = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    url = f"wss://127.0.0.1:{serving.port}{PATH}"
    others = [around.enter_context(connect(url, ssl=trust, compression=None)) for _ in range(3)]
    plain = around.enter_context(socket.create_connection(("127.0.0.1", serving.port), timeout=20))
    lingering = around.enter_context(trust.wrap_socket(plain, server_hostname="127.0.0.1"))
    asked = f"GET {PATH} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"
    keyed = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"
    lingering.sendall("\r\n".join((*asked, *keyed, "", "")).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += lingering.recv(1)
    lingering.sendall(b"\x88\x80" + bytes(4))
    assert lingering.recv(1) == b"\x88"
    serving.stop()
    for there in others:
        with pytest.raises(ConnectionClosed) as caught:
            there.recv(20)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []
