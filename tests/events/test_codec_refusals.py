"""What the codecs refuse: values without a form, bytes that are no event."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import gc
import math
import pathlib
import threading
import weakref
import zoneinfo
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_trip import CODECS, Color, Keynote, Point, Program, Right, Talk, Text, round_trip

from polycast.errors import BadOptionError, NameClashError, NotDecodableError, NotSerialisableError
from polycast.events import JSON, MSGPACK, Codec, Encoded, codec_for
from polycast.typesystem import Registry, describe, event, wire_name


class Model(pydantic.BaseModel):
    x: int
    y: Any = None


@dataclasses.dataclass
class Line:
    handle: Any


@dataclasses.dataclass
class Order:
    lines: list[Line]
    by_name: dict[str, Line] = dataclasses.field(default_factory=dict)


@CODECS
@pytest.mark.parametrize(
    "value",
    [
        threading.Lock(),
        lambda: None,
        print,
        math,
        Talk,
        (x for x in ()),
        pathlib.PurePosixPath("a"),
        collections.OrderedDict(a=1),
        collections.deque([1]),
        complex(1, 2),
        object(),
        type("Moment", (datetime.datetime,), {})(2020, 1, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_form_is_named_by_its_path(codec: Codec, value: Any) -> None:
    with pytest.raises(NotSerialisableError) as raised:
        codec.encode(Order([Line(1), Line(2), Line(value)]), registry=Registry())
    assert raised.value.path == "Order.lines[2].handle"
    with pytest.raises(NotSerialisableError) as raised:
        codec.encode(Order([], {"a": Line({"b": (value,)})}), registry=Registry())
    assert raised.value.path == "Order.by_name['a'].handle['b'][0]"


def test_a_path_goes_through_objects_that_extend_built_in_classes() -> None:
    text = Text("a")
    text.handle = object()  # type: ignore[attr-defined]
    with pytest.raises(NotSerialisableError) as raised:
        JSON.encode(Line([text]), registry=Registry())
    assert raised.value.path == "Line.handle[0].handle"


def test_a_key_without_a_form_is_named_too() -> None:
    with pytest.raises(NotSerialisableError) as raised:
        JSON.encode(Line({object(): 1}), registry=Registry())
    assert raised.value.path == "Line.handle.keys()"


@CODECS
def test_an_open_file_is_refused(codec: Codec, tmp_path: pathlib.Path) -> None:
    with (tmp_path / "x").open("w") as file, pytest.raises(NotSerialisableError):
        codec.encode(Line(file), registry=Registry())


@CODECS
def test_what_contains_itself_is_refused(codec: Codec) -> None:
    line = Line(None)
    line.handle = [line]
    with pytest.raises(NotSerialisableError, match="contains itself") as raised:
        codec.encode(line, registry=Registry())
    assert raised.value.path == "Line.handle[0]"


@CODECS
def test_the_same_object_twice_is_no_cycle(codec: Codec) -> None:
    line = Line(1)
    assert round_trip(codec, Order([line, line])) == Order([line, line])


@dataclasses.dataclass
class Node:
    value: Any
    next: Node | None = None


def lists(depth: int) -> Any:
    return [lists(depth - 1)] if depth else 1


def linked(depth: int) -> Any:
    return Node(1, linked(depth - 1)) if depth else None


def boxed(depth: int) -> Any:
    return Node(boxed(depth - 1)) if depth else None


@CODECS
@pytest.mark.parametrize("build", [lists, linked, boxed])
def test_what_can_be_written_can_be_read_and_deeper_is_refused(codec: Codec, build: Any) -> None:
    assert round_trip(codec, build(100)) == build(100)
    with pytest.raises(NotSerialisableError, match="100 levels"):
        codec.encode(build(101), registry=Registry())


def test_an_attribute_that_looks_like_a_mark_is_refused() -> None:
    line = Line(1)
    setattr(line, "$", 1)
    with pytest.raises(NotSerialisableError, match="mark"):
        JSON.encode(line, registry=Registry())


def test_a_zone_without_an_offset_is_refused() -> None:
    moment = datetime.time(1, tzinfo=zoneinfo.ZoneInfo("Europe/Zurich"))
    with pytest.raises(NotSerialisableError, match="offset"):
        JSON.encode(moment, registry=Registry())


def test_encoding_binds_the_classes_it_meets() -> None:
    registry = Registry()
    JSON.encode(Line([Keynote("x")]), registry=registry)
    names = {description.name for description in registry.descriptions()}
    assert names == {wire_name(cls) for cls in (Line, Keynote, Talk)}


def test_a_clash_inside_an_event_is_a_clash() -> None:
    registry = Registry()
    registry.bind(event(name="shop.Thing")(type("A", (), {"__annotations__": {"x": int}})))
    other = event(name="shop.Thing")(type("B", (), {"__annotations__": {"x": str}}))
    with pytest.raises(NameClashError):
        JSON.encode(Line(other()), registry=registry)


def test_codecs_keep_no_class_alive() -> None:
    registry = Registry()
    cls = dataclasses.make_dataclass("Short", [("x", int), ("y", int)])
    sent = cls(1, 2)
    assert JSON.decode(JSON.encode(sent, registry=registry), registry=registry) == sent
    assert JSON.decode(JSON.encode(sent, registry=registry), registry=registry) == sent
    gone = weakref.ref(cls)
    del cls, sent
    gc.collect()
    assert gone() is None


def test_a_codec_is_found_by_its_name() -> None:
    assert codec_for("json") is JSON
    assert codec_for("msgpack") is MSGPACK
    with pytest.raises(BadOptionError, match="msgpack"):
        codec_for("msgpak")


def prepared() -> Registry:
    registry = Registry()
    for cls in (Program, Order, Model, Point, Text):
        registry.bind(cls)
    return registry


@CODECS
@pytest.mark.parametrize("cls", [Program, Order, Keynote, Model, Point, Text, Color, Right, int])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_only_not_decodable_ever_comes_out_of_damaged_data(
    codec: Codec, cls: type, data: st.DataObject
) -> None:
    names = [part.name for part in describe(cls).attributes]
    marks = ["$", "$value", "$version", "$set", "$private", "$inherited", "__class__", *names]
    words = st.sampled_from([wire_name(Talk), "builtins.dict", "builtins.ValueError", "x", *marks])
    leaf = st.none() | st.integers() | st.floats() | words | st.binary(max_size=3)
    tree = st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(marks), inner, max_size=4)
        ),
        max_leaves=8,
    )
    module = msgspec.json if codec.form == "json" else msgspec.msgpack
    try:
        payload = data.draw(tree.map(module.encode) | st.binary(max_size=20))
    except OverflowError:
        return
    description = describe(cls)
    encoded = Encoded(description.name, 1, description.hash, codec.form, payload)
    try:
        codec.decode(encoded, registry=prepared())
    except NotDecodableError:
        pass


def test_an_unknown_description_is_named() -> None:
    encoded = Encoded("far.Away", 2, "ab" * 16, "json", b"{}")
    with pytest.raises(NotDecodableError, match=r"'far\.Away' version 2.*abab"):
        JSON.decode(encoded, registry=Registry())


def test_an_unknown_nested_description_is_named() -> None:
    payload = b'{"handle":{"$":"far.Away","x":1}}'
    encoded = Encoded(wire_name(Line), 1, describe(Line).hash, "json", payload)
    with pytest.raises(NotDecodableError, match=r"far\.Away"):
        JSON.decode(encoded, registry=Registry())


def test_data_brings_no_class_of_the_standard_library_to_life() -> None:
    payload = b'{"handle":{"$":"subprocess.Popen","args":"x"}}'
    encoded = Encoded(wire_name(Line), 1, describe(Line).hash, "json", payload)
    with pytest.raises(NotDecodableError, match=r"subprocess\.Popen"):
        JSON.decode(encoded, registry=Registry())
