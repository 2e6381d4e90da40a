"""Encoding and decoding events, side by side with bare msgspec on the same objects.

Bare msgspec promises less: it writes a subclass as its base class and reads what was declared,
whatever was there. It takes no pydantic models; those are compared with pydantic's own JSON.

A process that routes without the classes reads only what filters look at: that is compared with
reading all of a large event, for the codec alone and for the whole way to who takes it.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import msgspec
import pydantic
from measure import (
    QUICK,
    Effort,
    Run,
    Sample,
    Samples,
    apart,
    cpu_time,
    duration,
    figures,
    race,
)
from tables import Table, show

import polycast as pc
from polycast.config import level_named
from polycast.events import JSON, MSGPACK, Codec, Identity, Record, decode_record, encode_record
from polycast.matching import Interest, definition_of, selector_for
from polycast.routing import Plan
from polycast.stores import Stored, StoredRoute
from polycast.typesystem import Description, Registry

FIELDS = {
    "speaker": (str, "Guerraoui"),
    "title": (str, "Obvents"),
    "room": (str, "A 1"),
    "seats": (int, 120),
    "stars": (int, 5),
    "fee": (float, 19.5),
    "online": (bool, True),
    "minutes": (int, 45),
    "city": (str, "Lausanne"),
    "notes": (str, "bring questions"),
}
HINTS = [(name, hint) for name, (hint, _) in FIELDS.items()]
VALUES = {name: value for name, (_, value) in FIELDS.items()}
CODECS = {"JSON": JSON, "MessagePack": MSGPACK}

BARE, OURS, MADE = "bare", "polycast", "class made from its description"
WRITE, READ, FIND = "encode", "decode", "find who takes it"


def _attrs_class() -> Any:
    return attrs.make_class("Talk", {name: attrs.field(type=hint) for name, hint in HINTS})


def _model_class() -> Any:
    parts: dict[str, Any] = {name: (hint, ...) for name, hint in HINTS}
    return pydantic.create_model("Talk", **parts)


def _order(make: Callable[..., Any], lines: int) -> object:
    """An order, its lines, their prices; local classes, so that they can be missing elsewhere."""
    price = make("Price", [("amount", float), ("currency", str)])
    line = make("Line", [("item", str), ("count", int), ("price", price)])
    order = make("Order", [("number", int), ("customer", str), ("lines", list[line])])
    return order(7, "Eugster", [line("tea", at, price(4.5, "CHF")) for at in range(lines)])


EVENTS: dict[str, Callable[[], object]] = {
    "dataclass": lambda: dataclasses.make_dataclass("Talk", HINTS)(**VALUES),
    "dataclass, frozen": lambda: dataclasses.make_dataclass("Talk", HINTS, frozen=True)(**VALUES),
    "dataclass, slots": lambda: dataclasses.make_dataclass("Talk", HINTS, slots=True)(**VALUES),
    "attrs": lambda: _attrs_class()(**VALUES),
    "Struct": lambda: msgspec.defstruct("Talk", HINTS)(**VALUES),
    "pydantic": lambda: _model_class()(**VALUES),
    "nested dataclasses, 1 line": lambda: _order(dataclasses.make_dataclass, 1),
    "nested dataclasses, 100 lines": lambda: _order(dataclasses.make_dataclass, 100),
    "nested Structs, 1 line": lambda: _order(msgspec.defstruct, 1),
    "nested Structs, 100 lines": lambda: _order(msgspec.defstruct, 100),
}


def _repeated(call: Callable[[Any], object], argument: Any) -> Run:
    def run(repeats: int) -> float:
        start = cpu_time()
        for _ in range(repeats):
            call(argument)
        return cpu_time() - start

    return run


def _bare(codec: Codec, event: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if isinstance(event, pydantic.BaseModel):
        return type(event).model_dump_json, type(event).model_validate_json
    module: Any = msgspec.json if codec.form == "json" else msgspec.msgpack
    return module.Encoder().encode, module.Decoder(type(event)).decode


def _event(name: str, form: str, effort: Effort) -> dict[str, Samples]:
    event, codec, here, elsewhere = EVENTS[name](), CODECS[form], Registry(), Registry()
    encoded = codec.encode(event, registry=here)
    for description in here.descriptions():
        elsewhere.add(description)
    write, read = _bare(codec, event)
    made = codec.decode(encoded, registry=elsewhere)
    if codec.decode(encoded, registry=here) != event or type(made) is type(event):
        raise AssertionError("an event comes back, and elsewhere its class is made")
    writing = {
        BARE: _repeated(write, event),
        OURS: _repeated(partial(codec.encode, registry=here), event),
        MADE: _repeated(partial(codec.encode, registry=elsewhere), made),
    }
    reading = {
        BARE: _repeated(read, write(event)),
        OURS: _repeated(partial(codec.decode, registry=here), encoded),
        MADE: _repeated(partial(codec.decode, registry=elsewhere), encoded),
    }
    return {WRITE: race(writing, effort), READ: race(reading, effort)}


def _record(effort: Effort) -> dict[str, Samples]:
    encoded = MSGPACK.encode(EVENTS["dataclass"](), registry=Registry())
    identity = Identity("till-7", 1, 42)
    record = Record(
        encoded.name, 1, encoded.hash, identity, 1_700_000_000.0, encoded.codec, encoded.payload
    )
    bare, read = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Record).decode
    writing = {BARE: _repeated(bare, record), OURS: _repeated(encode_record, record)}
    reading = {
        BARE: _repeated(read, bare(record)),
        OURS: _repeated(decode_record, encode_record(record)),
    }
    return {WRITE: race(writing, effort), READ: race(reading, effort)}


# -- what filters look at --------------------------------------------------------------------------

ALL = "all of it"
BATCH = 100
LOOKS = {
    "1 number": {"number0"},
    "1 nested object": {"price0"},
    "3 attributes": {"number0", "text0", "price0"},
}
FILTERS: dict[str, Callable[[Any], object] | None] = {
    ALL: lambda e: e is not None and e.number0 < 0,
    "1 number": lambda e: e.number0 < 0,
    "1 nested object": lambda e: e.price0.amount < 0,
    "3 attributes": lambda e: e.number0 < 0 or e.text0 == "" or e.price0.amount < 0,
    "nothing": None,
}


def _large() -> Any:
    """An event of 30 attributes: texts, numbers, objects, and a list of objects in objects."""
    make = partial(dataclasses.make_dataclass, namespace={"__module__": "elsewhere"})
    price = make("Price", [("amount", float), ("currency", str)])
    line = make("Line", [("item", str), ("count", int), ("price", price)])
    parts: list[tuple[str, Any, object]] = [("lines", list[line], [])]
    parts += [(f"text{at}", str, f"this is text {at}") for at in range(10)]
    parts += [(f"number{at}", int, at * 1_000) for at in range(10)]
    parts += [(f"price{at}", price, price(at + 0.5, "CHF")) for at in range(9)]
    order = make("Order", [(name, hint) for name, hint, _ in parts])
    values = {name: value for name, _, value in parts}
    return order(**{**values, "lines": [line("tea", at, price(4.5, "CHF")) for at in range(5)]})


def _glances(form: str, effort: Effort) -> dict[str, Samples]:
    codec, here, elsewhere, event = CODECS[form], Registry(), Registry(), _large()
    encoded = codec.encode(event, registry=here)
    for description in here.descriptions():
        elsewhere.add(description)
    ways = {ALL: partial(codec.decode, registry=elsewhere)} | {
        name: codec.glance(encoded, frozenset(names), registry=elsewhere)
        for name, names in LOOKS.items()
    }
    for name, way in ways.items():
        if way(encoded).number0 != event.number0 and name != "1 nested object":
            raise AssertionError("a glance sees what is there")
    reading = race({name: _repeated(way, encoded) for name, way in ways.items()}, effort)
    record = Record(
        *(encoded.name, encoded.version, encoded.hash, Identity("till-7", 1, 42)),
        *(1_700_000_000.0, encoded.codec, encoded.payload),
    )
    batch = [Stored(position, record) for position in range(BATCH)]
    asking = {name: _repeated(_plan(type(event), here, name).match, batch) for name in FILTERS}
    found = race(asking, effort)
    each = {name: Sample(tuple(t / BATCH for t in some.times)) for name, some in found.items()}
    return {READ: reading, FIND: each}


class _View:
    """What a store would tell a plan."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def descriptions(self, *, after: int = 0) -> tuple[Description, ...]:
        return self._registry.descriptions()[after:]

    def contexts(self) -> tuple[()]:
        return ()

    def revision(self) -> int:
        return 0


