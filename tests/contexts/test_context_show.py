"""A type as a context sees it, path by path."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Annotated, Any

import logistics
import pytest
from rich.console import Console

import polycast as pc


def text_of(shown: Any) -> list[str]:
    return str(shown).splitlines()


def test_each_path_has_its_rule_and_why() -> None:
    us = logistics.make_us()
    us.rule("Money", logistics.to_todays_dollars)
    us.rule("Money.amount", pc.rules.identity)
    assert text_of(us.show(logistics.InvoiceLine)) == [
        "InvoiceLine in context 'us'",
        "incoming: InvoiceLine => USInvoiceLine ?  declared in us",
        "├── spec: ItemSpecification               ItemSpecification > to_us",
        "├── spec: WeightedItemSpec                ItemSpecification > to_us",
        "├── amountToPay: Money                    InvoiceLine.amountToPay > to_dollars  "
        "(P1 over Money)",
        "└── note                                  dropped: USInvoiceLine has no such attribute",
        "observation: us, mapping 'InvoiceLine => USInvoiceLine ?': at InvoiceLine: USInvoiceLine "
        "has no note, so it is dropped [dropped]",
    ]


def test_a_function_of_the_whole_event_is_shown_alone() -> None:
    us = logistics.make_us()
    us.whole(logistics.InvoiceLine, logistics.signed)
    assert text_of(us.show(logistics.InvoiceLine))[1:3] == [
        "incoming: InvoiceLine => USInvoiceLine ?  declared in us",
        "└── (the whole)                           made by signed: no rule or unit applies",
    ]
    assert us.resolve(logistics.InvoiceLine) == []


@dataclass(frozen=True)
class Size:
    width: Annotated[float, pc.Unit("cm")]


@dataclass
class Box:
    size: Size
    name: str
    inner: list[Box] = field(default_factory=list)
    extra: Any = None
    size2: Size | None = None


@pc.maps_to(Size, "?")
@dataclass(frozen=True)
class USSize:
    width: Annotated[float, pc.Unit("inch")]
    colour: str = "red"
    area: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", self.width**2)


@pc.maps_to(Box, "?")
@dataclass
class USBox:
    size: USSize
    name: str
    needed: int
    inner: list[USBox] = field(default_factory=list)
    extra: Any = None
    size2: USSize | None = None


def size_of(size: Size) -> USSize:
    return USSize(size.width)


def boxes() -> pc.Context:
    root = pc.Context("root", types=[Box, Size])
    us = pc.Context("us", parent=root, types=[USBox, USSize])
    us.rule("Box.size2", size_of)
    us.rule("Box.size2.width", pc.rules.identity)
    return us


TREE = """\
Box in context 'us'
incoming: Box => USBox ?  declared in us
├── size: Size            rebuilt by Size => USSize ?
│   ├── width: float      Box.size.width > cm to inch  (generated)
│   ├── colour            the default of USSize
│   └── area              set by USSize itself
├── name: str             copied
├── needed                nothing produces it
├── inner[]: Box          rebuilt by Box => USBox ?, as further out
├── extra: Any            copied
└── size2: Size           Box.size2 > size_of
    └── width: float      shadowed: Box.size2.width > identity
error: us, mapping 'Box => USBox ?': nothing produces USBox.needed from Box: Box has no attribute \
'needed'; context.whole(Box, f) with f(x: Box) -> USBox, or a default would [nothing-produces]
"""


def test_what_is_rebuilt_defaulted_missing_and_shadowed() -> None:
    lines = text_of(boxes().show(Box))
    assert [line.rstrip() for line in lines[: TREE.count("\n")]] == TREE.splitlines()
    assert {line.split(":")[0] for line in lines[TREE.count("\n") :]} == {"observation"}


def test_a_default_that_stands_in_is_shown() -> None:
    @dataclass(frozen=True)
    class Source:
        x: int | str
        y: list[str] | None

    @dataclass(frozen=True)
    class Target:
        x: int = 0
        y: list[str] = field(default_factory=list)

    us = pc.Context("us", parent=pc.Context("root", types=[Source]), types=[Target])
    us.map(Source, Target, "?")
    assert text_of(us.show(Source))[2:6] == [
        "├── x: int                    copied",
        "├── x: str                    the default, because the target does not take it",
        "├── y[]: str                  copied",
        "└── y: NoneType               the default, because the target does not take it",
    ]


def test_rich_shows_a_tree() -> None:
    console = Console(file=io.StringIO(), width=120, record=True, force_terminal=True)
    console.print(boxes().show(Box))
    plain = console.export_text(styles=False, clear=False)
    assert "│   ├── size: Size" in plain
    assert "rebuilt by Size => USSize ?" in plain
    dim = next(
        line for line in console.export_text(styles=True).splitlines() if "shadowed:" in line
    )
    assert "\x1b[2m" in dim


def test_a_name_that_looks_like_markup_is_text() -> None:
    console = Console(file=io.StringIO(), width=120, record=True)
    us = pc.Context("[red]us", parent=pc.Context("root", types=[Box]))
    console.print(us.show(Box))
    assert "[red]us" in console.export_text()


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ([], "Box  no mapping: it comes in and goes out unchanged"),
        ([Box], "Box  no mapping: it is a type of this context, and cannot leave it"),
    ],
)
def test_a_type_without_a_mapping(types: list[type], said: str) -> None:
    us = pc.Context("us", parent=pc.Context("root", types=[Size]), types=types)
    assert text_of(us.show(Box))[1] == said


def test_the_same_as_data() -> None:
    data = boxes().show(Box).to_data()
    assert (data["context"], data["type"]) == ("us", "Box")
    [branch] = data["branches"]
    assert branch["inside"][0]["inside"][0] == {
        "name": "width: float",
        "kind": "rule",
        "what": "Box.size.width > cm to inch  (generated)",
        "inside": (),
    }
    assert data["findings"][0]["severity"] == "error"


def test_both_directions_are_shown() -> None:
    lines = text_of(logistics.make_us().show(logistics.USInvoiceLine))
    assert lines[1].startswith("outgoing: USInvoiceLine => InvoiceLine !")


def test_only_a_class_is_shown() -> None:
    with pytest.raises(pc.BadContextError, match="a type was 'Box'"):
        boxes().show("Box")  # type: ignore[arg-type]
