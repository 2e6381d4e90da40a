"""Events as XML-RPC values and as XML, and back."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid
import xmlrpc.client
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc


class Colour(enum.Enum):
    RED = "red"
    TWO = 2
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    pass


class Place(NamedTuple):
    row: int
    seat: str


@dataclass
class Part:
    number: int
    name: str | None = None


class Plain:
    width: int
    label: str

    def __init__(self, width: int, label: str) -> None:
        self.width, self.label = width, label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and vars(self) == vars(other)


class Model(pydantic.BaseModel):
    when: datetime.datetime


class Struct(msgspec.Struct):
    size: int
    unset: int | msgspec.UnsetType = msgspec.UNSET


@attrs.define
class Slotted:
    text: str


@dataclass
class Order:
    title: str
    price: decimal.Decimal
    day: datetime.date
    sent: datetime.datetime
    colour: Colour
    level: Level
    parts: list[Part]
    plain: Plain
    model: Model
    struct: Struct
    slotted: Slotted
    key: uuid.UUID
    raw: bytes
    tags: frozenset[str]
    length: datetime.timedelta
    at: datetime.time
    weight: float
    big: int
    paid: bool
    note: str | None
    place: Place
    body: Annotated[str, pc.Opaque] = "body"
    anything: Any = field(default_factory=list)


ORDER = Order(
    "a & <b>\r\n",
    decimal.Decimal("1.50"),
    datetime.date(2007, 4, 1),
    datetime.datetime(2007, 4, 1, 12, 0, 0, 250, tzinfo=datetime.UTC),
    Colour.PAIR,
    Level.LOW,
    [Part(1, "x"), Part(2)],
    Plain(3, "wide"),
    Model(when=datetime.datetime(2020, 1, 2, 3, 4, 5)),
    Struct(4),
    Slotted("s"),
    uuid.UUID(int=7),
    b"\0\xff",
    frozenset({"x", "y"}),
    datetime.timedelta(days=1, seconds=0.5),
    datetime.time(1, 2),
    0.1,
    2**80,
    True,
    None,
    Place(1, "a"),
)


def test_an_object_comes_back_from_its_values() -> None:
    assert pc.from_xmlrpc(pc.to_xmlrpc(ORDER), of=Order) == ORDER


def test_an_object_comes_back_from_xml() -> None:
    plain = pc.from_xmlrpc(pc.filterable_xml(ORDER), of=Order)
    assert plain == ORDER
    assert pc.from_xmlrpc(pc.filterable_xml(ORDER).encode(), of=Order) == ORDER


def test_the_values_are_what_the_standard_library_sends() -> None:
    values = pc.to_xmlrpc(ORDER)
    values["filterable"]["big"] = 5  # xmlrpc.client sends no more than 32 bits
    values["filterable"]["title"] = "a & <b>"  # and does not escape a carriage return
    sent = xmlrpc.client.dumps((values,), allow_none=True)
    [received], _ = xmlrpc.client.loads(sent)
    found = pc.from_xmlrpc(received, of=Order)
    assert (found.day, found.raw, found.parts) == (ORDER.day, ORDER.raw, ORDER.parts)


def test_what_is_opaque_goes_beside_the_filterable_part() -> None:
    values = pc.to_xmlrpc(ORDER)
    assert values["opaque"] == {"body": "body"}
    assert "body" not in values["filterable"]
    assert "<name>body</name>" not in pc.filterable_xml(ORDER)


class OpaqueModel(pydantic.BaseModel):
    seen: int = 1
    hidden: Annotated[str | None, pc.Opaque] = "x"


class OpaqueStruct(msgspec.Struct):
    seen: int = 1
    hidden: Annotated[str, pc.Opaque] = "x"


@attrs.define
class OpaqueAttrs:
    seen: int = 1
    hidden: Annotated[str, pc.Opaque] = "x"


class OpaquePlain:
    seen: int = 1
    hidden: Annotated[str, pc.Opaque] = "x"


class OpaqueTuple(NamedTuple):
    seen: int = 1
    hidden: Annotated[str, pc.Opaque] = "x"


class InheritsOpaque(OpaquePlain):
    more: int = 2


@pytest.mark.parametrize(
    "cls", [OpaqueModel, OpaqueStruct, OpaqueAttrs, OpaquePlain, OpaqueTuple, InheritsOpaque]
)
def test_every_kind_of_class_may_have_opaque_attributes(cls: type) -> None:
    values = pc.to_xmlrpc(cls())
    assert values["opaque"] == {"hidden": "x"}
    assert values["filterable"]["seen"] == 1
    assert "hidden" not in values["filterable"]
    assert not pc.parse_filter("member[name='hidden'] or //string", "xpath").matches(cls())


def test_values_nested_without_end_are_refused() -> None:
    values: dict[str, Any] = {"number": 1}
    values["name"] = values
    with pytest.raises(pc.NotDecodableError):
        pc.from_xmlrpc(values, of=Part)


def test_a_level_3_event_stays_one() -> None:
    event = {"filterable": {"a": 1}, "contents": b"x", "pubsub.ext.priority": 3}
    assert pc.to_xmlrpc(event) == event
    assert pc.filterable_xml(event) == (
        "<struct><member><name>a</name><value><int>1</int></value></member></struct>"
    )


@pytest.mark.parametrize(
    ("value", "xml"),
    [
        ("a", "<string>a</string>"),
        ("", "<string/>"),
        (Name("a"), "<string>a</string>"),
        (5, "<int>5</int>"),
        (-(2**70), f"<int>{-(2**70)}</int>"),
        (True, "<boolean>1</boolean>"),
        (False, "<boolean>0</boolean>"),
        (1.5, "<double>1.5</double>"),
        (1e16, "<double>1e+16</double>"),
        (math.inf, "<double>inf</double>"),
        (math.nan, "<double>nan</double>"),
        (None, "<nil/>"),
        (b"ab", "<base64>YWI=</base64>"),
        (bytearray(b"ab"), "<base64>YWI=</base64>"),
        (datetime.date(2007, 4, 1), "<dateTime.iso8601>2007-04-01</dateTime.iso8601>"),
        (
            datetime.datetime(2007, 4, 1),
            "<dateTime.iso8601>20070401T00:00:00</dateTime.iso8601>",
        ),
        (
            datetime.datetime(
                2007, 4, 1, 1, 2, 3, 4, datetime.timezone(datetime.timedelta(hours=2))
            ),
            "<dateTime.iso8601>20070401T01:02:03.000004+02:00</dateTime.iso8601>",
        ),
        (
            xmlrpc.client.DateTime(" 2007-03-15"),
            "<dateTime.iso8601> 2007-03-15</dateTime.iso8601>",
        ),
        (xmlrpc.client.Binary(b"ab"), "<base64>YWI=</base64>"),
        (decimal.Decimal("1.50"), "<string>1.50</string>"),
        (uuid.UUID(int=1), "<string>00000000-0000-0000-0000-000000000001</string>"),
        (datetime.time(1, 2), "<string>01:02:00</string>"),
        (datetime.timedelta(minutes=1), "<double>60.0</double>"),
        (Colour.RED, "<string>red</string>"),
        (Colour.TWO, "<int>2</int>"),
        (Colour.PAIR, "<string>PAIR</string>"),
        (Level.LOW, "<int>1</int>"),
        ([], "<array><data></data></array>"),
        ((1,), "<array><data><value><int>1</int></value></data></array>"),
        (
            {2, 1},
            "<array><data><value><int>1</int></value><value><int>2</int></value></data></array>",
        ),
        ({}, "<struct></struct>"),
        (
            OrderedDict(a=None),
            "<struct><member><name>a</name><value><nil/></value></member></struct>",
        ),
        (
            Slotted("s"),
            "<struct><member><name>text</name><value><string>s</string></value></member></struct>",
        ),
        (
            Struct(1),
            "<struct><member><name>size</name><value><int>1</int></value></member></struct>",
        ),
    ],
)
def test_each_type_has_its_element(value: object, xml: str) -> None:
    assert pc.filterable_xml({"filterable": value}) == xml


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("a\0b", r"event.x is .*U\+0000"),
        ("\ud800", r"U\+D800"),
        ({"\x01": 1}, r"U\+0001"),
        ({1: 2}, "name of a member is a string"),
        (object(), "no attributes that are data"),
        (len, "no attributes that are data"),
        (3j, "no attributes that are data"),
        (int, "no attributes that are data"),
        (10**5000, "digits"),
        (deep(100), "64 levels deep"),
        (xmlrpc.client.Fault(1, "x"), "DateTime and Binary"),
    ],
    ids=[*"abcdefghijk"],
)
def test_what_has_no_form_is_refused_with_its_place(value: object, problem: str) -> None:
    for write in (pc.to_xmlrpc, pc.filterable_xml):
        with pytest.raises(pc.NotSerialisableError, match=problem) as found:
            write({"x": value})
        assert found.value.path.startswith("event.x")


@pytest.mark.parametrize("text", ["2007-03-15", "20070315T00:00:00", "15 March", ""])
def test_a_date_received_keeps_its_text(text: str) -> None:
    event = pc.from_xmlrpc(f"<dateTime.iso8601>\n  {text}</dateTime.iso8601>")
    assert event.value == text
    where = pc.parse_filter(f"/dateTime.iso8601 = '{text}'", "xpath")
    assert where.matches({"filterable": event})


def test_a_value_without_an_element_is_a_string() -> None:
    event = pc.from_xmlrpc("<struct> <member><name>a</name><value> b</value></member></struct>")
    assert event == {"a": " b"}


def test_defaults_stand_for_what_was_not_sent() -> None:
    assert pc.from_xmlrpc({"number": 5}, of=Part) == Part(5)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "no member 'number'"),
        ({"number": "x"}, "number: Expected `int`"),
        ({"number": 1, "other": 2}, "no attribute 'other'"),
        ({"filterable": [1]}, "has no members"),
    ],
)
def test_what_is_no_object_of_the_class_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(pc.NotDecodableError, match=problem):
        pc.from_xmlrpc(values, of=Part)


BOMB = """<!DOCTYPE s [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><string>&b;</string>"""


@pytest.mark.parametrize(
    ("xml", "problem"),
    [
        (BOMB, "document type"),
        ('<!DOCTYPE s SYSTEM "file:///etc/hostname"><string/>', "document type"),
        ("<string>&undeclared;</string>", "not XML"),
        ("<struct>" * 10_000, "levels deep"),
        ("<value><array><data>" * 10_000, "levels deep"),
        ("", "not XML"),
        ("<int>1", "not XML"),
        ("<int>1</int><int>2</int>", "not XML"),
        (b"\xff\xfe\x00", "not XML"),
        (b'<?xml version="1.0" encoding="nowhere"?><int>1</int>', "encoding"),
        ("<string>\ud800</string>", "not XML"),
        ("<string>\0</string>", "not XML"),
        ("<html/>", "no element of XML-RPC"),
        ("<int size='4'>1</int>", "attributes"),
        ("<int>x</int>", "no whole number"),
        ("<int>1_000</int>", "no whole number"),
        ("<int>" + "9" * 5_000 + "</int>", "digits"),
        ("<double>1,5</double>", "no number"),
        ("<boolean>true</boolean>", "neither 0 nor 1"),
        ("<base64>?</base64>", "base64"),
        ("<nil>x</nil>", "not nothing"),
        ("<value>a<int>1</int></value>", "text beside"),
        ("<value><int>1</int><int>2</int></value>", "one element"),
        ("<struct><int>1</int></struct>", "cannot be in"),
        ("<struct><member><name>a</name></member></struct>", "one <name>"),
        ("<member><name>a</name><value/></member>", "no value by itself"),
        ("<array><data/><data/></array>", "one <data>"),
        (
            "<struct>" + "<member><name>a</name><value/></member>" * 2 + "</struct>",
            "two members",
        ),
        ("<string>" + "x" * (17 * 1024 * 1024) + "</string>", "longer than"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_hostile_xml_is_refused(xml: str | bytes, problem: str) -> None:
    with pytest.raises(pc.NotDecodableError, match=problem):
        pc.from_xmlrpc(xml)


@pytest.mark.parametrize("source", [None, 3, ["<int>1</int>"]])
def test_what_is_neither_xml_nor_values_is_refused(source: Any) -> None:
    with pytest.raises(pc.BadOptionError, match="XML as str or bytes"):
        pc.from_xmlrpc(source)


_text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))
_plain = st.recursive(
    _text | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(_plain)
def test_plain_values_come_back_from_xml(value: object) -> None:
    assert pc.from_xmlrpc(pc.filterable_xml({"filterable": value})) == value


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.text("<>/abcdsmntrue&;! ", max_size=40) | st.binary(max_size=20))
def test_any_text_is_values_or_a_declared_error(source: str | bytes) -> None:
    try:
        pc.from_xmlrpc(source)
    except pc.NotDecodableError as error:
        assert "cannot decode an XML-RPC event" in str(error)  # noqa: PT017
