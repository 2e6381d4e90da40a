"""What is too large is refused by its size; what is large is read in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import msgspec
import pytest
from test_flow import Client, run, settled

from polycast.broker.server.broker import Broker
from polycast.broker.server.client_session import ClientSession
from polycast.broker.server.query_rules import LARGEST_DEFINITION
from polycast.broker.server.type_catalog import LARGEST, MOST
from polycast.broker.wire.protocol import (
    Answer,
    Describe,
    Refused,
    Want,
    Wanted,
    decode_message,
    encode,
    encode_description,
)
from polycast.matching import Definition
from polycast.matching.interest import SelectedType
from polycast.typesystem import describe

GARBAGE = msgspec.Raw(encode("x" * 10))


def type_of(fields: int, name: str = "Wide") -> Any:
    return describe(make_dataclass(name, [(f"f{n}", int) for n in range(fields)]))


def definition(where: str = "event.f0 > 1") -> bytes:
    found = type_of(1)
    types = (SelectedType(found.name, found.version, found.hash),)
    data = {"format": 1, "filter": where}
    return Definition(found.name, "sorted_set", types, where=where, filter=data).encoded()


TOO_WIDE = msgspec.Raw(encode("x" * LARGEST))
REFUSED: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: Describe(7, [TOO_WIDE]), "types", f"a description of {LARGEST + 5:,} bytes"),
    (lambda: Describe(7, [GARBAGE] * (MOST + 1)), "types", f"{MOST + 1:,} descriptions at once"),
    (lambda: Want(7, "w", [b"x" * (LARGEST_DEFINITION + 1)]), "definition", "a definition of"),
]


@pytest.mark.parametrize(("message", "code", "text"), REFUSED, ids=["wide", "many", "definition"])
def test_what_is_too_large_is_refused_by_its_size_before_it_is_read(
    message: Callable[[], Any], code: str, text: str
) -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        client.say(message())
        await settled()
        (refused,) = client.of(Refused)
        assert (refused.number, refused.code) == (7, code)
        assert text in refused.text
        assert "are accepted" in refused.text
        await client.close()

    run(test, lambda: Broker("memory:"))


def test_a_type_of_two_thousand_fields_is_accepted() -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        client.say(Describe(7, [encode_description(type_of(2_000))]))
        while not client.of(Answer):
            await asyncio.sleep(0)
        assert broker.type_catalog.described(type_of(2_000).hash) is not None
        await client.close()

    run(test, lambda: Broker("memory:"))


def parts(session: ClientSession, message: Any) -> int:
    """How many times others have a turn while a message is heard."""
    return sum(1 for _ in session.requests.handle(msgspec.Raw(encode(message))))


def test_others_have_their_turn_while_much_is_read() -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        types = [encode_description(type_of(50, f"T{n}")) for n in range(100)]
        types.append(encode_description(type_of(1)))
        assert parts(client.session, Describe(1, types)) == 100
        wants = [definition(f"event.f0 > {n}") for n in range(100)]
        # Each is checked, and each is then compiled, which may take as long as a slice.
        assert parts(client.session, Want(2, "w", wants)) == 2 * len(wants)
        assert [each.number for each in client.of(Wanted)] == []
        await settled()
        assert [each.number for each in client.of(Wanted)] == [2]
        await client.close()

    run(test, lambda: Broker("memory:"))


def test_a_message_that_is_no_message_ends_the_connection_after_what_was_before_it() -> None:
    async def test(broker: Broker) -> None:
        client = Client(broker)
        client.frames.put_nowait(encode([Want(1, "w", []), "no message"]))
        await client.task
        assert [each.number for each in client.of(Wanted)] == [1]
        assert [each.number for each in client.of(Refused)] == [0]

    run(test, lambda: Broker("memory:"))


def test_a_message_means_the_same_alone_and_in_its_frame() -> None:
    said = Describe(3, [encode_description(type_of(2))])
    assert decode_message(msgspec.Raw(encode(said))) == said


def test_what_is_wanted_by_nobody_any_more_is_forgotten_later_than_it_is_answered() -> None:
    async def test(broker: Broker) -> None:
        client, fanout = Client(broker), broker.fanout
        client.say(Describe(1, [encode_description(type_of(1))]))
        client.say(Want(2, "w", [definition(f"event.f0 > {n}") for n in range(100)]))
        while not client.of(Wanted):
            await asyncio.sleep(0)
        broker.fanout.leave(client.session.events)
        assert (len(fanout.plan), len(fanout.plan._plan.routes)) == (
            0,
            100,
        )  # others have their turn first
        while fanout.step():
            pass
        assert (len(fanout.plan), len(fanout.plan._plan.routes)) == (0, 0)
        await client.close()

    run(test, lambda: Broker("memory:"))
