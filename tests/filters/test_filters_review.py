"""Filters as a new user meets them: what is looked into, what is refused, what is never refused."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, NewType, TypeVar

import msgspec
import pydantic
import pytest

import polycast as pc
from polycast.filters.conditions import (
    Compares,
    Condition,
    Equals,
    InstanceOf,
    Invoke,
)

Where = Callable[[Any], object]
Item = TypeVar("Item")
Customer = NewType("Customer", int)
LIMIT = 3
NAMES = ["java", "c"]
NOON = dt.datetime(2024, 1, 1, 12)


class Status(enum.Enum):
    PAID = "paid"
    OPEN = "open"

    @property
    def is_final(self) -> bool:
        return self is Status.PAID


class Point(NamedTuple):
    x: int
    label: str = ""


@dataclass
class Line:
    price: float
    text: str | None = None


@dataclass
class Numbered:
    number: int = 0

    def doubled(self) -> int:
        return self.number * 2


@dataclass
class Order(Numbered, Generic[Item]):
    kind: ClassVar[str] = "order"
    customer: Customer = Customer(1)
    name: str = "java"
    note: str | None = None
    amount: int | None = None
    value: int | str = 1
    tone: Literal["loud", 1] = "loud"
    status: Status = Status.PAID
    total: decimal.Decimal = decimal.Decimal(1)
    made: dt.datetime = NOON
    lines: list[Line] = field(default_factory=list)
    by_name: dict[str, Line] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    where: Point = field(default_factory=lambda: Point(1, "a"))
    parent: Order[Item] | None = None
    item: Item | None = None
    extra: Any = None

    def __post_init__(self) -> None:
        self.derived = 3

    @functools.cached_property
    def cached(self) -> str:
        return self.name

    def find(self, *names: str) -> Line | None:
        return self.by_name.get(names[0])


# -- what is never refused -------------------------------------------------------------------------

GUARDED: list[Where] = [
    lambda o: o.amount and o.amount > 3,
    lambda o: o.amount is not None and o.amount > 3,
    lambda o: o.amount is None or o.amount > 3,
    lambda o: not o.amount or o.amount > 3,
    lambda o: not (o.amount is None) and o.amount > 3,  # noqa: E714
    lambda o: isinstance(o.amount, int) and o.amount > 3,
    lambda o: (o.amount or 0) > 3,
    lambda o: o.amount > 3,
    lambda o: (o.note or "").lower() == "x",
    lambda o: not (o.parent is None or o.parent.note is None) and o.parent.note.lower(),
    lambda o: o.parent and o.parent.parent and o.parent.parent.name[0] == "x",
    lambda o: (isinstance(o.value, str) and o.value.upper()) or o.value + 1 > 3,
    lambda o: not isinstance(o.value, str) and o.value + 1 > 3,
    lambda o: hasattr(o, "absent") and o.absent > 3,
    lambda o: isinstance(o, Line) and o.price > 3,
]
PLAIN: list[Where] = [
    lambda o: o.kind == "order" and o.number > 3 and o.doubled() > 3,
    lambda o: o.customer > 3 and o.customer.bit_length() > 1,
    lambda o: o.tone.upper() == "LOUD",
    lambda o: o.tone + 1 > 3,
    lambda o: o.status.is_final and o.status.value.upper() == "PAID",
    lambda o: o.status == "paid",
    lambda o: o.total > 3.5 and o.total * o.number > 3 and o.total == 0.5,
    lambda o: o.made - NOON < dt.timedelta(1) and (o.made - NOON).days > 3,
    lambda o: o.made.date() > dt.date(2024, 1, 1) and o.made.weekday() < 5,
    lambda o: any(line.price > 3 and line.text.lower() == "x" for line in o.lines),
    lambda o: any(line.text.startswith("x") for line in o.lines if line.text),
    lambda o: o.lines[-1].text == "x" and len(o.lines) > 1,
    lambda o: "x" in o.by_name and o.by_name["x"].price > 3,
    lambda o: any(name.upper() == "X" for name in o.by_name),
    lambda o: any(line.price > 3 for line in o.by_name.values()),
    lambda o: o.tags >= {"a"} and o.tags & {"b"} and "c" in o.tags,
    lambda o: o.where.x > 3 and o.where[1].upper() == "A" and o.where > (1, "a"),
    lambda o: o.item.anything > 3,
    lambda o: o.extra.foo.bar(3)[4] > 3,
    lambda o: o.derived > 3 and o.cached.upper() == "X",
    lambda o: o.find("a", "b").price > 3,
    lambda o: o.name.split(",")[0].strip() in ("a", "b"),
    lambda o: o.name == 3 or o.number == "3" or o.name is None,
]


@pytest.mark.parametrize("where", [*GUARDED, *PLAIN], ids=lambda where: str(pc.lift(where))[:60])
def test_what_may_be_right_is_not_refused(where: Where) -> None:
    pc.lift(where).check(Order)


class Open(pydantic.BaseModel, extra="allow"):
    number: int = 1


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(default=1, alias="Number")
    note: str | None = None
    _hidden: int = pydantic.PrivateAttr(default=3)

    @pydantic.computed_field
    def shout(self) -> str:
        return "x"

    @pydantic.model_validator(mode="after")
    def _finish(self) -> Model:
        self._hidden = 4
        return self


class Struct(msgspec.Struct, tag="s", rename="camel"):
    first_name: str
    amount: int | msgspec.UnsetType = msgspec.UNSET


@pytest.mark.parametrize(
    ("cls", "where"),
    [
        (Open, lambda o: o.anything.at_all > 3),
        (Model, lambda m: m.number > 3 and m._hidden > 3 and m.note.upper() == "X"),
        (Model, lambda m: "note" in m.model_fields_set and m.model_dump()["number"] > 3),
        (Struct, lambda s: s.first_name.upper() == "X" and s.amount > 3),
        (Point, lambda p: p.x > 3 and p[1].upper() == "X" and len(p) == 2 and p._asdict()),
    ],
)
def test_classes_of_other_libraries_are_not_refused(cls: type, where: Where) -> None:
    pc.lift(where).check(cls)


@pytest.mark.parametrize(
    ("cls", "where", "told"),
    [
        (Order, lambda o: o.nam == "x", "did you mean `name`?"),
        (Order, lambda o: any(line.prize > 3 for line in o.lines), "did you mean `price`?"),
        (Order, lambda o: o.amount is None and o.amount > 3, "have no order"),
        (Order, lambda o: o.doubled(3) > 1, "it takes none"),
        (Order, lambda o: o.number() > 1, "leave the parentheses away"),
        (Model, lambda m: m.Number > 3, "did you mean `number`?"),
        (Struct, lambda s: s.firstName == "x", "did you mean `first_name`?"),
    ],
)
def test_what_cannot_be_right_is_refused_with_what_would_be(
    cls: type, where: Where, told: str
) -> None:
    with pytest.raises(pc.FilterMistakeError) as caught:
        pc.Bus().subscribe(cls, print, where=where)
    assert told in str(caught.value)
    assert "^" in str(caught.value)


# -- conditions, by the examples of the paper ------------------------------------------------------


class ChatMsg:
    def __init__(self, sender: str | None, text: str | None) -> None:
        self._sender, self._text = sender, text

    def get_sender(self) -> str | None:
        return self._sender

    def get_text(self) -> str | None:
        return self._text


class Stranger:
    def get_sender(self) -> str:
        return "Alice"


ONLY_FROM = Equals("/get_sender", "Alice")
ABOUT_ME = Equals("/get_text/find", -1, args=[None, ["Tom"]], result=False)
ALICE, BOB, NOBODY = ChatMsg("Alice", "Hi Tom"), ChatMsg("Bob", "Hi"), ChatMsg(None, None)


@pytest.mark.parametrize(
    ("condition", "passing"),
    [
        (ONLY_FROM, [ALICE]),
        (ONLY_FROM & ABOUT_ME, [ALICE]),
        (~ONLY_FROM, [BOB, NOBODY]),  # the None rule is inside what is negated
        (Equals("get_sender", "Alice", result=False), [BOB]),
        (Equals("/get_sender", None, result=False), [ALICE, BOB]),
        (Equals("/nothing", 1, result=False), []),
        (Equals(ChatMsg.get_sender, "Alice"), [ALICE]),
        (Equals(Invoke("find", [["Tom"]], of=Invoke("get_text")), -1, result=False), [ALICE]),
        (Compares(Invoke(ChatMsg.get_sender), ">=", "B"), [BOB]),
        (InstanceOf(str, "/get_sender", result=False), []),
        (InstanceOf(ChatMsg) & (ONLY_FROM | Equals("/get_sender", "Bob")), [ALICE, BOB]),
        (Equals("", ALICE), [ALICE]),
    ],
)
def test_conditions_of_the_paper_pass_what_it_says(
    condition: Condition, passing: list[object]
) -> None:
    everyone = [ALICE, BOB, NOBODY]
    assert [person for person in everyone if pc.Filter(condition).matches(person)] == passing


def test_a_method_implies_its_class_and_a_name_does_not() -> None:
    assert pc.Filter(ONLY_FROM).matches(Stranger())
    assert not pc.Filter(Equals(ChatMsg.get_sender, "Alice")).matches(Stranger())


def test_no_arguments_are_the_same_however_they_are_written() -> None:
    written = [Equals("/a/b", 1), Equals("a/b", 1, args=[[], None]), Equals(Invoke("/a/b"), 1)]
    assert len({*written, Equals(Invoke("b", of=Invoke("a")), 1)}) == 1


# -- what is looked into ---------------------------------------------------------------------------


def test_a_changed_name_does_not_change_a_filter() -> None:
    names = list(NAMES)
    wanted = pc.lift(lambda o: o.name in names and o.number < LIMIT)
    names.clear()
    assert str(wanted) == "(event.name in ['java', 'c']) and (event.number < 3)"
    assert wanted.matches(Order())


def test_a_shadowed_builtin_is_what_it_is_called_as() -> None:
    def len(_: object) -> int:  # noqa: A001
        return 100

    wanted = pc.lift(lambda o: len(o.name) > 50)
    assert wanted.opaque_parts()
    assert wanted.matches(Order())


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "event.__class__.__mro__",
        "(" * 50_000,
        "not " * 20_000 + "event",
        "event" + ".a" * 40_000,
        "event == " + "9" * 90_000,
        "event.s * 10000000000",
        "9 ** 9 ** 9 == event",
        "event == datetime('2024-01-01', 0, '../../etc/passwd')",
        "isinstance(event, kind('antigravity.X'))",
        "event == '\ud800'",
        "event\x00",
        "event == '\\d'",
        "",
    ],
    ids=lambda text: text[:24].encode("unicode_escape").decode(),
)
def test_a_text_that_is_no_filter_is_only_ever_a_filter_error(text: str) -> None:
    with pytest.raises(pc.FilterError):
        pc.Filter.from_json({"format": 1, "filter": text})