def _plan(cls: type, here: Registry, name: str) -> Plan:
    """A plan without the classes, with one subscription."""
    where = FILTERS[name]
    lifted: Any = None if where is None else pc.lift(where)
    interest = Interest(selector_for(cls), lifted, level_named("sorted_set"))
    view: Any = _View(here)
    plan = Plan(Registry())
    plan.routes.move_to([StoredRoute(1, name, definition_of(interest).encoded(), 0)], view)
    return plan


def measure_glances(effort: Effort, report: Callable[[str], None]) -> dict[str, dict[str, Samples]]:
    """By codec, reading or finding, and what is looked at."""
    found = {}
    for form in CODECS:
        report(f"glances: {form}")
        found[form] = apart(_glances, form, effort)
    return found


def glance_tables(found: dict[str, dict[str, Samples]]) -> list[Table]:
    """How many times faster it is to read less."""
    note = (
        "A class made from its description. Times faster than all of it, within each round; the "
        "filter that takes all of it asks one thing more."
    )
    rows = [
        (f"{form}: {what}", *(_times_faster(samples, name) for name in FILTERS))
        for form, each in found.items()
        for what, samples in each.items()
    ]
    return [Table("Codecs: what filters look at, of 30 attributes", ("", *FILTERS), rows, note)]


