"""What the attributes and methods of a class are, by their annotations."""

from __future__ import annotations

import functools
import typing
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import pytest
from test_checking_classes import Box, HasStars, Interface, traced

from polycast.filters.checking import problems
from polycast.filters.tree.canonical_text import parse


@dataclass
class Typed:
    stars: int
    anything: Any
    unresolved: Nowhere  # type: ignore[name-defined]  # noqa: F821
    generic: Box[int]
    protocol: HasStars
    interface: Interface
    alias: typing.Annotated[int, "stars"]
    literal: typing.Literal[1, 2]
    lying: int = "text"  # type: ignore[assignment]
    given: InitVar[int] = 0
    classes: ClassVar[int] = 1
    made: list[int] = field(default_factory=list)

    @property
    def half(self) -> int:
        return 1

    @property
    def untold(self):  # type: ignore[no-untyped-def]
        return 1

    @functools.cached_property
    def cached(self) -> int:
        raise AssertionError("a property is never run")

    def method(self) -> int:
        return 1

    @staticmethod
    def static() -> int:
        return 1

    @classmethod
    def of_class(cls) -> int:
        return 1

    async def awaited(self) -> int:
        return 1

    def generated(self) -> typing.Iterator[int]:
        yield 1

    @traced
    def wrapped(self) -> int:
        return 1


@pytest.mark.parametrize(
    "path",
    "stars half cached alias literal method() static() of_class() made[0]".split(),  # noqa: SIM905
)
def test_what_is_declared_is_taken_at_its_word(path: str) -> None:
    assert [problem.code for problem in problems(parse(f"event.{path} < 'a'"), (Typed,))] == [
        "never-comparable"
    ]


@pytest.mark.parametrize(
    "path",
    (  # noqa: SIM905
        "anything unresolved generic.stars protocol.absent interface.absent lying given untold "
        "awaited() generated() wrapped() method"
    ).split(),
)
def test_what_is_not_declared_may_be_anything(path: str) -> None:
    assert problems(parse(f"event.{path} < 'a'"), (Typed,)) == []
    assert problems(parse(f"event.{path} < 3"), (Typed,)) == []


def test_who_implements_an_interface_may_take_more_arguments() -> None:
    assert problems(parse("event.rank(1, 2) == 3"), (HasStars,)) == []
