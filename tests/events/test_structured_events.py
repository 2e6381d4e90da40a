"""Structured events and unions are ordinary events: through codecs, on buses, in stores."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import polycast as pc
from polycast.events import JSON, MSGPACK
from polycast.events.codec import Codec
from polycast.typesystem import Registry, wire_name


class Severity(enum.Enum):
    MINOR = 1
    MAJOR = 2


@dataclass
class Place:
    name: str
    floors: list[int]


UNION = pc.TaggedUnion(
    Severity.MAJOR,
    "major",
    Place("Rome", [1]),
    labels={"major": (Severity.MAJOR, 2, "c"), "minor": (True,)},
    default_member="other",
    type_id="U",
    repos_id="IDL:U:1.0",
)
EVENT = pc.StructuredEvent(
    "Telecom",
    "Alarm",
    "lost",
    {"Priority": 3, "StopTime": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)},
    {
        "severity": Severity.MAJOR,
        "several": [1, 2.5, "x", None, {"deep": [Place("Ulm", [])]}],
        "pair": (1, "two"),
        "union": UNION,
        "big": 2**80,
        "raw": b"\0\1",
    },
    Place("Bonn", [0, 1]),
)


def test_fields_have_defaults_and_may_be_given_in_order() -> None:
    empty = pc.StructuredEvent()
    assert (empty.domain_name, empty.type_name, empty.event_name) == ("", "", "")
    assert empty.variable_header == empty.filterable_data == {}
    assert empty.variable_header is not pc.StructuredEvent().variable_header
    assert empty.remainder_of_body is None
    assert EVENT.event_name == "lost"


def test_wire_names_are_stable() -> None:
    assert wire_name(pc.StructuredEvent) == "polycast.StructuredEvent"
    assert wire_name(pc.TaggedUnion) == "polycast.TaggedUnion"


@pytest.mark.parametrize("codec", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_codecs_give_an_equal_event(codec: Codec) -> None:
    for event in (EVENT, pc.StructuredEvent(), pc.StructuredEvent(remainder_of_body=UNION)):
        registry = Registry()
        found = codec.decode(codec.encode(event, registry=registry), registry=registry)
        assert found == event
        assert type(found) is pc.StructuredEvent


@pytest.fixture(params=["memory", "sqlite"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'events.db'}"
    with pc.Bus(url) as found:
        yield found


def test_a_bus_delivers_it(bus: pc.Bus, eventually: Callable[[Callable[[], object]], None]) -> None:
    seen: list[pc.StructuredEvent] = []
    text = "$severity == MAJOR and $union.major.name == 'Rome' and $union._d == MAJOR"
    bus.subscribe(pc.StructuredEvent, seen.append, where=pc.parse_filter(text, "etcl"))
    bus.publish(pc.StructuredEvent("Telecom", filterable_data={"severity": Severity.MINOR}))
    bus.publish(EVENT)
    eventually(lambda: seen)
    assert seen == [EVENT]


def test_a_durable_subscription_keeps_it(
    tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    where = pc.parse_filter("$pair[1] == 'two'", "etcl")
    seen: list[pc.StructuredEvent] = []
    with pc.Bus(url) as first:
        first.subscribe(pc.StructuredEvent, seen.append, where=where, durable="d")
    with pc.Bus(url) as second:
        second.publish(EVENT)
        second.publish(pc.StructuredEvent())
    with pc.Bus(url) as third:
        third.subscribe(pc.StructuredEvent, seen.append, where=where, durable="d")
        eventually(lambda: seen)
    assert seen == [EVENT]


@pytest.mark.parametrize(
    "arguments",
    [
        {"domain_name": 5},
        {"type_name": None},
        {"filterable_data": [("a", 1)]},
        {"variable_header": {1: 2}},
    ],
)
def test_what_is_no_structured_event_is_refused(arguments: Any) -> None:
    with pytest.raises(pc.BadOptionError, match=next(iter(arguments))):
        pc.StructuredEvent(**arguments)


@pytest.mark.parametrize("more", [{"labels": [1]}, {"default_member": 5}])
def test_what_is_no_union_is_refused(more: Any) -> None:
    with pytest.raises(pc.BadOptionError, match=next(iter(more))):
        pc.TaggedUnion(1, "a", 1, **more)
    with pytest.raises(pc.BadOptionError, match="member"):
        pc.TaggedUnion(1, 5, 1)  # type: ignore[arg-type]


def test_a_value_needs_an_active_member() -> None:
    with pytest.raises(pc.BadOptionError, match="value"):
        pc.TaggedUnion(1, None, 5)


def test_a_union_whose_tag_names_no_member_comes_back_as_it_was() -> None:
    union = pc.TaggedUnion(9, labels={"a": (1,)}, default_member="b")
    assert (union.member, union.value, union.members()) == (None, None, ("a", "b"))
    assert pc.TaggedUnion(9).members() == ()
    for codec in (JSON, MSGPACK):
        encoded = codec.encode(union, registry=Registry())
        assert codec.decode(encoded, registry=Registry()) == union


def test_a_union_knows_its_members_in_order() -> None:
    assert UNION.members() == ("major", "minor", "other")
    assert pc.TaggedUnion(1, "a", 1).members() == ("a",)
