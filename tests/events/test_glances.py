"""A glance at an event is judged by decoding all of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from generated_classes import classes, same, slow_to_make
from hypothesis import given
from hypothesis import strategies as st
from wire_trip import CODECS

from polycast.errors import NotDecodableError
from polycast.events import JSON, MSGPACK, Codec, Encoded
from polycast.typesystem import Registry, describe, is_made

MISSING = object()


def made(name: str, fields: list[Any], *bases: Any) -> Any:
    """A dataclass of a module that is not there, so that nobody finds it by its name."""
    cls: Any = dataclasses.make_dataclass(name, fields, bases=bases)
    cls.__module__ = "generated"
    return cls


Price = made("Price", [("amount", float), ("currency", str, "CHF")])
Net = made("Net", [("tax", float, 0.0)], Price)
Order = made(
    "Order",
    [
        ("number", int),
        ("price", Price),
        ("note", str, ""),
        ("data", Any, None),
        ("prices", dict[str, Price], dataclasses.field(default_factory=dict)),
    ],
)


def elsewhere(*cls: type) -> Registry:
    """The names of a process that has the descriptions of these classes and nothing else."""
    here, there = Registry(), Registry()
    for each in cls:
        here.bind(each)
    for description in here.descriptions():
        there.add(description)
    return there


def glance(codec: Codec, encoded: Encoded, names: set[str], registry: Registry) -> Any:
    return codec.glance(encoded, frozenset(names), registry=registry)(encoded)


@CODECS
@given(data=st.data())
@slow_to_make
def test_what_is_asked_for_is_what_all_of_the_event_has(codec: Codec, data: st.DataObject) -> None:
    found = data.draw(classes())
    event = data.draw(found[-1].objects)
    encoded = codec.encode(event, registry=Registry())
    registry = elsewhere(*(each.cls for each in found))
    whole = codec.decode(encoded, registry=registry)
    known = sorted({*(name for each in found for name in each.fields), "f9_9"})
    for _ in range(2):
        names = data.draw(st.sets(st.sampled_from(known)))
        part = glance(codec, encoded, names, registry)
        assert type(part) is type(whole)
        for name in names:
            held, seen = getattr(whole, name, MISSING), getattr(part, name, MISSING)
            assert (held is seen) or same(held, seen)


EVENTS = [
    Order(1, Price(2.0)),
    Order("one", Price(2.0)),
    Order(2**70, Net(2.0)),
    Order(1, 5),
    Order(1, Price(2.0), data=Net(1.0, tax=2.0)),
    Order(1, Price(2.0), prices={"$": Price(1.0)}),
]


@CODECS
@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
@pytest.mark.parametrize("name", ["number", "price", "data", "prices", "later", "none"])
def test_marks_and_wrong_types_are_read_alike(codec: Codec, event: Any, name: str) -> None:
    event = dataclasses.replace(event)
    event.later = Net(3.0)
    registry = elsewhere(Order, Net)
    encoded = codec.encode(event, registry=Registry())
    whole = getattr(codec.decode(encoded, registry=registry), name, MISSING)
    assert getattr(glance(codec, encoded, {name}, registry), name, MISSING) == whole


def test_what_nobody_asks_for_is_left_unread() -> None:
    registry = elsewhere(Order)
    encoded = JSON.encode(Order(1, Price(2.0)), registry=Registry())
    assert glance(JSON, encoded, {"number"}, registry).price is msgspec.UNSET


def changed(encoded: Encoded, data: Any) -> Encoded:
    return msgspec.structs.replace(encoded, payload=msgspec.json.encode(data))


def test_an_attribute_that_is_missing_is_missing_at_a_glance() -> None:
    registry = elsewhere(Order)
    encoded = JSON.encode(Order(1, Price(2.0)), registry=Registry())
    less = changed(encoded, {"price": {"amount": 1.0, "currency": "CHF"}})
    assert glance(JSON, less, {"number"}, registry).number is msgspec.UNSET


def test_what_is_broken_is_noticed_where_somebody_looks() -> None:
    registry = elsewhere(Order)
    encoded = JSON.encode(Order(1, Price(2.0)), registry=Registry())
    broken = changed(encoded, {"number": 1, "price": "none"})
    assert glance(JSON, broken, {"number"}, registry).number == 1
    with pytest.raises(NotDecodableError):
        glance(JSON, broken, {"price"}, registry)
    with pytest.raises(NotDecodableError):
        glance(JSON, changed(encoded, [1]), {"number"}, registry)


@CODECS
def test_bytes_that_are_cut_are_refused(codec: Codec) -> None:
    registry = elsewhere(Order)
    encoded = codec.encode(Order(1, Price(2.0)), registry=Registry())
    for end in range(len(encoded.payload)):
        cut = msgspec.structs.replace(encoded, payload=encoded.payload[:end])
        with pytest.raises(NotDecodableError):
            glance(codec, cut, {"number"}, registry)


def test_objects_of_a_real_class_are_whole() -> None:
    registry = Registry()
    encoded = MSGPACK.encode(Order(1, Price(2.0)), registry=registry)
    assert glance(MSGPACK, encoded, {"number"}, registry) == Order(1, Price(2.0))


def test_a_made_class_of_a_real_one_is_whole() -> None:
    registry = elsewhere(Net)
    registry.bind(Price)
    encoded = JSON.encode(Net(1.0, tax=2.0), registry=Registry())
    found = glance(JSON, encoded, {"amount"}, registry)
    assert is_made(type(found))
    assert isinstance(found, Price)
    assert (found.amount, found.tax) == (1.0, 2.0)


def test_a_description_of_another_name_is_nothing_to_glance_by() -> None:
    registry = elsewhere(Order)
    encoded = JSON.encode(Price(1.0), registry=Registry())
    wrong = msgspec.structs.replace(encoded, hash=describe(Order).hash)
    with pytest.raises(NotDecodableError):
        glance(JSON, wrong, {"amount"}, registry)


def test_very_many_ways_to_glance_are_not_all_kept() -> None:
    fields = [(f"f{at}", int) for at in range(20)]
    wide = made("Wide", fields)
    registry = elsewhere(wide)
    encoded = MSGPACK.encode(wide(*range(20)), registry=Registry())
    for one in range(20):
        for other in range(one):
            part = glance(MSGPACK, encoded, {f"f{one}", f"f{other}"}, registry)
            assert getattr(part, f"f{one}") == one
    (known,) = registry.derived["msgpack reader"]._glances.values()
    assert len(known) < 100
