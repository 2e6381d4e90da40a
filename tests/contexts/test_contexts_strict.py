"""A target that takes its default instead of a value: said ahead, refused where it is strict."""

from __future__ import annotations

import logging
import re
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import logistics
import pytest
from reflective import reflect

import polycast as pc
from polycast.contexts.declare.context_state import context_from, read_state, state_of
from polycast.contexts.resolve.inheritance import settle


@dataclass(frozen=True)
class Money:
    amount: float


@dataclass(frozen=True)
class E:
    x: float


@dataclass(frozen=True)
class L:
    x: int = 0


def mapped(source: type, target: type, *more: type, strict: bool = False) -> pc.Context:
    root = pc.Context("root", types=[source, Money])
    us = pc.Context("us", parent=root, types=[target, *more], strict=strict)
    us.map(source, target, "?")
    return us


def made(held: Any, wanted: Any, default: Any, *, strict: bool = False) -> pc.Context:
    source = dataclass(type("E", (), {"__annotations__": {"x": held}}))
    target = dataclass(type("L", (), {"__annotations__": {"x": wanted}, "x": default}))
    return mapped(source, target, strict=strict)


def codes(context: pc.Context) -> list[str]:
    report = context.check()
    return [finding.code for finding in (*report.errors, *report.warnings)]


@pytest.mark.parametrize(
    ("held", "wanted", "default"),
    [
        (float, int, 0),
        (str, float, 0.0),
        (Money, float | None, None),
        (Money | None, float | None, None),
        (float | None, float, 0.0),
        (int | str, int, 0),
        (list[int], tuple[int, ...], ()),
        (list[Money | int], list[int], field(default_factory=list)),
        (dict[int, str], dict[str, str], field(default_factory=dict)),
    ],
)
def test_a_default_instead_of_a_value_is_a_warning_and_in_a_strict_context_an_error(
    held: Any, wanted: Any, default: Any
) -> None:
    assert codes(made(held, wanted, default)) == ["does-not-fit"]
    strict = made(held, wanted, default, strict=True)
    assert codes(strict) == ["defaulted"]
    with pytest.raises(pc.ContextRefusedError):
        pc.Federation(strict.root).add(strict)


@pytest.mark.parametrize(
    ("held", "wanted", "default"), [(int, float, 0.0), (int, int | None, None), (Any, int, 0)]
)
def test_what_fits_is_no_finding(held: Any, wanted: Any, default: Any) -> None:
    assert codes(made(held, wanted, default, strict=True)) == []


def test_the_default_is_taken_in_both_ways() -> None:
    us = mapped(E, L)
    fed = pc.Federation(us.root)
    fed.add(us)
    assert fed.translate(E(36.6), target=us) == reflect(settle(us), "?", E(36.6)) == L(0)


def test_the_warning_names_the_rule_that_mends_it() -> None:
    us = mapped(E, L)
    [warning] = us.check().warnings
    assert warning.text == (
        "L.x takes its default instead of E.x: float is there, and int is wanted; a rule for E.x "
        "with f(x: float) -> int would"
    )
    us.rule("E.x", as_int)
    assert codes(us) == []


def as_int(x: float) -> int:
    return round(x)


def test_no_rule_is_named_where_none_can_help() -> None:
    [warning] = made(float | None, float, 0.0).check().warnings
    assert warning.text == (
        "L.x may take its default instead of E.x: 'x' may be None, and float is wanted; "
        "context.whole(E, f) with f(x: E) -> L would"
    )


@pytest.mark.parametrize(
    ("held", "wanted", "forms"),
    [
        (Literal["a"], int, ["E.x(x: str) -> int"]),
        (Literal[1, "a"], bytes, ["E.x(int)(x: int) -> bytes", "E.x(str)(x: str) -> bytes"]),
        (list[float | str], list[int | str], ["E.x(float)(x: float) -> int | str"]),
        (tuple[int, str], int, ["E.x(x: tuple[int, str]) -> int"]),
        (type[int], int, ["E.x(x: type[int]) -> int"]),
        (type[int] | float, int, []),
        (dict[str, float] | list[str], dict[str, int] | list[str], ["E.x(float)(x: float) -> int"]),
    ],
)
def test_advice_that_is_followed_mends_it(held: Any, wanted: Any, forms: list[str]) -> None:
    us = made(held, wanted, None)
    [warning] = us.check().warnings
    assert warning.code == "does-not-fit"
    assert [rule.replace(" with f", "") for rule in RULE.findall(warning.text)] == forms
    assert forms or "context.whole(E, f)" in warning.text
    for pattern, argument in re.findall(r"a rule for (\S+) with f\(x: (.*?)\)", warning.text):
        known = {"str": str, "int": int, "float": float, "type[int]": type[int]}
        us.rule(pattern, giving(known.get(argument, tuple[int, str]), wanted))
    if forms:
        assert codes(us) == []


RULE = re.compile(r"a rule for (\S+ with f\(.*?\) -> .*?)(?= and a rule| would)")


