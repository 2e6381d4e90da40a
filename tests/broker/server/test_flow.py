"""What a broker holds for its clients is bounded in bytes, and each of them has its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polycast.broker.server.access import ANYBODY, Principal, Rights
from polycast.broker.server.broker import UNROUTED, Broker
from polycast.broker.server.client_session import ClientSession
from polycast.broker.server.fair_scheduler import SLICE, RoundRobin
from polycast.broker.server.flow_control import SharedBudget
from polycast.broker.server.limits import ServerLimits
from polycast.broker.wire.calls import READ, STEPS
from polycast.broker.wire.protocol import (
    PROTOCOL,
    Answer,
    Append,
    Call,
    Events,
    Follow,
    Hello,
    Limits,
    Refused,
    Step,
    Work,
    decode_from_broker,
    encode,
    frames,
)
from polycast.events import Identity
from polycast.stores import Run
from polycast.stores.memory_store import MemoryStore

DEADLINE = 20.0
READING = READ.arguments(1, limit=10_000, until=None, types=None, wanted_by=None, size=None)


class SlowStore(MemoryStore):
    """Answers nothing before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[Any] = []
        self.reads = 0

    def submit(self, drafts: Any, *, astray: Any = ()) -> Future[list[int]]:
        future: Future[list[int]] = Future()
        self.submitted.append((drafts, future))
        return future

    def answer_all(self) -> None:
        waiting, self.submitted = self.submitted, []
        for drafts, future in waiting:
            future.set_result(super().submit(drafts).result())

    def read(self, *args: Any, **options: Any) -> Any:
        self.reads += 1
        return super().read(*args, **options)


class Client:
    """One that says frames when it is asked for them, and hears."""

    def __init__(self, broker: Broker, *, who: Principal = ANYBODY, name: str = "client") -> None:
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.heard: list[Any] = []
        self.bell = asyncio.Event()
        self.session = ClientSession(broker, self._hear, principal=who, place="here")
        self.say(Hello(PROTOCOL, name))
        self.task = asyncio.create_task(self.session.run(self.frames.get))

    async def _hear(self, frame: bytes) -> None:
        self.heard += decode_from_broker(frame)
        self.bell.set()

    def say(self, *messages: Any) -> None:
        self.frames.put_nowait(b"".join(frames(map(encode, messages), 10**9)))

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.heard if isinstance(each, kind)]

    async def close(self) -> None:
        self.frames.put_nowait(None)
        await self.task


def run(test: Callable[[Broker], Awaitable[None]], broker_of: Callable[[], Broker]) -> None:
    async def whole() -> None:
        broker = broker_of()
        serving = asyncio.create_task(broker.run())
        try:
            await asyncio.wait_for(test(broker), DEADLINE)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            broker.close()

    asyncio.run(whole())


def slow(**server_limits: int) -> Broker:
    limits = Limits(heartbeat=0.01)
    return Broker(server_limits=ServerLimits(**server_limits), limits=limits, store=SlowStore())


async def settled() -> None:
    """Let everybody do what can be done now."""
    for _ in range(50):
        await asyncio.sleep(0)


def appending(number: int, *, size: int) -> Append:
    identity = Identity("p", 1, number)
    return Append(number, [Run("a.B", 1, "hash", identity, "json", [b"x" * size])])


def test_an_honest_publisher_is_not_read_beyond_what_the_broker_may_hold_for_it() -> None:
    async def test(broker: Broker) -> None:
        store: Any = broker.store
        client = Client(broker)
        for number in range(1, 101):
            client.say(appending(number, size=1_000))
        await settled()
        assert len(store.submitted) == 9  # of a thousand bytes each, and a little
        assert 12_000 <= broker.inbound_budget.held < 13_000
        while len(client.of(Answer)) < 100:
            store.answer_all()
            await settled()
        assert [each.number for each in client.of(Answer)] == list(range(1, 101))
        assert broker.inbound_budget.held == client.session.backpressure.held == 0
        await client.close()

    run(test, lambda: slow(inbound=12_000))


def test_all_clients_together_are_bounded_too_and_go_on_when_there_is_room() -> None:
    async def test(broker: Broker) -> None:
        store: Any = broker.store
        clients = [Client(broker) for _ in range(20)]
        for client in clients:
            client.say(*(appending(number, size=1_000) for number in range(1, 6)))
        await settled()
        assert broker.inbound_budget.held < 12_000
        while any(len(each.of(Answer)) < 5 for each in clients):
            store.answer_all()
            await settled()
        assert broker.inbound_budget.held == 0
        for client in clients:
            await client.close()

    run(test, lambda: slow(inbound_total=10_000))


