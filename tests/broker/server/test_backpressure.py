"""Memory is bounded at both ends of a connection, and heartbeats pass while megabytes wait."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from shop import Order
from slow_store import SlowStore

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.flow_control import EvictingPool
from polycast.broker.server.limits import ServerLimits
from polycast.broker.server.run import Serving
from polycast.broker.wire.calls import READ
from polycast.broker.wire.protocol import (
    PATH,
    PROTOCOL,
    Append,
    Call,
    Hello,
    Limits,
    encode,
    frames,
)
from polycast.events import Identity
from polycast.routing import StorePublisher
from polycast.routing.store_publisher import SubmissionQueue
from polycast.stores import Run
from polycast.testing import Recorder

Eventually = Callable[[Callable[[], object]], None]
LARGE = "x" * 100_000
DEADLINE = 20.0
DEADLINES: WeakKeyDictionary[socket.socket, float] = WeakKeyDictionary()


@pytest.fixture
def around() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@dataclass
class Changing:
    number: int


def narrow(bus: pc.Bus, limit: int) -> SubmissionQueue:
    """Let the store of a bus have so many bytes at once."""
    publisher = bus._publishing.publisher
    assert isinstance(publisher, StorePublisher)
    publisher.queue.limit = limit
    return publisher.queue


# -- publishers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("inbound", [300_000, 16_000_000])
def test_async_publishers_of_large_events_are_held_back_at_both_ends(
    around: ExitStack, eventually: Eventually, in_thread: Any, inbound: int
) -> None:
    store = SlowStore()
    broker = Broker(server_limits=ServerLimits(inbound=inbound), store=store)
    serving = around.enter_context(Serving(broker))
    bus = around.enter_context(pc.Bus(serving.url))
    buffer = narrow(bus, 1_000_000)
    most = {"client": 0, "unanswered": 0, "broker": 0}
    loops, receipts = list[int](), list[Any]()

    def look() -> None:
        most["client"] = max(most["client"], buffer.held)
        most["unanswered"] = max(most["unanswered"], bus._engine.store._connection.pending.size)  # type: ignore[attr-defined]
        most["broker"] = max(most["broker"], broker.inbound_budget.held)

    async def publish_all() -> None:
        publishing = [asyncio.ensure_future(bus.publish_async(Order(n, LARGE))) for n in range(200)]
        while not all(each.done() for each in publishing):
            loops.append(1)  # the loop goes on
            look()
            await asyncio.sleep(0)
        receipts.extend(each.result() for each in publishing)

    publishing = in_thread(lambda: asyncio.run(publish_all()))
    eventually(lambda: len(loops) > 50 and store.waiting)
    assert not receipts
    store.answer_always()
    publishing.join(DEADLINE)
    assert [each.position for each in receipts] == list(range(1, 201))
    events = [each.record.identity.sequence for each in store.read(1).entries]
    assert events == list(range(1, 201))
    assert most["client"] <= 1_000_000 + 101_000
    assert most["unanswered"] <= 1_000_000 + 110_000
    assert most["broker"] <= inbound + 101_000
    eventually(lambda: broker.inbound_budget.held == 0)
    assert buffer.held == 0


def test_a_publisher_waits_for_room_as_long_as_the_store_gets_on(
    around: ExitStack, in_thread: Any, eventually: Eventually
) -> None:
    store = SlowStore()
    serving = around.enter_context(Serving(Broker(store=store)))
    bus = around.enter_context(pc.Bus(serving.url, publish_timeout=0.3))
    narrow(bus, 1)

    async def publish_all() -> list[Any]:
        coming = (bus.publish_async(Order(n)) for n in range(3))
        return await asyncio.gather(*coming, return_exceptions=True)

    unknown, *refused = asyncio.run(publish_all())
    assert isinstance(unknown, pc.PublishUnknownError)
    assert [type(each) for each in refused] == [pc.PublishBufferFullError] * 2
    assert "may be published again" in str(refused[0])
    store.answer_always()
    assert bus.publish(Order(9)).position == 2


def test_closing_lets_nobody_wait_for_room(around: ExitStack, eventually: Eventually) -> None:
    store = SlowStore()
    serving = around.enter_context(Serving(Broker(store=store)))
    bus = pc.Bus(serving.url)
    narrow(bus, 1)

    async def publish_and_close() -> list[Any]:
        publishing = [asyncio.ensure_future(bus.publish_async(Order(n))) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.to_thread(bus.close, 0.1)
        return await asyncio.gather(*publishing, return_exceptions=True)

    first, *later = asyncio.run(asyncio.wait_for(publish_and_close(), DEADLINE))
    assert isinstance(first, pc.StoreClosedError)
    assert all(isinstance(each, pc.BusClosedError | asyncio.CancelledError) for each in later)


def test_publishers_to_a_file_are_held_back_too(tmp_path: Any) -> None:
    with pc.Bus(f"sqlite:///{tmp_path / 'events.db'}") as bus:
        buffer = narrow(bus, 200_000)

        async def publish_all() -> list[Any]:
            return await asyncio.gather(*(bus.publish_async(Order(n, LARGE)) for n in range(50)))

        receipts = asyncio.run(publish_all())
        assert [each.position for each in receipts] == list(range(1, 51))
        assert buffer.held == 0


def test_the_sequence_is_taken_and_the_event_read_at_the_call(
    around: ExitStack, eventually: Eventually, in_thread: Any
) -> None:
    store = SlowStore()
    serving = around.enter_context(Serving(Broker(store=store)))
    bus = around.enter_context(pc.Bus(serving.url))
    narrow(bus, 1)

    async def publish_all() -> list[Any]:
        event = Changing(1)
        publishing = []
        for number in range(1, 6):
            event.number = number
            publishing.append(bus.publish_async(event))
        event.number = 6
        after = asyncio.to_thread(bus.publish, event)  # it waits behind those
        store.answer_always()
        return list(await asyncio.gather(*publishing, after))

    receipts = asyncio.run(asyncio.wait_for(publish_all(), DEADLINE))
    assert [each.position for each in receipts] == [1, 2, 3, 4, 5, 6]
    assert [each.identity.sequence for each in receipts] == [1, 2, 3, 4, 5, 6]
    seen: list[int] = []
    bus.subscribe(Changing, lambda event: seen.append(event.number), since="beginning")
    eventually(lambda: seen == [1, 2, 3, 4, 5, 6])


def test_closing_gives_the_store_what_was_published_and_not_awaited(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"

    async def publish() -> list[Any]:
        with pc.Bus(url) as bus:
            narrow(bus, 1)
            return [asyncio.ensure_future(bus.publish_async(Order(n, LARGE))) for n in range(20)]

    asyncio.run(publish())
    with pc.Bus(url) as bus:
        assert bus.publish(Order(0)).position == 21


# -- heartbeats ------------------------------------------------------------------------------------


def test_a_publisher_who_is_not_read_for_many_heartbeats_is_not_cut_off(
    around: ExitStack, in_thread: Any, eventually: Eventually
) -> None:
    store = SlowStore()
    limits = Limits(heartbeat=0.3)
    broker = Broker(server_limits=ServerLimits(inbound=200_000), limits=limits, store=store)
    serving = around.enter_context(Serving(broker))
    bus = around.enter_context(pc.Bus(serving.url))
    receipts = list[Any]()

    async def publish_all() -> None:
        coming = (bus.publish_async(Order(n, LARGE)) for n in range(100))
        receipts.extend(await asyncio.gather(*coming))

    publishing = in_thread(lambda: asyncio.run(publish_all()))
    eventually(lambda: broker.inbound_budget.held > 200_000)
    [session] = broker.sessions
    told = session.backpressure.keepalives
    eventually(lambda: session.backpressure.keepalives > told + 6)  # each takes half a heartbeat
    assert not receipts
    store.answer_always()
    publishing.join(DEADLINE)
    assert len(receipts) == 100
    assert (broker.opened, broker.cut_off) == (1, 0)


def raw_client(serving: Serving, *, buffer: int) -> socket.socket:
    """One that has said hello, and answers no ping but by hand."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    found.settimeout(DEADLINE)
    DEADLINES[found] = monotonic() + DEADLINE
    found.connect(("127.0.0.1", serving.port))
    lines = (
        f"GET {PATH} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    found.sendall("\r\n".join((*lines, "", "")).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += found.recv(1)
    assert b"101" in answer
    return found


def say(there: socket.socket, *messages: Any) -> None:
    [frame] = frames(map(encode, messages), 1_000_000)
    send_frame(there, 2, frame)


def send_frame(there: socket.socket, opcode: int, data: bytes, *, fin: bool = True) -> None:
    """A frame that is masked by nothing."""
    head = bytes([(0x80 if fin else 0) | opcode])
    if len(data) < 126:
        head += bytes([0x80 | len(data)])
    elif len(data) < 65_536:
        head += bytes([0x80 | 126]) + len(data).to_bytes(2)
    else:
        head += bytes([0x80 | 127]) + len(data).to_bytes(8)
    there.sendall(head + bytes(4) + data)


def exactly(there: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = there.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def read_frame(there: socket.socket) -> tuple[int, bool, bytes]:
    assert monotonic() < DEADLINES[there], "pings alone do not keep a broken test going"
    first, second = exactly(there, 2)
    size = second & 0x7F
    if size > 125:
        size = int.from_bytes(exactly(there, 2 if size == 126 else 8))
    return first & 0x0F, bool(first & 0x80), exactly(there, size)


def ask_for_all(there: socket.socket) -> None:
    about = {"until": None, "types": None, "wanted_by": None, "size": None}
    say(there, Hello(PROTOCOL, "raw"), Call(1, "read", READ.arguments(1, limit=10, **about)))


def test_a_ping_does_not_wait_behind_megabytes(around: ExitStack) -> None:
    serving = around.enter_context(Serving(Broker(limits=Limits(heartbeat=0.1))))
    bus = around.enter_context(pc.Bus(serving.url))
    bus.publish(Order(1, "x" * 8_000_000))
    there = around.enter_context(closing(raw_client(serving, buffer=8_192)))
    ask_for_all(there)
    opcode, fin, data = read_frame(there)
    while opcode != 2 or fin:  # until the first piece of what is large
        if opcode == 9:
            send_frame(there, 10, data)
        opcode, fin, data = read_frame(there)
    pinged, got = 0, len(data)
    while not fin or opcode:
        opcode, fin, data = read_frame(there)
        if opcode == 9:  # among the pieces of one message
            pinged += 1
            send_frame(there, 10, data)
        else:
            got += len(data)
            threading.Event().wait(0.002)  # it is a slow network
    assert got > 8_000_000
    assert pinged >= 1
    assert serving.broker.cut_off == 0


def test_who_takes_slowly_but_answers_no_ping_in_time_is_not_cut_off(around: ExitStack) -> None:
    """Its answers wait behind what it has to take: that it takes something is answer enough."""
    serving = around.enter_context(Serving(Broker(limits=Limits(heartbeat=0.4))))
    bus = around.enter_context(pc.Bus(serving.url))
    bus.publish(Order(1, "x" * 6_000_000))
    there = around.enter_context(closing(raw_client(serving, buffer=8_192)))
    ask_for_all(there)
    got = 0
    while got < 6_000_000:
        opcode, _, data = read_frame(there)
        got += len(data) if opcode in (0, 2) else 0
        threading.Event().wait(0.02)
    assert len(serving.broker.sessions) == 2


def test_who_sends_slowly_and_answers_no_ping_is_not_cut_off(
    around: ExitStack, eventually: Eventually
) -> None:
    serving = around.enter_context(Serving(Broker(limits=Limits(heartbeat=0.4))))
    there = around.enter_context(closing(raw_client(serving, buffer=65_536)))
    say(there, Hello(PROTOCOL, "raw"))
    eventually(lambda: serving.broker.sessions)
    there.sendall(bytes([0x82, 0x80 | 127]) + (1_000_000).to_bytes(8) + bytes(4))
    for _ in range(4):  # each time that it is asked whether it lives
        assert there.recv(65_536)
        there.sendall(bytes(1_000))
    assert serving.broker.sessions
    eventually(lambda: not serving.broker.sessions)  # when nothing comes any more


def test_a_message_of_many_tiny_fragments_ends_its_connection(
    around: ExitStack, eventually: Eventually
) -> None:
    serving = around.enter_context(Serving(Broker()))
    there = around.enter_context(closing(raw_client(serving, buffer=65_536)))
    say(there, Hello(PROTOCOL, "raw"))
    eventually(lambda: serving.broker.sessions)
    send_frame(there, 2, b"\x91", fin=False)
    for _ in range(50):
        send_frame(there, 0, b"", fin=False)
    eventually(lambda: not serving.broker.sessions)


def has_begun(broker: Broker, size: int) -> bool:
    return broker.incoming_pool.held >= size


def test_messages_that_do_not_come_to_their_end_are_bounded_for_all_together(
    around: ExitStack, eventually: Eventually
) -> None:
    broker = Broker(server_limits=ServerLimits(inbound_total=500_000))
    serving = around.enter_context(Serving(broker))
    bus = around.enter_context(pc.Bus(serving.url))
    for number in range(1, 11):
        there = around.enter_context(closing(raw_client(serving, buffer=65_536)))
        say(there, Hello(PROTOCOL, "raw"))
        there.sendall(bytes([0x82, 0x80 | 127]) + (10_000_000).to_bytes(8) + bytes(4))
        there.sendall(bytes(300_000))
        so_much = min(number, 3) * 300_000
        eventually(partial(has_begun, broker, so_much))
    eventually(lambda: len(broker.sessions) == 4)
    assert broker.incoming_pool.held <= 1_000_000
    assert bus.publish(Order(1, LARGE)).position == 1
    there.close()
    eventually(lambda: broker.incoming_pool.held < 700_000)


def test_messages_that_wait_for_room_count_too(around: ExitStack, eventually: Eventually) -> None:
    store = SlowStore()
    broker = Broker(server_limits=ServerLimits(inbound_total=500_000), store=store)
    serving = around.enter_context(Serving(broker))
    for number in range(8):  # the first takes all room, the others wait for it
        there = around.enter_context(closing(raw_client(serving, buffer=65_536)))
        there.settimeout(DEADLINE)
        say(there, Hello(PROTOCOL, f"raw-{number}"))
        run = Run("a.B", 1, "hash", Identity("p", 1, number + 1), "json", [b"x" * 499_000])
        say(there, Append(1, [run]))
        eventually(lambda: broker.inbound_budget.held)
    eventually(lambda: broker.opened == 8)
    eventually(lambda: len(broker.sessions) < 8)
    assert broker.incoming_pool.held <= 1_000_000
    store.answer_always()
    eventually(lambda: broker.inbound_budget.held == 0)
    eventually(lambda: broker.incoming_pool.held == 0)


def test_of_those_who_have_most_the_largest_is_let_go() -> None:
    @dataclass(eq=False)
    class Sender:
        group: str
        gone: bool = False

        def evict(self) -> None:
            self.gone = True

    assembling = EvictingPool(1_000)
    honest, rude = Sender("a"), [Sender("b") for _ in range(5)]
    assembling.has_now(honest, 400)
    for size, each in enumerate(rude):
        assembling.has_now(each, 120 + size)
    assembling.has_now(honest, 440)
    assert [each.gone for each in (honest, *rude)] == [False] * 5 + [True]
    assert assembling.held == 440 + 120 + 121 + 122 + 123
    for each in (honest, *rude):
        assembling.has_now(each, 0)
    assert assembling.held == 0


def test_a_message_of_fragments_is_one_message(around: ExitStack, eventually: Eventually) -> None:
    serving = around.enter_context(Serving(Broker()))
    there = around.enter_context(closing(raw_client(serving, buffer=65_536)))
    [hello] = frames([encode(Hello(PROTOCOL, "raw"))], 1_000)
    send_frame(there, 2, hello[:3], fin=False)
    send_frame(there, 0, hello[3:5], fin=False)
    send_frame(there, 9, b"ping")
    send_frame(there, 0, hello[5:])
    assert read_frame(there)[0] == 10
    assert b"welcome" in read_frame(there)[2]


# -- readers ---------------------------------------------------------------------------------------


def test_what_waits_for_all_clients_is_bounded_and_all_of_them_get_it(
    around: ExitStack, eventually: Eventually
) -> None:
    broker = Broker(server_limits=ServerLimits(outbound_total=300_000))
    serving = around.enter_context(Serving(broker))
    shop = around.enter_context(pc.Bus(serving.url))
    buses = [around.enter_context(pc.Bus(serving.url)) for _ in range(4)]
    seen = [Recorder[Order]() for _ in buses]
    for bus, recorder in zip(buses, seen, strict=True):
        bus.subscribe(Order, recorder)
    for n in range(60):
        shop.publish(Order(n, LARGE))
    eventually(lambda: all(len(each.events) == 60 for each in seen))
    eventually(lambda: broker.outbound_budget.held == 0)


def test_clients_that_take_nothing_do_not_hold_more_than_all_may(
    around: ExitStack, eventually: Eventually
) -> None:
    broker = Broker(server_limits=ServerLimits(outbound_total=2_000_000))
    serving = around.enter_context(Serving(broker))
    shop = around.enter_context(pc.Bus(serving.url))
    for n in range(20):
        shop.publish(Order(n, LARGE))
    for _ in range(10):  # each asks for two megabytes, and reads nothing
        there = around.enter_context(closing(raw_client(serving, buffer=8_192)))
        ask_for_all(there)
    eventually(lambda: broker.opened == 11)
    eventually(lambda: broker.cut_off > 0)
    assert broker.outbound_pool.held <= 4_000_000
    assert broker.outbound_pool.held == broker.outbound_budget.held
    desk, seen = around.enter_context(pc.Bus(serving.url)), Recorder[Order]()
    desk.subscribe(Order, seen)
    shop.publish(Order(99))
    eventually(lambda: [each.number for each in seen.events] == [99])