def giving(given: Any, wanted: Any) -> Any:
    def function(x: Any) -> Any:
        return x

    element = (
        typing.get_args(wanted) if typing.get_origin(wanted) in (list, types.UnionType) else ()
    )
    result = {list: element[0] if element else None, types.UnionType: int}
    function.__annotations__ = {
        "x": given,
        "return": result.get(typing.get_origin(wanted) or wanted, wanted),
    }
    return function


@dataclass(frozen=True)
class Item:
    name: str


@dataclass(frozen=True)
class Heavy(Item):
    weight: float = 0.0


@dataclass(frozen=True)
class Holder:
    item: Item


@dataclass(frozen=True)
class Outer:
    holder: Holder


@dataclass(frozen=True)
class USHeavy:
    name: str
    weight: int = 0


@dataclass(frozen=True)
class USHolder:
    item: USHeavy | Item


@dataclass(frozen=True)
class USOuter:
    holder: USHolder


def test_the_rule_that_is_named_is_one_that_works_where_a_subtype_is_met() -> None:
    root = pc.Context("root", types=[Outer, Holder, Item, Heavy])
    us = pc.Context("us", parent=root, types=[USOuter, USHolder, USHeavy])
    for source, target in ((Outer, USOuter), (Holder, USHolder), (Heavy, USHeavy)):
        us.map(source, target, "?")
    texts = [warning.text for warning in us.check().warnings]
    assert any(
        "a rule for Outer.holder.item(Heavy).weight with f(x: float) -> int" in t for t in texts
    )
    us.rule("Outer.holder.item(Heavy).weight", as_int)
    us.rule("Holder.item(Heavy).weight", as_int)
    us.rule("Heavy.weight", as_int)
    assert codes(us) == []


@dataclass(frozen=True)
class Small:
    x: float
    y: int = 5


def test_an_attribute_that_the_source_lacks_is_an_error_where_it_is_strict() -> None:
    assert codes(mapped(E, Small)) == []
    strict = mapped(E, Small, strict=True)
    [error] = strict.check().errors
    assert (error.code, error.text) == (
        "defaulted",
        "Small.y takes its default, because E has no attribute 'y'",
    )


def as_small(e: E) -> Small:
    return Small(e.x)


def test_a_function_of_the_whole_event_makes_all_of_it() -> None:
    strict = mapped(E, Small, strict=True)
    strict.whole(E, as_small)
    assert codes(strict) == []


def test_a_child_of_a_strict_context_is_strict() -> None:
    above = mapped(E, L, strict=True)
    child = pc.Context("child", parent=above)
    assert codes(child) == ["defaulted"]
    assert above.copy().strict
    assert not child.strict


def test_strict_is_true_or_false() -> None:
    with pytest.raises(pc.BadContextError, match="True or False"):
        pc.Context("us", strict="yes")  # type: ignore[arg-type]


def test_what_a_subtype_that_nobody_knew_holds_is_reported_when_it_is_met(
    caplog: pytest.LogCaptureFixture,
) -> None:
    us = mapped(E, L, strict=False)
    fed = pc.Federation(us.root)
    fed.add(us)

    @dataclass(frozen=True)
    class Late(E):
        pass

    with caplog.at_level(logging.WARNING, "polycast.contexts"):
        assert fed.translate(Late(1.5), target=us) == L(0)
        assert fed.translate(E(1.5), target=us) == L(0)
    assert [(name, finding.code) for name, finding in fed.findings] == [("us", "does-not-fit")]


# -- where it is written ---------------------------------------------------------------------------


def test_it_is_kept_in_xml_and_in_a_store(tmp_path: Path) -> None:
    us = logistics.make_us()
    strict = pc.Context("us", parent=us.parents, types=us.types, strict=True)
    place = tmp_path / "us.xml"
    place.write_text(strict.dump(), encoding="utf-8")
    assert '<context name="us" strict="true">' in strict.dump()
    assert pc.Context.load(place, parent=us.parents, modules=[logistics]).strict
    assert read_state(state_of(strict)).strict
    parents = {parent.name: parent for parent in us.parents}
    found = context_from(
        state_of(strict),
        class_named=lambda name, version: next(c for c in us.types if c.__qualname__ in name),
        function_named=lambda name: pc.rules.identity,
        parents=parents,
    )
    assert found.strict


def test_a_context_that_is_not_strict_is_written_as_before() -> None:
    us = logistics.make_us()
    assert "strict" not in us.dump()
    assert b"strict" not in state_of(us)


@pytest.mark.parametrize("text", ["yes", "1", "True"])
def test_a_file_says_true_or_false(tmp_path: Path, text: str) -> None:
    place = tmp_path / "us.xml"
    place.write_text(f'<context strict="{text}"/>', encoding="utf-8")
    with pytest.raises(pc.BadContextError, match="'strict' is 'true' or 'false'"):
        pc.Context.load(place, parent=pc.Context("root"))


def test_it_is_shown() -> None:
    shown = mapped(E, L, strict=True).show(E)
    lines = str(shown).splitlines()
    assert lines[0] == "E in context 'us', which is strict"
    assert lines[2] == (
        "└── x               the default of L, because float is there, and int is wanted"
    )
    assert shown.to_data()["strict"] is True
