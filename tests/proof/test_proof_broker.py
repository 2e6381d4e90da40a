"""Brokers, clients and the network between them are hurt, and every guarantee is kept."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from proof_broker import (
    CLIENTS,
    WATCHERS,
    Company,
    flooded_over_a_broker,
    memory_of,
    port_of,
)
from proof_kills import Worker, until
from proof_proxy import HOST, Proxy, Relay
from proof_serving import BrokerJob
from websockets.frames import Frame, Opcode

import polycast as pc
from polycast.broker.server.broker import Broker
from polycast.broker.server.run import Serving
from polycast.broker.wire.protocol import (
    PATH,
    PROTOCOL,
    Call,
    Follow,
    FromClient,
    Hello,
    Limits,
    Want,
    encode,
    frames,
)
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.typesystem import describe

SERVING = Path(__file__).with_name("proof_serving.py")
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
CAST = {name: CLIENTS[name] for name in ("s1", "m1", "m2", "w1")}
Eventually = Callable[[Callable[[], object]], None]


@dataclass
class Note:
    """What is published."""

    number: int
    filling: str = ""


# -- kills -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5])
def test_killed_brokers_and_a_failing_network_keep_the_guarantees(
    tmp_path: Path, seed: int
) -> None:
    with Company(tmp_path, seed=seed, cast=CAST, publishers=2) as company:
        for _ in range(2):
            company.kill_a_broker()
            company.disturb()
        company.kill_both()
        company.cut_in_a_frame()
        verdict = company.finish()
    assert not verdict.told()
    assert verdict.figures["kills of a broker"] >= 3
    assert verdict.figures["accepted"] > 20


@pytest.mark.slow
def test_clients_of_a_broker_that_is_gone_go_on_with_another_of_the_same_file(
    tmp_path: Path,
) -> None:
    with Company(tmp_path, seed=6, cast=WATCHERS, publishers=2) as company:
        assert until(lambda: len({op.process for op in company.done("accepted")}) == 2)
        company.lose(company.brokers[0])
        lost = time.monotonic()
        before = {op.process for op in company.done("accepted")}
        after = time.monotonic_ns()
        assert until(
            lambda: {op.process for op in company.done("accepted") if op.at > after} == before
        )
        assert time.monotonic() - lost < 10.0
        verdict = company.finish()
    assert not verdict.told()


# -- the network -----------------------------------------------------------------------------------


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A broker that asks often whether its clients live."""
    limits = Limits(heartbeat=0.3)
    url = f"sqlite:///{tmp_path / 'bus.db'}"
    with Serving(Broker(url, limits=limits, patience=1.0)) as found:
        yield found


@pytest.fixture
def proxy(serving: Serving) -> Iterator[Proxy]:
    """A network to it."""
    with Proxy(lambda: serving.port, seed=1) as found:
        yield found


class Listener:
    """A bus behind a network, and what came to it."""

    def __init__(self, port: int) -> None:
        self.bus = pc.Bus(f"polycast://{HOST}:{port}")
        self.seen: list[int] = []
        self.bus.subscribe(Note, lambda note: self.seen.append(note.number), level="sorted_set")


@pytest.fixture
def listener(proxy: Proxy) -> Iterator[Listener]:
    """Who publishes and subscribes over it."""
    found = Listener(proxy.port)
    yield found
    found.bus.close()


def test_connections_that_are_cut_in_a_frame_lose_nothing_and_repeat_nothing(
    proxy: Proxy, eventually: Eventually
) -> None:
    for first in (0, 30):  # who is cut off ever again waits ever longer: somebody else goes on
        listener = Listener(proxy.port)
        numbers = list(range(first, first + 30))
        with listener.bus:
            for number in numbers:
                if number % 6 == 0:
                    proxy.cut_after(400)
                listener.bus.publish(Note(number))
            eventually(lambda there=listener: len(there.seen) >= 30)  # type: ignore[misc]
        assert listener.seen == numbers
    assert proxy.accepted > 3


def test_a_connection_that_says_nothing_any_more_is_noticed_and_replaced(
    proxy: Proxy, listener: Listener, eventually: Eventually
) -> None:
    listener.bus.publish(Note(0))
    proxy.stall()
    listener.bus.publish(Note(1))  # over another connection, which the heartbeat has led to
    eventually(lambda: listener.seen == [0, 1])
    assert proxy.accepted == 2


def test_a_subscriber_that_waits_notices_too_and_hears_what_others_publish(
    serving: Serving, proxy: Proxy, listener: Listener, eventually: Eventually
) -> None:
    proxy.stall()
    with pc.Bus(serving.url) as other:
        other.publish(Note(7))
        eventually(lambda: listener.seen == [7])


def test_what_comes_late_over_a_connection_that_was_given_up_is_not_done_again(
    proxy: Proxy, listener: Listener, eventually: Eventually
) -> None:
    for number in range(5):
        proxy.stall()
        listener.bus.publish(Note(number))
        proxy.flow()
    eventually(lambda: len(listener.seen) >= 5)
    assert listener.seen == list(range(5))


def test_frames_that_are_late_change_nothing_but_the_time(
    proxy: Proxy, listener: Listener, eventually: Eventually
) -> None:
    proxy.longest = 0.02
    for number in range(20):
        listener.bus.publish(Note(number))
    eventually(lambda: len(listener.seen) >= 20)
    assert listener.seen == list(range(20))


