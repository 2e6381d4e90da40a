"""To XML-RPC and back: a value is kept, or refused where that is known; never another value."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
import xmlrpc.client
from collections import OrderedDict
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polycast as pc

DAY, MOMENT = datetime.date(2007, 4, 1), datetime.datetime(2007, 4, 1)
Key = NewType("Key", int)


class Mixed(enum.Enum):
    RED = "red"
    ONE = 1
    PAIR = (1, 2)


class Unclear(enum.Enum):
    DAY = datetime.date(2007, 4, 1)
    OTHER = "DAY"


class Place(NamedTuple):
    row: int
    seat: str = "a"


class Size(TypedDict):
    width: int


@dataclass(frozen=True)
class Inner:
    seen: int = 0
    secret: Annotated[str, pc.Opaque] = "default"


class Empty:
    def __eq__(self, other: object) -> bool:
        return type(other) is Empty

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Outer:
    one: Inner
    several: list[Inner | None]
    named: dict[str, Inner]
    group: frozenset[Inner]
    blob: Annotated[Inner, pc.Opaque]
    maybe: Annotated[str, pc.Opaque] | None = "maybe"


OUTER = Outer(
    Inner(1, "s1"),
    [Inner(2, "s2"), None, Inner(3, "s3")],
    {"k": Inner(4, "s4")},
    frozenset({Inner(5, "s5"), Inner(6, "s6")}),
    Inner(7, "s7"),
)


def trip(hint: Any, value: Any) -> Any:
    cls = make_dataclass("Holder", [("x", hint)])
    return pc.from_xmlrpc(pc.to_xmlrpc(cls(value)), of=cls).x


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (str | None, ["null", "", None]),
        (int | str, [1, "1", "a"]),
        (int | float | str | None, [1, 1.0, "1", None]),
        (bool | int, [True, 1, False, 0]),
        (bytes | str, [b"abc", "abc", "YWJj"]),
        (datetime.datetime | str, [MOMENT, "2007-04-01T00:00:00"]),
        (datetime.date | datetime.datetime | None, [DAY, MOMENT, None]),
        (datetime.timedelta | None, [datetime.timedelta(1, 2, 3), None]),
        (decimal.Decimal | int, [decimal.Decimal("1.50"), 1]),
        (uuid.UUID | str, ["a", "b"]),
        (Literal["1", 1], ["1", 1]),
        (Mixed | None, [*Mixed, None]),
        (list[Mixed], [list(Mixed)]),
        (dict[str, Mixed], [{"a": Mixed.PAIR}]),
        (list[Place], [[Place(1), Place(2, "b")]]),
        (Place | None, [Place(1), None]),
        (dict[str, tuple[int, datetime.date]], [{"a": (1, DAY)}]),
        (tuple[int, ...] | None, [(1, 2), (), None]),
        (set[bytes], [{b"a", b"b"}]),
        (Size, [{"width": 1}]),
        (list[Size], [[{"width": 1}]]),
        (Key, [5]),
        (Empty, [Empty()]),
        (xmlrpc.client.DateTime, [xmlrpc.client.DateTime("20070401T00:00:00")]),
        (Inner | Place, [Inner(1), Place(1)]),
    ],
    ids=lambda each: "values" if isinstance(each, list) else str(each),
)
def test_what_is_declared_comes_back(hint: Any, values: list[Any]) -> None:
    for value in values:
        found = trip(hint, value)
        assert (type(found), found) == (type(value), value)


def test_a_decimal_keeps_its_sign_and_its_places() -> None:
    for text in ("-0", "1.10", "1E+5", "NaN", "-Infinity"):
        assert str(trip(decimal.Decimal, decimal.Decimal(text))) == text


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (decimal.Decimal | str, "1.5", "may have been Decimal or str"),
        (bytes | bytearray, b"a", "may have been bytes or bytearray"),
        (datetime.timedelta | float, 1.0, "may have been timedelta or float"),
        (Unclear, Unclear.OTHER, "may have been Unclear.DAY or Unclear.OTHER"),
        (OrderedDict, OrderedDict(a=1), "OrderedDict declares no attributes"),
        (Size, {"height": 1}, "no member 'width'"),
        (Size, {"width": 1, "height": 1}, "no member 'height'"),
        (tuple[int, int], (1,), "1 items, not 2"),
    ],
    ids=str,
)
def test_what_may_have_been_something_else_is_refused(hint: Any, value: Any, problem: str) -> None:
    with pytest.raises(pc.NotDecodableError, match=f"x: .*{problem}"):
        trip(hint, value)


@pytest.mark.parametrize("days", [999_999_999, 200_000])
def test_a_timedelta_that_a_double_cannot_hold_is_refused(days: int) -> None:
    length = datetime.timedelta(days, microseconds=1)
    with pytest.raises(pc.NotSerialisableError, match="microseconds"):
        pc.to_xmlrpc({"x": length})
    assert not pc.parse_filter("//double or not(//double)", "xpath").matches({"x": length})


@given(st.timedeltas())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_a_timedelta_is_kept_or_refused(length: datetime.timedelta) -> None:
    try:
        assert trip(datetime.timedelta, length) == length
    except pc.NotSerialisableError:
        assert abs(length) > datetime.timedelta(days=90_000)


# -- opaque parts, on every level ------------------------------------------------------------------


def test_what_is_opaque_deep_in_an_event_comes_back() -> None:
    assert pc.from_xmlrpc(pc.to_xmlrpc(OUTER), of=Outer) == OUTER


def test_what_is_opaque_stands_where_it_would_have_stood() -> None:
    assert pc.to_xmlrpc(OUTER)["opaque"] == {
        "one": {"secret": "s1"},
        "several": [{"secret": "s2"}, None, {"secret": "s3"}],
        "named": {"k": {"secret": "s4"}},
        "group": [{"secret": "s5"}, {"secret": "s6"}],
        "blob": {"seen": 7, "secret": "s7"},
        "maybe": "maybe",
    }


@pytest.mark.parametrize("text", ["s1", "s2", "s4", "s5", "s7", "secret", "maybe", "blob"])
def test_no_filter_sees_what_is_opaque_on_any_level(text: str) -> None:
    assert text not in pc.filterable_xml(OUTER)
    for path in ("//*", "//text()", "/struct/member/name"):
        assert not pc.parse_filter(f"{path} = '{text}'", "xpath").matches(OUTER)
    assert not pc.parse_filter(f"contains(., '{text}')", "xpath").matches(OUTER)


def test_a_number_that_compares_with_nothing_is_no_member_of_an_enum() -> None:
    holder = make_dataclass("Holder", [("x", Mixed)])
    with pytest.raises(pc.NotDecodableError):
        pc.from_xmlrpc({"x": decimal.Decimal("sNaN")}, of=holder)


def test_blocks_beside_the_filterable_one_are_whole() -> None:
    event = {"filterable": {"a": 1}, "contents": Inner(1, "s")}
    assert pc.to_xmlrpc(event)["contents"] == {"seen": 1, "secret": "s"}


def test_the_opaque_part_of_a_level_3_event_has_its_own_block() -> None:
    found = pc.to_xmlrpc({"filterable": Inner(1, "s"), "contents": 2})
    assert found == {"filterable": {"seen": 1}, "contents": 2, "opaque": {"secret": "s"}}
    with pytest.raises(pc.NotSerialisableError, match="a member 'opaque' of its own"):
        pc.to_xmlrpc({"filterable": Inner(1, "s"), "opaque": 2})


@dataclass
class News:
    topic: str
    date: datetime.date
    title: str
    contents: Annotated[str, pc.Opaque] = ""
    words: list[str] = field(default_factory=list)


FIGURE_2 = """
<struct>
  <member><name>filterable</name>
    <value><struct>
      <member><name>topic</name><value>news</value>
    </member>
    <member><name>date</name><value><dateTime.iso8601>
      {date}</dateTime.iso8601></value></member>
    <member><name>title</name><value>Storm</value></member>
    </struct></value>
  </member>
  <member><name>contents</name>
    <value><string>It blows ...</string>
  </value></member>
  <member><name>pubsub.ext.priority</name><value><int>3</int></value></member>
