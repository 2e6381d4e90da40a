"""What may be given as a filter, how filters combine, and what survives as data."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import attrs
import pydantic
import pytest

import polycast as pc
from polycast.filters.tree import nodes
from polycast.testing import TestBus

c = pc.conditions


@dataclass
class Talk:
    speaker: str = "Ada"
    stars: int = 3
    day: dt.date = dt.date(2024, 1, 1)


def outside(text: str) -> pc.Filter[Any]:
    return pc.Filter.from_json({"format": 1, "filter": text})


# -- shapes ----------------------------------------------------------------------------------------


def generator(talk: Talk) -> Any:
    yield False


async def later(talk: Talk) -> bool:
    return False


class Later:
    async def __call__(self, talk: Talk) -> bool:
        return False


class Nothing(c.Condition):
    pass


@pytest.mark.parametrize("where", [Talk, int, generator, later, Later(), 3, "text", Nothing()])
def test_what_would_match_everything_or_nothing_is_refused(where: Any) -> None:
    with pytest.raises(pc.BadOptionError):
        pc.lift(where)
    with TestBus() as bus, pytest.raises(pc.BadOptionError):
        bus.subscribe(Talk, print, where=where)


def test_lift_takes_the_type_first() -> None:
    with pytest.raises(pc.BadOptionError, match="class"):
        pc.lift(Talk)  # type: ignore[arg-type]
    with pytest.raises(pc.BadOptionError, match="type first"):
        pc.lift(lambda t: t.stars > 3, Talk)  # type: ignore[call-overload]
    with pytest.raises(pc.BadOptionError):
        pc.lift(Talk, None)  # type: ignore[call-overload]


def test_the_class_of_the_events_is_a_class() -> None:
    good = pc.lift(Talk, lambda t: t.stars > 2)
    for ask in (good.explain, good.to_python, good.check, good.to_spark):
        with pytest.raises(pc.BadOptionError, match="the class of the events"):
            ask(Talk())  # type: ignore[operator]
    good.check(Talk | int)  # type: ignore[arg-type]


# -- combining -------------------------------------------------------------------------------------


def test_filters_and_conditions_combine_with_each_other_and_with_functions() -> None:
    good = pc.lift(Talk, lambda t: t.stars > 2)
    ada = c.Equals("/speaker", "Ada")
    for both in (
        pc.Filter(ada & good),
        pc.Filter(ada & (lambda t: t.stars > 2)),
        good & ada,
        good & (lambda t: t.speaker == "Ada"),
        pc.Filter((lambda t: t.stars > 2) & ada),
    ):
        assert [both.matches(t) for t in (Talk(), Talk("Bob"), Talk(stars=1))] == [
            True,
            False,
            False,
        ]
    assert (~good).matches(Talk(stars=1))
    assert (good | ada).matches(Talk(stars=1))
    assert not pc.Filter(~(ada | good)).matches(Talk(stars=1))


def test_python_s_own_and_is_not_meant() -> None:
    ada, bob = c.Equals("/speaker", "Ada"), c.Equals("/speaker", "Bob")
    with pytest.raises(TypeError, match="&"):
        ada and bob
    with pytest.raises(TypeError, match="&"):
        bool(pc.Filter(ada))


def test_conditions_are_checked_when_they_are_made() -> None:
    for make in (
        lambda: c.Invoke(3),  # type: ignore[arg-type]
        lambda: c.Invoke("a", of="b"),  # type: ignore[arg-type]
        lambda: c.Equals("/a", 1, args=3),
        lambda: c.Equals("/a", 1, args=["Bob"]),
        lambda: c.Equals("/a", 1, result=None),  # type: ignore[arg-type]
        lambda: c.Equals(c.Invoke("a"), 1, args=[[]]),
        lambda: c.And(c.Equals("/a", 1)),
        lambda: c.Equals("/a", 1) & 3,  # type: ignore[operator]
        lambda: ~c.Equals("/a", 1) | Talk,
    ):
        with pytest.raises(pc.BadOptionError):
            make()


def test_methods_of_built_in_classes_are_accessors_too() -> None:
    found = c.Equals(c.Invoke(str.find, ["d"], of=c.Invoke("speaker")), 1)
    assert pc.Filter(found).matches(Talk())
    assert c.Equals("", Talk()) == c.Equals("", Talk())
    assert c.Equals("", Talk()) != c.Equals("", Talk("Bob"))


# -- data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what",
    [
        c.Equals("/a", 1) & c.Equals("/b", 2) & c.Equals("/c", 3),
        c.And(c.Equals("/a", 1), c.Equals("/b", 2)),
        ~(c.Equals("/a", 1) | c.Equals("/b", 2) | c.Equals("/c", 3)),
        nodes.And((nodes.And((nodes.Event(), nodes.Event())), nodes.Event())),
        nodes.Or((nodes.Event(),)),
        nodes.Sign("-", nodes.Constant(3)),
        nodes.Display(tuple, (nodes.Constant(3),)),
        nodes.Constant(Decimal("1.50")),
        nodes.Constant(Decimal("NaN")),
        nodes.Constant(Decimal("sNaN")),
        nodes.Constant(dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET"))),
    ],
    ids=str,
)
def test_what_is_equal_stays_equal_as_data(what: Any) -> None:
    wanted = pc.Filter(what)
    again = pc.Filter.from_json(wanted.to_json())
    assert again == wanted
    assert str(again) == str(wanted)
    assert hash(again) == hash(wanted)


def test_the_same_conditions_in_another_grouping_are_the_same() -> None:
    one, two, three = c.Equals("/a", 1), c.Equals("/b", 2), c.Equals("/c", 3)
    assert (one & two) & three == one & (two & three) == c.And(one, two, three)
    assert hash((one & two) & three) == hash(c.And(one, two, three))


@pytest.mark.parametrize(
    "text",
    [
        "event == datetime('2024-01-01', 0, 'Europe')",
        f"event == datetime('2024-01-01', 0, '{'a' * 5000}')",
        "event == UUID(3)",
        f"any(any(x == y for x in {list(range(500))}) for y in {list(range(500))})",
        "event.title * 2000000",
    ],
)
def test_only_filter_errors_come_from_texts(text: str) -> None:
    with pytest.raises(pc.FilterError):
        outside(text)


@pytest.mark.parametrize("data", [{"format": True, "filter": "event"}, {"format": 1.0}, [], None])
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises(pc.FilterError, match="format 1"):
        pc.Filter.from_json(data)


# -- topics ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["inline", "pool"])
@pytest.mark.parametrize("beside", [0, 150])
def test_a_condition_of_ones_own_is_told_the_topic(dispatch: Any, beside: int) -> None:
    class OnTopic(c.Condition):
        def matches(self, event: Any, topic: str | None = None, /) -> bool:
            return topic == "/chat/a"

    got: list[Any] = []
    with TestBus() as bus:
        for number in range(beside):
            bus.subscribe(Talk, print, where=lambda t, n=number: t.stars == -n - 1)
        bus.subscribe(Talk, got.append, where=OnTopic(), dispatch=dispatch)
        bus.subscribe(Talk, got.append, where=OnTopic() & (lambda t: t.stars > 2), group="g")
        for topic in ("/chat/a", "/chat/b"):
            bus.publish(Talk(), topic=topic)
            bus.publish(Talk(), topic=topic, headers={"a": "b"})
        bus.publish(Talk())
        bus.run_until_idle()
    assert len(got) == 4
    m: pc.Matcher[int] = pc.Matcher()
    m.add(1, Talk, OnTopic())
    m.add(2, Talk)
    assert m.match(Talk(), topic="/chat/a") == [2, 1]
    assert m.match(Talk()) == [2]
    assert m.match_batch([Talk(), Talk()], topic="/chat/a") == [[2, 1]] * 2
    m.remove(1)
    assert m.match(Talk(), topic="/chat/a") == [2]


# -- no false alarms -------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Settings(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(use_enum_values=True)
    colour: Colour


class Validated(pydantic.BaseModel):
    size: int
    name: Annotated[int, pydantic.AfterValidator(str)] = 1

    @pydantic.field_validator("size", mode="after")
    @classmethod
    def as_text(cls, value: int) -> Any:
        return str(value)


@attrs.define
class Converted:
    size: int = attrs.field(converter=str)


@dataclass
class Changed:
    size: int

    def __post_init__(self) -> None:
        self.size = str(self.size)  # type: ignore[assignment]


def fill(what: Any) -> None:
    what.colour = "red"


@dataclass
class GivenAway:
    size: int

    def __post_init__(self) -> None:
        fill(self)


@pytest.mark.parametrize(
    ("cls", "where"),
    [
        (Settings, lambda t: t.colour.upper() == "RED"),
        (Validated, lambda t: t.size.startswith("3")),
        (Validated, lambda t: t.name < "b"),
        (Converted, lambda t: t.size.startswith("3")),
        (Changed, lambda t: t.size < "b"),
        (GivenAway, lambda t: t.colour == "red"),
        (Talk, lambda t: t.day < dt.datetime(2024, 1, 2)),
        (Talk, lambda t: t.day.hour == 3),
    ],
)
def test_values_that_are_changed_on_the_way_may_be_anything(cls: type, where: Any) -> None:
    pc.lift(where).check(cls)


def test_union_types_in_isinstance_and_infinities_are_looked_into() -> None:
    wanted = pc.lift(lambda t: isinstance(t.stars, int | None) and t.stars > float("-inf"))
    assert wanted.opaque_parts() == ()
    assert wanted.matches(Talk())