def test_appends_and_work_that_are_said_three_times_are_done_once(
    serving: Serving, eventually: Eventually
) -> None:
    with Relay(serving.port) as relay:
        seen: list[int] = []

        def handle(note: Note) -> None:
            seen.append(note.number)
            if note.number == 3:
                raise RuntimeError("planned")

        with pc.Bus(f"polycast://{HOST}:{relay.port}") as bus:
            bus.subscribe(Note, handle, durable="mine", level="list", attempts=1)
            for number in range(30):
                bus.publish(Note(number))
            eventually(lambda: len(seen) >= 30)
        assert relay.repeated > 30
        with serving.broker.store.view() as view:
            assert view.newest() == 30
            assert view.count_letters() == 1
            assert not view.buses()
    assert seen == list(range(30))


def test_a_bus_that_is_closed_while_it_connects_leaves_no_connection(
    serving: Serving, proxy: Proxy, eventually: Eventually
) -> None:
    bus = pc.Bus(f"polycast://{HOST}:{proxy.port}")
    proxy.longest = 0.05
    proxy.cut()
    bus.close()
    eventually(lambda: not serving.broker.sessions)


def test_a_bus_closes_in_time_while_what_it_sends_is_not_taken(
    proxy: Proxy,
    listener: Listener,
    in_thread: Callable[[Callable[[], object]], threading.Thread],
) -> None:
    proxy.stall()
    told: list[Exception] = []

    def publish() -> None:
        try:
            listener.bus.publish(Note(1, "x" * 12_000_000))
        except Exception as error:
            told.append(error)

    sending = in_thread(publish)
    began = time.monotonic()
    listener.bus.close(timeout=1)
    assert time.monotonic() - began < 15.0
    sending.join()
    assert all(isinstance(each, pc.PolycastError) for each in told), told


def test_many_buses_open_at_once(serving: Serving) -> None:
    failed: list[Exception] = []

    def open_one() -> None:
        try:
            pc.Bus(serving.url).close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(25)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


# -- who does not read -----------------------------------------------------------------------------


class Deaf:
    """A client that asks for everything and reads nothing."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.connect((HOST, port))
        head = f"GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\n"
        head += "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        self.socket.sendall(f"{head}Sec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1)
        assert b" 101 " in answer

    def say(self, *messages: FromClient) -> None:
        for frame in frames(map(encode, messages), 1_000_000):
            self.socket.sendall(Frame(Opcode.BINARY, frame).serialize(mask=True))

    def is_cut_off(self) -> bool:
        """Whether the broker has ended it; what it had sent is read now."""
        self.socket.settimeout(0.01)
        try:
            while self.socket.recv(1_000_000):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Worker]:
    """A broker in a process of its own, whose memory can be measured."""
    url = f"sqlite:///{tmp_path / 'bus.db'}"
    job = BrokerJob(url, heartbeat=30.0, patience=1.0)
    found = Worker("broker", lambda life: job, tmp_path, SERVING)
    found.start()
    assert until(found.is_ready)
    yield found
    found.kill()
    found.ended()


@ON_LINUX
@pytest.mark.slow
def test_a_client_that_reads_nothing_is_cut_off_and_costs_little_memory(
    process: Worker, eventually: Eventually
) -> None:
    port = port_of(process)
    assert port is not None
    with pc.Bus(f"polycast://{HOST}:{port}") as bus:
        seen: list[int] = []
        bus.subscribe(Note, lambda note: seen.append(note.number), level="list")
        deaf, asking = Deaf(port), Deaf(port)
        note = describe(Note)
        chosen = (SelectedType(note.name, note.version, note.hash),)
        everything = Definition("notes", "list", chosen).encoded()
        for each in (deaf, asking):
            each.say(Hello(PROTOCOL, f"deaf {id(each)}"))
        deaf.say(Want(1, "all", [everything]), Follow(1, 1))
        before, filling = memory_of(process), "x" * 100_000
        for number in range(300):
            bus.publish(Note(number, filling))
        read = encode([1, 1_000, None, None, None])
        asking.say(*(Call(number, "read", read) for number in range(1, 2_000)))
        eventually(lambda: len(seen) == 300)
        assert until(lambda: process.complaint().count("cut off") == 2)
        grown = memory_of(process, "VmHWM") - before
    assert until(deaf.is_cut_off)
    assert until(asking.is_cut_off)
    assert grown < 60_000, f"the broker grew by {grown} KiB"
    for each in (deaf, asking):
        each.socket.close()


@ON_LINUX
@pytest.mark.slow
def test_a_flood_over_a_broker_loses_nothing_and_takes_bounded_memory(tmp_path: Path) -> None:
    verdict = flooded_over_a_broker(tmp_path, seed=3, events=4_500, size=20_000)
    assert not verdict.told()


def test_a_frame_that_is_too_large_ends_that_connection_only(
    serving: Serving, tmp_path: Path
) -> None:
    limits = Limits(frame=100_000)
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with Serving(Broker(url, limits=limits)) as small, pc.Bus(small.url) as bus:
        big = Deaf(small.port)
        big.say(Hello(PROTOCOL, "big"))
        frame = Frame(Opcode.BINARY, b"x" * 150_000).serialize(mask=True)
        big.socket.sendall(frame)
        assert until(big.is_cut_off)
        big.socket.close()
        assert bus.publish(Note(1)).position == 1
        with pytest.raises(pc.PolycastError, match="bytes in one message"):
            bus.publish(Note(2, "x" * 200_000))
        assert bus.publish(Note(3)).position == 2
