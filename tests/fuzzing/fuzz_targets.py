"""What is fuzzed: everything that reads bytes of somebody else, each a function from bytes to None.

A target returns, or fails by an assertion or by an error that is no `PolycastError`. It says more
than that nothing breaks: what was read is written and read again, and is the same; two engines
agree.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fuzz_shop
import msgspec

import polycast as pc
from polycast.broker.server.tokenfile import read_tokens
from polycast.broker.wire.calls import CALLS, ERRANDS, STEPS
from polycast.broker.wire.protocol import (
    decode_batch,
    decode_from_broker,
    decode_from_client,
    decode_records,
    encode,
    encode_batch,
    encode_records,
    frames,
)
from polycast.contexts.declare.context_state import read_state
from polycast.errors import BadFrameError, NotDecodableError, PolycastError
from polycast.formats.xmlrpc import filterable_xml, from_xmlrpc
from polycast.typesystem import Description, Registry

__all__ = ["LONGEST", "TARGETS"]

LONGEST = 4_096
"""Bytes of an input: what takes more to go wrong is looked for by tests of their own."""
IN_MEMORY = "/dev/shm"
_VERBS = list((CALLS | STEPS | ERRANDS).values())


# -- what filters are asked about ------------------------------------------------------------------


@dataclass
class Part:
    """Something inside an event."""

    name: str = "bolt"
    price: float = 2.5


@dataclass
class Sample:
    """An event with a value of each common kind."""

    a: int = 1
    n: int = 7
    text: str = "Hello World"
    price: float = 0.5
    is_open: bool = True
    nothing: str | None = None
    tags: list[str] = field(default_factory=lambda: ["a", "b"])
    data: dict[str, int] = field(default_factory=lambda: {"k": 1})
    parts: list[Part] = field(default_factory=lambda: [Part(), Part("nut", 0.1)])


SAMPLES: list[Any] = [
    Sample(),
    {"a": 1, "topic": "t", "list": [1, 2.5, "x"], "struct": {"b": None}},
    pc.StructuredEvent("shop", "Order", "o1", {"priority": 3}, {"a": 1, "text": "x"}, [1, "b"]),
]


def _agrees(where: pc.Filter[Any]) -> None:
    """The filter says the same by its code and by its tree, and is the same when it was sent."""
    said = [where.matches(each) for each in SAMPLES]
    assert said == [where.interpret(each) for each in SAMPLES], f"engines differ: {where}"
    try:
        sent = where.to_json()
    except PolycastError:
        return
    again = pc.Filter.from_json(json.loads(json.dumps(sent)))
    assert str(again) == str(where), f"{where} came back as {again}"
    assert [again.matches(each) for each in SAMPLES] == said, f"sent, it says other: {where}"


# -- targets ---------------------------------------------------------------------------------------


def frame(data: bytes) -> None:
    """Frames of clients and brokers, records, batches, and the arguments of calls."""
    for decode in (decode_from_client, decode_from_broker):
        with suppress(BadFrameError):
            said = decode(data)
            once = b"".join(frames(map(encode, said), 10**9))
            again = decode(once) if said else said
            assert b"".join(frames(map(encode, again), 10**9)) == once
    with suppress(BadFrameError):
        found = decode_records(data)
        assert encode_records(decode_records(encode_records(found))) == encode_records(found)
    with suppress(BadFrameError):
        batch = decode_batch(data)
        assert encode_batch(decode_batch(encode_batch(batch))) == encode_batch(batch)
    verb = _VERBS[data[0] % len(_VERBS)] if data else _VERBS[0]
    for read in (verb.given, verb.result):
        with suppress(BadFrameError):
            read(data[1:])


def description(data: bytes) -> None:
    """Descriptions of types, in MessagePack as on the wire, and the classes made of them."""
    try:
        found = msgspec.msgpack.decode(data, type=tuple[Description, ...])
    except (msgspec.DecodeError, ValueError, RecursionError):  # as a frame refuses them
        return
    names = Registry()
    for each in found[:8]:
        written = msgspec.msgpack.encode(each)
        again = msgspec.msgpack.decode(written, type=Description)
        assert msgspec.msgpack.encode(again) == written
        assert again.hash == each.hash, "the hash differs after a trip"
        names.add(each)
    for each in found[:8]:
        with suppress(PolycastError):
            made = names.made(each)
            assert names.made(each) is made, "two classes of one description"


def filter_text(data: bytes) -> None:
    """Filters as text in the syntax of Python, as stores and wires carry them."""
    with suppress(PolycastError):
        _agrees(pc.Filter.from_json({"format": 1, "filter": _text(data)}))


def filter_json(data: bytes) -> None:
    """Filters as JSON."""
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return
    with suppress(PolycastError):
        _agrees(pc.Filter.from_json(given))


def etcl(data: bytes) -> None:
    """Filters in the extended trader constraint language."""
    with suppress(PolycastError):
        _agrees(pc.parse_filter(_text(data), "etcl"))


def xpath(data: bytes) -> None:
    """Filters in XPath."""
    with suppress(PolycastError):
        _agrees(pc.parse_filter(_text(data), "xpath"))


def context_xml(data: bytes) -> None:
    """Contexts as XML: what they name is of one module, and they are the same when dumped.

    And as a store keeps them, which clients may put there.
    """
    above = fuzz_shop.make_root()
    with suppress(PolycastError):
        read_state(data)
    with suppress(PolycastError):
        read = _context(data, above)
        text = read.dump()
        again = _context(text.encode(), above)
        assert again.dump() == text, "a context differs after a trip"
        read.check()


def _context(data: bytes, above: pc.Context) -> pc.Context:
    with _file(data) as path:
        return pc.Context.load(path, name="us", parent=above, modules=[fuzz_shop])


def xmlrpc(data: bytes) -> None:
    """Events as XML-RPC values in XML."""
    for given in (data, _text(data)):
        with suppress(NotDecodableError):
            values = from_xmlrpc(given)
            if isinstance(values, dict):
                _same_again(values)
    for cls in (Sample, Part, pc.StructuredEvent):
        with suppress(NotDecodableError):
            from_xmlrpc(data, of=cls)


def _same_again(values: dict[str, Any]) -> None:
    with suppress(PolycastError):
        written = filterable_xml(values)
        assert filterable_xml(from_xmlrpc(written)) == written, "values differ after a trip"


def token_file(data: bytes) -> None:
    """The file of tokens: everything wrong is a finding that can be shown on any terminal."""
    with _file(data) as path:
        contents = read_tokens(str(path))
    assert contents.tokens or contents.findings, "neither a token nor a word why"
    for each in contents.findings:
        assert str(each).isprintable(), f"control characters in {str(each)!r}"
    for token in contents.tokens:
        assert token.name.isprintable()
        assert len(token.digest) == 32
        token.rights.may_publish([token.name], None)


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        frame,
        description,
        filter_text,
        filter_json,
        etcl,
        xpath,
        context_xml,
        xmlrpc,
        token_file,
    )
}
"""By name; the folder of a target's corpus has that name, too."""


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if os.path.isdir(IN_MEMORY) else None) as folder:
        path = Path(folder, "given")
        path.write_bytes(data)
        path.chmod(0o600)
        yield path


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape" if data[:1] == b"\xff" else "replace")