def _times_faster(samples: Samples, name: str) -> str:
    sample = samples.get(name)
    if sample is None:
        return "-"
    return f"{duration(sample.median)} = {figures(samples[ALL].over(sample).median)} x"


# -- all of it -------------------------------------------------------------------------------------

Found = dict[str, dict[str, dict[str, Samples]]]


def measure(effort: Effort, report: Callable[[str], None]) -> Found:
    """By codec, event, and encode or decode; records are an event of their own."""
    found: Found = {}
    for form in CODECS:
        found[form] = {}
        for name in EVENTS:
            report(f"codecs: {name} in {form}")
            found[form][name] = apart(_event, name, form, effort)
    report("codecs: records")
    found["MessagePack"]["record, envelope only"] = apart(_record, effort)
    return found


def tables(found: Found) -> list[Table]:
    """One table per codec: what it takes, and the ratio to bare msgspec."""
    note = "Ratios to bare within each round; of pydantic models to pydantic's own JSON."
    columns = ("event", *(f"{what}: {who}" for what in (WRITE, READ) for who in (BARE, OURS, MADE)))
    return [
        Table(f"Codecs: {form}", columns, [_row(name, each) for name, each in events.items()], note)
        for form, events in found.items()
    ]


def _row(name: str, each: dict[str, Samples]) -> tuple[str, ...]:
    cells = [name]
    for samples in each.values():
        bare = samples[BARE]
        cells.append(duration(bare.median))
        for who in (OURS, MADE):
            sample = samples.get(who)
            cells.append(
                f"{duration(sample.median)} = {sample.over(bare).median:.2f} x" if sample else "-"
            )
    return tuple(cells)


def plain(found: Found) -> dict[str, object]:
    """For the file of results."""
    return {
        form: {
            name: {
                what: {who: list(sample.times) for who, sample in samples.items()}
                for what, samples in each.items()
            }
            for name, each in events.items()
        }
        for form, events in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try it out")
    parser.add_argument("--glances", action="store_true", help="only what filters look at")
    options = parser.parse_args()
    effort = QUICK if options.quick else Effort()
    if not options.glances:
        show(tables(measure(effort, lambda _: None)))
    show(glance_tables(measure_glances(effort, lambda _: None)))


if __name__ == "__main__":
    main()
