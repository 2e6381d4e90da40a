"""The attacks: each goes on until it is told to stop, by any means that a client has."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from attacks_setting import Attacker, Raw, Row, wanted
from websockets.exceptions import WebSocketException

from polycast.broker.wire.calls import CALLS, READ, STEPS
from polycast.broker.wire.protocol import (
    Call,
    Credit,
    Describe,
    Step,
    Want,
    Work,
    encode,
    encode_description,
)
from polycast.typesystem import describe

Attack = Callable[[Attacker], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}
FAILED = (WebSocketException, OSError, TimeoutError)
READING = READ.arguments(1, limit=10_000, until=None, types=None, wanted_by=None, size=None)


def attack(name: str) -> Callable[[Attack], Attack]:
    """List an attack; it begins anew whenever the broker has cut it off."""

    def listed(made: Attack) -> Attack:
        async def again(attacker: Attacker) -> None:
            while attacker.goes_on:
                with suppress(*FAILED):
                    await made(attacker)
                await asyncio.sleep(0.01)

        ATTACKS[name] = again
        return made

    return listed


# -- filters that take long ------------------------------------------------------------------------

LONG_LISTS = Row(names=[f"{n}" for n in range(2_000)], numbers=list(range(2_000)))
LONG_TEXT = Row(s="ab" * 400_000, n=3)
LARGE_NUMBERS = Row(n=7**20_000, m=7**20_000 + 1)
FEW = Row("x", 1, 2, ["a"], [1])
LONGER_TEXT = Row(s="ab" * 2_500_000)
ONE_HASH = 2**61 - 1  # all its multiples have the hash 0

FILTERS: dict[str, tuple[str, Row]] = {
    "nested any over lists": (
        "any(any(a == b + 'x' for b in event.names) for a in event.names)",
        LONG_LISTS,
    ),
    "any over any over any": (
        "any(any(any(a + b + c < 0 for c in event.numbers) for b in event.numbers) "
        "for a in event.numbers)",
        LONG_LISTS,
    ),
    "encode('punycode')": ("event.s.encode('punycode') == b'x'", LONG_TEXT),
    "a text times a number": ("event.s * event.n == 'x'", Row("x" * 1_000, 10**9)),
    "a list times a number": ("event.names * event.n == []", Row(names=["x"] * 99, n=10**9)),
    "a format of any width": ("'%2000000000d' % event.n == 'x'", FEW),
    "a field that is a format": ("event.s % event.n == 'x'", Row("%2000000000d", 1)),
    "powers of large numbers": ("event.n ** 19 > 0", LARGE_NUMBERS),
    "products of large numbers": ("event.n * event.m * event.n * event.m > 0", LARGE_NUMBERS),
    "remainders of large numbers": ("event.n * event.n % event.m > 0", LARGE_NUMBERS),
    "texts that are looked for in texts": (
        "event.s.rfind(event.s + 'c') > 0 or event.s.count('abab' + event.s) > 0",
        LONG_TEXT,
    ),
    "a text stripped of its letters": (
        "event.s.rstrip(event.s) == ''",
        Row("x" * 300_000 + "a" * 300_000),
    ),
    "letters of a text of 5 MB": (
        "any(each == 'x' or each == 'y' or each in 'zw' for each in event.s)",
        LONGER_TEXT,
    ),
    "a text of 5 MB in many parts": (
        "len([" + "event.s.split('b'), " * 6 + "]) == 3",
        LONGER_TEXT,
    ),
    "a set of numbers that have one hash": (
        "5 in event.marks",
        Row(marks={n * ONE_HASH for n in range(30_000)}),
    ),
    "XPath over and over": ("xpath.holds(event, '//a[count(//b[//c]) > 1]')", LONG_LISTS),
    "large constants": (f"event.n in {list(range(60_000))}", FEW),
    "very many conditions": (
        " or ".join(f"event.s.lower() == {f'{n}'!r}" for n in range(2_000)),
        Row("x" * 4_000),
    ),
}


def filtering(text: str, row: Row) -> Attack:
    async def flood(attacker: Attacker) -> None:
        raw = await attacker.connect()
        try:
            await raw.want(text)
            await raw.follow()
            for _ in range(200):
                await raw.publish(*[row] * (1 if len(row.s) > 10_000 else 10))
                await raw.answered(raw.heard + 1)
        finally:
            await raw.close()

    return flood


for _name, (_text, _row) in FILTERS.items():
    attack(_name)(filtering(_text, _row))


@attack("ten thousand filters that no index helps with")
async def unindexed(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        texts = [f"event.n + event.m * {n % 97} > {n}" for n in range(10_000)]
        await raw.want(*texts)
        await raw.follow()
        for _ in range(200):
            await raw.publish(*[FEW] * 200)
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


def subscribing(texts: list[str], row: Row) -> Attack:
    """Many filters, each of which takes little; they come and go."""

    async def flood(attacker: Attacker) -> None:
        raw = await attacker.connect()
        try:
            await raw.follow()
            await raw.want(*texts)
            for _ in range(200):
                await raw.publish(row)
                await raw.answered(raw.heard + 1)
        finally:
            await raw.close()

    return flood


attack("numbers of one hash in filters")(
    subscribing([f"event.n == {n * ONE_HASH}" for n in range(3_000)], Row(n=ONE_HASH))
)
attack("two hundred XPaths")(
    subscribing(
        [
            " or ".join(
                f"xpath.holds(event, 'contains(string(/), \"{n} {part}\")')" for part in range(50)
            )
            for n in range(200)
        ],
        Row("ab" * 2_000),
    )
)


@attack("events on ever other topics")
async def topics(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        await raw.want("event.n > 3")
        await raw.follow()
        for number in itertools.count():
            await raw.publish(FEW, topic=f"/{number}/" + "x" * 1_900)
    finally:
        await raw.close()


@attack("a hundred filters over texts of 800 KB")
async def long_texts(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        await raw.want(*[f"'{n}' in event.s.lower()" for n in range(100)])
        await raw.follow()
        for _ in range(200):
            await raw.publish(LONG_TEXT)
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


@attack("filters as deep as a frame takes")
async def deep(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        for number in itertools.count():
            text = "(" * 5_000 + "event.n" + ")" * 5_000 + f" > {number}"
            await raw.want(text, "not " * 20_000 + "event.n", name=f"{number}")
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


@attack("filters of a megabyte")
async def long_filters(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        for number in itertools.count():
            text = " and ".join(f"event.n != {n + number}" for n in range(50_000))
            await raw.want(text)
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


@attack("subscriptions that come and go")
async def churn(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        await raw.follow()
        for number in itertools.count():
            wants = [
                Want(raw.number(), f"{n}", [wanted(f"event.n > {number + n}")]) for n in range(200)
            ]
            await raw.say(*wants, *(Want(raw.number(), f"{n}", []) for n in range(200)))
            await raw.answered(raw.heard + 400)
    finally:
        await raw.close()


@attack("topics with very many wildcards")
async def wildcards(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        patterns = ["/" + "**/a/" * n + "**/b" for n in range(1, 49)]
        await raw.say(Want(raw.number(), "w", [wanted("event.n > 0", topic=p) for p in patterns]))
        await raw.follow()
        for _ in range(200):
            await raw.publish(*[FEW] * 10, topic="/" + "a/" * 90 + "c")
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


@attack("short messages of events with long headers")
async def headers(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        for _ in range(200):
            await raw.publish(*[FEW] * 500, headers={"note": "x" * 2_000_000})
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


# -- questions -------------------------------------------------------------------------------------


def asking(*messages: Callable[[Raw], object], secret: str, at_once: int) -> Attack:
    async def flood(attacker: Attacker) -> None:
        raw = await attacker.connect(getattr(attacker.secrets, secret))
        try:
            while True:
                said = [each(raw) for each, _ in zip(itertools.cycle(messages), range(at_once))]
                await raw.say(*said)
                await raw.answered(raw.heard + at_once)
        finally:
            await raw.close()

    return flood


def call(name: str, *arguments: object) -> Callable[[Raw], object]:
    given = CALLS[name].arguments(*arguments)
    return lambda raw: Call(raw.number(), name, given)


def step(name: str, *arguments: object, times: int, **named: object) -> Callable[[Raw], object]:
    steps = [Step(name, STEPS[name].arguments(*arguments, **named))] * times
    return lambda raw: Work(raw.number(), steps, False, 0)


def reads(raw: Raw) -> object:
    return Call(raw.number(), READ.name, READING)


attack("ten thousand reads in a frame, without rights")(
    asking(reads, secret="nobody", at_once=10_000)
)
attack("ten thousand reads in a frame")(asking(reads, secret="evil", at_once=10_000))
attack("all listings, ten thousand in a frame")(
    asking(call("subscriptions"), call("descriptions"), secret="evil", at_once=10_000)
)
attack("buses without end, without rights")(
    asking(
        step("open_bus", "nobody", until=1e12, address="here", process=1, times=1_000),
        secret="nobody",
        at_once=20,
    )
)
attack("work of ten thousand steps")(
    asking(step("newest", times=10_000), secret="evil", at_once=20)
)
attack("credit for what was never sent")(
    asking(lambda raw: Credit(2**60), secret="evil", at_once=20_000)
)


# -- floods ----------------------------------------------------------------------------------------


def flooding(row: Row, *, at_once: int) -> Attack:
    async def flood(attacker: Attacker) -> None:
        raw = await attacker.connect()
        try:
            while True:
                await raw.publish(*[row] * at_once)
        finally:
            await raw.close()

    return flood


attack("a flood of small events")(flooding(FEW, at_once=500))
attack("a flood of events one by one")(flooding(FEW, at_once=1))
attack("a flood of large events")(flooding(Row("x" * 800_000), at_once=4))


@attack("a subscriber of a flood that reads nothing")
async def deaf(attacker: Attacker) -> None:
    listening = await attacker.socket()
    raw = await attacker.connect()
    try:
        listening.transport.pause_reading()
        other = Raw(listening)
        await raw.want("event.n > 0")
        await raw.follow()
        while True:
            await raw.publish(*[Row("x" * 10_000, 1)] * 20)
            await other.answered(1)
    finally:
        await raw.close()
        await listening.close()


@attack("types without end")
async def types(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        for number in itertools.count():
            several = [
                describe(
                    msgspec.defstruct(
                        f"T{number}_{n}", [(f"f{number + n}", int)], module="evil", namespace={}
                    )
                )
                for n in range(50)
            ]
            await raw.say(Describe(raw.number(), [encode_description(each) for each in several]))
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


@attack("types of ten thousand fields")
async def wide_types(attacker: Attacker) -> None:
    raw = await attacker.connect()
    try:
        for number in itertools.count():
            hints = [(f"f{number}_{n}", int) for n in range(10_000)]
            found = describe(msgspec.defstruct(f"W{number}", hints, module="evil"))
            await raw.say(Describe(raw.number(), [encode_description(found)]))
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()


# -- connections -----------------------------------------------------------------------------------


@attack("garbage in frames")
async def garbage(attacker: Attacker) -> None:
    async def one() -> None:
        with suppress(*FAILED):
            socket = await attacker.socket()
            deep = b"\x91" * 100_000
            for frame in (os.urandom(1_000), deep, encode([["hello", 1, "x"]] * 10_000)):
                await socket.send(frame)
            await asyncio.wait_for(socket.wait_closed(), 1.0)

    await asyncio.gather(*(one() for _ in range(10)))


@attack("pings without end, without rights")
async def pings(attacker: Attacker) -> None:
    raw = await attacker.connect(attacker.secrets.nobody)
    transport = raw.socket.transport
    try:
        while not transport.is_closing():
            transport.write(b"\x89\x80\0\0\0\0" * 20_000)
            while transport.get_write_buffer_size() > 100_000:
                await asyncio.sleep(0.01)
    finally:
        await raw.close()


@attack("connections that come and go")
async def storm(attacker: Attacker) -> None:
    async def one() -> None:
        with suppress(*FAILED):
            await (await attacker.socket()).close()

    await asyncio.gather(*(one() for _ in range(20)))


@attack("wrong tokens")
async def guessing(attacker: Attacker) -> None:
    async def one() -> None:
        with suppress(*FAILED):
            await (await attacker.socket(os.urandom(16).hex())).close()

    await asyncio.gather(*(one() for _ in range(20)))


@attack("connections that say nothing")
async def silent(attacker: Attacker) -> None:
    host, _, port = attacker.address.rpartition(":")
    opened = []
    try:
        for _ in range(300):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /bus HTTP/1.1\r\nHost: 127")
            opened.append((reader, writer))
        await asyncio.sleep(1.0)
    finally:
        for _, writer in opened:
            writer.close()


@attack("questions by HTTP")
async def http(attacker: Attacker) -> None:
    host, _, port = attacker.address.rpartition(":")
    request = f"GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        while True:
            writer.write(request * 20)
            await writer.drain()
            await asyncio.wait_for(reader.read(100_000), 1.0)
    finally:
        writer.close()


@attack("filters in forms that nobody knows")
async def forms(attacker: Attacker) -> None:
    raw = await attacker.connect()
    definition = json.loads(wanted("event.n > 1"))
    try:
        for number in itertools.count():
            nested: object = number
            for _ in range(300):
                nested = [nested]
            wrong = {**definition, "filter": {"format": 1, "filter": nested, "x": "y" * 100_000}}
            await raw.say(Want(raw.number(), "w", [json.dumps(wrong).encode()] * 50))
            await raw.answered(raw.heard + 1)
    finally:
        await raw.close()
