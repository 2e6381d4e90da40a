"""ETCL rule by rule: what a path leads to in an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from etcl_asking import House, Inner, Outer, fails, says, union

import polycast as pc
from polycast.testing import ManualClock

# -- paths -----------------------------------------------------------------------------------------


def test_the_event_itself_may_be_any_value() -> None:
    for value, text in ((7, "$ == 7"), ("x", "$ == 'x'"), (True, "$"), ([1], "$[0] == 1")):
        assert says(text, value)


def test_members_by_name_and_by_position() -> None:
    event = Outer()
    assert says("$.first == 1 and $.inner.b == 'two' and $.1.1 == 'two' and $.0 == 1", event)
    assert says("$.doubled == 2", event)
    for text in ("$.missing == 1", "$.7 == 1", "$.first.x == 1", "$.first.0 == 1"):
        assert fails(text, event)
    assert not says("exist $.method", event)
    assert not says("exist $.__class__ or exist $.__dict__", event)


class Pair(NamedTuple):
    x: int
    y: int


class Struct(msgspec.Struct):
    x: int
    y: int


class Model(pydantic.BaseModel):
    x: int
    y: int


@attrs.define
class Defined:
    x: int
    y: int


@pytest.mark.parametrize("event", [Pair(1, 2), Struct(1, 2), Model(x=1, y=2), Defined(1, 2)])
def test_whatever_has_fields_in_order_is_a_struct(event: Any) -> None:
    assert says("$.x == 1 and $.y == 2 and $.0 == 1 and $.1 == 2 and $y == 2", event)
    assert fails("$.2 == 1", event)


def test_elements_and_lengths_are_those_of_sequences() -> None:
    event = {"l": [1, [2, 3]], "t": (), "s": "abc", "d": {"a": 1}, "n": 5}
    assert says("$.l[0] == 1 and $.l[1][1] == 3 and $.l._length == 2 and $.t._length == 0", event)
    for text in ("$.l[2] == 1", "$.s[0] == 'a'", "$.s._length == 3", "$.d._length == 1"):
        assert fails(text, event)
    assert fails("$.n._length == 1", event)
    assert says("$_length == 2", [1, 2])


@dataclass
class Named:
    name: str
    value: Any


@pytest.mark.parametrize(
    "several",
    [
        {"a": 1, "b": 2},
        [("a", 1), ("b", 2), ("b", 3)],
        [["a", 1], ["b", 2]],
        [Named("a", 1), Named("b", 2)],
        [{"name": "a", "value": 1}, {"name": "b", "value": 2}],
    ],
)
def test_properties_are_looked_up_by_name_and_the_first_wins(several: Any) -> None:
    assert says("$.l(a) == 1 and $.l(b) == 2", {"l": several})
    assert says("$(a) == 1 and $(b) == 2 and $b == 2", several)
    assert fails("$.l(c) == 1", {"l": several})


@pytest.mark.parametrize("several", [5, "ab", [5], [("a", 1, 2)], None])
def test_what_is_no_list_of_properties_has_none(several: Any) -> None:
    assert fails("$.l(a) == 1", {"l": several})


# -- unions ----------------------------------------------------------------------------------------


def test_only_the_active_member_of_a_union_is_there() -> None:
    event = {"u": union(1, "L", 10)}
    assert says("$.u.L == 10 and $.u.(1) == 10 and $.u.1 == 10 and $.u._d == 1", event)
    assert says("exist $.u._d and $.u._d == 1 and $.u.(1) == 10", event)
    for text in ("$.u.K == 10", "$.u.(0) == 10", "$.u.0 == 10", "$.u.() == 10", "$.u.(L) == 10"):
        assert fails(text, event)


def test_the_tag_of_a_path_is_exactly_the_discriminator() -> None:
    event = {"u": union(2, "K", 10)}
    assert says("$.u.(2) == 10 and $.u.(+2) == 10 and $.u._d == 2 and not exist $.u.(0)", event)
    assert says("$.u.(-2) == 10", {"u": union(-2, "K", 10)})


def test_tags_may_be_characters_labels_and_booleans() -> None:
    assert says("$.('c') == 1 and $._d == 'c' and $._d == 99", union("c", "C", 1))
    assert says("$.(HOUSE) == 1 and $.(1) == 1 and $._d == HOUSE", union(House.HOUSE, "E", 1))
    assert says("$.(TRUE) == 1 and $._d == TRUE and $._d", union(True, "L", 1))
    assert says("$.(FALSE) == 1", union(False, "L", 1))
    assert not says("exist $.(HUT) or exist $.(20) or exist $.('x')", union(House.HOUSE, "E", 1))
    assert not says("exist $.('name')", union("c", "C", 1))


def test_the_default_member_is_active_or_not() -> None:
    active = {"u": union(999, "D", 7, default_member="D")}
    other = {"u": union(1, "L", 7, default_member="D")}
    without = {"u": union(1, "L", 7)}
    assert says("default $.u._d and $.u.() == 7 and $.u.D == 7 and $.u.(999) == 7", active)
    assert says("not default $.u._d and not exist $.u.()", other)
    assert says("not default $.u._d and not exist $.u.()", without)
    assert not says("exist $.u.(998)", active)


def test_a_union_without_an_active_member_has_its_tag_and_nothing_else() -> None:
    for default in (None, "D"):
        event = {"u": union(7, None, None, default_member=default)}
        assert says("$.u._d == 7 and not default $.u._d and not exist $.u.()", event)
        for text in ("$.u.K", "$.u.(7)", "$.u.(0)", "$.u.()", "$.u.0", "$.u.3"):
            assert not says(f"exist {text}", event)
            assert fails(f"{text} == 0", event)


def test_what_is_no_union_has_no_discriminator() -> None:
    event = {"u": 5}
    for text in ("$.u._d == 5", "$.u.(5) == 5", "$.u.() == 5", "default $.u._d", "default $.x._d"):
        assert fails(text, event)


# -- types -----------------------------------------------------------------------------------------


def test_types_have_names() -> None:
    event = {"o": Outer(), "h": House.HUT, "u": union(1, "L", 1, type_id="U", repos_id="IDL:U:1.0")}
    assert says("$._type_id == 'Outer' and $._repos_id == 'test.Outer'", Outer())
    assert says("$.o._type_id == 'Outer' and $.h._type_id == 'House'", event)
    assert says("$.u._type_id == 'U' and $.u._repos_id == 'IDL:U:1.0'", event)
    structured = pc.StructuredEvent(filterable_data={"v": [("t", Outer())]})
    assert says("$._type_id == 'StructuredEvent'", structured)
    assert says("$._repos_id == 'IDL:omg.org/CosNotification/StructuredEvent:1.0'", structured)
    assert says("$.header._type_id == 'EventHeader'", structured)
    assert says("$v(t)._repos_id == 'test.Outer'", structured)


@pytest.mark.parametrize("value", [5, "a", None, [1], {"a": 1}, union(1, "L", 1)])
def test_other_types_have_none(value: Any) -> None:
    assert not says("exist $.x._type_id or exist $.x._repos_id", {"x": value})


# -- structured events -----------------------------------------------------------------------------

EVENT = pc.StructuredEvent(
    "Telecom",
    "CommunicationsAlarm",
    "lost",
    {"Priority": 3, "both": "header"},
    {"price": 10, "both": "data", "test": [{"score": 7}], "domain_name": "mine", "header": 1},
    {"x": 1, "price": 99},
)


@pytest.mark.parametrize(
    "text",
    [
        "$domain_name == 'Telecom' and $type_name == 'CommunicationsAlarm'",
        "$event_name == 'lost'",
        "$Priority == 3 and $price == 10 and $both == 'header' and $test[0].score == 7",
        "$.header.fixed_header.event_type.domain_name == 'Telecom'",
        "$.header.fixed_header.event_type.type_name == 'CommunicationsAlarm'",
        "$.header.fixed_header.event_name == 'lost' and $.header.variable_header(Priority) == 3",
        "$.filterable_data(price) == 10 and $.remainder_of_body.x == 1",
        "$.0.0.0.0 == 'Telecom' and $.0.0.0.1 == 'CommunicationsAlarm' and $.0.0.1 == 'lost'",
        "$.0.1(Priority) == 3 and $.1(price) == 10 and $.2.x == 1 and not exist $.3",
        "$header.variable_header(Priority) == 3 and $fixed_header.event_name == 'lost'",
        "$variable_header(Priority) == 3 and $filterable_data(price) == 10",
        "$remainder_of_body.x == 1 and $event_type.domain_name == 'Telecom'",
        "$.filterable_data._length == 5 and $.header.variable_header._length == 2",
        "$.filterable_data[0].name == 'price' and $.filterable_data[0].value == 10",
        "$.filterable_data[0].0 == 'price' and $.filterable_data[0].1 == 10",
        "exist $price and not exist $missing and exist $ and exist $.header",
    ],
)
def test_a_structured_event_is_found_by_its_parts(text: str) -> None:
    assert says(text, EVENT)


@pytest.mark.parametrize(
    "name", ["x", "price", "domain_name", "variable_header", "fixed_header", "event_name"]
)
def test_only_three_members_are_at_the_top_of_a_structured_event(name: str) -> None:
    assert fails(f"$.{name} == 1", EVENT)
    assert not says(f"exist $.{name}", EVENT)


def test_a_variable_is_not_looked_for_in_the_body() -> None:
    assert fails("$x == 1", EVENT)
    assert fails("$.filterable_data.price == 10", EVENT)


@pytest.mark.parametrize("event", [{"a": 1}, Inner(), 7, [("a", 1)], "x"])
def test_any_other_event_says_that_it_is_any(event: Any) -> None:
    text = "$domain_name == '' and $type_name == '%ANY' and $event_type.type_name == '%ANY'"
    assert says(text, event)
    assert fails("$event_name == ''", event)


def test_an_event_may_say_itself_what_it_is() -> None:
    assert says("$domain_name == 'mine' and $type_name == '%ANY'", {"domain_name": "mine"})


def test_the_time_is_that_of_the_clock() -> None:
    clock = ManualClock(0.0)
    text = "$curtime.time >= 122192928000000000 + 600000000 and $curtime.tdf == 0"
    where = pc.parse_filter(text, "etcl", clock=clock)
    assert not where.matches(EVENT)
    clock.advance(60)
    assert where.matches(EVENT)
    assert where.interpret({"curtime": 5})
    with pytest.raises(pc.FilterError):
        where.to_json()


def test_without_a_clock_the_time_is_that_of_the_machine() -> None:
    where = pc.parse_filter("$curtime.time > 139192928000000000 and exist $curtime.inacclo", "etcl")
    assert where.matches(None)
    assert pc.Filter.from_json(where.to_json()) == where
    assert not pc.parse_filter("exist $curtime.x", "etcl", clock=ManualClock()).matches(None)


def test_a_clock_is_one() -> None:
    with pytest.raises(pc.BadOptionError, match="clock"):
        pc.parse_filter("TRUE", "etcl", clock=5)  # type: ignore[arg-type]