</struct>
"""


def test_an_event_as_another_system_lays_it_out_is_matched_and_read() -> None:
    where = pc.parse_filter(
        'boolean(/struct/member[name="topic" and value="news"]) and '
        'boolean(/struct/member[name="date" and value/dateTime.iso8601="2007-04-01"])',
        "xpath",
    )
    assert where.matches(pc.from_xmlrpc(FIGURE_2.format(date="2007-04-01")))
    assert not where.matches(pc.from_xmlrpc(FIGURE_2.format(date="2007-03-15")))
    found = pc.from_xmlrpc(FIGURE_2.format(date="2007-04-01"), of=News)
    assert found == News("news", DAY, "Storm", "It blows ...")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"opaque": {"seen": 2}}, "opaque.seen does not go with"),
        ({"opaque": 5}, "opaque does not go with"),
        ({"seen": 2}, "'seen' is beside the filterable part"),
        ({"other": 2}, "no attribute 'other'"),
    ],
)
def test_blocks_that_do_not_go_together_are_refused(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(pc.NotDecodableError, match=problem):
        pc.from_xmlrpc({"filterable": {"seen": 1}, **more}, of=Inner)


def test_bytes_are_bytes_however_they_were_received() -> None:
    sent = xmlrpc.client.dumps(({"a": [b"x"], "b": {"c": b""}},))
    [received], _ = xmlrpc.client.loads(sent)
    assert pc.from_xmlrpc(received) == {"a": [b"x"], "b": {"c": b""}}


# -- hostile texts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["utf-7", "idna", "shift_jis", "hex", "undefined", "punycode"])
def test_an_encoding_that_is_not_for_xml_is_refused(name: str) -> None:
    with pytest.raises(pc.NotDecodableError, match="encoding"):
        pc.from_xmlrpc(f"<?xml version='1.0' encoding='{name}'?><value>a</value>".encode())


@pytest.mark.parametrize(
    "xml",
    [
        "<struct>x</struct>",
        "<array>x<data/></array>",
        "<array><data>x</data></array>",
        "<double>\u0663</double>",
        "<double>\u00a01</double>",
        "<int>\u00a01</int>",
        "<boolean>\u20031</boolean>",
    ],
)
def test_text_that_means_nothing_is_refused(xml: str) -> None:
    with pytest.raises(pc.NotDecodableError):
        pc.from_xmlrpc(xml)


@pytest.mark.parametrize("xml", ["<{0}/>", "<{0} a='1'/>", "<data><{0}/></data>"])
def test_an_error_does_not_repeat_a_long_name(xml: str) -> None:
    with pytest.raises(pc.NotDecodableError) as found:
        pc.from_xmlrpc(xml.format("a" * 1_000_000))
    assert len(str(found.value)) < 500


def nested(levels: int) -> Any:
    found: Any = []
    for _ in range(levels - 1):
        found = [found]
    return found


def test_what_can_be_written_can_be_walked_and_read() -> None:
    event = {"filterable": nested(64)}
    assert pc.parse_filter("count(//array) = 64", "xpath").matches(event)
    assert pc.from_xmlrpc(pc.filterable_xml(event)) == event["filterable"]
    sent = xmlrpc.client.dumps((pc.to_xmlrpc(event),))
    assert pc.from_xmlrpc(sent[sent.index("<value>") : sent.rindex("</param>")]) == event


def test_what_is_deeper_is_neither_written_nor_walked_nor_read() -> None:
    event = {"filterable": nested(65)}
    for write in (pc.filterable_xml, pc.to_xmlrpc):
        with pytest.raises(pc.NotSerialisableError, match="64 levels"):
            write(event)
    assert not pc.parse_filter("//array", "xpath").matches(event)
    xml = "<array><data><value>" * 66 + "</value></data></array>" * 66
    with pytest.raises(pc.NotDecodableError, match="64 levels"):
        pc.from_xmlrpc(xml)


def test_the_name_of_a_block_is_checked() -> None:
    with pytest.raises(pc.NotSerialisableError, match=r"U\+0000"):
        pc.to_xmlrpc({"filterable": 1, "\0": 2})