def test_one_who_is_not_heard_for_now_is_told_that_the_broker_lives() -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        client.say(appending(1, size=1_000), appending(2, size=1_000))
        await settled()
        before = len(client.of(Events))
        while len(client.of(Events)) < before + 3:  # though nothing happens
            client.bell.clear()
            await client.bell.wait()
        while len(client.of(Answer)) < 2:
            broker.store.answer_all()  # type: ignore[attr-defined]
            await settled()
        await client.close()

    run(test, lambda: slow(inbound=1_000))


def test_reading_without_the_right_to_see_anything_reads_nothing() -> None:
    async def test(broker: Broker) -> None:
        store: Any = broker.store
        client = Client(broker, who=Principal("till", Rights.of(publish=["a.*"])))
        client.say(*(Call(number, "read", READING) for number in range(1, 1_001)))
        while len(client.of(Refused)) < 1_000:
            client.bell.clear()
            await client.bell.wait()
        assert {each.code for each in client.of(Refused)} == {"access-denied"}
        assert store.reads == 0
        await client.close()

    run(test, slow)


def test_a_frame_of_ten_thousand_questions_does_not_keep_others_waiting() -> None:
    async def test(broker: Broker) -> None:
        runs = [Run("a.B", 1, "hash", Identity("p", 1, 1), "json", [b"x"] * 500)]
        broker.store.submit(runs).result()
        rude, other = Client(broker), Client(broker)
        rude.say(*(Call(number, "read", READING) for number in range(1, 10_001)))
        await settled()
        other.say(Call(1, "newest", b"\x90"))
        while not other.of(Answer):
            await asyncio.sleep(0)
        assert len(rude.of(Answer)) < 5_000
        rude.task.cancel()
        await asyncio.wait([rude.task])
        await other.close()

    run(test, Broker)


