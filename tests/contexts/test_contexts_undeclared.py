"""What objects hold and their class does not declare: it stays, or what becomes of it is said."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from reflective import reflect

import polycast as pc
from polycast.contexts.resolve.inheritance import settle


@dataclass(frozen=True)
class M:
    amount: int


def up(m: M) -> M:
    return M(m.amount + 1)


class ByHand:
    """Its constructor takes more than is declared."""

    m: M

    def __init__(self, m: M, note: str) -> None:
        self.m, self.note = m, note


class Lenient:
    """The same, and it needs not be given."""

    m: M
    kind: str = "new"

    def __init__(self, m: M, note: str = "none") -> None:
        self.m, self.note = m, note


class InSlots:
    __slots__ = ("m", "note")
    m: M

    def __init__(self, m: M, note: str = "none") -> None:
        self.m, self.note = m, note


@dataclass
class Data:
    m: M


@dataclass
class Computing:
    m: M

    def __post_init__(self) -> None:
        self.double = self.m.amount * 2

    @cached_property
    def triple(self) -> int:
        return self.m.amount * 3


@attrs.define(slots=False)
class Attrs:
    m: M


class Struct(msgspec.Struct, dict=True):
    m: M


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    m: M


def noted(thing: Any) -> Any:
    thing.note = "mine"
    return thing


def translated(value: Any) -> Any:
    """What becomes of a value of which a rule changes the part that is declared."""
    source = dataclass(type("E", (), {"__annotations__": {"x": type(value)}}))
    target = dataclass(type("L", (), {"__annotations__": {"x": type(value)}}))
    root = pc.Context("root", types=[source, M])
    us = pc.Context("us", parent=root, types=[target])
    us.map(source, target, "?")
    us.rule("M", up)
    fed = pc.Federation(root)
    fed.add(us)
    event = source(value)  # type: ignore[call-arg]
    reflected, found = reflect(settle(us), "?", event).x, fed.translate(event, target=us).x
    assert reflected.m == found.m == M(value.m.amount + 1)
    assert getattr(reflected, "note", None) == getattr(found, "note", None)
    return found


@pytest.mark.parametrize(
    "value",
    [
        ByHand(M(1), "mine"),
        Lenient(M(1), "mine"),
        InSlots(M(1), "mine"),
        noted(Data(M(1))),
        noted(Computing(M(1))),
        noted(Attrs(M(1))),
        noted(Struct(M(1))),
        Model(m=M(1), note="mine"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_declared_is_not_lost_where_a_rule_applies_beside_it(value: Any) -> None:
    assert translated(value).note == "mine"


def test_what_the_class_computes_is_computed_anew() -> None:
    computing = Computing(M(1))
    assert computing.triple == 3
    found = translated(computing)
    assert (found.double, found.triple) == (4, 6)


def test_what_is_copied_is_another_object() -> None:
    value = Data(M(1))
    value.note = ["mine"]  # type: ignore[attr-defined]
    found = translated(value)
    assert found.note == ["mine"]
    assert found.note is not value.note  # type: ignore[attr-defined]


class Wanted:
    m: M
    note: str = "none"

    def __init__(self, m: M, note: str = "none") -> None:
        self.m, self.note = m, note


@pytest.mark.parametrize(("strict", "code"), [(False, "does-not-fit"), (True, "defaulted")])
def test_a_default_instead_of_what_is_there_and_not_declared_is_said(
    strict: bool, code: str
) -> None:
    root = pc.Context("root", types=[ByHand])
    us = pc.Context("us", parent=root, types=[Wanted], strict=strict)
    us.map(ByHand, Wanted, "?")
    [found] = [finding for finding in us.check().findings if finding.code == code]
    assert found.text == (
        "Wanted.note takes its default, because ByHand declares no attribute 'note', though its "
        "constructor takes it"
    )


def test_what_is_dropped_and_not_declared_is_said() -> None:
    root = pc.Context("root", types=[ByHand])
    us = pc.Context("us", parent=root, types=[Data])
    us.map(ByHand, Data, "?")
    [found] = [
        observation.text for observation in us.check().observations if observation.code == "dropped"
    ]
    assert found == "at ByHand: Data has no note, so it is dropped"
