"""The generated functions are judged by the walk over every attribute, which they stand in for."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import gc
import weakref
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from generated_classes import events, same, slow_to_make
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_trip import CODECS, Keynote, Talk, round_trip

from polycast.errors import NotDecodableError, NotSerialisableError
from polycast.events import JSON, MSGPACK, Codec, Encoded
from polycast.events.decoder import ObjectDecoder
from polycast.events.encoder import ObjectEncoder
from polycast.typesystem import Registry, describe


def module(codec: Codec) -> Any:
    return msgspec.json if codec.form == "json" else msgspec.msgpack


def walked(codec: Codec, event: Any, registry: Registry) -> bytes:
    """The bytes of an event without generated code."""
    writing = ObjectEncoder(codec.form, registry).writing(event)
    data: bytes = module(codec).encode(writing.natural(event, set()))
    return data


def read_by_walking(codec: Codec, encoded: Encoded, registry: Registry) -> Any:
    """The event in these bytes, or why there is none, without generated code."""
    data = module(codec).decode(encoded.payload)
    return ObjectDecoder(codec.form, registry).lift(
        data, encoded.name, encoded.version, encoded.hash
    )


@CODECS
@given(event=events())
@slow_to_make
def test_generated_code_writes_what_the_walk_writes(codec: Codec, event: Any) -> None:
    registry = Registry()
    expected = walked(codec, event, registry)
    codec.encode(event, registry=registry)
    assert codec.encode(event, registry=registry).payload == expected


@CODECS
@given(event=events())
@slow_to_make
def test_generated_code_reads_what_the_walk_reads(codec: Codec, event: Any) -> None:
    registry = Registry()
    encoded = codec.encode(event, registry=registry)
    codec.decode(encoded, registry=registry)
    found = codec.decode(encoded, registry=registry)
    assert same(found, read_by_walking(codec, encoded, registry))


class Color(enum.Enum):
    RED = 1
    CRIMSON = RED
    BLUE = "b"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Price:
    amount: float
    currency: str = "CHF"


@dataclasses.dataclass
class Line:
    item: str
    price: Price
    color: Color | None = None
    right: Right = Right.READ
    at: datetime.datetime | None = None
    lasts: datetime.timedelta = datetime.timedelta(0)
    pair: tuple[int, Price] | None = None
    colors: set[Color] = dataclasses.field(default_factory=set)
    prices: dict[str, Price] = dataclasses.field(default_factory=dict)
    counts: dict[Color, int] = dataclasses.field(default_factory=dict)
    words: dict[str, str] = dataclasses.field(default_factory=dict)
    talk: Talk | None = None
    other: Any = None


UTC = datetime.UTC
LINES = [
    Line("a", Price(1.0)),
    Line("a", Price(float("inf")), Color.CRIMSON, Right.READ | Right.WRITE),
    Line("a", Price(1), at=datetime.datetime(2020, 1, 1)),  # an int where a float was declared
    Line("a", Price(1.0), at=datetime.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=UTC)),
    Line("a", Price(1.0), at=datetime.datetime(2020, 1, 1).astimezone()),
    Line("a", Price(1.0), lasts=datetime.timedelta.max, pair=(1, Price(2.0))),
    Line("a", Price(1.0), pair=(1, Price(2.0), 3)),  # type: ignore[arg-type]
    Line("a", Price(1.0), colors={Color.RED, Color.BLUE}, counts={Color.RED: 2}),
    Line("a", Price(1.0), prices={"x": Price(2.0), "$x": Price(3.0)}),
    Line("a", Price(1.0), prices={"$": Price(2.0)}, words={"$": "a", "$value": "b"}),
    Line("a", Price(1.0), words={"a": 1}),  # type: ignore[dict-item]
    Line("a", Price(1.0), talk=Keynote("me", fee=2**70)),
    Line("a", Price(1.0), other=[Price(1.0), {"$": 1}, (1, 2)]),
    Line(b"a", 3),  # type: ignore[arg-type]
]


@CODECS
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_form_of_value_goes_through_generated_code(codec: Codec, line: Line) -> None:
    registry = Registry()
    assert round_trip(codec, line) == line
    expected = walked(codec, line, registry)
    codec.encode(line, registry=registry)
    encoded = codec.encode(line, registry=registry)
    assert encoded.payload == expected
    assert repr(read_by_walking(codec, encoded, registry)) == repr(round_trip(codec, line))


def _slots() -> Any:
    return dataclasses.make_dataclass("Slots", [("x", int), ("y", Color)], slots=True)


def _frozen() -> Any:
    return dataclasses.make_dataclass("Frozen", [("x", int), ("y", Color)], frozen=True)


def _frozen_slots() -> Any:
    return dataclasses.make_dataclass("Both", [("x", int), ("y", Color)], frozen=True, slots=True)


def _plain() -> Any:
    return dataclasses.make_dataclass("Plain", [("x", int), ("y", Color)])


def _attrs() -> Any:
    return attrs.make_class("Attrs", {"x": attrs.field(type=int), "y": attrs.field(type=Color)})


def _struct() -> Any:
    return msgspec.defstruct("Struct", [("x", int), ("y", Color)])


def _keyword_struct() -> Any:
    return msgspec.defstruct("Keyword", [("x", int), ("y", Color)], kw_only=True)


def _model() -> Any:
    return pydantic.create_model("Model", x=(int, ...), y=(Color, ...))


MAKERS = [_slots, _frozen, _frozen_slots, _plain, _attrs, _struct, _keyword_struct, _model]


@CODECS
@pytest.mark.parametrize("make", MAKERS)
def test_every_kind_of_class_is_written_and_read_by_generated_code(codec: Codec, make: Any) -> None:
    registry, cls = Registry(), make()
    sent = cls(x=1, y=Color.BLUE)
    encoded = codec.encode(sent, registry=registry)
    writer = registry.attached[f"{codec.form} writer"]
    assert writer.known[id(cls)].quick.__code__.co_filename == "<polycast codec>"
    assert codec.decode(encoded, registry=registry) == sent
    reader = registry.derived[f"{codec.form} reader"]
    assert reader.quick[encoded.hash](encoded.payload) == sent
    assert codec.encode(sent, registry=registry).payload == encoded.payload


@CODECS
@pytest.mark.parametrize("make", MAKERS)
def test_generated_code_keeps_no_class_alive(codec: Codec, make: Any) -> None:
    registry, inner = Registry(), make()
    outer = dataclasses.make_dataclass("Outer", [("one", inner), ("many", list[inner])])
    sent = outer(inner(x=1, y=Color.RED), [inner(x=2, y=Color.RED)])
    for _ in range(3):
        codec.decode(codec.encode(sent, registry=registry), registry=registry)
    gone = [weakref.ref(inner), weakref.ref(outer)]
    del inner, outer, sent
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


@CODECS
@pytest.mark.parametrize("cls", [Line, Price, Talk])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_damaged_data_is_the_same_to_generated_code(
    codec: Codec, cls: Any, data: st.DataObject
) -> None:
    names = [part.name for part in describe(cls).attributes]
    leaf = st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "RED", "$", "x"])
    tree = st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["$", "$value", *names]), inner, max_size=3)
        ),
        max_leaves=6,
    )
    try:
        payload = module(codec).encode(data.draw(st.fixed_dictionaries(dict.fromkeys(names, tree))))
    except OverflowError:
        return
    encoded = Encoded(describe(cls).name, 1, describe(cls).hash, codec.form, payload)
    assert decoded(codec, encoded, used(codec, cls)) == decoded(codec, encoded, Registry())


def used(codec: Codec, cls: Any) -> Registry:
    """A registry by which an event of the class has been read."""
    registry = Registry()
    event = {Line: LINES[0], Price: Price(1.0), Talk: Talk("a")}[cls]
    codec.decode(codec.encode(event, registry=registry), registry=registry)
    return registry


def decoded(codec: Codec, encoded: Encoded, registry: Registry) -> str:
    registry.bind(Line)
    registry.bind(Talk)
    try:
        return repr(codec.decode(encoded, registry=registry))
    except NotDecodableError as error:
        return str(error)


@CODECS
def test_objects_that_are_not_just_as_declared_are_walked_through(codec: Codec) -> None:
    extra, less, swapped = Price(1.0), Line("a", Price(1.0)), Price(2.0)
    extra.__dict__["note"] = "x"
    del less.item
    swapped.__dict__["note"] = swapped.__dict__.pop("amount")
    for sent in (extra, less, swapped):
        assert vars(round_trip(codec, sent)) == vars(sent)
        nested = round_trip(codec, [Line("a", Price(1.0), talk=sent)])[0]  # type: ignore[arg-type]
        assert vars(nested.talk) == vars(sent)


@CODECS
def test_the_order_of_attributes_is_the_declared_one(codec: Codec) -> None:
    one, other = Price(1.0), Price(1.0)
    other.__dict__.clear()
    other.__dict__.update(currency="CHF", amount=1.0)
    registry = Registry()
    first, *rest = [codec.encode(it, registry=registry).payload for it in (one, other, one, other)]
    assert rest == [first] * 3


@CODECS
def test_a_model_that_was_given_some_of_its_fields_says_which(codec: Codec) -> None:
    class Model(pydantic.BaseModel):
        x: int
        y: int = 2

    sent = Model(x=1)
    assert round_trip(codec, sent).model_fields_set == {"x"}
    assert round_trip(codec, Model(x=1, y=2)).model_fields_set == {"x", "y"}


def test_a_failure_deep_inside_is_named_by_its_whole_path() -> None:
    registry = Registry()
    JSON.encode(LINES[0], registry=registry)
    for _ in range(2):
        with pytest.raises(NotSerialisableError) as raised:
            JSON.encode(Line("a", Price(1.0), other=[object()]), registry=registry)
        assert raised.value.path == "Line.other[0]"


def test_a_number_that_msgpack_lacks_is_marked_where_it_is() -> None:
    registry = Registry()
    for _ in range(3):
        encoded = MSGPACK.encode(Line("a", Price(1.0), pair=(2**64, Price(1.0))), registry=registry)
        assert MSGPACK.decode(encoded, registry=registry).pair[0] == 2**64


def test_names_that_are_no_identifiers_are_only_data() -> None:
    cls = type("Odd", (), {"__annotations__": {"a b": int, "c'\n\"d": str, "x": int}})
    sent = cls()
    vars(sent).update({"a b": 1, "c'\n\"d": "2", "x": 3})
    assert vars(round_trip(JSON, sent)) == vars(sent)


@CODECS
@pytest.mark.parametrize("around", [lambda inner: list[inner], lambda inner: dict[str, inner]])
def test_types_may_be_nested_as_deep_as_values(codec: Codec, around: Any) -> None:
    hint: Any = int
    value: Any = 1
    for _ in range(60):
        hint = around(hint)
        value = [value] if hint.__origin__ is list else {"k": value}
    holder = dataclasses.make_dataclass("Deep", [("value", hint), ("other", Any)])
    assert round_trip(codec, holder(value, 1)) == holder(value, 1)


@CODECS
def test_classes_may_be_nested_as_deep_as_values(codec: Codec) -> None:
    cls: Any = int
    value: Any = 1
    for number in range(60):
        cls = dataclasses.make_dataclass(f"Level{number}", [("inner", cls), ("other", Any)])
        value = cls(value, None)
    assert round_trip(codec, value) == value