class WatchedStore(MemoryStore):
    """Notes at each append how many events all clients still wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.fanout: Any = None
        self.unrouted: list[int] = []

    def submit(self, drafts: Any, *, astray: Any = ()) -> Future[list[int]]:
        self.unrouted.append(self.newest() + 1 - self.fanout.front)
        return super().submit(drafts, astray=astray)


def watched() -> Broker:
    store = WatchedStore()
    broker = Broker(store=store)
    store.fanout = broker.fanout
    return broker


def flood(client: Client, *, messages: int, of: int) -> None:
    for number in range(1, messages + 1):
        identity = Identity(f"{id(client)}", 1, number * of)
        client.say(Append(number, [Run("a.B", 1, "hash", identity, "json", [b"x"] * of)]))


@pytest.mark.parametrize("connections", [1, 10])
def test_a_flood_of_one_owner_is_read_as_fast_as_it_is_routed(connections: int) -> None:
    """The events of others are in the same log, behind it."""

    async def test(broker: Broker) -> None:
        store: Any = broker.store
        evil = Principal("evil", Rights.of(admin=True), owner="evil")
        follower = Client(broker)
        follower.say(Follow(1, 1))
        await settled()
        clients = [Client(broker, who=evil, name=f"{n}") for n in range(connections)]
        for client in clients:
            flood(client, messages=100 // connections, of=500)
        while sum(len(client.of(Answer)) for client in clients) < 100:
            await asyncio.sleep(0)
        assert max(store.unrouted) <= UNROUTED
        for client in (*clients, follower):
            await client.close()
        await settled()
        assert broker.unrouted.held == 0

    run(test, watched)


def test_a_flood_goes_on_when_its_only_follower_takes_nothing_or_leaves() -> None:
    async def test(broker: Broker) -> None:
        evil = Principal("evil", Rights.of(admin=True), owner="evil")
        follower, client = Client(broker), Client(broker, who=evil)
        follower.say(Follow(1, 1))
        await settled()
        follower.session.events.unread = 10**9
        flood(client, messages=50, of=500)
        while len(client.of(Answer)) < 50:
            await asyncio.sleep(0)
        await follower.close()
        flood(client, messages=50, of=500)
        while len(client.of(Answer)) < 100:
            await asyncio.sleep(0)
        assert broker.unrouted.held == 0
        await client.close()

    run(test, watched)


def test_work_with_questions_whose_answers_are_too_much_is_refused() -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        step = Step("subscriptions", STEPS["subscriptions"].arguments())
        client.say(Work(1, [step] * 100, False, 1), Work(2, [step] * 2, False, 1))
        while len(client.heard) < 3:
            client.bell.clear()
            await client.bell.wait()
        (refused,) = client.of(Refused)
        assert (refused.number, refused.code) == (1, "answers")
        assert "10,000 are accepted" in refused.text
        await client.close()

    run(test, lambda: slow(answers=10_000))


# -- turns -----------------------------------------------------------------------------------------


def test_who_has_had_more_than_a_slice_waits_until_others_had_theirs() -> None:
    async def test() -> list[str]:
        round_robin, order = RoundRobin(), list[str]()

        async def work(party: str, times: int, seconds: float) -> None:
            for _ in range(times):
                await round_robin.take(party)
                order.append(party)
                round_robin.spend(party, seconds)

        await asyncio.gather(work("a", 8, SLICE * 2), work("a", 8, SLICE * 2), work("b", 4, 0.0))
        return order

    order = asyncio.run(asyncio.wait_for(test(), DEADLINE))
    assert order.count("a") == 16
    assert "b" in order[:3]
    assert order.index("b") + order.count("b") <= 8


def test_who_gave_up_waiting_does_not_hold_up_its_party() -> None:
    async def test() -> None:
        round_robin = RoundRobin()
        round_robin.spend("a", SLICE * 3)
        first = asyncio.create_task(round_robin.take("a"))
        second = asyncio.create_task(round_robin.take("a"))
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(asyncio.wait_for(test(), DEADLINE))


@pytest.mark.parametrize(("allowed", "of_one"), [(10_000, 1_000), (100, 50), (1, 1)])
def test_one_address_has_no_more_than_half_of_all_connections(allowed: int, of_one: int) -> None:
    assert ServerLimits(connections=allowed).of_one_address == of_one
    assert ServerLimits(connections=allowed, per_address=7).of_one_address == 7


def test_an_owner_that_has_its_part_of_the_room_waits_and_others_do_not() -> None:
    inbound_budget, told = SharedBudget(100, of_one=25), list[str]()
    inbound_budget.change(30, "evil")
    assert not inbound_budget.has_room("evil")
    assert inbound_budget.has_room("shop")
    assert inbound_budget.has_room()
    inbound_budget.await_room(lambda: told.append("evil"), "evil")
    inbound_budget.change(10, "shop")
    inbound_budget.change(-10, "shop")
    assert told == []  # what others are done with is no room for it
    inbound_budget.change(-10, "evil")
    inbound_budget.change(-10, "evil")
    assert told == ["evil"]


def test_all_wait_while_all_have_too_much_and_are_told_of_room() -> None:
    inbound_budget, told = SharedBudget(100, of_one=50), list[str]()
    for owner in ("a", "b", "c"):
        inbound_budget.change(40, owner)
    tell = lambda: told.append("forgotten")  # noqa: E731
    inbound_budget.await_room(tell, "c")
    inbound_budget.await_room(lambda: told.append("d"), "d")
    inbound_budget.await_room(lambda: told.append("nobody"))
    inbound_budget.forget(tell, "c")
    assert not any(map(inbound_budget.has_room, ("a", "d", None)))
    inbound_budget.change(-40, "a")
    assert sorted(told) == ["d", "nobody"]


OWNERS = st.sampled_from(["a", "b", "c", None])
CHANGES = st.lists(st.tuples(OWNERS, st.integers(1, 60), st.booleans()), max_size=40)


@given(CHANGES)
def test_whoever_waits_for_room_is_told_as_soon_as_there_is_some(
    changes: list[tuple[str | None, int, bool]],
) -> None:
    """Nobody waits for ever while there is room, and what is held is what is held of each."""
    inbound_budget, waiting = SharedBudget(100, of_one=40), set[str | None]()
    held: list[tuple[str | None, int]] = []
    for owner, size, is_more in changes:
        if is_more or not held:
            held.append((owner, size))
            inbound_budget.change(size, owner)
            if not inbound_budget.has_room(owner) and owner not in waiting:
                waiting.add(owner)
                inbound_budget.await_room(lambda owner=owner: waiting.discard(owner), owner)  # type: ignore[misc]
        else:
            whose, less = held.pop(size % len(held))
            inbound_budget.change(-less, whose)
        assert not any(inbound_budget.has_room(each) for each in waiting)
        assert inbound_budget.held == sum(size for _, size in held)
